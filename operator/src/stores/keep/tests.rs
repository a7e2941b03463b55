use crds::api::{Provider, Route};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn route(weight: &Value, status: &Value, resource_version: &str) -> Object<Route> {
    let raw = json!({
        "apiVersion": "refrain.dev/v1alpha1",
        "kind": "Route",
        "metadata": {
            "namespace": "ns", "name": "r", "uid": "u", "generation": 3,
            "resourceVersion": resource_version,
            "managedFields": [{ "manager": "kubectl" }],
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        },
        "spec": { "rules": [{ "name": "x", "backendRefs": [
            { "providerRef": { "name": "p" }, "weight": weight },
        ] }] },
        "status": status,
    });
    object(read(raw)).unwrap()
}

const GOOD: i32 = 1;

fn condition() -> Value {
    json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3 }] })
}

#[test]
fn an_object_without_its_kinds_shape_is_kept_with_its_origin_and_status() {
    let broken = route(&json!("five"), &condition(), "1");
    let Entry::Unreadable { origin, error } = &broken.entry else {
        panic!("it was read");
    };
    assert_eq!((origin.key.name.as_str(), origin.generation), ("r", 3));
    assert!(
        error.starts_with("invalid type: string \"five\""),
        "{error}"
    );
    assert!(broken.status.condition("Ready").is_some());
}

#[test]
fn a_written_status_is_no_input_and_the_rest_of_the_metadata_is_nothing() {
    let before = route(&json!(GOOD), &json!({}), "1");
    let after = route(&json!(GOOD), &condition(), "2");
    assert!(before.reads_same(&after) && before != after);
    assert!(after == route(&json!(GOOD), &condition(), "3"));
    assert!(!after.reads_same(&route(&json!(2), &condition(), "3")));
}

#[test]
fn a_status_of_another_shape_counts_as_none() {
    let odd = route(&json!(GOOD), &json!({ "conditions": "none" }), "1");
    assert_eq!(odd.status, Status::default());
    assert!(matches!(odd.entry, Entry::Read(_)));
}

#[test]
fn a_provider_is_kept_like_a_route() {
    let raw = json!({
        "apiVersion": "refrain.dev/v1alpha1", "kind": "Provider",
        "metadata": { "namespace": "ns", "name": "p", "uid": "u" },
        "spec": { "service": { "name": "s", "port": 80 } },
        "status": { "engine": "vllm", "endpoints": { "ready": 1, "total": 2 }, "models": ["m"] },
    });
    let kept = object::<Provider>(read(raw)).unwrap();
    assert!(matches!(kept.entry, Entry::Read(_)));
    assert_eq!(kept.status.engine.as_deref(), Some("vllm"));
}

#[test]
fn a_router_that_renews_its_lease_wakes_nobody() {
    let lease = |renewed: &str| {
        read::<Lease>(json!({
            "metadata": { "name": "router-0", "annotations": { ANNOTATION: r#"{"digest":"d"}"# } },
            "spec": { "renewTime": renewed },
        }))
    };
    let before = report(lease("2026-01-01T00:00:00.000000Z")).unwrap();
    let after = report(lease("2026-01-01T00:00:10.000000Z")).unwrap();
    assert!(before == after);
}

#[test]
fn a_report_that_cannot_be_read_counts_as_none() {
    let lease = json!({ "metadata": { "name": "router-0", "annotations": { ANNOTATION: "{" } } });
    assert!(report(read(lease)).is_none());
}

fn slice(endpoints: &Value) -> Vec<RouterPod> {
    let slice = json!({ "addressType": "IPv4", "metadata": {}, "endpoints": endpoints });
    router_slice(read(slice)).unwrap().pods
}

#[test]
fn a_slice_names_the_service_that_it_is_of() {
    let owner = json!({ "apiVersion": "v1", "kind": "Service", "name": "routers", "uid": "u",
        "controller": true, "blockOwnerDeletion": true });
    let slice = json!({ "addressType": "IPv4", "endpoints": [],
        "metadata": { "ownerReferences": [owner] } });
    let service = router_slice(read(slice)).unwrap().service.unwrap();
    assert_eq!(
        (service.name.as_str(), service.uid.as_str()),
        ("routers", "u")
    );
    assert_eq!(
        service.block_owner_deletion, None,
        "it needs rights that the operator lacks"
    );
}

#[test]
fn unready_and_terminating_pods_are_not_expected_and_no_word_means_ready() {
    let pods = slice(&json!([
        { "addresses": ["10.0.0.1"], "targetRef": { "kind": "Pod", "name": "b" }, "conditions": {} },
        { "addresses": ["10.0.0.2"], "targetRef": { "kind": "Pod", "name": "a" },
          "conditions": { "ready": true } },
        { "addresses": ["10.0.0.3"], "targetRef": { "kind": "Pod", "name": "unready" },
          "conditions": { "ready": false } },
        { "addresses": ["10.0.0.4"], "targetRef": { "kind": "Pod", "name": "leaving" },
          "conditions": { "ready": true, "terminating": true } },
        { "addresses": ["10.0.0.5"] },
    ]));
    assert_eq!(ready_pods(pods.iter()), ["a", "b"]);
}

#[test]
fn a_slice_without_endpoints_lists_no_pods() {
    assert!(slice(&json!(null)).is_empty());
}

#[test]
fn a_pod_in_two_slices_is_one_pod() {
    let target = json!({ "kind": "Pod", "name": "a" });
    let v4 = slice(&json!([{ "addresses": ["10.0.0.1"], "targetRef": target }]));
    let v6 = slice(&json!([{ "addresses": ["fd00::1"], "targetRef": target }]));
    assert_eq!(ready_pods(v4.iter().chain(&v6)), ["a"]);
}

#[test]
fn of_a_secret_only_its_data_is_kept() {
    let raw = json!({ "metadata": { "name": "s", "managedFields": [] }, "type": "Opaque",
        "data": { "api-key": "c2VjcmV0" } });
    let kept = secret(read(raw)).unwrap();
    assert!(kept.metadata == ObjectMeta::default() && kept.data.is_some());
}

#[test]
fn the_snapshot_secret_tells_its_version_and_hides_its_bytes() {
    let raw = json!({ "metadata": { "name": "s", "resourceVersion": "7", "annotations":
        { GENERATION: "4" } }, "data": { SNAPSHOT_KEY: "c2VjcmV0" } });
    let held = snapshot(read(raw)).unwrap();
    assert_eq!((held.resource_version.as_str(), held.generation), ("7", 4));
    assert_eq!(held.bytes, b"secret");
    assert_eq!(format!("{held:?}"), "Held(6 bytes at 7)");
}
