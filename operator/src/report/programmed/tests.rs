use std::collections::BTreeMap;
use std::sync::Arc;

use crds::compile::Outcome;
use crds::report::{Refusal, Report};
use crds::snapshot::{Digest, Key, Origin, Route, Snapshot};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::report::history::{Forms, History};
use crate::stores::RouterReport;

const MS: Duration = Duration::from_millis(1);

fn origin(generation: i64) -> Origin {
    Origin {
        key: Key::new("ns", "r"),
        uid: "u".into(),
        generation,
        created: String::new(),
    }
}

fn verdict(generation: i64, served: Option<i64>) -> Verdict {
    let fine = Outcome {
        ok: true,
        reason: "Accepted",
        message: String::new(),
    };
    Verdict {
        kind: Kind::Route,
        origin: origin(generation),
        accepted: fine.clone(),
        resolved: fine,
        served,
        models: vec!["m".into()],
    }
}

/// Snapshots with the Route at each generation, and routers that report them.
#[derive(Default)]
struct World {
    history: History,
    ready: BTreeMap<String, Option<Arc<RouterReport>>>,
}

impl World {
    fn forms(generation: i64) -> (Digest, Arc<Forms>) {
        let route = Route {
            origin: origin(generation),
            rules: vec![],
        };
        let snapshot = Snapshot {
            routes: vec![route],
            ..Snapshot::empty()
        };
        (snapshot.seal().digest, Arc::new(Forms::of(&snapshot)))
    }

    fn wrote(mut self, generation: i64) -> Self {
        let (digest, forms) = Self::forms(generation);
        self.history.record(&digest, &forms);
        self
    }

    fn pod(mut self, name: &str, generation: i64, refusals: Vec<Refusal>) -> Self {
        let report = Report {
            digest: Self::forms(generation).0,
            refusals,
            ..Report::default()
        };
        let report = Some(Arc::new(RouterReport(report)));
        self.ready.insert(name.to_owned(), report);
        self
    }

    fn serves(self, name: &str, generation: i64) -> Self {
        self.pod(name, generation, vec![])
    }

    fn silent(mut self, name: &str) -> Self {
        self.ready.insert(name.to_owned(), None);
        self
    }

    fn judge(self, verdict: &Verdict) -> Judgement {
        let served = verdict.served.map(|g| Self::forms(g).1);
        let form = served.and_then(|forms| forms.get("u"));
        judge(verdict, form, &Routers::new(self.ready, &self.history))
    }
}

fn behind(pods: &[&str]) -> Judgement {
    Judgement::Behind(pods.iter().map(ToString::to_string).collect())
}

#[test]
fn it_is_served_when_every_ready_router_has_it() {
    let world = World::default().wrote(1).serves("a", 1).serves("b", 1);
    assert_eq!(world.judge(&verdict(1, Some(1))), Judgement::Served);
}

#[test]
fn routers_with_an_older_snapshot_or_none_or_an_unknown_one_are_behind() {
    let world = World::default()
        .wrote(1)
        .wrote(2)
        .serves("new", 2)
        .serves("old", 1)
        .serves("unknown", 9)
        .silent("silent");
    assert_eq!(
        world.judge(&verdict(2, Some(2))),
        behind(&["old", "silent", "unknown"])
    );
}

#[test]
fn an_older_snapshot_that_holds_the_same_form_is_as_good() {
    let mut world = World::default().wrote(1).serves("a", 1);
    // Another object was added since.
    let newer = Snapshot {
        routes: vec![
            Route {
                origin: origin(1),
                rules: vec![],
            },
            Route {
                origin: Origin {
                    key: Key::new("ns", "z"),
                    uid: "z".into(),
                    ..origin(1)
                },
                rules: vec![],
            },
        ],
        ..Snapshot::empty()
    };
    let forms = Arc::new(Forms::of(&newer));
    world.history.record(&newer.seal().digest, &forms);
    assert_eq!(world.judge(&verdict(1, Some(1))), Judgement::Served);
}

#[test]
fn a_generation_that_is_not_in_the_snapshot_is_told_with_the_one_that_is() {
    let world = || World::default().wrote(1).serves("a", 1);
    let Judgement::NotAccepted(message) = world().judge(&verdict(2, Some(1))) else {
        panic!("it counts as served");
    };
    assert!(message.contains("generation 1"), "{message}");
    assert!(matches!(
        world().judge(&verdict(2, None)),
        Judgement::NotAccepted(_)
    ));
    let mut lost = verdict(1, Some(1));
    lost.accepted.ok = false;
    lost.models.clear();
    assert!(matches!(world().judge(&lost), Judgement::NotAccepted(_)));
}

#[test]
fn no_router_is_told_as_such() {
    let world = World::default().wrote(1);
    assert_eq!(world.judge(&verdict(1, Some(1))), Judgement::NoRouters);
}

fn refusal() -> Refusal {
    Refusal {
        kind: Kind::Route,
        key: Key::new("ns", "r"),
        reason: "Unsupported".into(),
        message: "upgrade the routers".into(),
    }
}

#[test]
fn a_refusal_counts_for_the_form_that_was_refused_only() {
    let world = || World::default().wrote(1).wrote(2).serves("a", 2);
    let refused = world().pod("b", 2, vec![refusal()]);
    assert_eq!(
        refused.judge(&verdict(2, Some(2))),
        Judgement::Refused("upgrade the routers (Unsupported)".into())
    );
    let old = world().pod("b", 1, vec![refusal()]);
    assert_eq!(old.judge(&verdict(2, Some(2))), behind(&["b"]));
}

