//! A stand-in engine on a port: see `e2e::engine`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use e2e::engine::Engine;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Serves the OpenAI API without a model.
#[derive(Debug, Parser)]
struct Args {
    /// Where to listen.
    #[arg(long, default_value = "0.0.0.0:8000")]
    listen: SocketAddr,
    /// What replies call this engine.
    #[arg(long, env = "HOSTNAME", default_value = "stand-in")]
    name: String,
    /// The models to list.
    #[arg(long, default_value = "stand-in", value_delimiter = ',')]
    models: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let engine = Arc::new(Engine::new(args.name, args.models));
    let listener = TcpListener::bind(args.listen).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    e2e::engine::listen(engine, listener, async move {
        terminate.recv().await;
    })
    .await?;
    Ok(())
}
