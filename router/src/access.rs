//! The access log: one line per request, on the tracing target `access`.

use std::time::Duration;

use crate::flow::record::Record;
use crate::metrics::Outcome;

/// The most that a line repeats of a name that a client chose.
const MAX_NAME: usize = 256;

/// Writes the line of a request that has ended.
pub(crate) fn log(record: &Record, outcome: Outcome, duration: Duration) {
    let variant = record.variant.as_ref();
    let upstream = variant.and_then(|v| v.upstream_model.as_deref());
    let choice = record.choice.as_ref();
    tracing::info!(
        target: "access",
        request_id = record.request_id.to_str().unwrap_or_default(),
        method = record.method.as_str(),
        path = start(record.uri.path()),
        status = record.status.map(|status| status.as_u16()),
        outcome = outcome.as_str(),
        route = variant.map(|v| v.rule.route.as_str()),
        rule = variant.map(|v| v.rule.name.as_str()),
        model = record.model.as_deref().map(start),
        upstream_model = upstream.map(start),
        provider = variant.map(|v| v.backend.provider.label.as_str()),
        endpoint = choice.map(|c| c.endpoint.name()),
        eligible = choice.map(|c| c.eligible),
        load = choice.map(|c| c.load),
        attempts = record.attempts,
        stream = record.stream,
        bytes_in = record.bytes_in,
        bytes_out = record.bytes_out,
        duration_ms = milliseconds(duration),
        ttfb_ms = record.first_byte.map(milliseconds),
        caller = record.caller.as_ref().map(tracing::field::display),
    );
}

/// With a precision of 10 µs.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

fn start(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME))
        .unwrap_or_default()
}
