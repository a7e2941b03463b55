#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` values read best in place"
)]

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service as CoreService};
use serde_json::{Value, json};

use super::fit::fit_within;
use super::*;
use crate::api;
use crate::snapshot::{Match, ServicePort};

/// A cluster in the making.
#[derive(Clone, Default)]
struct World {
    objects: Objects,
}

impl World {
    /// Namespace `ns` with Service `llama` and Provider `llama`.
    fn with_provider() -> Self {
        Self::default()
            .service("ns", "llama")
            .provider("ns", "llama", json!({}))
    }

    fn service(mut self, namespace: &str, name: &str) -> Self {
        let service: CoreService = serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8000 }] },
        }))
        .unwrap();
        self.objects
            .services
            .insert(Key::new(namespace, name), Arc::new(service));
        self
    }

    fn secret(mut self, namespace: &str, name: &str, value: &[u8]) -> Self {
        let data = [("api-key".to_owned(), ByteString(value.to_vec()))].into();
        let secret = Secret {
            data: Some(data),
            ..Secret::default()
        };
        self.objects
            .secrets
            .insert(Key::new(namespace, name), Arc::new(secret));
        self
    }

    /// A Provider of the Service of its own name; `spec` adds to it.
    fn provider(mut self, namespace: &str, name: &str, spec: Value) -> Self {
        let mut full = json!({ "service": { "name": name, "port": "http" } });
        merge(&mut full, spec);
        let provider = object::<api::Provider>("Provider", namespace, name, 1, full);
        self.objects.providers.push(Entry::Read(Arc::new(provider)));
        self
    }

    /// A Route of one rule per entry of `rules`, created in the order of the calls.
    fn route(self, namespace: &str, name: &str, rules: Value) -> Self {
        self.route_at(namespace, name, 1, rules)
    }

    fn route_at(mut self, namespace: &str, name: &str, generation: i64, rules: Value) -> Self {
        let age = self.objects.routes.len();
        let mut route = object::<api::Route>(
            "Route",
            namespace,
            name,
            generation,
            json!({ "rules": rules }),
        );
        let created = format!("2026-01-01T00:00:{age:02}Z");
        route.metadata.creation_timestamp = Some(serde_json::from_value(json!(created)).unwrap());
        self.objects.routes.push(Entry::Read(Arc::new(route)));
        self
    }

    fn unreadable(mut self, name: &str, generation: i64) -> Self {
        let origin = crate::snapshot::Origin {
            key: Key::new("ns", name),
            uid: format!("Route-ns-{name}"),
            generation,
            created: String::new(),
        };
        let error = "weight: not a number".to_owned();
        self.objects
            .routes
            .push(Entry::Unreadable { origin, error });
        self
    }

    fn grant(mut self, namespace: &str, from: &str, name: Option<&str>) -> Self {
        let spec = json!({
            "from": [{ "group": "refrain.dev", "kind": "Route", "namespace": from }],
            "to": [{ "group": "refrain.dev", "kind": "Provider", "name": name }],
        });
        self.objects
            .grants
            .push(Grant::read(namespace, &spec).unwrap());
        self
    }

    fn compile(&self) -> Compiled {
        self.after(&Snapshot::empty())
    }

    fn after(&self, previous: &Snapshot) -> Compiled {
        compile(&self.objects, previous)
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn object<K: serde::de::DeserializeOwned>(
    kind: &str,
    namespace: &str,
    name: &str,
    generation: i64,
    spec: Value,
) -> K {
    serde_json::from_value(json!({
        "apiVersion": "refrain.dev/v1alpha1", "kind": kind,
        "metadata": { "namespace": namespace, "name": name, "generation": generation,
                      "uid": format!("{kind}-{namespace}-{name}") },
        "spec": spec,
    }))
    .unwrap()
}

/// A rule `r` that matches `model` exactly and goes to Provider `provider`.
fn exact(model: &str, provider: &str) -> Value {
    json!({ "name": format!("to-{provider}"), "matches": [{ "model": { "value": model } }],
            "backendRefs": [{ "providerRef": { "name": provider } }] })
}

fn prefix(value: &str) -> Value {
    json!({ "name": "prefix", "matches": [{ "model": { "type": "Prefix", "value": value } }],
            "backendRefs": [{ "providerRef": { "name": "llama" } }] })
}

fn say<'a>(compiled: &'a Compiled, name: &str) -> &'a Verdict {
    let of_name = |v: &&Verdict| v.origin.key.name == name && v.kind == Kind::Route;
    compiled.verdicts.iter().find(of_name).unwrap()
}