fn condition(status: &str, reason: &str, message: &str, generation: i64) -> Condition {
    Condition {
        type_: "Programmed".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: Some(generation),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// One object's condition over time.
struct Story {
    start: Instant,
    since: Option<Since>,
    current: Option<Condition>,
}

impl Story {
    fn from(current: Option<Condition>) -> Self {
        Self {
            start: Instant::now(),
            since: None,
            current,
        }
    }

    fn programmed() -> Self {
        Self::from(Some(condition("True", reason::PROGRAMMED, "", 1)))
    }

    /// Status, reason and message after `at`, and how long until another look.
    fn at(
        &mut self,
        at: Duration,
        judgement: &Judgement,
        generation: i64,
    ) -> (State, String, Option<Duration>) {
        let now = self.start + at;
        let (told, again) = settle(
            judgement,
            generation,
            self.current.as_ref(),
            &mut self.since,
            now,
        );
        let said = (told.state, told.reason.clone(), again.map(|at| at - now));
        self.current = Some(condition(
            told.state.as_str(),
            &told.reason,
            &told.message,
            generation,
        ));
        said
    }

    fn message(&self) -> &str {
        self.current.as_ref().map_or("", |c| &c.message)
    }
}

#[test]
fn good_news_is_told_at_once() {
    let mut story = Story::from(None);
    let (state, reason, again) = story.at(Duration::ZERO, &Judgement::Served, 1);
    assert_eq!((state, reason.as_str()), (State::True, reason::PROGRAMMED));
    assert_eq!(again, None);
}

#[test]
fn a_router_that_comes_and_goes_within_a_second_changes_nothing() {
    let mut story = Story::programmed();
    let (state, _, again) = story.at(Duration::ZERO, &Judgement::NoRouters, 1);
    assert_eq!((state, again), (State::True, Some(DAMPING)));
    assert_eq!(story.at(900 * MS, &Judgement::NoRouters, 1).0, State::True);
    assert_eq!(story.at(950 * MS, &Judgement::Served, 1).0, State::True);
    assert_eq!(story.at(1100 * MS, &Judgement::NoRouters, 1).0, State::True);
    let (state, reason, _) = story.at(2100 * MS, &Judgement::NoRouters, 1);
    assert_eq!((state, reason.as_str()), (State::False, reason::NO_ROUTERS));
    assert!(story.message().contains("check the Deployment"));
}

#[test]
fn a_new_generation_is_pending_until_the_deadline_and_then_names_the_pods() {
    let mut story = Story::programmed();
    let late = behind(&["a", "b", "c", "d"]);
    let (state, reason, again) = story.at(Duration::ZERO, &late, 2);
    assert_eq!((state, reason.as_str()), (State::Unknown, reason::PENDING));
    assert_eq!(again, Some(DEADLINE));
    assert_eq!(story.at(9999 * MS, &late, 2).0, State::Unknown);
    let (state, reason, _) = story.at(10_000 * MS, &late, 2);
    assert_eq!(
        (state, reason.as_str()),
        (State::False, reason::PARTIALLY_PROGRAMMED)
    );
    assert!(
        story.message().ends_with("a, b, c, and others"),
        "{}",
        story.message()
    );
    assert_eq!(story.at(10_001 * MS, &Judgement::Served, 2).0, State::True);
}

#[test]
fn a_generation_that_was_programmed_stays_so_while_routers_take_over_what_it_refers_to() {
    let mut story = Story::programmed();
    assert_eq!(story.at(Duration::ZERO, &behind(&["a"]), 1).0, State::True);
    assert_eq!(story.at(9000 * MS, &behind(&["a"]), 1).0, State::True);
    assert_eq!(story.at(10_000 * MS, &behind(&["a"]), 1).0, State::False);
}

#[test]
fn the_message_stays_while_a_pod_that_it_names_is_still_behind() {
    let mut story = Story::from(None);
    story.at(Duration::ZERO, &behind(&["a", "b"]), 1);
    story.at(10_000 * MS, &behind(&["a", "b"]), 1);
    let first = story.message().to_owned();
    story.at(11_000 * MS, &behind(&["b", "c"]), 1);
    assert_eq!(story.message(), first);
    story.at(12_000 * MS, &behind(&["c"]), 1);
    assert!(
        story.message().ends_with("logs of c"),
        "{}",
        story.message()
    );
}

#[test]
fn an_edit_starts_the_clock_again() {
    let mut story = Story::programmed();
    story.at(Duration::ZERO, &behind(&["a"]), 2);
    let (state, _, again) = story.at(9000 * MS, &behind(&["a"]), 3);
    assert_eq!((state, again), (State::Unknown, Some(DEADLINE)));
}

#[test]
fn what_is_not_accepted_is_told_at_once() {
    let mut story = Story::programmed();
    let not = Judgement::NotAccepted("generation 1 is served instead".into());
    let (state, reason, _) = story.at(Duration::ZERO, &not, 2);
    assert_eq!(
        (state, reason.as_str()),
        (State::False, reason::NOT_ACCEPTED)
    );
}

#[test]
fn a_refusal_is_told_after_a_moment() {
    let mut story = Story::programmed();
    let refused = Judgement::Refused("upgrade the routers (Unsupported)".into());
    assert_eq!(story.at(Duration::ZERO, &refused, 2).0, State::Unknown);
    let (state, reason, _) = story.at(1000 * MS, &refused, 2);
    assert_eq!(
        (state, reason.as_str()),
        (State::False, reason::REFUSED_BY_ROUTER)
    );
    assert!(story.message().contains("upgrade the routers"));
}
