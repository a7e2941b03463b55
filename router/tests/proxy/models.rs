//! Which model goes where, and which are said to exist.

use crds::snapshot::{Backend, Match, Provider, Refused};
use serde_json::{Value, json};

use crate::client::request;
use crate::engine::{Engine, ok};
use crate::router::{Router, backend, bearer, everything_to, provider, route, rule, snapshot};

const CAPTURED: &str = include_str!("../data/models.json");

fn captured_card() -> Value {
    let list: Value = serde_json::from_str(CAPTURED).unwrap();
    list["data"][0].clone()
}

async fn get(router: &Router, path: &str) -> (u16, Value) {
    let response = router
        .client()
        .await
        .ask(request(&format!("GET {path}"), "", ""))
        .await;
    (
        response.status(),
        serde_json::from_slice(&response.body).unwrap(),
    )
}

fn exact(name: &str) -> Match {
    Match::Exact(name.into())
}

fn prefix(text: &str) -> Match {
    Match::Prefix(text.into())
}

#[tokio::test]
async fn the_list_shows_public_names_with_what_the_engine_says() {
    let aliased = Backend {
        model: Some("tiny".into()),
        ..backend("a")
    };
    let listed = Provider {
        models: vec![
            ("x-one".into(), "tiny".into()),
            ("y-two".into(), "t".into()),
        ],
        ..provider("b")
    };
    let rules = vec![
        rule(&[exact("alias"), exact("org/tiny")], vec![aliased]),
        rule(&[exact("unseen")], vec![backend("a")]),
        rule(&[prefix("x-")], vec![backend("b")]),
        rule(&[prefix("")], vec![backend("a")]),
    ];
    let providers = vec![provider("a"), listed];
    let router = Router::start(&snapshot(providers, vec![route("r", rules)])).await;
    let card = captured_card().to_string();
    let lora = r#"{"id":"lora","object":"model","parent":"tiny"}"#;
    router.discovered("a", &[("tiny", &card), ("lora", lora)]);

    let (status, list) = get(&router, "/v1/models").await;
    assert_eq!((status, &list["object"]), (200, &json!("list")));
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|card| &card["id"])
        .collect();
    assert_eq!(
        ids,
        ["alias", "lora", "org/tiny", "tiny", "unseen", "x-one"]
    );
    let mut expected = captured_card();
    expected["id"] = json!("alias");
    assert_eq!(list["data"][0], expected);
    let created = 1_767_323_045;
    let minimal =
        json!({"id": "unseen", "object": "model", "created": created, "owned_by": "refrain"});
    assert_eq!(list["data"][4], minimal);
    assert_eq!(
        get(&router, "/v1/models").await.1,
        list,
        "the order does not change"
    );

    expected["id"] = json!("org/tiny");
    assert_eq!(get(&router, "/v1/models/org/tiny").await, (200, expected));
    let (status, error) = get(&router, "/v1/models/absent").await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("model_not_found"))
    );
}

#[tokio::test]
async fn an_unknown_model_is_named_beside_those_there_are() {
    let rules = vec![rule(&[exact("m1"), exact("m2")], vec![backend("p")])];
    let router = Router::start(&snapshot(vec![provider("p")], vec![route("r", rules)])).await;
    let mut client = router.client().await;
    let response = client.chat(r#"{"model":"gpt"}"#).await;
    assert_eq!(response.status(), 404);
    let error = response.error();
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("model_not_found"), &json!("model"))
    );
    assert_eq!(
        error["message"],
        "the model `gpt` does not exist; served: m1, m2"
    );

    let response = client.chat(r#"{"messages":[]}"#).await;
    assert_eq!(response.status(), 400);
    assert_eq!(
        response.error()["message"],
        "you must provide a model parameter"
    );
}

