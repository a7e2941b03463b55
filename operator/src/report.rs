//! Statuses and Events: what was compiled and what the routers say, told to users.
//!
//! ```text
//!  history     which object forms the latest snapshots hold
//!  routers     the ready router pods, and what each serves, refuses and observes
//!  programmed  is this generation served by all of them; damped, with a deadline
//!  decide      one object's status                                    (pure up to here)
//!  news        which Events that is worth
//!  queue       what is still to be written; per object one write at a time
//!  write       to the API server
//! ```

mod decide;
mod history;
mod news;
mod programmed;
mod queue;
mod routers;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crds::compile::Verdict;
use crds::snapshot::{Digest, Key, Kind, Snapshot};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::runtime::events::Recorder;
use tokio::time::Instant;

use self::decide::{Facts, Moment, Part};
pub(crate) use self::history::Forms;
use self::history::History;
#[cfg(test)]
pub(crate) use self::history::tests::snapshot;
use self::programmed::judge;
use self::queue::{Job, Queue};
use self::routers::Routers;
pub(crate) use self::write::Written;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::stores::Stores;

/// Reasons that a report decides; those of a compile are in [`crds::compile::reason`].
pub(crate) mod reason {
    /// `Programmed=True`.
    pub(crate) const PROGRAMMED: &str = "Programmed";
    /// This generation is not in the snapshot.
    pub(crate) const NOT_ACCEPTED: &str = "NotAccepted";
    /// No router pod is ready.
    pub(crate) const NO_ROUTERS: &str = "NoRouters";
    /// A router has it and does not serve it.
    pub(crate) const REFUSED_BY_ROUTER: &str = "RefusedByRouter";
    /// Routers are taking it over.
    pub(crate) const PENDING: &str = "Pending";
    /// Some routers did not take it over in time.
    pub(crate) const PARTIALLY_PROGRAMMED: &str = "PartiallyProgrammed";
    /// `Ready=True`.
    pub(crate) const READY: &str = "Ready";
    /// Nothing to send requests to.
    pub(crate) const NO_ENDPOINTS: &str = "NoEndpoints";
    /// The routers' reports had no room for it.
    pub(crate) const NOT_OBSERVED: &str = "NotObserved";
}

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    True,
    False,
    Unknown,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    state: State,
    reason: String,
    message: String,
}

impl Told {
    fn new(state: State, reason: &str, message: &str) -> Self {
        Self {
            state,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The same as before.
    fn again(condition: &Condition) -> Self {
        let state = match condition.status.as_str() {
            "True" => State::True,
            "False" => State::False,
            _ => State::Unknown,
        };
        Self::new(state, &condition.reason, &condition.message)
    }
}

/// A compile's result, as far as statuses depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiled<'a> {
    pub(crate) verdicts: &'a [Verdict],
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) forms: &'a Forms,
}

/// Decides and writes the statuses of all objects.
pub(crate) struct Reporter {
    history: History,
    queue: Queue,
}

impl Reporter {
    pub(crate) fn new(
        client: Client,
        recorder: Recorder,
        leadership: Leadership,
        metrics: Arc<Metrics>,
    ) -> Self {
        let writer = write::Writer::new(client, recorder, leadership, metrics);
        Self {
            history: History::default(),
            queue: Queue::new(writer),
        }
    }

    /// Remembers a snapshot that routers may serve.
    pub(crate) fn record(&mut self, digest: &Digest, forms: &Arc<Forms>) {
        self.history.record(digest, forms);
    }

    /// Looks at all objects and starts the writes that are due. Returns when to look again although
    /// nothing has happened.
    pub(crate) fn report(&mut self, compiled: Compiled<'_>, stores: &Stores) -> Option<Instant> {
        let routers = Routers::new(stores.routers(), &self.history);
        let statuses = stores.statuses();
        let moment = Moment {
            now: Instant::now(),
            time: Timestamp::now(),
        };
        let mut look_again: Vec<Instant> = Vec::new();
        let mut alive = HashSet::with_capacity(compiled.verdicts.len());
        let endpoints = endpoints(compiled.snapshot, &routers);
        for verdict in compiled.verdicts {
            let uid = verdict.origin.uid.as_str();
            let Some((_, seen)) = statuses.get(uid) else {
                continue;
            };
            alive.insert(uid);
            let form = compiled.forms.get(uid);
            let facts = Facts {
                verdict,
                judgement: judge(verdict, form, &routers),
                part: part(verdict, compiled.snapshot, &routers, &endpoints),
            };
            let (current, memory) = self.queue.current(uid, seen, moment.now);
            let decision = decide::decide(&facts, &current, memory, moment);
            look_again.extend(decision.look_again);
            let wanted = decision.status.filter(|status| *status != current);
            let job = wanted.map(|status| Job {
                kind: verdict.kind,
                key: verdict.origin.key.clone(),
                uid: uid.to_owned(),
                news: news::news(&current, &status),
                seen: seen.clone(),
                is_first: true,
                status,
            });
            look_again.extend(self.queue.want(uid, job, moment.now));
        }
        self.queue.forget_all_but(&alive);
        self.queue.start();
        look_again.into_iter().min()
    }

    /// Waits until a write has ended; for ever when none is under way.
    pub(crate) async fn written(&mut self) -> Written {
        self.queue.written().await
    }

    /// Takes note of it, and starts the next.
    pub(crate) fn done(&mut self, written: Written) {
        self.queue.done(written, Instant::now());
    }

    /// Forgets what was to be written: another replica writes now.
    pub(crate) fn stand_down(&mut self) {
        self.queue.stand_down();
    }

    /// Waits for the writes that are under way.
    pub(crate) async fn finish(&mut self) {
        self.queue.finish().await;
    }
}

/// Whether each Provider of the snapshot has an endpoint, as far as is known.
fn endpoints<'a>(snapshot: &'a Snapshot, routers: &Routers) -> HashMap<&'a Key, bool> {
    let providers = snapshot.providers.iter().map(|p| &p.origin.key);
    let known = |key: &'a Key| (key, routers.seen(key).is_none_or(|seen| seen.ready > 0));
    providers.map(known).collect()
}

fn part(
    verdict: &Verdict,
    snapshot: &Snapshot,
    routers: &Routers,
    endpoints: &HashMap<&Key, bool>,
) -> Part {
    let key = &verdict.origin.key;
    match verdict.kind {
        Kind::Provider => Part::Provider(routers.seen(key)),
        Kind::Route => {
            let rules = snapshot.route(key).map_or(&[][..], |route| &route.rules);
            let drawn = rules
                .iter()
                .flat_map(|rule| &rule.backends)
                .filter(|backend| backend.weight > 0)
                .map(|backend| &backend.provider);
            let lacks = |provider: &&Key| !endpoints.get(provider).is_some_and(|has| *has);
            let without_endpoints = drawn.into_iter().find(lacks).cloned();
            Part::Route { without_endpoints }
        }
    }
}