fn say_provider<'a>(compiled: &'a Compiled, name: &str) -> &'a Verdict {
    let of_name = |v: &&Verdict| v.origin.key.name == name && v.kind == Kind::Provider;
    compiled.verdicts.iter().find(of_name).unwrap()
}

fn refused(compiled: &Compiled, route: &str) -> Option<String> {
    let route = compiled.snapshot.route(&Key::new("ns", route))?;
    Some(route.rules[0].backends[0].refused.as_ref()?.reason.clone())
}

#[test]
fn nothing_compiles_to_an_empty_snapshot() {
    let compiled = World::default().compile();
    assert_eq!(compiled.snapshot, Snapshot::empty());
    assert!(compiled.verdicts.is_empty());
}

#[test]
fn a_route_and_its_provider_are_served() {
    let world = World::with_provider().route("ns", "chat", json!([exact("chat", "llama")]));
    let compiled = world.compile();
    let verdict = say(&compiled, "chat");
    assert!(verdict.accepted.ok && verdict.resolved.ok, "{verdict:?}");
    assert_eq!(
        (verdict.served, verdict.models.as_slice()),
        (Some(1), &["chat".to_owned()][..])
    );
    let provider = &compiled.snapshot.providers[0];
    assert_eq!(
        provider.service.slice_port,
        Some(ServicePort::Name("http".into()))
    );
}

#[test]
fn the_order_of_the_input_does_not_change_the_digest() {
    let world = World::with_provider()
        .service("ns", "b")
        .provider("ns", "b", json!({}))
        .route("ns", "one", json!([exact("a", "llama")]))
        .route("ns", "two", json!([exact("b", "b")]));
    let mut turned = world.clone();
    turned.objects.routes.reverse();
    turned.objects.providers.reverse();
    assert_eq!(
        world.compile().sealed.digest,
        turned.compile().sealed.digest
    );
}

#[test]
fn a_service_port_is_found_by_name_and_by_the_services_own_number() {
    for (port, reason) in [
        (json!("http"), reason::RESOLVED),
        (json!(80), reason::RESOLVED),
        (json!("grpc"), reason::PORT_NOT_FOUND),
        (json!(8000), reason::PORT_NOT_FOUND),
    ] {
        let spec = json!({ "service": { "name": "llama", "port": port } });
        let compiled = World::default()
            .service("ns", "llama")
            .provider("ns", "llama", spec)
            .compile();
        assert_eq!(compiled.verdicts[0].resolved.reason, reason, "port {port}");
    }
}

#[test]
fn a_target_port_in_place_of_the_services_own_is_pointed_out() {
    let spec = json!({ "service": { "name": "llama", "port": 8000 } });
    let compiled = World::default()
        .service("ns", "llama")
        .provider("ns", "llama", spec)
        .compile();
    let message = &compiled.verdicts[0].resolved.message;
    assert!(
        message.contains("targetPort") && message.contains("http (80)"),
        "{message}"
    );
}

#[test]
fn a_missing_service_is_a_problem_in_a_cluster_and_not_in_files() {
    let mut world = World::default().provider("ns", "llama", json!({}));
    assert_eq!(
        say_provider(&world.compile(), "llama").resolved.reason,
        reason::SERVICE_NOT_FOUND
    );
    world.objects.scope = Scope::Files;
    let compiled = world.compile();
    assert!(say_provider(&compiled, "llama").resolved.ok);
    let port = compiled.snapshot.providers[0].service.slice_port.clone();
    assert_eq!(port, Some(ServicePort::Name("http".into())));
}

