//! What this router says back: one Lease named like its pod, which carries the digest it serves,
//! what it refuses and what it saw. `Programmed` in users' objects waits for it, so a digest or a
//! refusal is written at once; observations may gather for a second.

mod compose;
mod lease;

use std::sync::Arc;
use std::time::Duration;

use crds::report::Report;
use crds::snapshot::Digest;
use kube::Client;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use self::compose::{observations, refusals};
use self::lease::Leases;
use crate::fleet::Fleet;
use crate::fleet::roster::Roster;
use crate::source::watch::say;
use crate::source::{Backoff, Live, Metrics, Served};

/// A quarter of the Lease's duration.
const RENEW: Duration = Duration::from_secs(10);
/// Observations change in bursts.
const SETTLE: Duration = Duration::from_secs(1);
/// A digest is not reported before the endpoints it needs are listed, unless that takes so long.
const LISTS: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(5);

/// The pod that reports.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name, and the Lease's.
    pub name: String,
    /// Its UID: with it the Lease goes when the pod goes.
    pub uid: Option<String>,
    /// The Service of the routers, by which the operator finds their Leases.
    pub service: String,
}

/// Reports.
#[derive(Debug)]
pub struct Reporter {
    live: Arc<Live>,
    roster: Arc<Roster>,
    fleet: Arc<Fleet>,
    metrics: Metrics,
    leases: Leases,
}

/// What is written, or is to be.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    report: Report,
    /// Why the newest snapshot is not the one served.
    problem: Option<String>,
}

impl Reporter {
    /// A reporter of what `live`, `roster` and `fleet` hold.
    pub fn new(
        client: Client,
        pod: Pod,
        live: Arc<Live>,
        (roster, fleet): (Arc<Roster>, Arc<Fleet>),
        metrics: Metrics,
    ) -> Self {
        Self {
            live,
            roster,
            fleet,
            metrics,
            leases: Leases::new(client, pod),
        }
    }

    /// Reports without end.
    pub async fn run(self) {
        let mut served = self.live.served();
        let mut problem = self.live.problem();
        let mut pools = self.roster.changes();
        let mut pace = Pace::new();
        let mut state = State::default();
        // Since when the served digest waits for lists of endpoints.
        let mut lists = Lists::default();
        loop {
            let now = served.borrow_and_update().clone();
            let why = problem.borrow_and_update().clone();
            pools.mark_unchanged();
            if let Some(now) = now {
                let listed = lists.pass(&now.digest, self.roster.missing().is_empty());
                let next = self.state(&now, why, listed, &state);
                pace.changed(&state, &next);
                state = next;
            }
            let known = !state.report.digest.0.is_empty();
            tokio::select! {
                () = sleep_until(pace.due), if known => self.write(&state, &mut pace).await,
                () = sleep_until(lists.until.unwrap_or_else(Instant::now)), if lists.until.is_some() => {}
                woken = served.changed() => if woken.is_err() { return; },
                woken = problem.changed() => if woken.is_err() { return; },
                woken = pools.changed() => if woken.is_err() { return; },
            }
        }
    }

    fn state(
        &self,
        served: &Served,
        problem: Option<String>,
        listed: bool,
        before: &State,
    ) -> State {
        let table = self.live.table();
        let table = table.load();
        let refused = table
            .as_ref()
            .map(|table| table.refusals())
            .unwrap_or_default();
        let digest = if listed {
            served.digest.clone()
        } else {
            before.report.digest.clone()
        };
        let report = Report {
            digest,
            refusals: refusals(refused, self.roster.denied()),
            observations: observations(&served.snapshot, &self.fleet),
            truncated: false,
        };
        State { report, problem }
    }

    async fn write(&self, state: &State, pace: &mut Pace) {
        let problem = state.problem.as_deref();
        let written = timeout(DEADLINE, self.leases.write(&state.report, problem)).await;
        match written {
            Ok(Ok(())) => pace.written(),
            Ok(Err(error)) => self.failed(pace, &say(&error)),
            Err(_) => self.failed(pace, "the API server does not answer"),
        }
    }

    fn failed(&self, pace: &mut Pace, error: &str) {
        self.metrics.report_error();
        if !pace.failing {
            let lease = self.leases.name();
            warn!(
                lease,
                error, "report not written: the operator cannot see what is served here"
            );
        }
        pace.failed();
    }
}

/// Whether the endpoints that a digest needs are listed, or were waited for long enough.
#[derive(Debug, Default)]
struct Lists {
    digest: Digest,
    until: Option<Instant>,
}

impl Lists {
    fn pass(&mut self, digest: &Digest, listed: bool) -> bool {
        if self.digest != *digest {
            self.digest = digest.clone();
            self.until = Some(Instant::now() + LISTS);
        }
        if listed || self.until.is_some_and(|until| until <= Instant::now()) {
            self.until = None;
        }
        self.until.is_none()
    }
}

/// When the next write is due.
#[derive(Debug)]
struct Pace {
    due: Instant,
    backoff: Backoff,
    failing: bool,
}

impl Pace {
    fn new() -> Self {
        Self {
            due: Instant::now(),
            backoff: Backoff::API,
            failing: false,
        }
    }

    fn changed(&mut self, before: &State, after: &State) {
        let now = Instant::now();
        let urgent = before.report.digest != after.report.digest
            || before.report.refusals != after.report.refusals
            || before.problem != after.problem;
        // While writes fail, the backoff alone decides.
        if self.failing || before == after {
            return;
        }
        let settled = if urgent { now } else { now + SETTLE };
        self.due = self.due.min(settled);
    }

    fn written(&mut self) {
        if self.failing {
            info!("reports are written again");
        }
        self.backoff.reset();
        self.failing = false;
        self.due = Instant::now() + RENEW;
    }

    fn failed(&mut self) {
        self.failing = true;
        self.due = Instant::now() + self.backoff.wait();
    }
}

#[cfg(test)]
mod tests;
