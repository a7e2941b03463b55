//! What the router counts of requests. Labels are bounded by the objects that users write.

use std::sync::OnceLock;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A reply was relayed to its end.
    Ok,
    /// An engine's own 5xx was relayed to its end.
    EngineError,
    /// The request was wrong.
    ClientError,
    /// The configuration keeps it from being served.
    Rejected,
    /// The Provider had no endpoint to send it to.
    NoEndpoint,
    /// No endpoint that was tried replied.
    UpstreamError,
    /// The reply broke off after its first byte.
    BrokenStream,
    /// The client went away before the end.
    ClientClosed,
}

impl Outcome {
    const COUNT: usize = 8;

    /// As logs and labels say it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::EngineError => "engine_error",
            Self::ClientError => "client_error",
            Self::Rejected => "rejected",
            Self::NoEndpoint => "no_endpoint",
            Self::UpstreamError => "upstream_error",
            Self::BrokenStream => "broken_stream",
            Self::ClientClosed => "client_closed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    provider: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RetryLabels {
    provider: String,
    reason: &'static str,
}

type HistogramFamily = Family<RouteLabels, Histogram, fn() -> Histogram>;

/// The router's request metrics.
#[derive(Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: HistogramFamily,
    first_byte: HistogramFamily,
    retries: Family<RetryLabels, Counter>,
    in_flight: Gauge,
    /// Requests that no Route took.
    unrouted: Meters,
}

/// The metrics of one Route and Provider, looked up once.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    route: String,
    provider: String,
    outcomes: [OnceLock<Counter>; Outcome::COUNT],
    duration: OnceLock<Histogram>,
    first_byte: OnceLock<Histogram>,
}

impl Meters {
    pub(crate) fn new(route: &str, provider: &str) -> Self {
        Self {
            route: route.to_owned(),
            provider: provider.to_owned(),
            ..Self::default()
        }
    }
}

impl Metrics {
    /// Metrics that `registry` exposes under their full names.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(durations),
            first_byte: Family::new_with_constructor(durations),
            retries: Family::default(),
            in_flight: Gauge::default(),
            unrouted: Meters::default(),
        };
        registry.register(
            "refrain_requests",
            "Requests by how they ended",
            metrics.requests.clone(),
        );
        registry.register(
            "refrain_request_duration_seconds",
            "Time from a request's head to the end of its reply",
            metrics.duration.clone(),
        );
        registry.register(
            "refrain_time_to_first_byte_seconds",
            "Time from a request's head to the first byte of its reply's body",
            metrics.first_byte.clone(),
        );
        registry.register(
            "refrain_retries",
            "Requests sent to another endpoint before the first byte, by why the last one failed",
            metrics.retries.clone(),
        );
        registry.register(
            "refrain_requests_in_flight",
            "Requests that have come and not ended yet",
            metrics.in_flight.clone(),
        );
        metrics
    }

    pub(crate) fn enter(&self) {
        self.in_flight.inc();
    }

    pub(crate) fn retried(&self, provider: &str, reason: &'static str) {
        let labels = RetryLabels {
            provider: provider.to_owned(),
            reason,
        };
        self.retries.get_or_create(&labels).inc();
    }

    /// Counts a request that has ended; without `meters`, one that no Route took.
    pub(crate) fn leave(
        &self,
        meters: Option<&Meters>,
        outcome: Outcome,
        duration: Duration,
        first_byte: Option<Duration>,
    ) {
        self.in_flight.dec();
        let meters = meters.unwrap_or(&self.unrouted);
        if let Some(cell) = meters.outcomes.get(outcome as usize) {
            cell.get_or_init(|| {
                self.requests.get_or_create_owned(&RequestLabels {
                    route: meters.route.clone(),
                    provider: meters.provider.clone(),
                    outcome: outcome.as_str(),
                })
            })
            .inc();
        }
        let of_route = |family: &HistogramFamily| {
            family.get_or_create_owned(&RouteLabels {
                route: meters.route.clone(),
            })
        };
        let durations = meters.duration.get_or_init(|| of_route(&self.duration));
        durations.observe(duration.as_secs_f64());
        if let Some(first_byte) = first_byte {
            let first_bytes = meters.first_byte.get_or_init(|| of_route(&self.first_byte));
            first_bytes.observe(first_byte.as_secs_f64());
        }
    }
}

/// From a cached reply to a long generation.
fn durations() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
        120.0, 300.0, 600.0,
    ])
}
