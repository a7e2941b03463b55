use crds::compile::reason as compiled;
use crds::snapshot::{Kind, Origin};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn outcome_of(ok: bool, reason: &'static str) -> Outcome {
    let message = if ok { "" } else { "what to do" }.to_owned();
    Outcome {
        ok,
        reason,
        message,
    }
}

fn verdict(kind: Kind, generation: i64) -> Verdict {
    let origin = Origin {
        key: Key::new("ns", "name"),
        uid: "u".into(),
        generation,
        created: String::new(),
    };
    Verdict {
        kind,
        origin,
        accepted: outcome_of(true, compiled::ACCEPTED),
        resolved: outcome_of(true, compiled::RESOLVED),
        served: Some(generation),
        models: vec!["m".into()],
    }
}

fn seen(ready: u32, total: u32) -> Part {
    Part::Provider(Some(Seen {
        ready,
        total,
        engine: Some("vllm".into()),
        models: vec!["m".into()],
    }))
}

fn route(without_endpoints: Option<&str>) -> Part {
    let without_endpoints = without_endpoints.map(|name| Key::new("ns", name));
    Part::Route { without_endpoints }
}

/// One object over time.
struct Story {
    start: Instant,
    verdict: Verdict,
    judgement: Judgement,
    part: Part,
    status: Status,
    memory: Memory,
    writes: usize,
}

impl Story {
    fn new(kind: Kind, part: Part) -> Self {
        Self {
            start: Instant::now(),
            verdict: verdict(kind, 1),
            judgement: Judgement::Served,
            part,
            status: Status::default(),
            memory: Memory::default(),
            writes: 0,
        }
    }

    /// Decides at this moment and writes if there is something to write.
    fn at(&mut self, at: Duration) -> &mut Self {
        let moment = Moment {
            now: self.start + at,
            time: Timestamp::UNIX_EPOCH + jiff::SignedDuration::try_from(at).unwrap(),
        };
        let facts = Facts {
            verdict: &self.verdict,
            judgement: self.judgement.clone(),
            part: std::mem::replace(&mut self.part, Part::Provider(None)),
        };
        let decision = decide(&facts, &self.status, &mut self.memory, moment);
        self.part = facts.part;
        if let Some(status) = decision.status.filter(|status| *status != self.status) {
            self.status = status;
            self.writes += 1;
        }
        self
    }

    fn told(&self, type_: &str) -> (&str, &str) {
        let condition = self.status.condition(type_).unwrap();
        (&condition.status, &condition.reason)
    }
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    for mut story in [
        Story::new(Kind::Provider, seen(1, 1)),
        Story::new(Kind::Route, route(None)),
        Story::new(Kind::Route, route(Some("p"))),
    ] {
        for seconds in 0..300 {
            story.at(1000 * MS * seconds);
        }
        assert_eq!(story.writes, 1);
    }
}

#[test]
fn a_permanently_bad_object_is_written_once() {
    let mut story = Story::new(Kind::Route, route(Some("p")));
    story.verdict.accepted = outcome_of(false, compiled::INVALID);
    story.judgement = Judgement::NotAccepted("nothing is served".into());
    for seconds in 0..300 {
        story.at(1000 * MS * seconds);
    }
    assert_eq!(story.writes, 1);
    assert_eq!(story.told(READY), ("False", compiled::INVALID));
}

#[test]
fn every_condition_observes_the_generation_and_keeps_its_time_unless_it_flips() {
    let mut story = Story::new(Kind::Route, route(None));
    story.at(Duration::ZERO);
    let first = story.status.clone();
    story.verdict = verdict(Kind::Route, 2);
    story.at(5000 * MS);
    assert_eq!(story.writes, 2);
    for (before, after) in first.conditions.iter().zip(&story.status.conditions) {
        assert_eq!(after.observed_generation, Some(2), "{}", after.type_);
        assert_eq!(before.last_transition_time, after.last_transition_time);
    }
    story.verdict.resolved = outcome_of(false, compiled::PROVIDER_NOT_FOUND);
    story.at(7000 * MS);
    let moved = |c: &&Condition| c.last_transition_time != first.conditions[0].last_transition_time;
    let moved: Vec<_> = story.status.conditions.iter().filter(moved).collect();
    let moved: Vec<&str> = moved.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(moved, [RESOLVED_REFS, READY]);
}

#[test]
fn the_first_thing_in_the_way_is_the_reason_for_not_being_ready() {
    type Break = fn(&mut Story);
    let table: [(&str, Break); 4] = [
        (compiled::INVALID, |s| {
            s.verdict.accepted = outcome_of(false, compiled::INVALID);
            s.verdict.resolved = outcome_of(false, compiled::SECRET_NOT_FOUND);
        }),
        (compiled::SECRET_NOT_FOUND, |s| {
            s.verdict.resolved = outcome_of(false, compiled::SECRET_NOT_FOUND);
        }),
        (reason::NOT_ACCEPTED, |s| {
            s.judgement = Judgement::NotAccepted("m".into());
        }),
        (reason::NO_ENDPOINTS, |s| s.part = seen(0, 2)),
    ];
    for (wanted, break_it) in table {
        let mut story = Story::new(Kind::Provider, seen(1, 1));
        break_it(&mut story);
        story.at(Duration::ZERO);
        assert_eq!(story.told(READY), ("False", wanted));
    }
}

