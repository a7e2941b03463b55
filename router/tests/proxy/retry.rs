//! What happens when an engine fails before anything of its reply was relayed.

use crate::client::chat;
use crate::engine::{Engine, STREAM, ok, reply};
use crate::log;
use crate::router::{Router, everything_to};
use crate::wire::eventually;

const BODY: &str = r#"{"model":"m","stream":true}"#;

/// An engine that does not serve: it closes each connection after `bytes`.
async fn broken(bytes: &'static str) -> Engine {
    Engine::start(move |mut connection| async move {
        connection.request().await;
        connection.wire.send(bytes).await;
    })
    .await
}

/// Ten requests to a bad engine and a good one are all answered by the good one.
async fn all_go_elsewhere(bad: Engine) {
    let good = Engine::replying(ok("good")).await;
    let router = Router::of(&[&bad, &good]).await;
    for _ in 0..10 {
        assert_eq!(router.client().await.chat(BODY).await.text(), "good");
    }
    assert_eq!(good.requests().len(), 10);
    assert!(!bad.requests().is_empty());
    for request in bad.requests() {
        assert_eq!(request.body, BODY.as_bytes());
    }
    eventually("nothing is in flight", || router.in_flight() == 0).await;
}

#[tokio::test]
async fn a_connection_closed_without_a_word() {
    all_go_elsewhere(broken("").await).await;
}

#[tokio::test]
async fn a_connection_closed_within_the_head() {
    all_go_elsewhere(broken("HTTP/1.1 200 OK\r\ncontent-ty").await).await;
}

#[tokio::test]
async fn a_connection_closed_after_the_head() {
    all_go_elsewhere(broken(STREAM).await).await;
}

#[tokio::test]
async fn a_stream_that_ends_before_it_began() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    all_go_elsewhere(broken(head).await).await;
}

#[tokio::test]
async fn a_connection_reset() {
    let bad = Engine::start(|mut connection| async move {
        connection.request().await;
        connection.wire.reset();
    });
    all_go_elsewhere(bad.await).await;
}

#[tokio::test]
async fn engines_that_say_so_themselves() {
    for status in [
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway Timeout",
    ] {
        all_go_elsewhere(Engine::replying(reply(status, "", "bad")).await).await;
    }
}

#[tokio::test]
async fn other_errors_are_the_answer() {
    for status in [
        "400 Bad Request",
        "429 Too Many Requests",
        "500 Internal Server Error",
    ] {
        let first = Engine::replying(reply(status, "retry-after: 7\r\n", "no")).await;
        let router = Router::of(&[&first, &first]).await;
        let response = router.client().await.chat(BODY).await;
        assert!(response.line.ends_with(status), "{response:?}");
        assert_eq!(
            (response.text().as_str(), response.header("retry-after")),
            ("no", Some("7"))
        );
        assert_eq!(first.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_listen() {
    let good = Engine::replying(ok("good")).await;
    let router = Router::start(&everything_to("p")).await;
    router.members("p", &[Engine::absent().await, good.address]);
    for i in 0..4 {
        let id = format!("absent-{i}");
        let request = chat(&format!("x-request-id: {id}\r\n"), BODY);
        assert_eq!(router.client().await.ask(request).await.text(), "good");
        eventually("it is logged", || log::lines(&id).len() == 1).await;
        let line = &log::lines(&id)[0];
        assert_eq!(line["endpoint"], good.address.to_string());
        assert!([1, 2].contains(&line["attempts"].as_u64().unwrap()));
    }
    let retries = r#"refrain_retries_total{provider="ns/p",reason="connect"} "#;
    assert!(router.metrics().contains(retries), "{}", router.metrics());
}

#[tokio::test]
async fn each_endpoint_is_tried_once_and_no_more_than_allowed() {
    let engines = [
        broken("").await,
        broken("").await,
        broken("").await,
        broken("").await,
    ];
    let router = Router::of(&engines.iter().collect::<Vec<_>>()).await;
    let response = router.client().await.chat(BODY).await;
    assert_eq!(response.status(), 502);
    assert_eq!(response.error()["code"], "upstream_error");
    assert!(response.text().contains("ns/p"));
    let tried = engines.iter().map(|e| e.requests().len());
    assert_eq!(tried.clone().sum::<usize>(), 3, "one and two others");
    assert!(tried.clone().all(|n| n <= 1));
    eventually("nothing is in flight", || router.in_flight() == 0).await;
}

#[tokio::test]
async fn a_busy_pool_passes_on_what_an_engine_said() {
    let busy = reply(
        "503 Service Unavailable",
        "retry-after: 3\r\n",
        "queue full",
    );
    let engine = Engine::replying(busy.clone()).await;
    let dead = broken("").await;
    for engines in [vec![&engine], vec![&engine, &dead], vec![&dead, &engine]] {
        let router = Router::of(&engines).await;
        let response = router.client().await.chat(BODY).await;
        assert_eq!(
            (response.status(), response.text().as_str()),
            (503, "queue full")
        );
        assert_eq!(response.header("retry-after"), Some("3"));
        eventually("nothing is in flight", || router.in_flight() == 0).await;
    }
}

#[tokio::test]
async fn an_engine_that_was_busy_gets_the_next_request() {
    let engine = Engine::start(|mut connection| async move {
        let busy = reply("503 Service Unavailable", "retry-after: 1\r\n", "");
        for _ in 0..10 {
            connection.request().await.unwrap();
            connection.wire.send(&busy).await;
        }
        connection.reply(ok("healthy").into()).await;
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    for _ in 0..10 {
        assert_eq!(client.chat(BODY).await.status(), 503);
    }
    assert_eq!(client.chat(BODY).await.text(), "healthy");
    assert_eq!(engine.connections(), 1);
}

#[tokio::test]
async fn a_pool_without_endpoints_says_so() {
    let router = Router::start(&everything_to("p")).await;
    let response = router.client().await.chat(BODY).await;
    assert_eq!(
        (response.status(), response.header("retry-after")),
        (503, Some("1"))
    );
    let error = response.error();
    assert_eq!(error["code"], "no_endpoint");
    assert_eq!(error["message"], "Provider ns/p has no ready endpoint");
}

#[tokio::test]
async fn an_idle_connection_closed_by_the_engine_loses_no_request() {
    // Closes in all the ways that race with the next request: right after a reply, on the next
    // request's arrival in silence, with a RST.
    let engine = Engine::start(|mut connection| async move {
        let number = connection.number;
        connection.request().await;
        connection.wire.send(ok("first")).await;
        match number % 3 {
            0 => {}
            1 => {
                connection.wire.head().await;
            }
            _ => {
                connection.wire.head().await;
                connection.wire.reset();
            }
        }
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    for _ in 0..60 {
        assert_eq!(client.chat(BODY).await.text(), "first");
    }
}

#[tokio::test]
async fn a_reply_before_the_request_has_gone_out_is_relayed() {
    let engine = Engine::start(|mut connection| async move {
        connection.wire.head().await.unwrap();
        connection
            .wire
            .send(reply("413 Payload Too Large", "", "too long"))
            .await;
        connection.wire.closed().await;
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let body = format!(
        r#"{{"model":"m","prompt":"{}"}}"#,
        "x".repeat(3 * 1024 * 1024)
    );
    let response = router.client().await.chat(body).await;
    assert_eq!(
        (response.status(), response.text().as_str()),
        (413, "too long")
    );
}
