//! Where configuration comes from, and how it becomes what requests are served from.
//!
//! ```text
//!  secret   the operator's Secret ─┐
//!  copy     an earlier run's copy ─┼─► Live ─► Table, swapped whole
//!  files    --manifests ───────────┘     └──► Served, for those who follow it
//! ```

mod backoff;
pub mod files;
mod metrics;
pub mod secret;
#[cfg(test)]
pub(crate) mod stand_in;
pub mod watch;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use crds::report::Refusal;
use crds::snapshot::{Digest, Snapshot};
use parking_lot::Mutex;
use tokio::sync::watch as channel;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

pub use self::backoff::Backoff;
pub use self::metrics::Metrics;
use crate::fleet::Fleet;
use crate::fleet::roster::Roster;
use crate::table::Table;

/// A snapshot that is served.
#[derive(Debug)]
pub struct Served {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Its digest.
    pub digest: Digest,
    /// It is the copy of an earlier run: the API server has not answered yet.
    pub stale: bool,
}

fn say(refusal: &Refusal) {
    let (kind, key, message) = (refusal.kind, &refusal.key, &refusal.message);
    warn!(%kind, object = %key, "{message}");
}

/// What is served now. Sources publish to it; each request takes the table once and lives on it.
#[derive(Debug)]
pub struct Live {
    table: Arc<ArcSwapOption<Table>>,
    served: channel::Sender<Option<Arc<Served>>>,
    fleet: Arc<Fleet>,
    roster: Arc<Roster>,
    metrics: Metrics,
    /// Serializes publishing, which leaves this thread to build the table.
    publishing: tokio::sync::Mutex<()>,
    waiting_for: Mutex<String>,
    problem: channel::Sender<Option<String>>,
}

impl Live {
    /// Nothing is served yet.
    pub fn new(fleet: Arc<Fleet>, roster: Arc<Roster>, metrics: Metrics) -> Self {
        Self {
            table: Arc::default(),
            served: channel::Sender::new(None),
            fleet,
            roster,
            metrics,
            publishing: tokio::sync::Mutex::default(),
            waiting_for: Mutex::new("its source has not answered".to_owned()),
            problem: channel::Sender::new(None),
        }
    }

    /// The table that requests take.
    pub fn table(&self) -> Arc<ArcSwapOption<Table>> {
        Arc::clone(&self.table)
    }

    /// Wakes at each new snapshot.
    pub fn served(&self) -> channel::Receiver<Option<Arc<Served>>> {
        self.served.subscribe()
    }

    /// Wakes when the newest snapshot becomes unreadable, or readable again.
    pub fn problem(&self) -> channel::Receiver<Option<String>> {
        self.problem.subscribe()
    }

    /// Serves a snapshot from now on. Endpoints come before the table that needs them, and the
    /// table before the word that it is served.
    pub async fn publish(self: &Arc<Self>, snapshot: Snapshot, digest: Digest, stale: bool) {
        let _one_at_a_time = self.publishing.lock().await;
        if !stale {
            self.problem.send_if_modified(|p| p.take().is_some());
        }
        if let Some(now) = self.served.borrow().as_deref()
            && now.digest == digest
            && now.stale == stale
        {
            return;
        }
        let live = Arc::clone(self);
        let built = spawn_blocking(move || live.swap(snapshot, digest, stale)).await;
        if let Err(error) = built {
            let error = format!("the router could not prepare it: {error}");
            self.reject(&error);
        }
    }

    fn swap(&self, snapshot: Snapshot, digest: Digest, stale: bool) {
        self.roster.want(&snapshot);
        let table = Table::build(&snapshot, digest.clone(), &self.fleet);
        table.refusals().iter().for_each(say);
        self.table.store(Some(Arc::new(table)));
        self.fleet.retain(|key| snapshot.provider(key).is_some());
        self.metrics.served(&digest.0, stale);
        let (providers, routes) = (snapshot.providers.len(), snapshot.routes.len());
        info!(%digest, providers, routes, stale, "serving snapshot");
        self.served.send_replace(Some(Arc::new(Served {
            snapshot,
            digest,
            stale,
        })));
    }

    /// The newest snapshot cannot be read; what is served stays.
    pub fn reject(&self, error: &str) {
        self.metrics.snapshot_error();
        warn!(
            error,
            "snapshot not taken on; serving on with the last good one"
        );
        self.problem.send_replace(Some(error.to_owned()));
    }

    /// Why there is nothing to serve yet; the empty text once there is.
    pub fn missing(&self) -> String {
        if self.table.load().is_some() {
            return String::new();
        }
        match self.problem.borrow().as_deref() {
            Some(problem) => format!("no snapshot yet: {problem}"),
            None => format!("no snapshot yet: {}", self.waiting_for.lock()),
        }
    }

    /// Says what the source waits for, for those who ask why the router is not ready.
    pub fn wait_for(&self, what: impl Into<String>) {
        let what = what.into();
        let mut now = self.waiting_for.lock();
        if *now != what && self.table.load().is_none() {
            info!("no snapshot yet: {what}");
        }
        *now = what;
    }
}
