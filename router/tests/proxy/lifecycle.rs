//! From start to shutdown, and what is written of each request.

use crate::client::{Client, chat, request};
use crate::engine::{Engine, STREAM, ok, reply};
use crate::log;
use crate::router::{Router, everything_to};
use crate::wire::eventually;

const BODY: &str = r#"{"model":"m","stream":true}"#;

#[tokio::test]
async fn without_a_table_nothing_is_served_yet() {
    let router = Router::bare().await;
    let response = router.client().await.chat("{}").await;
    assert_eq!(
        (response.status(), response.header("retry-after")),
        (503, Some("1"))
    );
    assert_eq!(response.error()["code"], "not_ready");
}

#[tokio::test]
async fn a_new_table_serves_the_next_request_on_the_same_connection() {
    let (old, new) = (
        Engine::replying(ok("old")).await,
        Engine::replying(ok("new")).await,
    );
    let router = Router::start(&everything_to("p")).await;
    router.members("p", &[old.address]);
    router.members("q", &[new.address]);
    let mut client = router.client().await;
    assert_eq!(client.chat("{}").await.text(), "old");
    router.swap(&everything_to("q"));
    assert_eq!(client.chat("{}").await.text(), "new");
}

#[tokio::test]
async fn a_shutdown_ends_streams_in_order_and_idle_connections_at_once() {
    let (more_tx, more_rx) = tokio::sync::oneshot::channel::<()>();
    let more_rx = parking_lot::Mutex::new(Some(more_rx));
    let engine = Engine::start(move |mut connection| {
        let more_rx = more_rx.lock().take();
        async move {
            connection.request().await;
            connection.wire.send(STREAM).await;
            connection.wire.send_chunk("data: 1\n\n").await;
            more_rx.unwrap().await.unwrap();
            connection.wire.send_chunk("data: [DONE]\n\n").await;
            connection.wire.send("0\r\n\r\n").await;
            connection.wire.closed().await;
        }
    })
    .await;
    let mut router = Router::of(&[&engine]).await;
    let mut idle = router.client().await;
    assert_eq!(
        idle.ask(request("GET /v1/models", "", "")).await.status(),
        200
    );
    let mut client = router.client().await;
    client.send(chat("", BODY)).await;
    let mut head = client.0.head().await.unwrap();
    client.0.chunk().await.unwrap();

    router.shutdown.cancel();
    idle.0.closed_in_silence().await;
    let refused = async || {
        tokio::net::TcpStream::connect(router.address)
            .await
            .is_err()
    };
    while !refused().await {
        tokio::task::yield_now().await;
    }
    more_tx.send(()).unwrap();
    client.0.body(&mut head).await;
    assert!(head.whole);
    assert_eq!(head.text(), "data: [DONE]\n\n");
    client.0.closed_in_silence().await;
    router.tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_under_way_at_shutdown_is_the_last_of_its_connection() {
    let (go_tx, go_rx) = tokio::sync::oneshot::channel::<()>();
    let go_rx = parking_lot::Mutex::new(Some(go_rx));
    let engine = Engine::start(move |mut connection| {
        let go_rx = go_rx.lock().take();
        async move {
            connection.request().await;
            go_rx.unwrap().await.unwrap();
            connection.wire.send(ok("last")).await;
            connection.wire.closed().await;
        }
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    client.send(chat("", "{}")).await;
    eventually("the engine has it", || engine.requests().len() == 1).await;
    router.shutdown.cancel();
    tokio::task::yield_now().await;
    go_tx.send(()).unwrap();
    let response = client.response().await;
    assert_eq!(
        (response.text().as_str(), response.header("connection")),
        ("last", Some("close"))
    );
}

#[tokio::test]
async fn each_request_is_logged_once_and_counted_once() {
    let engine = Engine::replying(ok("hello")).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let body = r#"{"model":"m"}"#;
    client
        .ask(chat(
            "x-request-id: log-1\r\nauthorization: Bearer sk-client\r\n",
            body,
        ))
        .await;
    eventually("it is logged", || log::lines("log-1").len() == 1).await;
    let line = log::lines("log-1").remove(0);
    let fields: [(&str, serde_json::Value); 16] = [
        ("level", "INFO".into()),
        ("target", "access".into()),
        ("method", "POST".into()),
        ("path", "/v1/chat/completions".into()),
        ("status", 200.into()),
        ("outcome", "ok".into()),
        ("route", "ns/r".into()),
        ("rule", "rule".into()),
        ("model", "m".into()),
        ("upstream_model", "m".into()),
        ("provider", "ns/p".into()),
        ("endpoint", engine.address.to_string().into()),
        ("attempts", 1.into()),
        ("stream", false.into()),
        ("bytes_in", body.len().into()),
        ("bytes_out", 5.into()),
    ];
    for (field, value) in fields {
        assert_eq!(line[field], value, "{field}");
    }
    assert!(line["duration_ms"].as_f64().unwrap() >= line["ttfb_ms"].as_f64().unwrap());
    assert!(!line.to_string().contains("sk-client"));
    assert_eq!(line["caller"].as_str().unwrap().len(), 12);
    for metric in [
        r#"refrain_requests_total{route="ns/r",provider="ns/p",outcome="ok"} 1"#,
        r#"refrain_request_duration_seconds_count{route="ns/r"} 1"#,
        r#"refrain_time_to_first_byte_seconds_count{route="ns/r"} 1"#,
        "refrain_requests_in_flight 0",
    ] {
        assert!(router.has_metric(metric), "{metric}\n{}", router.metrics());
    }
}

async fn outcome(client: &mut Client, id: &str, line: &str, body: &str) -> String {
    client
        .ask(request(line, &format!("x-request-id: {id}\r\n"), body))
        .await;
    eventually("it is logged", || !log::lines(id).is_empty()).await;
    let lines = log::lines(id);
    assert_eq!(lines.len(), 1);
    lines[0]["outcome"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn outcomes_tell_apart_who_failed() {
    let bad = Engine::replying(reply("500 Internal Server Error", "", "x")).await;
    let router = Router::of(&[&bad]).await;
    let mut client = router.client().await;
    let chat = "POST /v1/chat/completions";
    assert_eq!(
        outcome(&mut client, "out-1", chat, "{}").await,
        "engine_error"
    );
    assert_eq!(
        outcome(&mut client, "out-2", chat, "{").await,
        "client_error"
    );
    assert_eq!(
        outcome(&mut client, "out-3", "GET /x", "").await,
        "client_error"
    );
    assert_eq!(
        outcome(&mut client, "out-4", "GET /v1/models", "").await,
        "ok"
    );
    router.members("p", &[Engine::absent().await]);
    assert_eq!(
        outcome(&mut client, "out-5", chat, "{}").await,
        "upstream_error"
    );
    router.members("p", &[]);
    assert_eq!(
        outcome(&mut client, "out-6", chat, "{}").await,
        "no_endpoint"
    );
    let unrouted = r#"refrain_requests_total{route="",provider="",outcome="client_error"} 2"#;
    assert!(router.has_metric(unrouted), "{}", router.metrics());
}

#[tokio::test]
async fn a_client_that_leaves_amid_its_upload_is_no_error() {
    let router = Router::start(&everything_to("p")).await;
    let mut client = router.client().await;
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-request-id: leave\r\ncontent-length: 10\r\n\r\n{";
    client.send(head).await;
    eventually("it has come", || {
        router.has_metric("refrain_requests_in_flight 1")
    })
    .await;
    drop(client);
    eventually("it is logged", || log::lines("leave").len() == 1).await;
    assert_eq!(log::lines("leave")[0]["outcome"], "client_closed");
}

#[tokio::test]
async fn a_client_cannot_fill_the_log() {
    let router = Router::start(&everything_to("p")).await;
    let body = format!(r#"{{"model":"{}"}}"#, "é".repeat(1024 * 1024));
    let chat = "POST /v1/chat/completions";
    let mut client = router.client().await;
    assert_eq!(
        outcome(&mut client, "long", chat, &body).await,
        "no_endpoint"
    );
    assert_eq!(log::lines("long")[0]["model"].as_str().unwrap().len(), 256);
}
