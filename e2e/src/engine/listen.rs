use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Engine;

/// Serves until `end`, and then finishes what is under way.
pub async fn listen(
    engine: Arc<Engine>,
    listener: TcpListener,
    end: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            () = &mut end => break,
            Some(_) = connections.join_next() => continue,
        };
        stream.set_nodelay(true)?;
        let engine = Arc::clone(&engine);
        let service = service_fn(move |request| Arc::clone(&engine).serve(request));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        // A connection that breaks, on demand or not, concerns nobody else.
        connections.spawn(async move { drop(connection.await) });
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}
