//! The data port: accepts connections and serves each until it ends or the router shuts down.

mod wire;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::wire::Wire;
use crate::fleet::Fleet;
use crate::flow::{self, Body};
use crate::metrics::Metrics;
use crate::table::Table;

/// For a request's head, and so for how long a connection may idle between requests: longer than
/// the idle pools of clients (Go 90 s), so that they close first and lose no request to the race.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);
/// Room for a head of 256 KiB: token ids travel in headers.
const MAX_BUFFER: usize = 512 * 1024;
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// After a failed accept: out of file descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the data port is told by flags.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The largest request body taken.
    pub max_body_bytes: usize,
    /// How long running requests may take to end once the router shuts down.
    pub shutdown_grace: Duration,
}

/// What every request is served with.
#[derive(Debug)]
pub struct State {
    table: Arc<ArcSwapOption<Table>>,
    fleet: Arc<Fleet>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
}

impl State {
    /// Serves from whatever `table` holds when a request comes.
    pub fn new(
        table: Arc<ArcSwapOption<Table>>,
        fleet: Arc<Fleet>,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        Self {
            table,
            fleet,
            metrics,
            settings,
        }
    }

    /// The table now; none before the first snapshot.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        self.table.load_full()
    }

    /// Closes connections to engines that nobody has used for a while.
    fn sweep(&self) {
        let now = Instant::now();
        for pool in self.fleet.pools() {
            pool.members().iter().for_each(|e| e.idle().sweep(now));
        }
    }
}

/// Serves until `shutdown`, then takes no more connections, lets running requests end within the
/// grace, and returns.
pub async fn serve(listener: TcpListener, state: Arc<State>, shutdown: CancellationToken) {
    let mut connections = JoinSet::new();
    let mut sweep = interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            _ = sweep.tick() => state.sweep(),
            stream = accept(&listener) => {
                connections.spawn(connection(stream, Arc::clone(&state), shutdown.clone()));
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    finish(connections, state.settings.shutdown_grace).await;
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            // It fails for a client that is gone already, which its connection will find out.
            Ok((stream, _)) => {
                let _gone = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => tracing::warn!(%error, "accepting a connection failed"),
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, ended).await.is_err() {
        let left = connections.len();
        tracing::warn!(connections = left, "cut at the end of the grace");
        connections.shutdown().await;
    }
}

async fn connection(stream: TcpStream, state: Arc<State>, shutdown: CancellationToken) {
    let linger = Arc::new(AtomicBool::new(false));
    let wire = Wire::new(stream, Arc::clone(&linger));
    let service = service_fn(move |request| {
        let served = flow::serve(Arc::clone(&state), request);
        let linger = Arc::clone(&linger);
        async move {
            let (response, is_read) = served.await;
            linger.store(!is_read, Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(wire, service);
    if let Err(error) = until(connection, shutdown).await {
        tracing::debug!(%error, "a client's connection ended early");
    }
}

/// Runs a connection to its end; after `shutdown` that is the end of the request it is at.
async fn until<S>(
    connection: http1::Connection<Wire, S>,
    shutdown: CancellationToken,
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}
