//! The process: what it is made of, and in which order it ends.
//!
//! ```text
//!  SIGTERM ─► not ready ─► drain delay ─► data port closes ─► requests end, or the grace does
//!          ─► everything else ends
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::admin::{Admin, Readiness};
use crate::args::Args;
use crate::copy::Disk;
use crate::discover::Discover;
use crate::fleet::Fleet;
use crate::fleet::follow::Follow;
use crate::fleet::roster::Roster;
use crate::metrics::Metrics;
use crate::report::{Pod, Reporter};
use crate::serve::{self, serve};
use crate::source::files::FileSource;
use crate::source::secret::SecretSource;
use crate::source::{self, Live};
use crate::telemetry;

/// How long the API server may take before the copies of an earlier run are used.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long tasks may take to end once nothing is served any more.
const END: Duration = Duration::from_secs(2);

/// The router at work.
#[derive(Debug)]
pub struct Running {
    /// Where it listens; ports of 0 are the real ones here.
    pub addresses: Addresses,
    parts: Parts,
    tasks: Tasks,
    shutdown: CancellationToken,
    drain_delay: Duration,
}

/// Where the router listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For clients.
    pub data: SocketAddr,
    /// For livez, readyz and metrics.
    pub admin: SocketAddr,
}

/// The state that parts share.
#[derive(Clone, Debug)]
struct Parts {
    fleet: Arc<Fleet>,
    roster: Arc<Roster>,
    live: Arc<Live>,
    readiness: Arc<Readiness>,
    metrics: source::Metrics,
    /// Closes the data port.
    stop: CancellationToken,
    /// Ends everything else.
    end: CancellationToken,
}

/// Every task, with the name by which its end is told.
type Tasks = JoinSet<(&'static str, anyhow::Result<()>)>;

const DATA_PORT: &str = "data port";

/// Runs the process until a signal ends it.
pub async fn run(args: Args) -> anyhow::Result<()> {
    telemetry::start(&args.log_level, args.log_format)?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let running = build(args).await?;
    let shutdown = running.shutdown();
    let signalled = async {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: shutting down"),
            _ = interrupt.recv() => info!("SIGINT: shutting down"),
        }
        shutdown.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = running.join() => ended.inspect(|()| info!("ended")),
        () = signalled => Ok(()),
    }
}

/// Starts everything. It fails on what waiting cannot mend: a port that is taken, a folder that
/// is not there, no cluster to talk to.
pub async fn build(args: Args) -> anyhow::Result<Running> {
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let parts = Parts::new(source::Metrics::new(&mut registry));
    let data = bind(args.listen, "--listen").await?;
    let admin = bind(args.admin, "--admin").await?;
    let addresses = Addresses {
        data: data.local_addr()?,
        admin: admin.local_addr()?,
    };
    let mut tasks = Tasks::new();
    match &args.manifests {
        Some(folder) => from_files(folder, &parts, &mut tasks)?,
        None => from_cluster(&args, &parts, &mut tasks).await?,
    }
    let discover = Discover::new(Arc::clone(&parts.fleet), Arc::clone(&parts.roster));
    parts.spawn(&mut tasks, "discovery", discover.run(parts.live.served()));
    let settings = serve::Settings {
        max_body_bytes: args.max_body_bytes,
        shutdown_grace: args.shutdown_grace,
    };
    let (table, fleet) = (parts.live.table(), Arc::clone(&parts.fleet));
    let state = Arc::new(serve::State::new(table, fleet, metrics, settings));
    let stop = parts.stop.clone();
    tasks.spawn(async move {
        serve(data, state, stop).await;
        (DATA_PORT, Ok(()))
    });
    let port = Admin {
        readiness: Arc::clone(&parts.readiness),
        registry: Arc::new(registry),
    };
    let end = parts.end.clone();
    tasks.spawn(async move { ("admin port", port.run(admin, end).await.map_err(Into::into)) });
    info!(listen = %addresses.data, admin = %addresses.admin, "router started");
    Ok(Running {
        addresses,
        parts,
        tasks,
        shutdown: CancellationToken::new(),
        drain_delay: args.drain_delay,
    })
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("{flag} {address} cannot be listened on: is the port taken?"))
}

fn from_files(folder: &std::path::Path, parts: &Parts, tasks: &mut Tasks) -> anyhow::Result<()> {
    let shown = folder.display();
    std::fs::read_dir(folder).with_context(|| {
        format!("--manifests {shown} cannot be read: name a folder with Provider and Route files")
    })?;
    let source = FileSource {
        folder: folder.to_owned(),
        roster: Arc::clone(&parts.roster),
        metrics: parts.metrics.clone(),
    };
    info!(folder = %shown, "serving from files");
    parts.spawn(tasks, "manifests", source.run(Arc::clone(&parts.live)));
    Ok(())
}

