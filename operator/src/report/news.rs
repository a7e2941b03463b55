//! Which changes of a status are worth an Event. Pure.

use crds::api::condition::{ACCEPTED, PROGRAMMED, READY, RESOLVED_REFS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

use super::reason;
use crate::stores::Status;

/// The most that an Event's note may hold is 1 kB; characters may be several bytes.
const MOST_NOTE_BYTES: usize = 1000;

/// The Events of a change: a warning for each reason that is new, and good news only after bad.
pub(crate) fn news(before: &Status, after: &Status) -> Vec<Event> {
    let mut told: Vec<&str> = Vec::new();
    let mut news = Vec::new();
    for type_ in [ACCEPTED, RESOLVED_REFS, PROGRAMMED, READY] {
        let Some(condition) = after.condition(type_) else {
            continue;
        };
        let old = before.condition(type_);
        let Some(kind) = kind(old, condition) else {
            continue;
        };
        // One cause shows in several conditions.
        if !told.contains(&condition.reason.as_str()) {
            told.push(&condition.reason);
            news.push(event(kind, condition));
        }
    }
    news
}

fn kind(old: Option<&Condition>, new: &Condition) -> Option<EventType> {
    let was_false = old.is_some_and(|c| c.status == "False");
    match new.status.as_str() {
        "False" => {
            let is_new = !was_false || old.is_some_and(|c| c.reason != new.reason);
            // It would repeat what Accepted says.
            let is_echo = new.reason == reason::NOT_ACCEPTED;
            (is_new && !is_echo).then_some(EventType::Warning)
        }
        "True" if was_false && [ACCEPTED, READY].contains(&new.type_.as_str()) => {
            Some(EventType::Normal)
        }
        _ => None,
    }
}

fn event(type_: EventType, condition: &Condition) -> Event {
    let note = match (type_, condition.message.as_str()) {
        (EventType::Normal, "") => format!("{} is True again", condition.type_),
        (_, message) => message.to_owned(),
    };
    Event {
        type_,
        reason: condition.reason.clone(),
        note: Some(within(note)),
        action: "Report".to_owned(),
        secondary: None,
    }
}

fn within(mut note: String) -> String {
    while note.len() > MOST_NOTE_BYTES {
        note.pop();
    }
    note
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn status(conditions: &[(&str, &str, &str)]) -> Status {
        let condition = |&(type_, status, reason): &(&str, &str, &str)| Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "what to do".to_owned(),
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        Status {
            conditions: conditions.iter().map(condition).collect(),
            ..Status::default()
        }
    }

    fn reasons(before: &Status, after: &Status) -> Vec<(EventType, String)> {
        let events = news(before, after);
        events.into_iter().map(|e| (e.type_, e.reason)).collect()
    }

    #[test]
    fn a_new_object_that_is_fine_is_no_news() {
        let fine = status(&[(ACCEPTED, "True", "Accepted"), (READY, "True", "Ready")]);
        assert!(reasons(&Status::default(), &fine).is_empty());
    }

    #[test]
    fn one_cause_is_one_warning() {
        let bad = status(&[
            (ACCEPTED, "False", "Invalid"),
            (RESOLVED_REFS, "False", "Invalid"),
            (PROGRAMMED, "False", reason::NOT_ACCEPTED),
            (READY, "False", "Invalid"),
        ]);
        let wanted = [(EventType::Warning, "Invalid".to_owned())];
        assert_eq!(reasons(&Status::default(), &bad), wanted);
        assert!(reasons(&bad, &bad).is_empty());
    }

    #[test]
    fn good_news_is_told_after_bad() {
        let bad = status(&[(READY, "False", "NoEndpoints")]);
        let good = status(&[(READY, "True", "Ready")]);
        assert_eq!(
            reasons(&bad, &good),
            [(EventType::Normal, "Ready".to_owned())]
        );
    }

    #[test]
    fn waiting_is_no_news() {
        let good = status(&[(PROGRAMMED, "True", "Programmed")]);
        let waiting = status(&[(PROGRAMMED, "Unknown", reason::PENDING)]);
        assert!(reasons(&good, &waiting).is_empty());
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = within("ö".repeat(2000));
        assert!(note.len() <= MOST_NOTE_BYTES && note.chars().all(|c| c == 'ö'));
    }
}
