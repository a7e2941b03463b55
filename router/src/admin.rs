//! The admin port: liveness, readiness and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::fleet::roster::Roster;
use crate::source::Live;

/// Whether this router should get requests.
#[derive(Debug)]
pub struct Readiness {
    live: Arc<Live>,
    roster: Arc<Roster>,
    /// It was ready once: a namespace that comes into use later does not take it out again.
    started: AtomicBool,
    draining: AtomicBool,
}

impl Readiness {
    /// Not ready until `live` has a table and `roster` the endpoints that it needs.
    pub fn new(live: Arc<Live>, roster: Arc<Roster>) -> Self {
        Self {
            live,
            roster,
            started: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// The router is about to end.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// What is missing, a line each; nothing when it is ready.
    pub fn missing(&self) -> Vec<String> {
        if self.draining.load(Ordering::Relaxed) {
            return vec!["shutting down".to_owned()];
        }
        if self.started.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let mut missing = vec![self.live.missing()];
        missing.retain(|line| !line.is_empty());
        let lists = self.roster.missing().into_iter();
        missing.extend(lists.map(|namespace| {
            format!("EndpointSlices of namespace {namespace} are not listed yet")
        }));
        if missing.is_empty() {
            self.started.store(true, Ordering::Relaxed);
        }
        missing
    }
}

/// What the admin port serves from.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Answers /readyz.
    pub readiness: Arc<Readiness>,
    /// Answers /metrics.
    pub registry: Arc<Registry>,
}

impl Admin {
    /// Serves until `end`.
    pub async fn run(self, listener: TcpListener, end: CancellationToken) -> std::io::Result<()> {
        axum::serve(listener, self.router())
            .with_graceful_shutdown(end.cancelled_owned())
            .await
    }

    fn router(self) -> Router {
        Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, String) {
    let missing = admin.readiness.missing();
    if missing.is_empty() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        let body = format!("not ready\n{}\n", missing.join("\n"));
        (StatusCode::SERVICE_UNAVAILABLE, body)
    }
}

async fn metrics(State(admin): State<Admin>) -> impl IntoResponse {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut text = String::new();
    match encode(&mut text, &admin.registry) {
        Ok(()) => (StatusCode::OK, [(CONTENT_TYPE, OPEN_METRICS)], text),
        Err(error) => {
            let plain = "text/plain; charset=utf-8";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            (status, [(CONTENT_TYPE, plain)], error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use crds::snapshot::{Key, Snapshot};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::fleet::Fleet;
    use crate::fleet::roster::Heard;
    use crate::source::Metrics;
    use crate::source::stand_in::snapshot_of;

    fn admin() -> (Admin, Arc<Live>, Arc<Roster>) {
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let live = Arc::new(Live::new(fleet, Arc::clone(&roster), metrics));
        let readiness = Readiness::new(Arc::clone(&live), Arc::clone(&roster));
        let admin = Admin {
            readiness: Arc::new(readiness),
            registry: Arc::new(registry),
        };
        (admin, live, roster)
    }

    fn snapshot(namespace: &str) -> Snapshot {
        snapshot_of(Key::new(namespace, "p"), 1)
    }

    async fn get(admin: &Admin, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let reply = admin.clone().router().oneshot(request).await.unwrap();
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn it_is_ready_with_a_table_and_the_endpoints_it_needs_and_says_what_is_missing() {
        let (admin, live, roster) = admin();
        live.wait_for("Secret refrain-snapshot is not there");
        let (status, body) = get(&admin, "/readyz").await;
        assert_eq!(status, 503);
        assert!(
            body.contains("Secret refrain-snapshot is not there"),
            "{body}"
        );
        let one = snapshot("one");
        live.publish(one.clone(), one.seal().digest, false).await;
        let (status, body) = get(&admin, "/readyz").await;
        assert_eq!(
            (status, body.contains("namespace one")),
            (503, true),
            "{body}"
        );
        roster.replace("one", vec![], Heard::Stale);
        assert_eq!(get(&admin, "/readyz").await, (200, "ready\n".to_owned()));
    }

    #[tokio::test]
    async fn a_namespace_that_comes_later_does_not_take_a_ready_router_out() {
        let (admin, live, roster) = admin();
        let empty = Snapshot::empty();
        live.publish(empty.clone(), empty.seal().digest, false)
            .await;
        assert_eq!(get(&admin, "/readyz").await.0, 200);
        let later = snapshot("later");
        live.publish(later.clone(), later.seal().digest, false)
            .await;
        assert_eq!(roster.missing(), ["later"]);
        assert_eq!(get(&admin, "/readyz").await.0, 200);
        admin.readiness.drain();
        let (status, body) = get(&admin, "/readyz").await;
        assert_eq!((status, body.as_str()), (503, "not ready\nshutting down\n"));
        assert_eq!(get(&admin, "/livez").await.0, 200);
    }

    #[tokio::test]
    async fn metrics_tell_which_snapshot_is_served() {
        let (admin, live, _roster) = admin();
        for snapshot in [Snapshot::empty(), snapshot("one")] {
            let digest = snapshot.seal().digest;
            live.publish(snapshot, digest.clone(), false).await;
            let (_, text) = get(&admin, "/metrics").await;
            let infos: Vec<_> = text
                .lines()
                .filter(|l| l.starts_with("refrain_router_config_info{"))
                .collect();
            assert_eq!(
                infos,
                [format!(
                    "refrain_router_config_info{{digest=\"{digest}\"}} 1"
                )]
            );
        }
    }
}
