//! Logs: one line per event on standard output.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const LIBRARIES: &str = "warn,kube_client=off,kube_runtime=off";

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
    let layer = tracing_subscriber::fmt::layer().with_ansi(std::io::stdout().is_terminal());
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
        // The watches say themselves, once, what kube would say at each attempt.
        _ if plain => format!("{LIBRARIES},refrain_router={level},access={level}"),
        _ => level.to_owned(),
    };
    EnvFilter::try_new(&directives).map_err(|error| {
        anyhow::anyhow!(
            "--log-level {level:?} is not a level ({error}): write error, warn, info, debug or \
             trace, or directives such as info,hyper=debug"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_this_programs_and_its_access_log() {
        let info = filter("info").unwrap().to_string();
        for directive in ["warn", "refrain_router=info", "access=info"] {
            assert!(info.split(',').any(|d| d == directive), "{info}");
        }
        assert_eq!(filter("error").unwrap().to_string(), "error");
        assert_eq!(
            filter("info,hyper=debug").unwrap().to_string(),
            "hyper=debug,info"
        );
    }

    #[test]
    fn a_wrong_level_is_answered_with_what_to_write() {
        let error = filter("refrain=loud").unwrap_err().to_string();
        assert!(error.contains("write error, warn, info"), "{error}");
    }
}
