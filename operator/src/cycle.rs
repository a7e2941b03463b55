//! The event loop: gather → compile → apply → report.
//!
//! Every replica turns; only the holder of the Lease applies and reports. Nothing is compiled
//! before every watch has listed, so that a restart never takes away what it has not read yet.

mod view;

use std::sync::Arc;
use std::time::Duration;

use crds::compile::{Compiled, compile};
use crds::snapshot::{Digest, Snapshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub(crate) use self::view::Alarm;
use self::view::View;
use crate::admin::Pulse;
use crate::apply::{Applier, ApplyError};
use crate::backoff::Backoff;
use crate::board::{Board, Need, Trouble};
use crate::debounce::{Debounce, Wake};
use crate::lease::Leadership;
use crate::metrics::{Metrics, ObjectLabels};
use crate::report::{self, Forms, Reporter};
use crate::stores::{Held, Stores};

const QUIET: Duration = Duration::from_millis(20);
const MOST: Duration = Duration::from_millis(100);
/// The loop turns at least this often, so that its pulse can be felt.
const TURN: Duration = Duration::from_secs(1);
const FIRST_DELAY: Duration = Duration::from_millis(200);
const MOST_DELAY: Duration = Duration::from_secs(15);

/// What the loop works with.
pub(crate) struct Parts {
    pub(crate) stores: Arc<Stores>,
    pub(crate) board: Arc<Board>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pulse: Pulse,
    pub(crate) leadership: Leadership,
    pub(crate) applier: Applier,
    pub(crate) reporter: Reporter,
    pub(crate) alarm: Alarm,
    /// What a refused write of the snapshot is called on the board.
    pub(crate) write: Need,
}

/// The last compile.
#[derive(Debug)]
struct Latest {
    compiled: Compiled,
    forms: Arc<Forms>,
}

/// The loop and what it remembers.
pub(crate) struct Cycle {
    parts: Parts,
    /// The snapshot in the cluster.
    view: View,
    latest: Option<Latest>,
    backoff: Backoff,
    /// Not before this is the snapshot written again after a failure.
    retry_at: Option<Instant>,
    /// When statuses are to be looked at although nothing has happened.
    look_again: Option<Instant>,
    led: bool,
}

impl Cycle {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            view: View::default(),
            latest: None,
            backoff: Backoff::new(FIRST_DELAY, MOST_DELAY),
            retry_at: None,
            look_again: None,
            led: false,
        }
    }

    /// Turns until told to stop, then lets the writes under way end.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let wake = Arc::clone(&self.parts.wake);
        let mut debounce = Debounce::new(wake, QUIET, MOST);
        loop {
            self.parts.pulse.beat();
            let now = Instant::now();
            let due = [self.look_again, self.retry_at];
            let due = due.into_iter().flatten().min();
            let next = due.map_or(now + TURN, |due| due.min(now + TURN));
            tokio::select! {
                () = stop.cancelled() => break,
                () = debounce.settled() => self.turn().await,
                () = self.parts.leadership.changed() => self.turn().await,
                written = self.parts.reporter.written() => self.parts.reporter.done(written),
                () = sleep_until(next) => if self.is_due(due) { self.turn().await },
            }
        }
        self.parts.reporter.finish().await;
    }

    /// Whether there is something to do although nothing has happened.
    fn is_due(&self, due: Option<Instant>) -> bool {
        let leads = self.parts.leadership.is_held();
        self.latest.is_none() || leads != self.led || due.is_some_and(|due| Instant::now() >= due)
    }

    async fn turn(&mut self) {
        let synced = self.parts.board.synced(Instant::now());
        self.parts.metrics.synced.set(i64::from(synced));
        if !synced {
            return;
        }
        self.look().await;
        self.compile().await;
        self.led = self.parts.leadership.is_held();
        self.look_again = None;
        if self.led {
            self.apply().await;
            self.report();
        } else {
            self.retry_at = None;
            self.parts.reporter.stand_down();
        }
    }

    /// Takes note of the snapshot in the cluster, if that is not the one known already.
    async fn look(&mut self) {
        let held = self.parts.stores.snapshot();
        if !self.view.take(held) {
            return;
        }
        self.parts.wake.inputs();
        match self.view.decode() {
            Ok(Some((digest, forms))) => self.parts.reporter.record(&digest, &forms),
            Ok(None) => {}
            Err(error) => {
                let known = self.view.previous().routes.len();
                tracing::error!(
                    %error, known,
                    "the snapshot Secret does not hold a snapshot: it is written anew from what is \
                     known; last good forms that only it held are lost"
                );
                self.parts.metrics.unreadable_snapshots.inc();
                if self.parts.leadership.is_held() {
                    self.parts.alarm.unreadable(&error).await;
                }
            }
        }
    }

    /// Compiles, if anything that a compile reads has changed.
    async fn compile(&mut self) {
        let changed = self.parts.wake.take_inputs();
        if !changed && self.latest.is_some() {
            return;
        }
        let objects = self.parts.stores.gather();
        let previous = self.view.previous();
        let started = Instant::now();
        let work = move || {
            let compiled = compile(&objects, &previous);
            let forms = Arc::new(Forms::of(&compiled.snapshot));
            Latest { compiled, forms }
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(mut latest) => {
                view::explain_refusals(&mut latest.compiled.verdicts, &self.parts.board);
                self.measure(&latest.compiled, started);
                self.latest = Some(latest);
            }
            Err(error) => {
                tracing::error!(%error, "a compile broke off: what is served stays");
                self.parts.wake.inputs();
            }
        }
    }

    fn measure(&self, compiled: &Compiled, started: Instant) {
        let metrics = &self.parts.metrics;
        metrics.compiles.inc();
        metrics
            .compile_seconds
            .observe(started.elapsed().as_secs_f64());
        let bytes = i64::try_from(compiled.sealed.bytes.len()).unwrap_or(i64::MAX);
        metrics.snapshot_bytes.set(bytes);
        for kind in [crds::snapshot::Kind::Provider, crds::snapshot::Kind::Route] {
            for (accepted, label) in [(true, "true"), (false, "false")] {
                let counts =
                    |v: &&crds::compile::Verdict| v.kind == kind && v.accepted.ok == accepted;
                let count = compiled.verdicts.iter().filter(counts).count();
                let labels = ObjectLabels {
                    kind: kind.as_str(),
                    accepted: label,
                };
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                metrics.objects.get_or_create(&labels).set(count);
            }
        }
    }

    /// Writes the snapshot, if it is not the one in the cluster.
    async fn apply(&mut self) {
        let Some(latest) = &self.latest else { return };
        let sealed = &latest.compiled.sealed;
        if self.view.holds(&sealed.digest) {
            self.retry_at = None;
            return;
        }
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let (generation, held) = (self.view.next_generation(), self.view.held());
        // Without the routers' Service nobody reads it, and nothing would take it away again.
        if held.is_none() && !self.parts.stores.has_routers() {
            return;
        }
        let owner = self.parts.stores.router_service();
        let result = self.parts.applier.apply(sealed, generation, held, owner);
        let result = result.await;
        let label = result.as_ref().err().map_or("ok", ApplyError::result);
        self.parts.metrics.wrote("Secret", label);
        match result {
            Ok(held) => self.applied(held),
            Err(error) => self.not_applied(&error),
        }
    }

    fn applied(&mut self, held: Held) {
        let Some(latest) = &self.latest else { return };
        let digest = &latest.compiled.sealed.digest;
        tracing::info!(%digest, generation = held.generation, "snapshot written");
        self.parts.reporter.record(digest, &latest.forms);
        self.parts.metrics.snapshot_generation.set(held.generation);
        self.parts.board.met(&self.parts.write);
        let snapshot = Arc::new(latest.compiled.snapshot.clone());
        self.view.wrote(held, snapshot, digest.clone());
        self.backoff.reset();
        self.retry_at = None;
    }

    fn not_applied(&mut self, error: &ApplyError) {
        self.retry_at = Some(Instant::now() + self.backoff.next());
        let trouble = match error {
            ApplyError::Forbidden(_) => Trouble::Refused(error.to_string()),
            ApplyError::Conflict | ApplyError::Timeout | ApplyError::Api(_) => {
                Trouble::Failing(error.to_string())
            }
        };
        tracing::warn!(%error, "snapshot not written: will try again");
        self.parts
            .board
            .trouble(&self.parts.write, trouble, Instant::now());
    }

    fn report(&mut self) {
        let Some(latest) = &self.latest else { return };
        let compiled = report::Compiled {
            verdicts: &latest.compiled.verdicts,
            snapshot: &latest.compiled.snapshot,
            forms: &latest.forms,
        };
        self.look_again = self.parts.reporter.report(compiled, &self.parts.stores);
    }
}

/// A snapshot that was read, and what names it.
type Read = (Arc<Snapshot>, Digest);
