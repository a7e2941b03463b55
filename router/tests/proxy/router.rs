//! A router in this process, with a table and a fleet made by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use crds::api::Port;
use crds::snapshot::{
    Auth, Backend, Digest, Key, Match, Origin, Provider, Route, Rule, Service, Snapshot, Strategy,
};
use prometheus_client::registry::Registry;
use refrain_router::fleet::{Discovered, Endpoint, EndpointId, Fleet, Members};
use refrain_router::metrics::Metrics;
use refrain_router::serve::{Settings, State, serve};
use refrain_router::table::Table;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::engine::Engine;
use crate::log;

pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;

/// A running router; it stops when it drops.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) address: SocketAddr,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
    table: Arc<ArcSwapOption<Table>>,
    registry: Registry,
}

impl Router {
    /// Without a table.
    pub(crate) async fn bare() -> Self {
        log::keep();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry));
        let settings = Settings {
            max_body_bytes: MAX_BODY,
            shutdown_grace: Duration::from_secs(20),
        };
        let (table, fleet) = (Arc::default(), Arc::default());
        let state = State::new(Arc::clone(&table), Arc::clone(&fleet), metrics, settings);
        let mut router = Self {
            address: listener.local_addr().unwrap(),
            fleet,
            shutdown: CancellationToken::new(),
            tasks: JoinSet::new(),
            table,
            registry,
        };
        let serving = serve(listener, Arc::new(state), router.shutdown.clone());
        router.tasks.spawn(serving);
        router
    }

    pub(crate) async fn start(snapshot: &Snapshot) -> Self {
        let router = Self::bare().await;
        router.swap(snapshot);
        router
    }

    /// One Provider `p` with one Route that takes everything to it.
    pub(crate) async fn of(engines: &[&Engine]) -> Self {
        let router = Self::start(&everything_to("p")).await;
        let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
        router.members("p", &addresses);
        router
    }

    pub(crate) fn swap(&self, snapshot: &Snapshot) {
        let table = Table::build(snapshot, Digest("d".into()), &self.fleet);
        self.table.store(Some(Arc::new(table)));
    }

    pub(crate) fn members(&self, provider: &str, addresses: &[SocketAddr]) {
        let endpoint = |&address: &SocketAddr| {
            let id = EndpointId {
                owner: address.ip().to_string(),
                port: address.port(),
            };
            Arc::new(Endpoint::new(id, address.to_string(), address))
        };
        self.fleet
            .pool(&Key::new("ns", provider))
            .set_members(Members {
                usable: addresses.iter().map(endpoint).collect(),
                unusable: vec![],
            });
    }

    pub(crate) fn discovered(&self, provider: &str, cards: &[(&str, &str)]) {
        let card = |(id, json): &(&str, &str)| {
            let json = serde_json::value::RawValue::from_string((*json).to_owned()).unwrap();
            ((*id).to_owned(), json)
        };
        self.fleet
            .pool(&Key::new("ns", provider))
            .set_discovered(Discovered {
                engine: Some("vllm".into()),
                models: cards.iter().map(card).collect(),
            });
    }

    /// Requests that any endpoint has now.
    pub(crate) fn in_flight(&self) -> u32 {
        let pools = self.fleet.pools();
        let of_pool = |pool: &Arc<refrain_router::fleet::Pool>| -> u32 {
            pool.members().iter().map(|e| e.in_flight()).sum()
        };
        pools.iter().map(of_pool).sum()
    }

    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    pub(crate) fn has_metric(&self, line: &str) -> bool {
        self.metrics().lines().any(|l| l == line)
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }
}

pub(crate) fn origin(name: &str) -> Origin {
    Origin {
        key: Key::new("ns", name),
        uid: name.into(),
        generation: 1,
        created: "2026-01-02T03:04:05Z".into(),
    }
}

pub(crate) fn provider(name: &str) -> Provider {
    Provider {
        origin: origin(name),
        service: Service {
            name: name.into(),
            port: Port::Number(8000),
            slice_port: None,
        },
        auth: None,
        models: vec![],
        refused: None,
    }
}

pub(crate) fn bearer(secret: &str) -> Auth {
    Auth::Header {
        name: "authorization".into(),
        prefix: "Bearer ".into(),
        secret_ref: crds::api::SecretRef {
            name: "s".into(),
            key: "api-key".into(),
        },
        secret: secret.into(),
    }
}

pub(crate) fn backend(provider: &str) -> Backend {
    Backend {
        provider: Key::new("ns", provider),
        model: None,
        weight: 1,
        refused: None,
    }
}

pub(crate) fn rule(matches: &[Match], backends: Vec<Backend>) -> Rule {
    Rule {
        name: "rule".into(),
        requires: vec![],
        matches: matches.to_vec(),
        lost: vec![],
        backends,
        strategy: Strategy::RoundRobin,
        attempts: 2,
    }
}

pub(crate) fn route(name: &str, rules: Vec<Rule>) -> Route {
    Route {
        origin: origin(name),
        rules,
    }
}

pub(crate) fn snapshot(providers: Vec<Provider>, routes: Vec<Route>) -> Snapshot {
    Snapshot {
        providers,
        routes,
        ..Snapshot::empty()
    }
}

pub(crate) fn everything_to(name: &str) -> Snapshot {
    let all = rule(&[Match::Prefix(String::new())], vec![backend(name)]);
    snapshot(vec![provider(name)], vec![route("r", vec![all])])
}
