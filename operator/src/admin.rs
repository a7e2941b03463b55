//! The admin port: livez, readyz, metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::metrics::Metrics;

/// The event loop turns at least every second; it is stuck when it has not for this long.
const STUCK: Duration = Duration::from_mins(1);

/// When the event loop last turned.
#[derive(Clone, Debug)]
pub(crate) struct Pulse(Arc<Mutex<Instant>>);

impl Pulse {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    pub(crate) fn beat(&self) {
        *self.0.lock() = Instant::now();
    }

    fn is_alive(&self) -> bool {
        self.0.lock().elapsed() < STUCK
    }
}

/// What the admin port tells.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) pulse: Pulse,
    pub(crate) board: Arc<Board>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Admin {
    /// Serves until told to stop.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> std::io::Result<()> {
        axum::serve(listener, self.router())
            .with_graceful_shutdown(stop.cancelled_owned())
            .await
    }

    fn router(self) -> Router {
        Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

async fn livez(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    if admin.pulse.is_alive() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the event loop does not move\n",
        )
    }
}

async fn readyz(State(admin): State<Admin>) -> (StatusCode, String) {
    let now = Instant::now();
    let missing = admin.board.missing(now);
    if !missing.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, lines(&missing));
    }
    let mut text = vec!["ok".to_owned()];
    text.extend(admin.board.degraded(now));
    (StatusCode::OK, lines(&text))
}

fn lines(lines: &[String]) -> String {
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

async fn metrics(State(admin): State<Admin>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match admin.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Need, Trouble, Weight};

    fn admin() -> (Admin, Need) {
        let admin = Admin {
            pulse: Pulse::new(),
            board: Arc::default(),
            metrics: Arc::new(Metrics::new()),
        };
        let need = Need {
            resource: "routes.refrain.dev",
            purpose: "",
            namespace: None,
        };
        admin.board.expect(need.clone(), Weight::Required);
        (admin, need)
    }

    #[tokio::test]
    async fn readyz_says_what_is_missing_until_nothing_is() {
        let (admin, need) = admin();
        let refused = Trouble::Refused("install the CRDs".into());
        admin.board.trouble(&need, refused, Instant::now());
        let answer = readyz(State(admin.clone())).await;
        assert_eq!(
            answer,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "install the CRDs\n".to_owned()
            )
        );
        admin.board.met(&need);
        assert_eq!(
            readyz(State(admin)).await,
            (StatusCode::OK, "ok\n".to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn livez_fails_only_when_the_event_loop_is_stuck() {
        let (admin, _) = admin();
        tokio::time::advance(STUCK / 2).await;
        assert_eq!(livez(State(admin.clone())).await.0, StatusCode::OK);
        tokio::time::advance(STUCK).await;
        assert_eq!(
            livez(State(admin.clone())).await.0,
            StatusCode::INTERNAL_SERVER_ERROR
        );
        admin.pulse.beat();
        assert_eq!(livez(State(admin)).await.0, StatusCode::OK);
    }
}
