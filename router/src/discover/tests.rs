use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use crds::api::{Port, SecretRef};
use crds::snapshot::{Digest, Key, Origin, Provider, Service, ServicePort, Snapshot};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::fleet::roster::Heard;
use crate::fleet::slices::{Entry, Family, Slice, State};
use crate::source::stand_in::eventually;

/// An engine on a loopback address of its own.
#[derive(Clone, Default)]
struct Engine {
    model: Arc<Mutex<String>>,
    authorization: Arc<Mutex<Option<String>>>,
    asked: Arc<Mutex<u32>>,
}

impl Engine {
    fn answer(&self, headers: &HeaderMap) -> (StatusCode, String) {
        let seen = headers.get("authorization");
        *self.authorization.lock() = seen.map(|v| v.to_str().unwrap().to_owned());
        *self.asked.lock() += 1;
        let model = self.model.lock();
        if model.is_empty() {
            return (StatusCode::SERVICE_UNAVAILABLE, String::new());
        }
        let body = format!(r#"{{"data":[{{"id":"{model}","owned_by":"vllm"}}]}}"#);
        (StatusCode::OK, body)
    }

    async fn start(&self, tasks: &mut JoinSet<()>, last: u8, port: u16) -> SocketAddr {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, last], port)))
            .await
            .unwrap();
        let address = listener.local_addr().unwrap();
        let engine = self.clone();
        let answer = move |headers: HeaderMap| std::future::ready(engine.answer(&headers));
        let app = axum::Router::new().route("/v1/models", get(answer));
        tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
        address
    }
}

fn provider(auth: Option<Auth>, port: u16) -> Provider {
    Provider {
        origin: Origin {
            key: Key::new("ns", "p"),
            uid: "p".into(),
            generation: 1,
            created: String::new(),
        },
        service: Service {
            name: "engines".into(),
            port: Port::Number(port),
            slice_port: Some(ServicePort::Number(port)),
        },
        auth,
        models: vec![],
        refused: None,
    }
}

struct World {
    fleet: Arc<Fleet>,
    roster: Arc<Roster>,
    served: watch::Sender<Option<Arc<Served>>>,
    tasks: JoinSet<()>,
    port: u16,
}

impl World {
    fn start(port: u16, auth: Option<Auth>) -> Self {
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let (served, follow) = watch::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(Discover::new(Arc::clone(&fleet), Arc::clone(&roster)).run(follow));
        let world = Self {
            fleet,
            roster,
            served,
            tasks,
            port,
        };
        world.serve(auth);
        world
    }

    fn serve(&self, auth: Option<Auth>) {
        let snapshot = Snapshot {
            providers: vec![provider(auth, self.port)],
            ..Snapshot::empty()
        };
        self.roster.want(&snapshot);
        let digest = Digest::default();
        let served = Served {
            snapshot,
            digest,
            stale: false,
        };
        self.served.send_replace(Some(Arc::new(served)));
    }

    fn endpoints(&self, last: &[u8]) {
        let entry = |&last: &u8| Entry {
            address: [127, 0, 0, last].into(),
            pod: None,
            state: State::Ready,
        };
        let slice = Slice {
            name: "s".into(),
            service: "engines".into(),
            family: Family::Ip,
            ports: vec![(String::new(), self.port)],
            entries: last.iter().map(entry).collect(),
        };
        self.roster.replace("ns", vec![slice], Heard::Fresh);
    }

    async fn discovers(&self, model: &str) {
        let pool = self.fleet.pool(&Key::new("ns", "p"));
        let found = || pool.discovered().models.iter().any(|(id, _)| id == model);
        eventually(model, found).await;
        assert_eq!(pool.discovered().engine.as_deref(), Some("vllm"));
    }
}

fn engine(model: &str) -> Engine {
    Engine {
        model: Arc::new(Mutex::new(model.to_owned())),
        ..Engine::default()
    }
}

fn bearer(secret: &str) -> Auth {
    Auth::Header {
        name: "authorization".into(),
        prefix: "Bearer ".into(),
        secret_ref: SecretRef {
            name: "s".into(),
            key: "k".into(),
        },
        secret: secret.into(),
    }
}

#[tokio::test]
async fn the_first_endpoint_is_asked_as_soon_as_it_is_there() {
    let mut tasks = JoinSet::new();
    let port = engine("llama").start(&mut tasks, 1, 0).await.port();
    let world = World::start(port, None);
    let mut changes = world.roster.changes();
    world.endpoints(&[1]);
    world.discovers("llama").await;
    assert!(
        changes.has_changed().unwrap(),
        "those who report it are woken"
    );
    changes.mark_unchanged();
}

#[tokio::test]
async fn dead_endpoints_do_not_hide_the_one_that_lives() {
    let mut tasks = JoinSet::new();
    let port = engine("llama").start(&mut tasks, 5, 0).await.port();
    let world = World::start(port, None);
    world.endpoints(&[1, 2, 3, 4, 5]);
    world.discovers("llama").await;
}

#[tokio::test]
async fn a_changed_set_of_endpoints_is_asked_at_once() {
    let mut tasks = JoinSet::new();
    let port = engine("old").start(&mut tasks, 1, 0).await.port();
    engine("new").start(&mut tasks, 2, port).await;
    let world = World::start(port, None);
    world.endpoints(&[1]);
    world.discovers("old").await;
    world.endpoints(&[2]);
    world.discovers("new").await;
    world.endpoints(&[]);
    world.discovers("new").await;
}

#[tokio::test]
async fn an_engine_that_is_not_up_yet_is_asked_again() {
    let mut tasks = JoinSet::new();
    let starting = engine("");
    let port = starting.start(&mut tasks, 1, 0).await.port();
    let world = World::start(port, None);
    world.endpoints(&[1]);
    eventually("asked", || *starting.asked.lock() > 0).await;
    *starting.model.lock() = "llama".to_owned();
    world.discovers("llama").await;
}

#[tokio::test]
async fn the_providers_own_credential_is_sent_and_a_new_one_used_at_once() {
    let mut tasks = JoinSet::new();
    let asked = engine("llama");
    let port = asked.start(&mut tasks, 1, 0).await.port();
    let mut world = World::start(port, Some(bearer("one")));
    world.endpoints(&[1]);
    let sent = |value: Option<&str>| *asked.authorization.lock() == value.map(str::to_owned);
    eventually("one", || sent(Some("Bearer one"))).await;
    world.serve(Some(bearer("two")));
    eventually("two", || sent(Some("Bearer two"))).await;
    world.serve(Some(Auth::Passthrough));
    eventually("none", || sent(None)).await;
    world.tasks.abort_all();
}
