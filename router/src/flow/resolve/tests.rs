use std::collections::HashMap;

use crds::snapshot::{self, Match, Refused};
use http::StatusCode;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::table::tests::{backend, provider, rule, table};

fn catch_all(providers: Vec<snapshot::Provider>, backends: Vec<snapshot::Backend>) -> Table {
    table(
        providers,
        vec![rule("all", vec![Match::Prefix(String::new())], backends)],
    )
}

fn resolved(table: &Table, model: Option<&str>) -> Result<Variant, ApiError> {
    let model = model.map(Arc::from);
    variant(table, model.as_ref(), &mut StdRng::seed_from_u64(1))
}

fn upstream_model(table: &Table, model: Option<&str>) -> Option<String> {
    let variant = resolved(table, model).unwrap();
    variant.upstream_model.map(|model| model.to_string())
}

#[test]
fn weights_are_kept() {
    let providers = ["a", "b", "c"].map(|name| provider(name, &[]));
    let backends = vec![backend("a", 1), backend("b", 0), backend("c", 3)];
    let table = catch_all(providers.to_vec(), backends);
    let mut chance = StdRng::seed_from_u64(3);
    let mut counts = HashMap::new();
    for _ in 0..4000 {
        let variant = variant(&table, None, &mut chance).unwrap();
        *counts
            .entry(variant.backend.provider.label.clone())
            .or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 2);
    assert!((900..1100).contains(&counts["ns/a"]), "{counts:?}");
}

#[test]
fn the_largest_weights_do_not_overflow() {
    let providers = ["a", "b"].map(|name| provider(name, &[]));
    let backends = vec![backend("a", u32::MAX), backend("b", u32::MAX)];
    let table = catch_all(providers.to_vec(), backends);
    assert!(resolved(&table, None).is_ok());
}

#[test]
fn names_are_translated_by_the_rule_and_then_by_the_provider() {
    let renamed = snapshot::Backend {
        model: Some("b".into()),
        ..backend("p", 1)
    };
    let plain = catch_all(vec![provider("p", &[])], vec![backend("p", 1)]);
    let by_rule = catch_all(vec![provider("p", &[])], vec![renamed.clone()]);
    let by_both = catch_all(vec![provider("p", &[("b", "c")])], vec![renamed]);
    let by_provider = catch_all(vec![provider("p", &[("a", "c")])], vec![backend("p", 1)]);
    for (table, asked, expected) in [
        (&plain, Some("a"), Some("a")),
        (&plain, None, None),
        (&by_rule, Some("a"), Some("b")),
        (&by_rule, None, Some("b")),
        (&by_both, Some("a"), Some("c")),
        (&by_provider, Some("a"), Some("c")),
        (&by_provider, None, None),
    ] {
        assert_eq!(upstream_model(table, asked).as_deref(), expected);
    }
}

#[test]
fn only_providers_that_have_the_model_are_drawn() {
    let providers = vec![provider("a", &[("x", "x")]), provider("b", &[("y", "y")])];
    let table = catch_all(providers, vec![backend("a", 1000), backend("b", 1)]);
    let variant = resolved(&table, Some("y")).unwrap();
    assert_eq!(variant.backend.provider.label, "ns/b");
    let error = resolved(&table, Some("z")).unwrap_err();
    assert_eq!(error.status(), StatusCode::NOT_FOUND);
    assert!(error.to_string().contains("served: x, y"), "{error}");
}

#[test]
fn a_rule_without_a_usable_backend_says_why() {
    let refused = |message: &str| snapshot::Backend {
        refused: Some(Refused {
            reason: "R".into(),
            message: message.into(),
        }),
        ..backend("p", 1)
    };
    for (backends, why) in [
        (vec![refused("no grant"), refused("other")], "no grant"),
        (vec![backend("p", 0)], "weight above 0"),
        (vec![], "weight above 0"),
        (vec![backend("gone", 1)], "there is no Provider ns/gone"),
    ] {
        let table = catch_all(vec![provider("p", &[])], backends);
        let error = resolved(&table, Some("m")).unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains("Route ns/r"), "{error}");
    }
}