#[test]
fn a_number_in_files_without_the_service_is_the_slices_own() {
    let spec = json!({ "service": { "name": "llama", "port": 8000 } });
    let mut world = World::default().provider("ns", "llama", spec);
    world.objects.scope = Scope::Files;
    let port = world.compile().snapshot.providers[0]
        .service
        .slice_port
        .clone();
    assert_eq!(port, Some(ServicePort::Number(8000)));
}

fn with_auth(auth: Value) -> World {
    World::default()
        .service("ns", "llama")
        .provider("ns", "llama", json!({ "auth": auth }))
        .route("ns", "chat", json!([exact("chat", "llama")]))
}

#[test]
fn a_missing_secret_takes_the_provider_out_until_it_is_created() {
    let world = with_auth(json!({ "type": "BearerToken", "secretRef": { "name": "key" } }));
    let before = world.compile();
    assert_eq!(
        say_provider(&before, "llama").resolved.reason,
        reason::SECRET_NOT_FOUND
    );
    assert_eq!(
        say(&before, "chat").resolved.reason,
        reason::PROVIDER_NOT_READY
    );
    assert!(refused(&before, "chat").is_some());

    let after = world
        .secret("ns", "key", b" sk-1\n")
        .after(&before.snapshot);
    assert!(say(&after, "chat").resolved.ok);
    assert_eq!(refused(&after, "chat"), None);
    let Some(crate::snapshot::Auth::Header {
        name,
        prefix,
        secret,
        ..
    }) = &after.snapshot.providers[0].auth
    else {
        panic!("no credential")
    };
    assert_eq!(
        (name.as_str(), prefix.as_str(), secret.as_str()),
        ("authorization", "Bearer ", "sk-1")
    );
}

#[test]
fn a_rotated_secret_changes_the_digest() {
    let world = with_auth(json!({ "type": "APIKeyHeader", "secretRef": { "name": "key" } }));
    let old = world.clone().secret("ns", "key", b"old").compile();
    let new = world.secret("ns", "key", b"new").compile();
    assert_ne!(old.sealed.digest, new.sealed.digest);
}

#[test]
fn a_secret_that_no_header_can_carry_is_refused_without_showing_it() {
    for bytes in [&b""[..], b"a\nb", b"\xff\xfe", "schl\u{fc}ssel".as_bytes()] {
        let world = with_auth(json!({ "type": "BearerToken", "secretRef": { "name": "key" } }));
        let compiled = world.secret("ns", "key", bytes).compile();
        let resolved = &say_provider(&compiled, "llama").resolved;
        assert_eq!(resolved.reason, reason::INVALID_SECRET);
        assert!(!resolved.message.contains("schl"), "{}", resolved.message);
    }
}

#[test]
fn one_bad_route_does_not_stop_another() {
    let world = World::with_provider()
        .route("ns", "bad", json!([exact("gone", "nobody")]))
        .route("ns", "good", json!([exact("chat", "llama")]));
    let compiled = world.compile();
    assert_eq!(
        say(&compiled, "bad").resolved.reason,
        reason::PROVIDER_NOT_FOUND
    );
    assert!(say(&compiled, "bad").accepted.ok);
    assert!(say(&compiled, "good").resolved.ok);
}

#[test]
fn a_route_that_becomes_invalid_keeps_its_last_good_form_and_says_so() {
    let good = World::with_provider()
        .route("ns", "chat", json!([exact("chat", "llama")]))
        .compile();
    let twice = json!([exact("chat", "llama"), { "name": "again",
        "matches": [{ "model": { "value": "chat" } }],
        "backendRefs": [{ "providerRef": { "name": "llama" } }] }]);
    let compiled = World::with_provider()
        .route_at("ns", "chat", 2, twice)
        .after(&good.snapshot);
    let verdict = say(&compiled, "chat");
    assert_eq!(
        (verdict.accepted.reason, verdict.served),
        (reason::INVALID, Some(1))
    );
    assert!(
        verdict.accepted.message.contains("generation 1"),
        "{}",
        verdict.accepted.message
    );
    assert_eq!(compiled.sealed.digest, good.sealed.digest);
}

