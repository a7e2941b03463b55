use crds::api::Port;
use crds::snapshot::{self, Auth, Key, Match, Origin, Route, Service, Strategy};

use super::*;

pub(crate) fn origin(name: &str) -> Origin {
    Origin {
        key: Key::new("ns", name),
        uid: name.into(),
        generation: 1,
        created: "1970-01-01T00:01:00Z".into(),
    }
}

pub(crate) fn provider(name: &str, models: &[(&str, &str)]) -> snapshot::Provider {
    let model = |&(public, upstream): &(&str, &str)| (public.to_owned(), upstream.to_owned());
    snapshot::Provider {
        origin: origin(name),
        service: Service {
            name: name.into(),
            port: Port::Number(80),
            slice_port: None,
        },
        auth: None,
        models: models.iter().map(model).collect(),
        refused: None,
    }
}

pub(crate) fn backend(provider: &str, weight: u32) -> snapshot::Backend {
    snapshot::Backend {
        provider: Key::new("ns", provider),
        model: None,
        weight,
        refused: None,
    }
}

pub(crate) fn rule(
    name: &str,
    matches: Vec<Match>,
    backends: Vec<snapshot::Backend>,
) -> snapshot::Rule {
    snapshot::Rule {
        name: name.into(),
        requires: vec![],
        matches,
        lost: vec![],
        backends,
        strategy: Strategy::LeastLoad,
        attempts: 2,
    }
}

pub(crate) fn table(providers: Vec<snapshot::Provider>, rules: Vec<snapshot::Rule>) -> Table {
    let snapshot = Snapshot {
        providers,
        routes: vec![Route {
            origin: origin("r"),
            rules,
        }],
        ..Snapshot::empty()
    };
    Table::build(&snapshot, Digest::default(), &Fleet::default())
}

fn taker(table: &Table, model: Option<&str>) -> Option<String> {
    table.rule(model).map(|rule| rule.name.clone())
}

#[test]
fn the_most_specific_claim_takes_a_model() {
    let prefix = |text: &str| Match::Prefix(text.into());
    let claims = [
        ("exact", Match::Exact("llama".into())),
        ("lla", prefix("lla")),
        ("ll", prefix("ll")),
        ("é", prefix("é")),
        ("future", Match::Unknown),
        ("late", Match::Exact("llama".into())),
    ];
    let rules = claims.map(|(name, claim)| rule(name, vec![claim], vec![]));
    let table = table(vec![], rules.to_vec());
    for (model, name) in [
        ("llama", Some("exact")),
        ("llama2", Some("lla")),
        ("lla", Some("lla")),
        ("lli", Some("ll")),
        ("él", Some("é")),
        ("è", None),
        ("l", None),
        ("", None),
    ] {
        assert_eq!(taker(&table, Some(model)).as_deref(), name, "{model}");
    }
    assert_eq!(taker(&table, None), None);
}

#[test]
fn only_the_empty_prefix_takes_a_request_without_a_model() {
    let rules = vec![rule("all", vec![Match::Prefix(String::new())], vec![])];
    let table = table(vec![], rules);
    assert_eq!(taker(&table, None).as_deref(), Some("all"));
    assert_eq!(taker(&table, Some("x")).as_deref(), Some("all"));
}

#[test]
fn a_table_shares_its_pools_with_the_next_one() {
    let snapshot = Snapshot {
        providers: vec![provider("p", &[])],
        routes: vec![Route {
            origin: origin("r"),
            rules: vec![rule(
                "x",
                vec![Match::Exact("m".into())],
                vec![backend("p", 1)],
            )],
        }],
        ..Snapshot::empty()
    };
    let fleet = Fleet::default();
    let build = || Table::build(&snapshot, Digest::default(), &fleet);
    let (one, two) = (build(), build());
    let pool = |table: &Table| Arc::clone(&table.rule(Some("m")).unwrap().backends[0].pool);
    assert!(Arc::ptr_eq(&pool(&one), &pool(&two)));
}

#[test]
fn a_credential_that_no_header_carries_is_refused_without_being_shown() {
    let header = |name: &str, secret: &str| snapshot::Provider {
        auth: Some(Auth::Header {
            name: name.into(),
            prefix: "Bearer ".into(),
            secret_ref: crds::api::SecretRef {
                name: "s".into(),
                key: "k".into(),
            },
            secret: secret.into(),
        }),
        ..provider("p", &[])
    };
    for (name, secret, word) in [
        ("authorization", "sk-1\n", "line break"),
        ("a b", "sk-1", "headerName"),
        ("authorization", "", "no credential"),
    ] {
        let rules = vec![rule(
            "x",
            vec![Match::Exact("m".into())],
            vec![backend("p", 1)],
        )];
        let table = table(vec![header(name, secret)], rules);
        let [refusal] = table.refusals() else {
            panic!("{name}")
        };
        assert!(refusal.message.contains(word), "{refusal:?}");
        assert!(!format!("{table:?}").contains("sk-1"));
        assert!(table.rule(Some("m")).unwrap().backends[0].refused.is_some());
    }
    let good = header("authorization", "sk-1");
    let rules = vec![rule(
        "x",
        vec![Match::Exact("m".into())],
        vec![backend("p", 1)],
    )];
    let table = table(vec![good], rules);
    assert!(table.refusals().is_empty());
    assert!(!format!("{table:?}").contains("sk-1"));
}
