//! The process, part by part, from start to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Recorder, Reporter as Source};
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::admin::{Admin, Pulse};
use crate::apply::Applier;
use crate::args::Args;
use crate::board::{Board, Need, Weight};
use crate::cycle::{Alarm, Cycle, Parts};
use crate::debounce::Wake;
use crate::lease::{Candidate, Holder, Leadership};
use crate::metrics::Metrics;
use crate::report::Reporter;
use crate::stores::Start;

/// A connection that is silent for longer than any watch may be is dead.
const SILENCE: Duration = Duration::from_secs(150);
/// The longest that writes under way may take to end, and the Lease to be released.
const FAREWELL: Duration = Duration::from_secs(10);

type Tasks = JoinSet<anyhow::Result<()>>;

/// Runs until a signal says to stop, or a part of it fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let client = client().await?;
    let listener = listen(&args).await?;
    let app = App::new(client, args);
    let mut outer = Tasks::new();
    let mut inner = Tasks::new();
    app.start(listener, &mut outer, &mut inner);
    let result = until_stopped(&mut outer, &mut inner).await;
    // The Lease is released only after the last write.
    app.inner_stop.cancel();
    join(inner).await;
    app.outer_stop.cancel();
    join(outer).await;
    tracing::info!("stopped");
    result
}

async fn until_stopped(outer: &mut Tasks, inner: &mut Tasks) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        ended = outer.join_next() => Err(ended_early(ended)),
        ended = inner.join_next() => Err(ended_early(ended)),
    }
}

async fn listen(args: &Args) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(args.admin)
        .await
        .with_context(|| format!("cannot listen on --admin {}", args.admin))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace = args.namespace,
        scope = ?args.scope,
        "started"
    );
    Ok(listener)
}

async fn client() -> anyhow::Result<Client> {
    let mut config = Config::infer()
        .await
        .context("cannot find an API server: run in a pod, or set KUBECONFIG")?;
    config.connect_timeout = Some(Duration::from_secs(10));
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Client::try_from(config).context("cannot make a client of the API server")
}

struct App {
    client: Client,
    args: Args,
    board: Arc<Board>,
    wake: Arc<Wake>,
    metrics: Arc<Metrics>,
    pulse: Pulse,
    inner_stop: CancellationToken,
    outer_stop: CancellationToken,
}

impl App {
    fn new(client: Client, args: Args) -> Self {
        Self {
            client,
            args,
            board: Arc::default(),
            wake: Arc::default(),
            metrics: Arc::new(Metrics::new()),
            pulse: Pulse::new(),
            inner_stop: CancellationToken::new(),
            outer_stop: CancellationToken::new(),
        }
    }

    fn start(&self, listener: TcpListener, outer: &mut Tasks, inner: &mut Tasks) {
        let leadership = self.lease(outer);
        let stores = Start {
            client: &self.client,
            args: &self.args,
            board: &self.board,
            wake: &self.wake,
            metrics: &self.metrics,
            stop: &self.inner_stop,
        }
        .watches(inner);
        let cycle = Cycle::new(self.parts(stores, leadership));
        let stop = self.inner_stop.clone();
        inner.spawn(async move {
            cycle.run(stop).await;
            Ok(())
        });
        let admin = Admin {
            pulse: self.pulse.clone(),
            board: Arc::clone(&self.board),
            metrics: Arc::clone(&self.metrics),
        };
        let stop = self.outer_stop.clone();
        outer.spawn(async move {
            let served = admin.serve(listener, stop).await;
            served.context("the admin port stopped")
        });
    }

    fn lease(&self, tasks: &mut Tasks) -> Leadership {
        let args = &self.args;
        let me = Holder {
            identity: args.holder(),
            pod: args.pod(),
        };
        let lease = (args.namespace.as_str(), args.lease.as_str(), me);
        let (candidate, leadership) =
            Candidate::new(&self.client, lease, &self.board, &self.metrics);
        let stop = self.outer_stop.clone();
        tasks.spawn(async move {
            candidate.run(stop).await;
            Ok(())
        });
        leadership
    }

    fn parts(&self, stores: Arc<crate::stores::Stores>, leadership: Leadership) -> Parts {
        let args = &self.args;
        let source = Source {
            controller: format!("refrain.dev/{NAME}"),
            instance: Some(args.identity.clone()),
        };
        let recorder = Recorder::new(self.client.clone(), source);
        let write = Need {
            resource: "secrets",
            purpose: "writing the snapshot",
            namespace: Some(args.namespace.clone()),
        };
        self.board.expect(write.clone(), Weight::Later);
        let secret = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(args.snapshot_secret.clone()),
            namespace: Some(args.namespace.clone()),
            ..ObjectReference::default()
        };
        Parts {
            stores,
            board: Arc::clone(&self.board),
            wake: Arc::clone(&self.wake),
            metrics: Arc::clone(&self.metrics),
            pulse: self.pulse.clone(),
            leadership: leadership.clone(),
            applier: Applier::new(&self.client, &args.namespace, &args.snapshot_secret),
            reporter: Reporter::new(
                self.client.clone(),
                recorder.clone(),
                leadership,
                Arc::clone(&self.metrics),
            ),
            alarm: Alarm { recorder, secret },
            write,
        }
    }
}

fn ended_early(ended: Option<Result<anyhow::Result<()>, tokio::task::JoinError>>) -> anyhow::Error {
    match ended {
        Some(Ok(Err(error))) => error,
        Some(Err(error)) => anyhow!(error).context("a part of the operator broke off"),
        Some(Ok(Ok(()))) | None => anyhow!("a part of the operator ended early"),
    }
}

async fn join(mut tasks: Tasks) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(FAREWELL, all).await.is_err() {
        tracing::warn!("parts of the operator did not end in time");
    }
}
