//! A stand-in engine on a port: see `e2e::engine`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Parser;
use e2e::engine::Engine;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
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
    let graceful = GracefulShutdown::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = terminate.recv() => break,
            Some(_) = tasks.join_next() => continue,
        };
        stream.set_nodelay(true)?;
        let engine = Arc::clone(&engine);
        let service = service_fn(move |request| Arc::clone(&engine).serve(request));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        // A connection that breaks, on demand or not, concerns nobody else.
        tasks.spawn(async move { drop(connection.await) });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}
