use crds::api::Port;
use crds::snapshot::{Origin, Provider, Service};

use super::*;
use crate::fleet::slices::{Entry, Family, State as EntryState};

fn provider(namespace: &str, name: &str, service: &str) -> Provider {
    Provider {
        origin: Origin {
            key: Key::new(namespace, name),
            uid: format!("{namespace}-{name}"),
            generation: 1,
            created: String::new(),
        },
        service: Service {
            name: service.into(),
            port: Port::Name("http".into()),
            slice_port: Some(ServicePort::Name("http".into())),
        },
        auth: None,
        models: vec![],
        refused: None,
    }
}

fn snapshot(providers: &[(&str, &str, &str)]) -> Snapshot {
    let providers = providers
        .iter()
        .map(|(ns, name, service)| provider(ns, name, service));
    Snapshot {
        providers: providers.collect(),
        ..Snapshot::empty()
    }
}

fn slice(name: &str, service: &str, last: &[u8]) -> Slice {
    let entry = |&last: &u8| Entry {
        address: [10, 0, 0, last].into(),
        pod: Some((format!("uid-{last}"), format!("pod-{last}"))),
        state: EntryState::Ready,
    };
    Slice {
        name: name.into(),
        service: service.into(),
        family: Family::Ip,
        ports: vec![("http".into(), 8000)],
        entries: last.iter().map(entry).collect(),
    }
}

fn roster(providers: &[(&str, &str, &str)]) -> Roster {
    let roster = Roster::new(Arc::new(Fleet::default()));
    roster.want(&snapshot(providers));
    roster
}

fn usable(roster: &Roster, namespace: &str, name: &str) -> Vec<String> {
    let pool = roster.fleet.pool(&Key::new(namespace, name));
    let members = pool.members();
    members.usable.iter().map(|e| e.name().to_owned()).collect()
}

#[test]
fn a_removed_slice_takes_only_its_own_endpoints() {
    let roster = roster(&[("ns", "p", "engines")]);
    let slices = vec![slice("a", "engines", &[1, 2]), slice("b", "engines", &[3])];
    roster.replace("ns", slices, Heard::Fresh);
    roster.remove("ns", "a");
    assert_eq!(usable(&roster, "ns", "p"), ["pod-3"]);
}

#[test]
fn a_whole_list_replaces_what_was_known() {
    let roster = roster(&[("ns", "p", "engines")]);
    roster.replace("ns", vec![slice("a", "engines", &[1, 2])], Heard::Stale);
    roster.replace("ns", vec![slice("b", "engines", &[2])], Heard::Fresh);
    assert_eq!(usable(&roster, "ns", "p"), ["pod-2"]);
}

#[test]
fn slices_of_other_services_and_namespaces_do_not_count() {
    let roster = roster(&[("ns", "p", "engines"), ("other", "p", "engines")]);
    let slices = vec![slice("a", "engines", &[1]), slice("b", "database", &[2])];
    roster.replace("ns", slices, Heard::Fresh);
    assert_eq!(usable(&roster, "ns", "p"), ["pod-1"]);
    assert!(usable(&roster, "other", "p").is_empty());
}

#[test]
fn a_provider_that_comes_later_has_its_endpoints_at_once() {
    let roster = roster(&[("ns", "p", "engines")]);
    roster.replace("ns", vec![slice("a", "more", &[7])], Heard::Fresh);
    roster.want(&snapshot(&[("ns", "p", "engines"), ("ns", "q", "more")]));
    assert_eq!(usable(&roster, "ns", "q"), ["pod-7"]);
}

#[test]
fn an_endpoint_keeps_its_state_over_lists_updates_and_snapshots() {
    let roster = roster(&[("ns", "p", "engines")]);
    roster.replace("ns", vec![slice("a", "engines", &[1])], Heard::Fresh);
    let pool = roster.fleet.pool(&Key::new("ns", "p"));
    let _guard = pool.members().usable[0].enter();
    roster.apply("ns", slice("a", "engines", &[1, 2]));
    roster.want(&snapshot(&[("ns", "p", "engines"), ("ns", "q", "more")]));
    roster.replace("ns", vec![slice("b", "engines", &[1])], Heard::Fresh);
    assert_eq!(pool.members().usable[0].in_flight(), 1);
}

#[test]
fn a_slice_that_moves_to_another_service_leaves_the_first() {
    let roster = roster(&[("ns", "p", "engines"), ("ns", "q", "more")]);
    roster.replace("ns", vec![slice("a", "engines", &[1])], Heard::Fresh);
    roster.apply("ns", slice("a", "more", &[1]));
    assert!(usable(&roster, "ns", "p").is_empty());
    assert_eq!(usable(&roster, "ns", "q"), ["pod-1"]);
}

#[test]
fn every_namespace_in_use_is_missing_until_something_is_heard_of_it() {
    let roster = roster(&[("a", "p", "s"), ("b", "p", "s"), ("c", "p", "s")]);
    assert_eq!(roster.missing(), ["a", "b", "c"]);
    roster.replace("a", vec![], Heard::Fresh);
    roster.replace("b", vec![], Heard::Stale);
    roster.deny("c", "forbidden".into());
    assert!(roster.missing().is_empty());
    assert_eq!(
        roster.denied(),
        [(Key::new("c", "p"), "forbidden".to_owned())]
    );
    roster.want(&snapshot(&[("d", "p", "s")]));
    assert_eq!(roster.missing(), ["d"]);
}

#[test]
fn a_denial_does_not_take_what_is_known() {
    let roster = roster(&[("ns", "p", "engines")]);
    roster.replace("ns", vec![slice("a", "engines", &[1])], Heard::Fresh);
    roster.deny("ns", "forbidden".into());
    assert_eq!(usable(&roster, "ns", "p"), ["pod-1"]);
    assert!(roster.denied().is_empty());
}

#[test]
fn only_changes_wake_those_who_wait() {
    let roster = roster(&[("ns", "p", "engines")]);
    roster.replace("ns", vec![slice("a", "engines", &[1])], Heard::Fresh);
    let mut changes = roster.changes();
    roster.apply("ns", slice("a", "engines", &[1]));
    roster.replace("ns", vec![slice("b", "engines", &[1])], Heard::Fresh);
    assert!(!changes.has_changed().unwrap());
    roster.apply("ns", slice("b", "engines", &[1, 2]));
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    roster.replace("ns", roster.slices().remove("ns").unwrap(), Heard::Stale);
    assert!(
        changes.has_changed().unwrap(),
        "how it is known has changed"
    );
}

#[test]
fn the_copy_holds_only_slices_that_pools_are_made_from() {
    let roster = roster(&[("ns", "p", "engines")]);
    let slices = vec![slice("a", "engines", &[1]), slice("b", "database", &[2])];
    roster.replace("ns", slices, Heard::Fresh);
    assert_eq!(roster.slices()["ns"], [slice("a", "engines", &[1])]);
}
