//! Follows the EndpointSlices of every namespace that the served snapshot has Providers in: one
//! watch each, started and stopped as snapshots change.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::watch as channel;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::keyed::Keyed;
use super::roster::{Heard as Known, Roster, Use};
use super::slices::{SERVICE_NAME, Slice};
use crate::copy::Disk;
use crate::source::watch::{Heard, watch};
use crate::source::{Metrics, Served};

/// A fresh Role takes a moment to be known to every API server; after so long a refusal is final
/// enough not to keep the router from serving the other namespaces.
const FORBIDDEN_FOR: Duration = Duration::from_secs(10);

/// Follows EndpointSlices.
#[derive(Clone)]
pub struct Follow {
    /// Talks to the API server.
    pub client: Client,
    /// Is told of the slices.
    pub roster: Arc<Roster>,
    /// Has the slices of an earlier run.
    pub disk: Option<Arc<Disk>>,
    /// When those are taken if the API server has not answered.
    pub patience: Instant,
    /// Counts failures.
    pub metrics: Metrics,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follow")
    }
}

impl Follow {
    /// Follows without end.
    pub async fn run(self, mut served: channel::Receiver<Option<Arc<Served>>>) {
        let mut watches = Keyed::new();
        loop {
            served.mark_unchanged();
            watches.keep(self.roster.uses(), Use::eq, |namespace, _| {
                Namespace::new(self.clone(), namespace).run()
            });
            tokio::select! {
                changed = served.changed() => if changed.is_err() { return; },
                () = watches.ended() => {}
            }
        }
    }
}

/// Follows one namespace.
struct Namespace {
    follow: Follow,
    name: String,
    /// A list that is not whole yet.
    list: Vec<Slice>,
    /// A list was whole, or the copy was taken in its place.
    known: bool,
    forbidden: Option<Instant>,
}

impl Namespace {
    fn new(follow: Follow, name: &str) -> Self {
        Self {
            follow,
            name: name.to_owned(),
            list: Vec::new(),
            known: false,
            forbidden: None,
        }
    }

    async fn run(mut self) {
        let api: Api<EndpointSlice> = Api::namespaced(self.follow.client.clone(), &self.name);
        let config = Config::default().labels(SERVICE_NAME);
        let metrics = self.follow.metrics.clone();
        let mut events = std::pin::pin!(watch(api, config, "endpointslices", metrics));
        loop {
            tokio::select! {
                heard = events.next() => match heard {
                    Some(Heard::Event(event)) => self.hear(event),
                    Some(Heard::Failed { forbidden, error }) => self.fail(forbidden, &error),
                    None => return,
                },
                () = sleep_until(self.follow.patience), if !self.known => self.take_copy().await,
            }
        }
    }

    /// A list counts when it is whole, so that no pool is ever seen in part.
    fn hear(&mut self, event: Event<EndpointSlice>) {
        let roster = &self.follow.roster;
        // Each attempt to list begins with Init, before it is answered.
        if !matches!(event, Event::Init) {
            self.forbidden = None;
        }
        match event {
            Event::Init => self.list.clear(),
            Event::InitApply(slice) => self.list.push(Slice::read(&slice)),
            Event::InitDone => {
                self.known = true;
                let slices = std::mem::take(&mut self.list);
                info!(
                    namespace = self.name,
                    slices = slices.len(),
                    "EndpointSlices listed"
                );
                roster.replace(&self.name, slices, Known::Fresh);
            }
            Event::Apply(slice) => roster.apply(&self.name, Slice::read(&slice)),
            Event::Delete(slice) => {
                let slice = slice.metadata.name.unwrap_or_default();
                roster.remove(&self.name, &slice);
            }
        }
    }

    fn fail(&mut self, forbidden: bool, error: &str) {
        if !forbidden {
            return;
        }
        let since = *self.forbidden.get_or_insert_with(Instant::now);
        if since.elapsed() >= FORBIDDEN_FOR {
            let reason = denial(&self.name, error);
            self.follow.roster.deny(&self.name, reason);
        }
    }

    async fn take_copy(&mut self) {
        self.known = true;
        let Some(disk) = &self.follow.disk else {
            return;
        };
        let copy = disk.endpoints().await;
        let slices = copy.and_then(|mut copy| copy.remove(&self.name));
        if let Some(slices) = slices
            && self.follow.roster.heard(&self.name) == Known::Nothing
        {
            let namespace = &self.name;
            warn!(
                namespace,
                "no EndpointSlices yet; starting from the copy of an earlier run"
            );
            self.follow.roster.replace(namespace, slices, Known::Stale);
        }
    }
}

fn denial(namespace: &str, error: &str) -> String {
    format!(
        "routers may not read EndpointSlices in namespace {namespace} ({error}): add the \
         namespace to watchNamespaces of the chart"
    )
}

#[cfg(test)]
mod tests;
