//! What the status of one object says. Pure: the moment is passed in.

use std::time::Duration;

use crds::api::EndpointCounts;
use crds::api::condition::{ACCEPTED, PROGRAMMED, READY, RESOLVED_REFS};
use crds::compile::{Outcome, Verdict};
use crds::snapshot::Key;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use tokio::time::Instant;

use super::programmed::{DAMPING, Judgement, Since, settle};
use super::routers::Seen;
use super::{State, Told, reason};
use crate::stores::Status;

/// How often counts that go up and down are written.
const COUNTS_EVERY: Duration = Duration::from_secs(5);
/// A status that would say only that routers are taking an edit over waits this long, since they
/// mostly have it by then.
const HOLD: Duration = Duration::from_millis(250);
const MOST_MODELS: usize = 64;
const MOST_MODEL_CHARS: usize = 253;
const MOST_ENGINE_CHARS: usize = 63;
const MOST_MESSAGE_CHARS: usize = 1024;
const MOST_CONDITIONS: usize = 8;

/// What is known of one object at this moment.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) judgement: Judgement,
    pub(crate) part: Part,
}

/// What only this kind's status depends on.
#[derive(Debug)]
pub(crate) enum Part {
    /// What routers saw of it; none when they had no room to say.
    Provider(Option<Seen>),
    /// The first Provider with a share of the requests and no ready endpoint.
    Route { without_endpoints: Option<Key> },
}

/// What is remembered of one object between looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    programmed: Option<Since>,
    unready: Option<Since>,
    counted: Option<Instant>,
}

/// Now, for deadlines and for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    pub(crate) time: Timestamp,
}

/// What is to be written, and when to look again although nothing has happened.
#[derive(Debug)]
pub(crate) struct Decision {
    /// None while it is too early to say.
    pub(crate) status: Option<Status>,
    pub(crate) look_again: Option<Instant>,
}

/// Decides the status of one object that now has the status `current`.
pub(crate) fn decide(
    facts: &Facts<'_>,
    current: &Status,
    memory: &mut Memory,
    moment: Moment,
) -> Decision {
    let verdict = facts.verdict;
    let generation = verdict.origin.generation;
    let now = moment.now;
    let accepted = outcome(&verdict.accepted);
    let resolved = outcome(&verdict.resolved);
    let (programmed, programmed_again) = settle(
        &facts.judgement,
        generation,
        current.condition(PROGRAMMED),
        &mut memory.programmed,
        now,
    );
    let is_good = accepted.state == State::True && resolved.state == State::True;
    if is_good && programmed.reason == reason::PENDING && !is_told(current, generation) {
        let until = Since::of(&mut memory.programmed, generation, now) + HOLD;
        if now < until {
            return Decision {
                status: None,
                look_again: Some(until),
            };
        }
    }
    let ready = ready(&[&accepted, &resolved, &programmed], &facts.part);
    // What users broke is told at once; what comes and goes by itself has to last.
    let (ready, ready_again) = if is_good {
        dampen(ready, generation, current, memory, now)
    } else {
        (ready, None)
    };

    let mut status = Status {
        conditions: Vec::with_capacity(4),
        models: models(facts),
        ..Status::default()
    };
    for (type_, told) in [
        (ACCEPTED, accepted),
        (RESOLVED_REFS, resolved),
        (PROGRAMMED, programmed),
        (READY, ready),
    ] {
        let condition = condition(type_, told, generation, current, moment.time);
        status.conditions.push(condition);
    }
    keep_foreign(&mut status, current);
    let counts_again = counts(facts, current, memory, &mut status, now);
    let look_again = [programmed_again, ready_again, counts_again];
    Decision {
        status: Some(status),
        look_again: look_again.into_iter().flatten().min(),
    }
}

/// Whether the status speaks of this generation already.
fn is_told(current: &Status, generation: i64) -> bool {
    let accepted = current.condition(ACCEPTED);
    accepted.is_some_and(|c| c.observed_generation == Some(generation))
}

fn outcome(outcome: &Outcome) -> Told {
    let state = if outcome.ok {
        State::True
    } else {
        State::False
    };
    Told::new(state, outcome.reason, &outcome.message)
}