#[test]
fn an_unreadable_route_keeps_its_last_good_form_or_serves_nothing() {
    let good = World::with_provider()
        .route("ns", "chat", json!([exact("chat", "llama")]))
        .compile();
    let kept = World::with_provider()
        .unreadable("chat", 2)
        .after(&good.snapshot);
    assert_eq!(say(&kept, "chat").served, Some(1));
    let fresh = World::with_provider().unreadable("chat", 2).compile();
    assert_eq!(say(&fresh, "chat").served, None);
    assert_eq!(say(&fresh, "chat").accepted.reason, reason::UNREADABLE);
}

#[test]
fn a_last_good_form_is_out_when_its_provider_is_gone() {
    let good = World::with_provider()
        .route("ns", "chat", json!([exact("chat", "llama")]))
        .compile();
    let compiled = World::default().unreadable("chat", 2).after(&good.snapshot);
    assert_eq!(
        refused(&compiled, "chat").as_deref(),
        Some(reason::PROVIDER_NOT_FOUND)
    );
}

#[test]
fn a_recreated_object_does_not_inherit_the_form_of_the_deleted_one() {
    let good = World::with_provider()
        .route("ns", "chat", json!([exact("chat", "llama")]))
        .compile();
    let mut world = World::with_provider().unreadable("chat", 1);
    let Entry::Unreadable { origin, .. } = &mut world.objects.routes[0] else {
        panic!()
    };
    origin.uid = "another".into();
    assert_eq!(say(&world.after(&good.snapshot), "chat").served, None);
}

#[test]
fn another_namespace_needs_a_grant_and_loses_the_backend_when_it_is_revoked() {
    let remote = json!([{ "name": "r", "matches": [{ "model": { "value": "chat" } }],
        "backendRefs": [{ "providerRef": { "name": "llama", "namespace": "ns" } }] }]);
    let world = World::with_provider().route("team", "chat", remote);
    let reason_of = |world: &World| say(&world.compile(), "chat").resolved.reason;
    assert_eq!(reason_of(&world), reason::REF_NOT_PERMITTED);
    assert_eq!(
        reason_of(&world.clone().grant("ns", "team", None)),
        reason::RESOLVED
    );
    assert_eq!(
        reason_of(&world.clone().grant("ns", "team", Some("llama"))),
        reason::RESOLVED
    );
    assert_eq!(
        reason_of(&world.clone().grant("ns", "team", Some("other"))),
        reason::REF_NOT_PERMITTED
    );
    assert_eq!(
        reason_of(&world.clone().grant("ns", "other", None)),
        reason::REF_NOT_PERMITTED
    );
    assert_eq!(
        reason_of(&world.clone().grant("team", "team", None)),
        reason::REF_NOT_PERMITTED
    );
}

#[test]
fn without_a_grant_nothing_is_said_of_the_other_namespace() {
    let remote = json!([{ "name": "r", "matches": [{ "model": { "value": "chat" } }],
        "backendRefs": [{ "providerRef": { "name": "secret-project", "namespace": "other" } }] }]);
    let compiled = World::default().route("team", "chat", remote).compile();
    assert_eq!(
        say(&compiled, "chat").resolved.reason,
        reason::REF_NOT_PERMITTED
    );
}

#[test]
fn of_two_routes_that_claim_one_model_the_older_wins_and_the_other_names_it() {
    let world = World::with_provider()
        .route("ns", "older", json!([exact("chat", "llama")]))
        .route(
            "ns",
            "newer",
            json!([exact("chat", "llama"), prefix("chat-")]),
        );
    let compiled = world.compile();
    assert!(say(&compiled, "older").accepted.ok);
    let newer = say(&compiled, "newer");
    assert_eq!(newer.accepted.reason, reason::CONFLICTED);
    assert!(
        newer.accepted.message.contains("ns/older"),
        "{}",
        newer.accepted.message
    );
    assert_eq!(newer.models, ["chat-*"], "what is not shared is served");
}

