//! Logs: one line per event on standard output.

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object per line, for machines.
    Json,
    /// For people.
    Text,
}

/// Starts logging. In a process that logs already nothing changes.
pub fn start(level: &str, format: Format) -> anyhow::Result<()> {
    let filter = filter(level)?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer();
    let started = match format {
        Format::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        Format::Text => registry.with(layer).try_init(),
    };
    // Whole applications run side by side in tests.
    drop(started);
    Ok(())
}

/// A level alone is this program's; libraries then say warnings only.
pub(crate) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    let plain = ["trace", "debug", "info", "warn", "error", "off"].contains(&level);
    let directives = match level {
        "warn" | "error" | "off" => level.to_owned(),
        _ if plain => format!("warn,refrain_router={level}"),
        _ => level.to_owned(),
    };
    EnvFilter::try_new(&directives).map_err(|error| {
        anyhow::anyhow!(
            "--log-level {level:?} is not a level ({error}): write error, warn, info, debug or \
             trace, or directives such as info,hyper=debug"
        )
    })
}
