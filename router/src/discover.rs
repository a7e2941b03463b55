//! What the engines say of themselves: each pool's `/v1/models`, asked in the background of one
//! endpoint after the other until one answers. Requests never wait for it.

mod ask;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crds::snapshot::Auth;
use rand::RngExt as _;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info};

use self::ask::Client;
use crate::fleet::keyed::Keyed;
use crate::fleet::roster::Roster;
use crate::fleet::{Discovered, EndpointId, Fleet, Pool};
use crate::source::{Backoff, Served};

/// How long what is known counts; adapters come and go while engines run.
const EVERY: Duration = Duration::from_secs(30);
/// Endpoints tried before the first wait: a dead one must not hide the others.
const TRIES: usize = 3;

type Snapshots = watch::Receiver<Option<Arc<Served>>>;

/// Discovers models.
#[derive(Clone, Debug)]
pub struct Discover {
    fleet: Arc<Fleet>,
    roster: Arc<Roster>,
    client: Client,
}

impl Discover {
    /// Discovers for the pools of `fleet`, whose changes `roster` tells of.
    pub fn new(fleet: Arc<Fleet>, roster: Arc<Roster>) -> Self {
        let client = Client::new();
        Self {
            fleet,
            roster,
            client,
        }
    }

    /// Discovers without end, for each Provider of the snapshot that is served.
    pub async fn run(self, mut served: Snapshots) {
        let mut pools = Keyed::new();
        loop {
            let now = served.borrow_and_update().clone();
            let providers = now.iter().flat_map(|now| &now.snapshot.providers);
            let keys = providers.map(|provider| provider.origin.key.clone());
            // A Provider that was gone for a moment has another pool.
            pools.keep(
                keys.map(|key| (key.clone(), self.fleet.pool(&key))),
                Arc::ptr_eq,
                |_, pool| self.clone().follow(Arc::clone(pool), served.clone()),
            );
            tokio::select! {
                changed = served.changed() => if changed.is_err() { return; },
                () = pools.ended() => {}
            }
        }
    }

    async fn follow(self, pool: Arc<Pool>, mut served: Snapshots) {
        let mut pools = self.roster.changes();
        let mut turns = Turns::new();
        loop {
            pools.mark_unchanged();
            served.mark_unchanged();
            let asked = Asked::now(&pool, &served);
            let moved = tokio::select! {
                () = self.ask(&pool, &asked, &mut turns) => false,
                moved = asked.moved(&pool, &mut pools, &mut served) => match moved {
                    Ok(()) => true,
                    Err(_ended) => return,
                },
            };
            if moved {
                turns.backoff.reset();
            }
        }
    }

    /// Asks, and returns when it is time to ask again.
    async fn ask(&self, pool: &Pool, asked: &Asked, turns: &mut Turns) {
        if asked.endpoints.is_empty() {
            return std::future::pending().await;
        }
        for _ in 0..asked.endpoints.len().min(TRIES) {
            if self.ask_one(pool, asked, turns.turn).await {
                turns.backoff.reset();
                let wait = EVERY.mul_f64(rand::rng().random_range(0.8..1.2));
                return sleep(wait).await;
            }
            turns.turn = turns.turn.wrapping_add(1);
        }
        sleep(turns.backoff.wait()).await;
    }

    async fn ask_one(&self, pool: &Pool, asked: &Asked, turn: usize) -> bool {
        let turn = turn % asked.endpoints.len().max(1);
        let Some((endpoint, address)) = asked.endpoints.get(turn) else {
            return false;
        };
        match self.client.models(*address, asked.auth.as_ref()).await {
            Ok(found) => {
                self.found(pool, found);
                true
            }
            Err(error) => {
                let provider = pool.provider();
                debug!(%provider, %endpoint, %address, %error, "models not discovered");
                false
            }
        }
    }

    fn found(&self, pool: &Pool, found: Discovered) {
        let same = {
            let now = pool.discovered();
            let cards = |d: &Discovered| -> Vec<String> {
                let raw = d.models.iter().map(|(_, card)| card.get().to_owned());
                raw.collect()
            };
            now.engine == found.engine && cards(&now) == cards(&found)
        };
        if same {
            return;
        }
        let models: Vec<&str> = found.models.iter().map(|(id, _)| id.as_str()).collect();
        info!(provider = %pool.provider(), engine = found.engine, ?models, "models discovered");
        pool.set_discovered(found);
        self.roster.touch();
    }
}

/// Whose turn it is, and how long to wait after failures.
struct Turns {
    turn: usize,
    backoff: Backoff,
}

impl Turns {
    /// Routers start at different endpoints and go round.
    fn new() -> Self {
        Self {
            turn: rand::rng().random_range(0..1024),
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
        }
    }
}

/// What is asked, and with which credential.
#[derive(PartialEq)]
struct Asked {
    endpoints: Vec<(EndpointId, SocketAddr)>,
    /// The Provider's own, when it has one.
    auth: Option<Auth>,
}

impl Asked {
    fn now(pool: &Pool, served: &Snapshots) -> Self {
        let members = pool.members();
        let endpoints = members.usable.iter();
        let served = served.borrow();
        let provider = served
            .as_deref()
            .and_then(|served| served.snapshot.provider(pool.provider()));
        Self {
            endpoints: endpoints.map(|e| (e.id().clone(), e.address())).collect(),
            auth: provider.and_then(|provider| provider.auth.clone()),
        }
    }

    /// Waits until it is not this any more.
    async fn moved(
        &self,
        pool: &Pool,
        pools: &mut watch::Receiver<u64>,
        served: &mut Snapshots,
    ) -> Result<(), watch::error::RecvError> {
        while *self == Self::now(pool, served) {
            tokio::select! {
                woken = pools.changed() => woken?,
                woken = served.changed() => woken?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