#[test]
fn a_route_is_ready_only_when_every_provider_it_draws_has_an_endpoint() {
    let mut story = Story::new(Kind::Route, route(Some("empty")));
    story.at(Duration::ZERO);
    assert_eq!(story.told(READY), ("False", reason::NO_ENDPOINTS));
    let message = &story.status.condition(READY).unwrap().message;
    assert!(message.contains("ns/empty"), "{message}");
    story.part = route(None);
    story.at(MS);
    assert_eq!(story.told(READY), ("True", reason::READY));
}

#[test]
fn losing_the_last_endpoint_for_a_moment_is_not_told() {
    let mut story = Story::new(Kind::Route, route(None));
    story.at(Duration::ZERO);
    story.part = route(Some("p"));
    story.at(100 * MS).at(900 * MS);
    assert_eq!(story.told(READY).0, "True");
    story.at(1200 * MS);
    assert_eq!(story.told(READY).0, "False");
}

#[test]
fn an_edit_that_routers_take_over_quickly_is_one_write() {
    let mut story = Story::new(Kind::Route, route(None));
    story.at(Duration::ZERO);
    story.verdict = verdict(Kind::Route, 2);
    story.judgement = Judgement::Behind(vec!["a".into()]);
    story.at(1000 * MS).at(1100 * MS);
    assert_eq!(story.writes, 1);
    story.judgement = Judgement::Served;
    story.at(1150 * MS);
    assert_eq!(story.writes, 2);
    assert_eq!(story.told(PROGRAMMED).0, "True");
}

#[test]
fn an_edit_that_takes_longer_is_pending_in_the_meantime() {
    let mut story = Story::new(Kind::Route, route(None));
    story.at(Duration::ZERO);
    story.verdict = verdict(Kind::Route, 2);
    story.judgement = Judgement::Behind(vec!["a".into()]);
    story.at(1000 * MS).at(1250 * MS);
    assert_eq!(story.told(PROGRAMMED), ("Unknown", reason::PENDING));
    assert_eq!(story.told(READY), ("Unknown", reason::PENDING));
    story.at(11_000 * MS);
    assert_eq!(
        story.told(PROGRAMMED),
        ("False", reason::PARTIALLY_PROGRAMMED)
    );
}

#[test]
fn an_edit_that_is_refused_is_told_at_once() {
    let mut story = Story::new(Kind::Route, route(None));
    story.at(Duration::ZERO);
    story.verdict = verdict(Kind::Route, 2);
    story.verdict.accepted = outcome_of(false, compiled::INVALID);
    story.judgement = Judgement::NotAccepted("generation 1 is served instead".into());
    story.at(MS);
    assert_eq!(story.told(ACCEPTED), ("False", compiled::INVALID));
    assert_eq!(story.told(PROGRAMMED), ("False", reason::NOT_ACCEPTED));
}

#[test]
fn endpoint_counts_are_written_now_and_then_but_zero_at_once() {
    let mut story = Story::new(Kind::Provider, seen(1, 1));
    story.at(Duration::ZERO);
    let mut at = Duration::ZERO;
    for count in 2..52 {
        at += 100 * MS;
        story.part = seen(count, count);
        story.at(at);
    }
    assert!(story.writes <= 3, "{} writes in 5 s", story.writes);
    story.at(at + COUNTS_EVERY);
    assert_eq!(story.status.endpoints.unwrap().ready, 51);
    story.part = seen(0, 51);
    story.at(at + COUNTS_EVERY + MS);
    assert_eq!(story.status.endpoints.unwrap().ready, 0);
}

#[test]
fn a_provider_that_reports_had_no_room_for_keeps_what_was_seen() {
    let mut story = Story::new(Kind::Provider, seen(2, 3));
    story.at(Duration::ZERO);
    story.part = Part::Provider(None);
    story.at(5000 * MS).at(6000 * MS);
    assert_eq!(story.told(READY), ("Unknown", reason::NOT_OBSERVED));
    assert_eq!(story.status.endpoints.unwrap().ready, 2);
    assert_eq!(story.status.engine.as_deref(), Some("vllm"));
}

#[test]
fn lists_and_texts_keep_to_their_bounds() {
    let part = Part::Provider(Some(Seen {
        ready: 1,
        total: u32::MAX,
        engine: Some("e".repeat(100)),
        models: vec!["ö".repeat(300); 100],
    }));
    let mut story = Story::new(Kind::Provider, part);
    story.verdict.accepted = Outcome {
        ok: false,
        reason: compiled::UNREADABLE,
        message: "x".repeat(5000),
    };
    story.at(Duration::ZERO);
    let status = &story.status;
    assert_eq!(status.models.len(), MOST_MODELS);
    assert!(
        status
            .models
            .iter()
            .all(|m| m.chars().count() <= MOST_MODEL_CHARS)
    );
    assert_eq!(status.engine.as_ref().unwrap().len(), MOST_ENGINE_CHARS + 2);
    assert_eq!(status.endpoints.unwrap().total, 100_000);
    let message = &status.condition(ACCEPTED).unwrap().message;
    assert_eq!(message.chars().count(), MOST_MESSAGE_CHARS);
}

#[test]
fn conditions_of_others_stay() {
    let mut story = Story::new(Kind::Route, route(None));
    let foreign = Condition {
        type_: "example.com/Checked".into(),
        status: "True".into(),
        reason: "Checked".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    };
    story.status.conditions.push(foreign.clone());
    story.at(Duration::ZERO);
    assert_eq!(story.status.conditions.last(), Some(&foreign));
    story.at(1000 * MS);
    assert_eq!(story.writes, 1);
}
