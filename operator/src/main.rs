//! The operator's process: read the flags, then run until told to stop.

use clap::Parser as _;
use refrain_operator::{app, args::Args, telemetry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    telemetry::init(&args)?;
    app::run(args).await
}
