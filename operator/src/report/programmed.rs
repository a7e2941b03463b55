//! The condition `Programmed`: every ready router pod serves this generation.
//!
//! True is said at once. Worse news has to last a moment before it is said, and routers that are
//! behind get until a deadline, so that a rollout, a restart or an edit does not make a status
//! flicker. A message is kept while what it says still holds.

use std::time::Duration;

use crds::compile::Verdict;
use crds::snapshot::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::Instant;

use super::history::Form;
use super::routers::Routers;
use super::{State, Told, reason};

/// How long worse news has to last.
pub(crate) const DAMPING: Duration = Duration::from_secs(1);
/// How long routers may be behind before it is said which.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// Pods that a message names.
const NAMED: usize = 3;

/// How things are at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Every ready router serves it.
    Served,
    /// This generation is in no snapshot.
    NotAccepted(String),
    /// There is no router.
    NoRouters,
    /// A router has it and does not serve it.
    Refused(String),
    /// These routers do not have it yet.
    Behind(Vec<String>),
}

/// What routers make of an object that a compile has judged.
pub(crate) fn judge(verdict: &Verdict, form: Option<Form>, routers: &Routers) -> Judgement {
    let (Some(form), Some(served)) = (form, verdict.served) else {
        return Judgement::NotAccepted(
            "nothing of this object is served: see its condition Accepted".to_owned(),
        );
    };
    if served != verdict.origin.generation {
        return Judgement::NotAccepted(format!(
            "generation {served} is served instead, the last good one: see the condition Accepted"
        ));
    }
    if verdict.kind == Kind::Route && !verdict.accepted.ok && verdict.models.is_empty() {
        return Judgement::NotAccepted(
            "other Routes serve all of its models: see its condition Accepted".to_owned(),
        );
    }
    if routers.is_empty() {
        return Judgement::NoRouters;
    }
    if let Some(refusal) = routers.refusal(verdict.kind, &verdict.origin.key, form) {
        return Judgement::Refused(refusal);
    }
    let behind = routers.behind(form);
    if behind.is_empty() {
        Judgement::Served
    } else {
        Judgement::Behind(behind.into_iter().map(ToOwned::to_owned).collect())
    }
}

/// Since when an object's generation is not served by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    generation: i64,
    at: Instant,
}

impl Since {
    /// Keeps the clock of this generation running, or starts it.
    pub(crate) fn of(since: &mut Option<Self>, generation: i64, now: Instant) -> Instant {
        match since {
            Some(running) if running.generation == generation => running.at,
            _ => {
                *since = Some(Self {
                    generation,
                    at: now,
                });
                now
            }
        }
    }
}

/// What the condition says now, and when to look again although nothing has happened.
pub(crate) fn settle(
    judgement: &Judgement,
    generation: i64,
    current: Option<&Condition>,
    since: &mut Option<Since>,
    now: Instant,
) -> (Told, Option<Instant>) {
    let (after, worse) = match judgement {
        Judgement::Served => {
            *since = None;
            return (Told::new(State::True, reason::PROGRAMMED, ""), None);
        }
        Judgement::NotAccepted(message) => {
            *since = None;
            return (Told::new(State::False, reason::NOT_ACCEPTED, message), None);
        }
        Judgement::NoRouters => (
            DAMPING,
            Told::new(
                State::False,
                reason::NO_ROUTERS,
                "no router pod is ready: check the Deployment of the routers and its pods",
            ),
        ),
        Judgement::Refused(why) => (
            DAMPING,
            Told::new(
                State::False,
                reason::REFUSED_BY_ROUTER,
                &format!("a router does not serve it: {why}"),
            ),
        ),
        Judgement::Behind(pods) => (DEADLINE, partially(pods, current)),
    };
    let due = Since::of(since, generation, now) + after;
    if now >= due {
        return (worse, None);
    }
    let kept = current.filter(|c| c.observed_generation == Some(generation));
    (kept.map_or_else(pending, Told::again), Some(due))
}

fn pending() -> Told {
    Told::new(
        State::Unknown,
        reason::PENDING,
        "the routers are taking it over",
    )
}

/// Names pods that are behind; the same ones as before while one of those still is.
fn partially(pods: &[String], current: Option<&Condition>) -> Told {
    let mut named: Vec<&str> = pods.iter().take(NAMED).map(String::as_str).collect();
    if pods.len() > NAMED {
        named.push("and others");
    }
    let fresh = format!(
        "some router pods do not serve this generation: check the logs of {}",
        named.join(", ")
    );
    let holds = |c: &&Condition| {
        let named = |pod: &String| c.message.split([' ', ',']).any(|word| word == pod);
        c.reason == reason::PARTIALLY_PROGRAMMED && pods.iter().any(named)
    };
    let message = current.filter(holds).map_or(fresh, |c| c.message.clone());
    Told::new(State::False, reason::PARTIALLY_PROGRAMMED, &message)
}

#[cfg(test)]
mod tests;
