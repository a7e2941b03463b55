//! Follows the EndpointSlices of every namespace that the served snapshot has Providers in: one
//! watch each, started and stopped as snapshots change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::watch as channel;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::roster::{Heard as Known, Roster, namespaces};
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
        let mut watches = JoinSet::new();
        let mut running: HashMap<String, AbortHandle> = HashMap::new();
        loop {
            let now = served.borrow_and_update().clone();
            let wanted = now.map(|now| namespaces(&now.snapshot)).unwrap_or_default();
            running.retain(|namespace, watch| {
                let keep = wanted.contains(namespace) && !watch.is_finished();
                if !keep {
                    watch.abort();
                }
                keep
            });
            for namespace in wanted {
                running
                    .entry(namespace)
                    .or_insert_with_key(|name| watches.spawn(self.clone().namespace(name.clone())));
            }
            tokio::select! {
                changed = served.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(_ended) = watches.join_next() => {}
            }
        }
    }

    async fn namespace(self, namespace: String) {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &namespace);
        let config = Config::default().labels(SERVICE_NAME);
        let events = watch(api, config, "endpointslices", self.metrics.clone());
        let mut events = std::pin::pin!(events);
        let mut list = Vec::new();
        let mut forbidden = None;
        let mut answered = false;
        loop {
            let heard = tokio::select! {
                heard = events.next() => heard,
                () = sleep_until(self.patience), if !answered => {
                    answered = true;
                    self.take_copy(&namespace).await;
                    continue;
                }
            };
            match heard {
                Some(Heard::Event(event)) => {
                    answered |= matches!(event, Event::InitDone);
                    // Each attempt to list begins with Init, before it is answered.
                    if !matches!(event, Event::Init) {
                        forbidden = None;
                    }
                    self.hear(&namespace, event, &mut list);
                }
                Some(Heard::Failed {
                    forbidden: true,
                    error,
                }) => {
                    let since = *forbidden.get_or_insert_with(Instant::now);
                    if since.elapsed() >= FORBIDDEN_FOR {
                        self.roster.deny(&namespace, denial(&namespace, &error));
                    }
                }
                Some(Heard::Failed { .. }) => {}
                None => return,
            }
        }
    }

    /// A list counts when it is whole, so that no pool is ever seen in part.
    fn hear(&self, namespace: &str, event: Event<EndpointSlice>, list: &mut Vec<Slice>) {
        match event {
            Event::Init => list.clear(),
            Event::InitApply(slice) => list.push(Slice::read(&slice)),
            Event::InitDone => {
                info!(namespace, slices = list.len(), "EndpointSlices listed");
                self.roster
                    .replace(namespace, std::mem::take(list), Known::Fresh);
            }
            Event::Apply(slice) => self.roster.apply(namespace, Slice::read(&slice)),
            Event::Delete(slice) => {
                let name = slice.metadata.name.unwrap_or_default();
                self.roster.remove(namespace, &name);
            }
        }
    }

    async fn take_copy(&self, namespace: &str) {
        let Some(disk) = &self.disk else { return };
        let copy = disk.endpoints().await;
        let slices = copy.and_then(|mut copy| copy.remove(namespace));
        if let Some(slices) = slices
            && self.roster.heard(namespace) == Known::Nothing
        {
            warn!(
                namespace,
                "no EndpointSlices yet; starting from the copy of an earlier run"
            );
            self.roster.replace(namespace, slices, Known::Stale);
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
