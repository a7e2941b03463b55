//! What of a head goes on, and what does not.

use crds::snapshot::{Auth, Provider, Snapshot};

use crate::client::{chat, request};
use crate::engine::{Engine, ok, reply};
use crate::router::{Router, bearer, everything_to, provider};
use crate::wire::Message;

const CREDENTIALS: &str = "authorization: Bearer client\r\nx-api-key: client\r\napi-key: client\r\n\
                           proxy-authorization: Basic client\r\ncookie: session=client\r\n";

/// What the engine of a Provider with `auth` gets of `headers`.
async fn forwarded(auth: Option<Auth>, headers: &str) -> Message {
    let engine = Engine::replying(ok("{}")).await;
    let provider = Provider {
        auth,
        ..provider("p")
    };
    let router = Router::start(&Snapshot {
        providers: vec![provider],
        ..everything_to("p")
    })
    .await;
    router.members("p", &[engine.address]);
    let response = router.client().await.ask(chat(headers, "{}")).await;
    assert_eq!(response.status(), 200);
    let request = engine.request();
    assert_eq!(
        request.header("host"),
        Some(engine.address.to_string().as_str())
    );
    request
}

#[tokio::test]
async fn a_clients_credentials_stay_with_the_router() {
    let request = forwarded(None, CREDENTIALS).await;
    assert!(!format!("{request:?}").contains("client"), "{request:?}");
}

#[tokio::test]
async fn a_providers_credential_takes_the_place_of_the_clients() {
    let request = forwarded(Some(bearer("sk-provider")), CREDENTIALS).await;
    assert_eq!(request.header("authorization"), Some("Bearer sk-provider"));
    assert!(!format!("{request:?}").contains("client"), "{request:?}");
}

#[tokio::test]
async fn a_client_speaks_for_itself_where_the_provider_wants_it() {
    let request = forwarded(Some(Auth::Passthrough), CREDENTIALS).await;
    assert_eq!(request.header("authorization"), Some("Bearer client"));
    assert_eq!(request.header("x-api-key"), Some("client"));
    for name in ["api-key", "proxy-authorization", "cookie"] {
        assert_eq!(request.header(name), None);
    }
}

#[tokio::test]
async fn what_is_about_the_clients_connection_goes_no_further() {
    let headers = "connection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
                   te: trailers\r\nx-kept: a\r\ntraceparent: 00-1-2-01\r\nx-request-id: mine\r\n";
    let request = forwarded(None, headers).await;
    for name in ["connection", "x-hop", "keep-alive", "te"] {
        assert_eq!(request.header(name), None, "{name}");
    }
    assert_eq!(request.header("x-kept"), Some("a"));
    assert_eq!(request.header("traceparent"), Some("00-1-2-01"));
    assert_eq!(request.header("x-request-id"), Some("mine"));
}

#[tokio::test]
async fn what_is_about_the_engines_connection_goes_no_further() {
    let headers = "connection: close, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nvary: Origin\r\n\
                   set-cookie: a=1\r\nset-cookie: b=2\r\n";
    let engine = Engine::replying(reply("200 OK", headers, "{}")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let response = client.chat("{}").await;
    for name in ["connection", "x-hop", "keep-alive"] {
        assert_eq!(response.header(name), None, "{name}");
    }
    assert_eq!(response.header("vary"), Some("Origin"));
    let cookies = response
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie");
    assert_eq!(cookies.count(), 2);
    assert_eq!(
        client.chat("{}").await.status(),
        200,
        "the client's connection lives on"
    );
}

#[tokio::test]
async fn every_request_has_an_id() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let mine = client.ask(chat("x-request-id: mine\r\n", "{}")).await;
    assert_eq!(mine.header("x-request-id"), Some("mine"));
    let made = client.chat("{}").await;
    let made = made.header("x-request-id").unwrap();
    assert_eq!(made.len(), 32);
    let seen = engine.requests().pop().unwrap();
    assert_eq!(seen.header("x-request-id"), Some(made));
}

#[tokio::test]
async fn a_head_of_a_quarter_mebibyte_goes_through() {
    let ids = "128255,".repeat(32 * 1024);
    let headers = format!("x-refrain-token-ids: {ids}\r\n");
    let request = forwarded(None, &headers).await;
    assert_eq!(request.header("x-refrain-token-ids"), Some(ids.as_str()));
}

#[tokio::test]
async fn what_is_not_served_is_refused_in_words() {
    let engine = Engine::replying(ok("{}")).await;
    let router = Router::of(&[&engine]).await;
    for (line, status, allow) in [
        ("GET /", 404, None),
        ("HEAD /", 404, None),
        ("POST /v1/embeddings", 404, None),
        ("POST /v1/chat/completions/", 404, None),
        ("GET /v1/chat/completions", 405, Some("POST")),
        ("OPTIONS /v1/chat/completions", 405, Some("POST")),
        ("OPTIONS /v1/models", 405, Some("GET")),
        ("DELETE /v1/models/m", 405, Some("GET")),
    ] {
        let mut client = router.client().await;
        let preflight = "origin: https://a\r\naccess-control-request-method: POST\r\n";
        client.send(request(line, preflight, "")).await;
        let mut response = client.0.head().await.unwrap();
        assert_eq!(
            (response.status(), response.header("allow")),
            (status, allow),
            "{line}"
        );
        if !line.starts_with("HEAD") {
            client.0.body(&mut response).await;
            assert!(response.error()["message"].as_str().unwrap().contains('/'));
        }
        assert_eq!(
            client.chat("{}").await.status(),
            200,
            "the connection lives on"
        );
    }
    assert_eq!(engine.requests().len(), 8);
}
