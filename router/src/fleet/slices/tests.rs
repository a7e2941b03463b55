use std::collections::BTreeSet;

use crds::snapshot::ServicePort;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fleet::Members;

fn slice(json: serde_json::Value) -> Slice {
    Slice::read(&serde_json::from_value(json).unwrap())
}

/// An IPv4 slice `name` of Service `engines`, port `http` 8000, with these endpoints.
fn v4(name: &str, endpoints: &serde_json::Value) -> Slice {
    slice(json!({
        "metadata": {"name": name, "labels": {SERVICE_NAME: "engines"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": endpoints,
    }))
}

fn v6(name: &str, endpoints: &serde_json::Value) -> Slice {
    slice(json!({
        "metadata": {"name": name, "labels": {SERVICE_NAME: "engines"}},
        "addressType": "IPv6",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": endpoints,
    }))
}

fn pod(uid: &str, address: &str, conditions: &serde_json::Value) -> serde_json::Value {
    json!({
        "addresses": [address],
        "conditions": conditions,
        "targetRef": {"kind": "Pod", "name": format!("pod-{uid}"), "uid": uid},
    })
}

fn http() -> ServicePort {
    ServicePort::Name("http".into())
}

fn members<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Members {
    merge(slices, &http()).members
}

/// Usable and unusable addresses.
fn shown(members: &Members) -> (Vec<String>, Vec<String>) {
    let of = |side: &[std::sync::Arc<crate::fleet::Endpoint>]| {
        side.iter().map(|e| e.address().to_string()).collect()
    };
    (of(&members.usable), of(&members.unusable))
}

#[test]
fn absent_conditions_mean_ready_unless_the_endpoint_terminates() {
    let table = [
        (json!(null), State::Ready),
        (json!({}), State::Ready),
        (json!({"ready": true}), State::Ready),
        (json!({"ready": false}), State::Unready),
        (json!({"serving": true}), State::Ready),
        (json!({"ready": false, "serving": true}), State::Unready),
        (json!({"terminating": false}), State::Ready),
        (json!({"terminating": true}), State::Unready),
        (
            json!({"terminating": true, "serving": true}),
            State::Draining,
        ),
        (
            json!({"terminating": true, "serving": false}),
            State::Unready,
        ),
        (
            json!({"ready": false, "serving": true, "terminating": true}),
            State::Draining,
        ),
        (
            json!({"ready": false, "serving": false, "terminating": true}),
            State::Unready,
        ),
        // publishNotReadyAddresses: ready is always true.
        (
            json!({"ready": true, "serving": true, "terminating": true}),
            State::Draining,
        ),
        (json!({"ready": true, "terminating": true}), State::Draining),
        (
            json!({"ready": true, "serving": false, "terminating": true}),
            State::Unready,
        ),
    ];
    for (conditions, state) in table {
        let slice = v4("s", &json!([pod("a", "10.0.0.5", &conditions)]));
        assert_eq!(slice.entries[0].state, state, "{conditions}");
    }
}

#[test]
fn a_terminating_endpoint_is_used_only_while_it_serves_and_nothing_else_is_left() {
    let draining = json!({"ready": false, "serving": true, "terminating": true});
    let old = pod("old", "10.0.0.1", &draining);
    let new = pod("new", "10.0.0.2", &json!({"ready": true}));
    let starting = pod("new", "10.0.0.2", &json!({"ready": false}));
    let beside_ready = members(&[v4("s", &json!([old, new]))]);
    assert_eq!(
        shown(&beside_ready),
        (vec!["10.0.0.2:8000".into()], vec!["10.0.0.1:8000".into()])
    );
    let beside_starting = members(&[v4("s", &json!([old, starting]))]);
    assert_eq!(
        shown(&beside_starting),
        (vec!["10.0.0.1:8000".into()], vec!["10.0.0.2:8000".into()])
    );
    let gone = pod(
        "old",
        "10.0.0.1",
        &json!({"serving": false, "terminating": true}),
    );
    assert!(members(&[v4("s", &json!([gone]))]).usable.is_empty());
}

#[test]
fn three_slices_of_one_service_are_one_pool_and_each_removal_takes_its_own() {
    let of = |name: &str, third: u8, count: usize| {
        let pods: Vec<_> = (0..count)
            .map(|i| {
                pod(
                    &format!("{third}-{i}"),
                    &format!("10.0.{third}.{i}"),
                    &json!({}),
                )
            })
            .collect();
        v4(name, &json!(pods))
    };
    let (a, b, c) = (of("a", 1, 100), of("b", 2, 100), of("c", 3, 5));
    assert_eq!(members([&a, &b, &c]).usable.len(), 205);
    let left = members([&a, &c]).usable;
    assert_eq!(left.len(), 105);
    assert!(
        left.iter()
            .all(|e| !e.address().to_string().starts_with("10.0.2."))
    );
}

#[test]
fn one_address_with_two_readiness_values_is_one_endpoint_that_serves() {
    let ready = |address| json!({"addresses": [address], "conditions": {"ready": true}});
    let not = |address| json!({"addresses": [address], "conditions": {"ready": false}});
    let across = [
        v4("a", &json!([ready("10.0.0.5")])),
        v4("b", &json!([not("10.0.0.5")])),
    ];
    let within = [v4("a", &json!([not("10.0.0.5"), ready("10.0.0.5")]))];
    for slices in [&across[..], &within[..]] {
        for order in [
            slices.iter().collect::<Vec<_>>(),
            slices.iter().rev().collect(),
        ] {
            let members = members(order);
            assert_eq!(shown(&members), (vec!["10.0.0.5:8000".into()], vec![]));
        }
    }
}

#[test]
fn a_pod_is_one_endpoint_also_where_another_slice_has_its_bare_address() {
    let bare = v4(
        "a",
        &json!([{"addresses": ["10.0.0.5"], "conditions": {"ready": true}}]),
    );
    let backed = v4(
        "b",
        &json!([pod("uid", "10.0.0.5", &json!({"ready": false}))]),
    );
    let members = members([&bare, &backed]);
    assert_eq!(members.usable.len() + members.unusable.len(), 1);
    assert_eq!(members.usable[0].id().owner, "uid");
}

#[test]
fn a_new_pod_at_the_address_of_one_that_is_going_has_it() {
    let old = pod(
        "a-old",
        "10.0.0.5",
        &json!({"serving": false, "terminating": true}),
    );
    let new = pod("b-new", "10.0.0.5", &json!({"ready": true}));
    let members = members(&[v4("s", &json!([old, new]))]);
    assert_eq!(members.iter().count(), 1);
    assert_eq!(members.usable[0].id().owner, "b-new");
}

#[test]
fn updates_of_a_dual_stack_pods_two_slices_do_not_move_it() {
    let ready = json!({"ready": true});
    let mut seen = BTreeSet::new();
    for turn in 0..20 {
        // The two slices tell of a change one after the other.
        let stale = json!({"ready": turn % 2 == 0});
        let (four, six) = if turn % 4 < 2 {
            (&ready, &stale)
        } else {
            (&stale, &ready)
        };
        let a = v4("a", &json!([pod("uid", "10.0.0.5", four)]));
        let b = v6("b", &json!([pod("uid", "fd00::5", six)]));
        let order = if turn % 2 == 0 { [&a, &b] } else { [&b, &a] };
        seen.insert(shown(&members(order)));
    }
    assert_eq!(
        seen,
        BTreeSet::from([(vec!["10.0.0.5:8000".to_owned()], vec![])])
    );
}

#[test]
fn an_ipv6_pod_is_reached_at_its_own_address() {
    let six = v6("b", &json!([pod("uid", "fd00::5", &json!({}))]));
    assert_eq!(shown(&members([&six])).0, ["[fd00::5]:8000"]);
}

#[test]
fn a_pod_that_moves_is_only_at_its_new_address() {
    let at = |address| v4("s", &json!([pod("uid", address, &json!({}))]));
    let (before, after) = (members(&[at("10.0.0.5")]), members(&[at("10.0.0.9")]));
    assert_eq!(before.usable[0].id(), after.usable[0].id());
    assert_eq!(shown(&after), (vec!["10.0.0.9:8000".into()], vec![]));
}

#[test]
fn a_port_is_found_by_its_name_or_its_number() {
    let ports = |ports: serde_json::Value| {
        slice(json!({
            "metadata": {"name": "s", "labels": {SERVICE_NAME: "engines"}},
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [{"addresses": ["10.0.0.5"]}],
        }))
    };
    let named = ports(json!([{"name": "metrics", "port": 9000}, {"name": "http", "port": 8000}]));
    let unnamed = ports(json!([{"port": 7000}]));
    let empty = ports(json!([{"name": "", "port": 7000, "protocol": "TCP"}]));
    let udp = ports(json!([{"name": "http", "port": 53, "protocol": "UDP"}]));
    let all = ports(json!([{"name": "http"}]));
    let name = |name: &str| ServicePort::Name(name.into());
    let table = [
        (&named, name("http"), Some("10.0.0.5:8000")),
        (&named, name("metrics"), Some("10.0.0.5:9000")),
        (&named, name(""), None),
        (&named, ServicePort::Number(9000), Some("10.0.0.5:9000")),
        (&named, ServicePort::Number(80), None),
        (&unnamed, name(""), Some("10.0.0.5:7000")),
        (&empty, name(""), Some("10.0.0.5:7000")),
        (&unnamed, name("http"), None),
        (&udp, name("http"), None),
        (&all, name("http"), None),
    ];
    for (slice, port, address) in table {
        let merged = merge([slice], &port);
        assert_eq!(
            shown(&merged.members).0,
            Vec::from_iter(address),
            "{port:?}"
        );
        assert_eq!(merged.problem.is_some(), address.is_none(), "{port:?}");
    }
}

#[test]
fn pods_that_name_different_numbers_for_one_port_each_keep_theirs() {
    let mut other = v4("b", &json!([pod("b", "10.0.0.6", &json!({}))]));
    other.ports = vec![("http".into(), 8001)];
    let slices = [v4("a", &json!([pod("a", "10.0.0.5", &json!({}))])), other];
    assert_eq!(
        shown(&members(&slices)).0,
        ["10.0.0.5:8000", "10.0.0.6:8001"]
    );
}

#[test]
fn host_names_are_ignored_and_said() {
    let names = slice(json!({
        "metadata": {"name": "s"}, "addressType": "FQDN",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [{"addresses": ["engine.example"]}],
    }));
    let merged = merge([&names], &http());
    assert_eq!(merged.members.iter().count(), 0);
    assert!(merged.problem.unwrap().contains("FQDN"));
}

#[test]
fn only_the_first_address_of_an_endpoint_is_used() {
    let slice = v4(
        "s",
        &json!([{"addresses": ["10.0.0.5", "10.0.0.6"]}, {"addresses": []}]),
    );
    assert_eq!(shown(&members([&slice])).0, ["10.0.0.5:8000"]);
}

#[test]
fn what_is_not_a_pod_is_known_by_its_address() {
    let node = json!({"addresses": ["10.0.0.5"], "targetRef": {"kind": "Node", "uid": "n"}});
    let bare = json!({"addresses": ["10.0.0.6"], "targetRef": {"kind": "Pod", "name": "p"}});
    let slice = v4("s", &json!([node, bare]));
    let owners: Vec<_> = members([&slice])
        .usable
        .iter()
        .map(|e| e.id().owner.clone())
        .collect();
    assert_eq!(owners, ["10.0.0.5", "10.0.0.6"]);
}

fn entry() -> impl Strategy<Value = Entry> {
    let state = prop_oneof![
        Just(State::Unready),
        Just(State::Draining),
        Just(State::Ready)
    ];
    let pod = proptest::option::of((0..4u8).prop_map(|i| (format!("uid-{i}"), format!("pod-{i}"))));
    (0..4u8, pod, state).prop_map(|(last, pod, state)| Entry {
        address: [10, 0, 0, last].into(),
        pod,
        state,
    })
}

proptest! {
    #[test]
    fn the_outcome_does_not_depend_on_how_entries_are_spread_over_slices(
        entries in proptest::collection::vec(entry(), 0..12),
        cut in 0usize..12,
        seed in 0usize..12,
    ) {
        let of = |name: &str, entries: &[Entry]| Slice {
            name: name.into(), service: "engines".into(), family: Family::Ip,
            ports: vec![("http".into(), 8000)], entries: entries.to_vec(),
        };
        let mut turned = entries.clone();
        turned.rotate_left(seed.min(entries.len()));
        let (left, right) = turned.split_at(cut.min(entries.len()));
        let whole = members(&[of("a", &entries)]);
        let split = members(&[of("a", left), of("b", right)]);
        let ids = |m: &Members| m.usable.iter().map(|e| (e.id().clone(), e.address())).collect::<Vec<_>>();
        prop_assert_eq!(ids(&whole), ids(&split));
        prop_assert_eq!(shown(&whole), shown(&split));
        let addresses: BTreeSet<_> = whole.iter().map(|e| e.address()).collect();
        prop_assert_eq!(addresses.len(), whole.iter().count(), "one endpoint per address");
    }
}
