//! `refrain-router`: see `--help`.

use clap::Parser as _;
use refrain_router::app;
use refrain_router::args::Args;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    app::run(Args::parse()).await
}
