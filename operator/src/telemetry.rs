//! Log lines.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow};
use tracing_subscriber::EnvFilter;

use crate::args::{Args, LogFormat};

/// Starts logging to standard error.
pub fn init(args: &Args) -> anyhow::Result<()> {
    // The watches say themselves what is refused, once; kube would say it at each attempt.
    let directives = format!("kube_runtime=error,kube_client=warn,{}", args.log_level);
    let filter = EnvFilter::try_new(directives).context("--log-level")?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match args.log_format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        LogFormat::Text => lines.try_init(),
    };
    started.map_err(|error| anyhow!("cannot start logging: {error}"))
}
