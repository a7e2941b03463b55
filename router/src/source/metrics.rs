use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What the router counts of its configuration and where that comes from.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    info: Family<InfoLabels, Gauge>,
    stale: Gauge,
    since: Gauge,
    snapshot_errors: Counter,
    manifest_problems: Gauge,
    watch_errors: Family<ResourceLabels, Counter>,
    report_errors: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InfoLabels {
    digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

impl Metrics {
    /// Metrics that `registry` exposes under their full names.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "refrain_router_config_info",
            "The digest of the snapshot that is served",
            metrics.info.clone(),
        );
        registry.register(
            "refrain_router_config_stale",
            "1 while the snapshot comes from the copy of an earlier run",
            metrics.stale.clone(),
        );
        registry.register(
            "refrain_router_config_timestamp_seconds",
            "Unix time at which the snapshot that is served was taken on",
            metrics.since.clone(),
        );
        registry.register(
            "refrain_router_config_snapshot_errors",
            "Snapshots that could not be read and were not served",
            metrics.snapshot_errors.clone(),
        );
        registry.register(
            "refrain_router_config_manifest_problems",
            "Problems in the files of --manifests now",
            metrics.manifest_problems.clone(),
        );
        registry.register(
            "refrain_router_watch_errors",
            "Errors of watches on the API server, by what was watched",
            metrics.watch_errors.clone(),
        );
        registry.register(
            "refrain_router_report_errors",
            "Reports that could not be written to this router's Lease",
            metrics.report_errors.clone(),
        );
        metrics
    }

    /// A snapshot is served from now on.
    pub fn served(&self, digest: &str, stale: bool) {
        let labels = InfoLabels {
            digest: digest.to_owned(),
        };
        self.info.clear();
        self.info.get_or_create(&labels).set(1);
        self.stale.set(i64::from(stale));
        self.since.set(jiff::Timestamp::now().as_second());
    }

    /// A snapshot could not be read.
    pub fn snapshot_error(&self) {
        self.snapshot_errors.inc();
    }

    /// There are so many problems in files now.
    pub fn manifest_problems(&self, count: usize) {
        self.manifest_problems
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A watch failed.
    pub fn watch_error(&self, resource: &'static str) {
        self.watch_errors
            .get_or_create(&ResourceLabels { resource })
            .inc();
    }

    /// A report could not be written.
    pub fn report_error(&self) {
        self.report_errors.inc();
    }
}
