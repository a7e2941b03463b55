//! `refrain_operator_*`.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Upper bounds of compile times, in seconds.
const COMPILE_SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// A kind, and whether its condition `Accepted` is True.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ObjectLabels {
    pub(crate) kind: &'static str,
    pub(crate) accepted: &'static str,
}

/// What was written, and how that went.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WriteLabels {
    pub(crate) kind: &'static str,
    pub(crate) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// Every metric of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) compiles: Counter,
    pub(crate) compile_seconds: Histogram,
    pub(crate) snapshot_bytes: Gauge,
    pub(crate) snapshot_generation: Gauge,
    pub(crate) unreadable_snapshots: Counter,
    pub(crate) objects: Family<ObjectLabels, Gauge>,
    pub(crate) leader: Gauge,
    pub(crate) synced: Gauge,
    writes: Family<WriteLabels, Counter>,
    watch_errors: Family<ResourceLabels, Counter<u64, AtomicU64>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("refrain_operator"),
            compiles: Counter::default(),
            compile_seconds: Histogram::new(COMPILE_SECONDS),
            snapshot_bytes: Gauge::default(),
            snapshot_generation: Gauge::default(),
            unreadable_snapshots: Counter::default(),
            objects: Family::default(),
            leader: Gauge::default(),
            synced: Gauge::default(),
            writes: Family::default(),
            watch_errors: Family::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("compiles", "Compiles", self.compiles.clone());
        registry.register(
            "compile_seconds",
            "Time that a compile took",
            self.compile_seconds.clone(),
        );
        registry.register(
            "snapshot_bytes",
            "Size of the compiled snapshot as it travels",
            self.snapshot_bytes.clone(),
        );
        registry.register(
            "snapshot_generation",
            "How often the snapshot in the cluster has changed",
            self.snapshot_generation.clone(),
        );
        registry.register(
            "unreadable_snapshots",
            "Snapshot Secrets found that do not hold a snapshot",
            self.unreadable_snapshots.clone(),
        );
        registry.register(
            "objects",
            "Objects by kind and condition Accepted",
            self.objects.clone(),
        );
        registry.register(
            "leader",
            "1 on the replica that writes",
            self.leader.clone(),
        );
        registry.register(
            "synced",
            "1 once everything was listed",
            self.synced.clone(),
        );
        registry.register(
            "writes",
            "Writes to the API server by kind and result",
            self.writes.clone(),
        );
        registry.register(
            "watch_errors",
            "Failures of watches by resource",
            self.watch_errors.clone(),
        );
        let version = env!("CARGO_PKG_VERSION");
        registry.register(
            "build",
            "The running version",
            Info::new(BuildLabels { version }),
        );
    }

    /// A write that ended so.
    pub(crate) fn wrote(&self, kind: &'static str, result: &'static str) {
        self.writes
            .get_or_create(&WriteLabels { kind, result })
            .inc();
    }

    /// A failure of a watch.
    pub(crate) fn watch_error(&self, resource: &'static str) {
        self.watch_errors
            .get_or_create(&ResourceLabels { resource })
            .inc();
    }

    /// The text that Prometheus scrapes.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_those_of_the_dashboards() {
        let metrics = Metrics::new();
        metrics.wrote("Secret", "ok");
        metrics.watch_error("routes");
        metrics.compiles.inc();
        let text = metrics.text().unwrap();
        for line in [
            r#"refrain_operator_writes_total{kind="Secret",result="ok"} 1"#,
            r#"refrain_operator_watch_errors_total{resource="routes"} 1"#,
            "refrain_operator_compiles_total 1",
            "refrain_operator_leader 0",
            "refrain_operator_build_info",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
