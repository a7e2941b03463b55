//! Snapshots from the one Secret that the operator writes.

use std::sync::Arc;

use crds::snapshot::Snapshot;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::watch::{Heard, watch};
use super::{Live, Metrics};
use crate::copy::Disk;

/// The key of the Secret that holds the snapshot.
const KEY: &str = "snapshot";

/// Follows the snapshot Secret.
pub struct SecretSource {
    /// Talks to the API server.
    pub client: Client,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
    /// Where the last good one is kept for the next run.
    pub disk: Option<Arc<Disk>>,
    /// When the copy of an earlier run is taken if the API server has not answered.
    pub patience: Instant,
}

impl std::fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretSource({}/{})", self.namespace, self.name)
    }
}

impl SecretSource {
    /// Follows it without end.
    pub async fn run(self, live: Arc<Live>, metrics: Metrics) {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        // A Role that names the one Secret allows exactly this selector.
        let config = Config::default().fields(&format!("metadata.name={}", self.name));
        let mut events = std::pin::pin!(watch(api, config, "secrets", metrics));
        let mut last = Vec::new();
        let mut answered = false;
        live.wait_for("the API server has not answered yet");
        loop {
            tokio::select! {
                heard = events.next() => match heard {
                    Some(Heard::Event(event)) => {
                        answered |= !matches!(event, Event::Init);
                        self.hear(&live, event, &mut last).await;
                    }
                    Some(Heard::Failed { error, .. }) => live.wait_for(self.unreachable(&error)),
                    None => return,
                },
                () = sleep_until(self.patience), if !answered => {
                    answered = true;
                    self.take_copy(&live).await;
                }
            }
        }
    }

    async fn hear(&self, live: &Arc<Live>, event: Event<Secret>, last: &mut Vec<u8>) {
        match event {
            Event::Apply(secret) | Event::InitApply(secret) => self.take(live, secret, last).await,
            Event::InitDone if last.is_empty() => live.wait_for(self.absent()),
            Event::Delete(_) => {
                warn!(
                    secret = self.name,
                    "snapshot Secret was deleted; serving on without it"
                );
            }
            Event::Init | Event::InitDone => {}
        }
    }

    async fn take(&self, live: &Arc<Live>, mut secret: Secret, last: &mut Vec<u8>) {
        let data = secret.data.as_mut().and_then(|data| data.remove(KEY));
        let bytes = data.map(|data| data.0).unwrap_or_default();
        if bytes.is_empty() {
            let name = &self.name;
            live.reject(&format!(
                "Secret {name} has no key {KEY}: the operator writes it"
            ));
            return;
        }
        if bytes == *last {
            return;
        }
        last.clone_from(&bytes);
        if open(live, bytes.clone(), false).await {
            if let Some(disk) = &self.disk {
                disk.keep_snapshot(bytes).await;
            }
        } else if !live.missing().is_empty() {
            self.take_copy(live).await;
        }
    }

    async fn take_copy(&self, live: &Arc<Live>) {
        let Some(disk) = &self.disk else { return };
        if let Some(bytes) = disk.snapshot().await {
            warn!("no snapshot from the API server; starting from the copy of an earlier run");
            open(live, bytes, true).await;
        }
    }

    fn absent(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        format!(
            "Secret {name} is not in namespace {namespace}: the operator writes it; is it running?"
        )
    }

    fn unreachable(&self, error: &str) -> String {
        let Self {
            namespace, name, ..
        } = self;
        format!("Secret {name} in namespace {namespace} cannot be read ({error})")
    }
}

/// Decodes a snapshot off the request path and serves it.
async fn open(live: &Arc<Live>, bytes: Vec<u8>, stale: bool) -> bool {
    let opened = tokio::task::spawn_blocking(move || Snapshot::open(&bytes)).await;
    match opened {
        Ok(Ok((snapshot, digest))) => {
            live.publish(snapshot, digest, stale).await;
            true
        }
        Ok(Err(error)) => {
            live.reject(&error.to_string());
            false
        }
        Err(error) => {
            live.reject(&error.to_string());
            false
        }
    }
}

#[cfg(test)]
mod tests;