#[test]
fn a_lost_claim_comes_back_when_the_winner_is_gone() {
    let newer = json!([exact("chat", "llama")]);
    let both = World::with_provider()
        .route("ns", "older", json!([exact("chat", "llama")]))
        .route("ns", "newer", newer.clone())
        .compile();
    let alone = World::with_provider()
        .route("ns", "newer", newer)
        .after(&both.snapshot);
    assert!(say(&alone, "newer").accepted.ok);
    assert_eq!(say(&alone, "newer").models, ["chat"]);
}

#[test]
fn a_lost_claim_of_a_last_good_form_comes_back_too() {
    let both = World::with_provider()
        .route("ns", "older", json!([exact("chat", "llama")]))
        .route("ns", "newer", json!([exact("chat", "llama")]))
        .compile();
    let alone = World::with_provider()
        .unreadable("newer", 2)
        .after(&both.snapshot);
    let rule = &alone
        .snapshot
        .route(&Key::new("ns", "newer"))
        .unwrap()
        .rules[0];
    assert_eq!(
        (rule.matches.as_slice(), rule.lost.len()),
        (&[Match::Exact("chat".into())][..], 0)
    );
}

#[test]
fn a_standing_claim_is_not_taken_by_an_older_route_that_is_edited() {
    let first = World::with_provider()
        .route("a", "older", json!([exact("mine", "llama")]))
        .route("b", "newer", json!([exact("chat", "llama")]))
        .compile();
    let grab = json!([exact("mine", "llama"), { "name": "grab",
        "matches": [{ "model": { "value": "chat" } }],
        "backendRefs": [{ "providerRef": { "name": "llama" } }] }]);
    let second = World::with_provider()
        .route_at("a", "older", 2, grab)
        .route("b", "newer", json!([exact("chat", "llama")]))
        .after(&first.snapshot);
    assert_eq!(say(&second, "older").accepted.reason, reason::CONFLICTED);
    assert!(say(&second, "newer").accepted.ok);
}

#[test]
fn a_prefix_covers_its_range_against_other_namespaces_only() {
    let world = World::with_provider()
        .service("b", "llama")
        .provider("b", "llama", json!({}));
    let same = world
        .clone()
        .route("ns", "range", json!([prefix("llama-")]))
        .route("ns", "one", json!([exact("llama-8b", "llama")]));
    assert!(
        say(&same.compile(), "one").accepted.ok,
        "the more specific match wins in a namespace"
    );
    let other = world
        .clone()
        .route("ns", "range", json!([prefix("llama-")]))
        .route("b", "one", json!([exact("llama-8b", "llama")]));
    assert_eq!(
        say(&other.compile(), "one").accepted.reason,
        reason::CONFLICTED
    );
    let earlier = world
        .route("b", "one", json!([exact("llama-8b", "llama")]))
        .route("ns", "range", json!([prefix("llama-")]));
    let compiled = earlier.compile();
    assert!(say(&compiled, "one").accepted.ok && say(&compiled, "range").accepted.ok);
}

#[test]
fn a_rule_without_matches_takes_everything_else() {
    let rest = json!([{ "name": "rest", "backendRefs": [{ "providerRef": { "name": "llama" } }] }]);
    let compiled = World::with_provider().route("ns", "rest", rest).compile();
    let rule = &compiled.snapshot.routes[0].rules[0];
    assert_eq!(rule.matches, [Match::Prefix(String::new())]);
    assert_eq!(say(&compiled, "rest").models, ["*"]);
}

#[test]
fn a_rule_says_which_features_a_router_needs() {
    let mut rule = exact("chat", "llama");
    merge(
        &mut rule,
        json!({ "balancing": { "strategy": "PowerOfTwo" } }),
    );
    let compiled = World::with_provider()
        .route("ns", "chat", json!([rule]))
        .compile();
    let rule = &compiled.snapshot.routes[0].rules[0];
    assert_eq!(rule.requires, ["match/Exact", "strategy/PowerOfTwo"]);
    assert!(rule.supported().is_ok());
}