/// The first thing that stands in the way, else what the kind needs besides.
fn ready(before: &[&Told; 3], part: &Part) -> Told {
    if let Some(first) = before.iter().find(|told| told.state != State::True) {
        return (*first).clone();
    }
    match part {
        Part::Provider(None) => Told::new(
            State::Unknown,
            reason::NOT_OBSERVED,
            "the routers have more Providers than their reports hold: see their metrics",
        ),
        Part::Provider(Some(seen)) if seen.ready == 0 => Told::new(
            State::False,
            reason::NO_ENDPOINTS,
            "no endpoint is ready: check the pods that the Service selects",
        ),
        Part::Route {
            without_endpoints: Some(provider),
        } => Told::new(
            State::False,
            reason::NO_ENDPOINTS,
            &format!("Provider {provider} has no ready endpoint: see its condition Ready"),
        ),
        Part::Provider(Some(_)) | Part::Route { .. } => Told::new(State::True, reason::READY, ""),
    }
}

/// An object that was ready stays so for a moment.
fn dampen(
    told: Told,
    generation: i64,
    current: &Status,
    memory: &mut Memory,
    now: Instant,
) -> (Told, Option<Instant>) {
    if told.state == State::True {
        memory.unready = None;
        return (told, None);
    }
    let was_ready = |c: &&Condition| {
        c.status == State::True.as_str() && c.observed_generation == Some(generation)
    };
    let Some(current) = current.condition(READY).filter(was_ready) else {
        return (told, None);
    };
    let due = Since::of(&mut memory.unready, generation, now) + DAMPING;
    if now >= due {
        (told, None)
    } else {
        (Told::again(current), Some(due))
    }
}

/// A condition whose transition time moves only when its status does.
fn condition(
    type_: &str,
    told: Told,
    generation: i64,
    current: &Status,
    time: Timestamp,
) -> Condition {
    let status = told.state.as_str();
    let before = current.condition(type_).filter(|c| c.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: told.reason,
        message: shortened(&told.message, MOST_MESSAGE_CHARS),
        observed_generation: Some(generation),
        last_transition_time: before.map_or_else(
            || Time(whole_seconds(time)),
            |c| c.last_transition_time.clone(),
        ),
    }
}

/// The API server stores no fractions: with them, what was written would never equal what is read.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Conditions of other writers stay.
fn keep_foreign(status: &mut Status, current: &Status) {
    let ours = |c: &&Condition| ![ACCEPTED, RESOLVED_REFS, PROGRAMMED, READY].contains(&&*c.type_);
    let room = MOST_CONDITIONS.saturating_sub(status.conditions.len());
    let foreign = current.conditions.iter().filter(ours).take(room);
    status.conditions.extend(foreign.cloned());
}

fn models(facts: &Facts<'_>) -> Vec<String> {
    let models = match &facts.part {
        Part::Provider(seen) => seen.as_ref().map_or(&[][..], |seen| &seen.models),
        Part::Route { .. } => &facts.verdict.models,
    };
    let short = |model: &String| shortened(model, MOST_MODEL_CHARS);
    models.iter().take(MOST_MODELS).map(short).collect()
}

/// What routers saw of a Provider. Counts that move while neither is 0 are written now and then.
fn counts(
    facts: &Facts<'_>,
    current: &Status,
    memory: &mut Memory,
    status: &mut Status,
    now: Instant,
) -> Option<Instant> {
    let Part::Provider(seen) = &facts.part else {
        return None;
    };
    let Some(seen) = seen else {
        status.engine.clone_from(&current.engine);
        status.endpoints = current.endpoints;
        status.models.clone_from(&current.models);
        return None;
    };
    status.engine = seen
        .engine
        .as_ref()
        .map(|engine| shortened(engine, MOST_ENGINE_CHARS));
    let fresh = EndpointCounts {
        ready: count(seen.ready),
        total: count(seen.total),
    };
    status.endpoints = Some(fresh);
    let before = current.endpoints.filter(|before| *before != fresh)?;
    let flips = (before.ready == 0) != (fresh.ready == 0);
    let due = memory.counted.map(|at| at + COUNTS_EVERY);
    match due {
        Some(due) if !flips && now < due => {
            status.endpoints = Some(before);
            Some(due)
        }
        _ => {
            memory.counted = Some(now);
            None
        }
    }
}

fn count(count: u32) -> i32 {
    i32::try_from(count.min(100_000)).unwrap_or_default()
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(most.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

#[cfg(test)]
mod tests;