#[tokio::test]
async fn the_most_specific_rule_takes_a_model() {
    let engines = [
        Engine::replying(ok("exact")).await,
        Engine::replying(ok("longer")).await,
        Engine::replying(ok("shorter")).await,
        Engine::replying(ok("rest")).await,
    ];
    let names = ["exact", "longer", "shorter", "rest"];
    let claims = [exact("llama-3"), prefix("llama-"), prefix("l"), prefix("")];
    let rules = names
        .iter()
        .zip(claims)
        .map(|(name, claim)| rule(&[claim], vec![backend(name)]));
    let mut providers: Vec<_> = names.iter().map(|name| provider(name)).collect();
    providers.sort_by(|a, b| a.origin.key.cmp(&b.origin.key));
    let router = Router::start(&snapshot(providers, vec![route("r", rules.collect())])).await;
    for (name, engine) in names.iter().zip(&engines) {
        router.members(name, &[engine.address]);
    }
    let mut client = router.client().await;
    for (model, taker) in [
        (r#""llama-3""#, "exact"),
        (r#""llama-3.1""#, "longer"),
        (r#""llama-""#, "longer"),
        (r#""ll""#, "shorter"),
        (r#""é""#, "rest"),
        (r#""""#, "rest"),
        ("null", "rest"),
    ] {
        let response = client.chat(format!(r#"{{"model":{model}}}"#)).await;
        assert_eq!(response.text(), taker, "{model}");
    }
}

#[tokio::test]
async fn weights_share_out_what_is_usable() {
    let (a, b, c) = (
        Engine::replying(ok("a")).await,
        Engine::replying(ok("b")).await,
        Engine::replying(ok("c")).await,
    );
    let weighted = |name: &str, weight| Backend {
        weight,
        ..backend(name)
    };
    let refused = Backend {
        refused: Some(Refused {
            reason: "RefNotPermitted".into(),
            message: "no grant".into(),
        }),
        ..weighted("c", 1000)
    };
    let backends = vec![
        weighted("a", 30),
        weighted("b", 10),
        refused,
        weighted("c", 0),
    ];
    let providers = vec![provider("a"), provider("b"), provider("c")];
    let rules = vec![rule(&[exact("m")], backends)];
    let table = snapshot(providers, vec![route("r", rules)]);
    let router = Router::start(&table).await;
    for (name, engine) in [("a", &a), ("b", &b), ("c", &c)] {
        router.members(name, &[engine.address]);
    }
    let mut client = router.client().await;
    for _ in 0..800 {
        client.chat(r#"{"model":"m"}"#).await;
    }
    assert!(c.requests().is_empty());
    assert!(
        (540..660).contains(&a.requests().len()),
        "{}",
        a.requests().len()
    );
}

#[tokio::test]
async fn a_rule_that_cannot_be_served_says_why_and_falls_to_no_other() {
    let engine = Engine::replying(ok("{}")).await;
    let mut future = rule(&[exact("future")], vec![backend("p")]);
    future.requires = vec!["strategy/Future".into()];
    let rules = vec![future, rule(&[prefix("")], vec![backend("p")])];
    let with_key = Provider {
        auth: Some(bearer("sk\nx")),
        ..provider("q")
    };
    let secret = vec![rule(
        &[exact("secret")],
        vec![backend("q"), backend("gone")],
    )];
    let table = snapshot(
        vec![provider("p"), with_key],
        vec![route("r", rules), route("s", secret)],
    );
    let router = Router::start(&table).await;
    router.members("p", &[engine.address]);
    router.members("q", &[engine.address]);

    let mut client = router.client().await;
    let response = client.chat(r#"{"model":"future"}"#).await;
    assert_eq!(
        (response.status(), response.header("retry-after")),
        (503, Some("1"))
    );
    assert!(
        response.text().contains("upgrade the routers"),
        "{response:?}"
    );
    let response = client.chat(r#"{"model":"secret"}"#).await;
    assert_eq!(response.status(), 503);
    assert!(response.text().contains("Secret s"), "{response:?}");
    assert!(!response.text().contains("sk"), "{response:?}");
    assert_eq!(client.chat(r#"{"model":"other"}"#).await.status(), 200);

    let fleet = refrain_router::fleet::Fleet::default();
    let table =
        refrain_router::table::Table::build(&table, crds::snapshot::Digest("d".into()), &fleet);
    let refused: Vec<_> = table
        .refusals()
        .iter()
        .map(|r| (r.key.name.as_str(), r.reason.as_str()))
        .collect();
    assert_eq!(refused, [("q", "InvalidCredential"), ("r", "Unsupported")]);
}

#[tokio::test]
async fn a_providers_list_of_models_bounds_what_is_sent_to_it() {
    let engine = Engine::replying(ok("{}")).await;
    let listed = Provider {
        models: vec![("public".into(), "upstream".into())],
        ..provider("p")
    };
    let mut table = everything_to("p");
    table.providers = vec![listed];
    let router = Router::start(&table).await;
    router.members("p", &[engine.address]);
    let mut client = router.client().await;
    assert_eq!(client.chat(r#"{"model":"other"}"#).await.status(), 404);
    assert_eq!(client.chat(r#"{"model":"public"}"#).await.status(), 200);
    assert_eq!(engine.request().text(), r#"{"model":"upstream"}"#);
}