#[test]
fn every_feature_that_compile_asks_for_is_one_that_this_router_has() {
    for strategy in ["LeastLoad", "PowerOfTwo", "RoundRobin", "Random"] {
        for mut rule in [exact("chat", "llama"), prefix("chat-")] {
            merge(&mut rule, json!({ "balancing": { "strategy": strategy } }));
            let compiled = World::with_provider()
                .route("ns", "chat", json!([rule]))
                .compile();
            compiled.snapshot.routes[0].rules[0].supported().unwrap();
        }
    }
}

#[test]
fn a_model_that_the_provider_does_not_list_is_a_problem() {
    let world = World::default().service("ns", "llama").provider(
        "ns",
        "llama",
        json!({ "models": [{ "name": "small", "upstreamName": "org/small" }] }),
    );
    let passed_on = world
        .clone()
        .route("ns", "chat", json!([exact("large", "llama")]))
        .compile();
    assert_eq!(
        say(&passed_on, "chat").resolved.reason,
        reason::MODEL_NOT_FOUND
    );
    assert_eq!(
        refused(&passed_on, "chat"),
        None,
        "the router decides per model"
    );

    let named = json!([{ "name": "r", "matches": [{ "model": { "value": "chat" } }],
        "backendRefs": [{ "providerRef": { "name": "llama" }, "model": "large" }] }]);
    let named = world.clone().route("ns", "chat", named).compile();
    assert_eq!(
        refused(&named, "chat").as_deref(),
        Some(reason::MODEL_NOT_FOUND)
    );

    let listed = world
        .route("ns", "chat", json!([exact("small", "llama")]))
        .compile();
    assert!(say(&listed, "chat").resolved.ok);
    assert_eq!(
        listed.snapshot.providers[0].upstream_model("small"),
        "org/small"
    );
}

/// A Route whose form weighs about `kb` kilobytes.
fn heavy(world: World, name: &str, generation: i64, kb: usize) -> World {
    let rule = |i: usize| {
        json!({ "name": format!("r{i}"), "matches": [{ "model": { "value": format!("{name}-{i}") } }],
                "backendRefs": [{ "providerRef": { "name": "llama" }, "model": "m".repeat(200) }] })
    };
    world.route_at("ns", name, generation, (0..kb * 2).map(rule).collect())
}

fn fit(world: &World, previous: &Snapshot, limit: usize) -> Compiled {
    fit_within(limit, &world.objects, previous, |too_large| {
        attempt(&world.objects, previous, too_large)
    })
}

#[test]
fn the_change_that_does_not_fit_is_the_one_refused() {
    let small = heavy(heavy(World::with_provider(), "a", 1, 4), "b", 1, 4);
    let served = small.compile();
    let grown = heavy(heavy(World::with_provider(), "a", 2, 40), "b", 1, 4);
    let compiled = fit(&grown, &served.snapshot, 20_000);
    assert_eq!(
        say(&compiled, "a").accepted.reason,
        reason::SNAPSHOT_TOO_LARGE
    );
    assert_eq!(
        say(&compiled, "a").served,
        Some(1),
        "its last good form stays"
    );
    assert!(say(&compiled, "b").accepted.ok);
    assert!(compiled.sealed.bytes.len() <= 20_000);
}

#[test]
fn with_nothing_served_yet_the_newest_objects_are_refused() {
    let world = (0..10).fold(World::with_provider(), |w, i| {
        heavy(w, &format!("r{i}"), 1, 4)
    });
    let compiled = fit(&world, &Snapshot::empty(), 20_000);
    let accepted: Vec<bool> = compiled
        .verdicts
        .iter()
        .filter(|v| v.kind == Kind::Route)
        .map(|v| v.accepted.ok)
        .collect();
    let kept = accepted.iter().take_while(|ok| **ok).count();
    assert!(
        kept > 0 && accepted[kept..].iter().all(|ok| !ok),
        "{accepted:?}"
    );
    assert!(compiled.sealed.bytes.len() <= 20_000);
}
