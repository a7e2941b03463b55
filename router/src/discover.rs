//! What the engines say of themselves: each pool's `/v1/models`, asked in the background of one
//! endpoint after the other until one answers. Requests never wait for it.

mod ask;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crds::snapshot::{Auth, Key};
use rand::RngExt as _;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tracing::{debug, info};

use self::ask::Client;
use crate::fleet::roster::Roster;
use crate::fleet::{Discovered, Endpoint, EndpointId, Fleet, Pool};
use crate::source::{Backoff, Served};

/// How long what is known counts; adapters come and go while engines run.
const EVERY: Duration = Duration::from_secs(30);
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
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
        let mut tasks = JoinSet::new();
        let mut running: HashMap<Key, (Arc<Pool>, AbortHandle)> = HashMap::new();
        loop {
            let now = served.borrow_and_update().clone();
            let providers = now.iter().flat_map(|now| &now.snapshot.providers);
            let pools: HashMap<Key, Arc<Pool>> = providers
                .map(|p| (p.origin.key.clone(), self.fleet.pool(&p.origin.key)))
                .collect();
            running.retain(|key, (pool, task)| {
                // A Provider that was gone for a moment has another pool.
                let same = pools.get(key).is_some_and(|now| Arc::ptr_eq(now, pool));
                let keep = same && !task.is_finished();
                if !keep {
                    task.abort();
                }
                keep
            });
            for (key, pool) in pools {
                running.entry(key).or_insert_with(|| {
                    let follow = self.clone().follow(Arc::clone(&pool), served.clone());
                    (pool, tasks.spawn(follow))
                });
            }
            tokio::select! {
                changed = served.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(_ended) = tasks.join_next() => {}
            }
        }
    }

    async fn follow(self, pool: Arc<Pool>, mut served: Snapshots) {
        let mut changes = self.roster.changes();
        let mut backoff = BACKOFF;
        // Routers start at different endpoints and go round.
        let mut turn: usize = rand::rng().random_range(0..1024);
        loop {
            changes.mark_unchanged();
            served.mark_unchanged();
            let asked = (usable(&pool), auth(&served, &pool));
            let wait = if asked.0.is_empty() {
                None
            } else if self.ask(&pool, asked.1.as_ref(), &mut turn).await {
                backoff.reset();
                Some(EVERY.mul_f64(rand::rng().random_range(0.8..1.2)))
            } else {
                Some(backoff.wait())
            };
            let again = async {
                match wait {
                    Some(wait) => sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let moved = async {
                while asked == (usable(&pool), auth(&served, &pool)) {
                    tokio::select! {
                        changed = changes.changed() => if changed.is_err() { return false; },
                        changed = served.changed() => if changed.is_err() { return false; },
                    }
                }
                true
            };
            tokio::select! {
                () = again => {}
                go_on = moved => {
                    if !go_on {
                        return;
                    }
                    backoff.reset();
                }
            }
        }
    }

    /// Asks endpoints until one answers.
    async fn ask(&self, pool: &Pool, auth: Option<&Auth>, turn: &mut usize) -> bool {
        let endpoints: Vec<Arc<Endpoint>> = pool.members().usable.clone();
        for _ in 0..endpoints.len().min(TRIES) {
            let Some(endpoint) = endpoints.get(*turn % endpoints.len()) else {
                return false;
            };
            match self.client.models(endpoint.address(), auth).await {
                Ok(found) => {
                    self.found(pool, found);
                    return true;
                }
                Err(error) => {
                    *turn = turn.wrapping_add(1);
                    let provider = pool.provider();
                    let endpoint = endpoint.name();
                    debug!(%provider, endpoint, %error, "models not discovered");
                }
            }
        }
        false
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

fn usable(pool: &Pool) -> Vec<(EndpointId, std::net::SocketAddr)> {
    let members = pool.members();
    let endpoints = members.usable.iter();
    endpoints.map(|e| (e.id().clone(), e.address())).collect()
}

/// The Provider's own credential, when it has one.
fn auth(served: &Snapshots, pool: &Pool) -> Option<Auth> {
    let served = served.borrow();
    let provider = served.as_deref()?.snapshot.provider(pool.provider())?;
    provider.auth.clone()
}

#[cfg(test)]
mod tests;