async fn from_cluster(args: &Args, parts: &Parts, tasks: &mut Tasks) -> anyhow::Result<()> {
    let config = kube::Config::infer().await.context(
        "no cluster found: run in a pod, set KUBECONFIG, or serve files with --manifests DIR",
    )?;
    let namespace = args.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = kube::Client::try_from(config).context("the cluster's settings cannot be used")?;
    let disk = disk(args)?;
    let patience = Instant::now() + PATIENCE;
    let secret = SecretSource {
        client: client.clone(),
        namespace: namespace.clone(),
        name: args.snapshot_secret.clone(),
        disk: disk.clone(),
        patience,
    };
    let watched = secret.run(Arc::clone(&parts.live), parts.metrics.clone());
    parts.spawn(tasks, "snapshot Secret", watched);
    let follow = Follow {
        client: client.clone(),
        roster: Arc::clone(&parts.roster),
        disk: disk.clone(),
        patience,
        metrics: parts.metrics.clone(),
    };
    parts.spawn(tasks, "EndpointSlices", follow.run(parts.live.served()));
    if let Some(disk) = disk {
        let kept = disk.follow(Arc::clone(&parts.roster));
        parts.spawn(tasks, "copies", kept);
    }
    let Some(name) = args.pod_name.clone() else {
        info!("no --pod-name: nothing is reported to the operator");
        return Ok(());
    };
    let pod = Pod {
        namespace,
        name,
        uid: args.pod_uid.clone(),
        service: args.router_service.clone(),
    };
    let shared = (Arc::clone(&parts.roster), Arc::clone(&parts.fleet));
    let live = Arc::clone(&parts.live);
    let reporter = Reporter::new(client, pod, live, shared, parts.metrics.clone());
    parts.spawn(tasks, "report", reporter.run());
    Ok(())
}

fn disk(args: &Args) -> anyhow::Result<Option<Arc<Disk>>> {
    let Some(folder) = &args.state_dir else {
        return Ok(None);
    };
    let shown = folder.display();
    ensure!(
        folder.is_dir(),
        "--state-dir {shown} is not a folder: mount an emptyDir with medium Memory there"
    );
    Ok(Some(Arc::new(Disk::new(folder))))
}

impl Parts {
    fn new(metrics: source::Metrics) -> Self {
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let live = Live::new(Arc::clone(&fleet), Arc::clone(&roster), metrics.clone());
        let live = Arc::new(live);
        let readiness = Readiness::new(Arc::clone(&live), Arc::clone(&roster));
        Self {
            fleet,
            roster,
            live,
            readiness: Arc::new(readiness),
            metrics,
            stop: CancellationToken::new(),
            end: CancellationToken::new(),
        }
    }

    /// A task that goes on until everything ends.
    fn spawn<F>(&self, tasks: &mut Tasks, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let end = self.end.clone();
        tasks.spawn(async move {
            end.run_until_cancelled_owned(task).await;
            (name, Ok(()))
        });
    }
}

impl Running {
    /// Cancel it to shut the router down.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Waits for the end: in order when it was asked for, else because a task failed.
    pub async fn join(mut self) -> anyhow::Result<()> {
        let shutdown = self.shutdown.clone();
        let ended = tokio::select! {
            () = shutdown.cancelled() => self.drain().await,
            ended = self.tasks.join_next() => unexpected(ended),
        };
        self.end().await;
        ended.inspect_err(|error| error!("{error:#}"))
    }

    /// Takes no more requests, and returns when those that run have ended.
    async fn drain(&mut self) -> anyhow::Result<()> {
        self.parts.readiness.drain();
        tokio::select! {
            () = sleep(self.drain_delay) => {}
            ended = self.tasks.join_next() => return unexpected(ended),
        }
        self.parts.stop.cancel();
        match self.tasks.join_next().await {
            Some(Ok((DATA_PORT, Ok(())))) => Ok(()),
            ended => unexpected(ended),
        }
    }

    async fn end(&mut self) {
        self.parts.stop.cancel();
        self.parts.end.cancel();
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(END, rest).await.is_err() {
            info!("tasks that did not end are given up");
        }
    }
}

fn unexpected(
    ended: Option<Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>>,
) -> anyhow::Result<()> {
    match ended {
        Some(Ok((name, Ok(())))) => bail!("{name} ended unexpectedly"),
        Some(Ok((name, Err(error)))) => Err(error.context(format!("{name} failed"))),
        Some(Err(error)) => Err(anyhow::Error::new(error).context("a task failed")),
        None => bail!("no task is left"),
    }
}

#[cfg(test)]
mod tests;
