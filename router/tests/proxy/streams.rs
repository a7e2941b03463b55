//! Streams come through as they are: every byte, each as it comes, and a break shows as one.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Client, chat};
use crate::engine::{Connection, Engine, STREAM, ok, reply};
use crate::log;
use crate::router::Router;
use crate::wire::{chunk, eventually};

const BODY: &str = r#"{"model":"m","stream":true}"#;
const CAPTURED: &str = include_str!("../data/stream.sse");
const CAPTURED_HEAD: &str = include_str!("../data/stream_headers.txt");

/// Sends `pieces`, each once the client has read the one before.
async fn in_step(pieces: Vec<Vec<u8>>) -> (Engine, mpsc::Sender<()>) {
    let (read_tx, read_rx) = mpsc::channel(1);
    let script = Mutex::new(Some((pieces, read_rx)));
    let engine = Engine::start(move |connection| {
        let (pieces, read_rx) = script.lock().take().unwrap();
        send_in_step(connection, pieces, read_rx)
    })
    .await;
    (engine, read_tx)
}

async fn send_in_step(
    mut connection: Connection,
    pieces: Vec<Vec<u8>>,
    mut read_rx: mpsc::Receiver<()>,
) {
    for pair in pieces.chunks(2) {
        connection.request().await.unwrap();
        connection.wire.send(STREAM).await;
        for piece in pair {
            connection.wire.send_chunk(piece).await;
            read_rx.recv().await.unwrap();
        }
        connection.wire.send("0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_arrives_byte_for_byte_and_piece_by_piece() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"你好🙂\"}}]}\n\n";
    let cuts = 1..event.len();
    let pieces = cuts.clone().flat_map(|cut| {
        let (first, second) = event.as_bytes().split_at(cut);
        [first.to_vec(), second.to_vec()]
    });
    let (engine, read_tx) = in_step(pieces.collect()).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    for cut in cuts {
        client.send(chat("", BODY)).await;
        let head = client.0.head().await.unwrap();
        assert_eq!(head.header("x-accel-buffering"), Some("no"));
        assert_eq!(head.header("cache-control"), Some("no-cache"));
        // The second piece is sent only once the first has been read.
        assert_eq!(client.0.chunk().await.unwrap(), event.as_bytes()[..cut]);
        read_tx.send(()).await.unwrap();
        assert_eq!(client.0.chunk().await.unwrap(), event.as_bytes()[cut..]);
        read_tx.send(()).await.unwrap();
        assert!(client.0.chunk().await.unwrap().is_empty());
    }
    assert_eq!(engine.connections(), 1, "connections are used again");
}

/// Nagle's algorithm would hold each second piece back until the client's delayed acknowledgement
/// of the first, 40 ms later.
#[tokio::test]
async fn on_a_warm_connection_no_piece_waits_for_an_acknowledgement() {
    const STREAMS: usize = 60;
    let (engine, read_tx) = in_step(vec![b"data: 1\n\n".to_vec(); 2 * STREAMS]).await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    let mut waits = Vec::new();
    for _ in 0..STREAMS {
        client.send(chat("", BODY)).await;
        client.0.head().await.unwrap();
        client.0.chunk().await.unwrap();
        let started = Instant::now();
        read_tx.send(()).await.unwrap();
        client.0.chunk().await.unwrap();
        waits.push(started.elapsed());
        read_tx.send(()).await.unwrap();
        client.0.chunk().await.unwrap();
    }
    waits.sort_unstable();
    let median = waits[STREAMS / 2];
    assert!(median < Duration::from_millis(20), "{median:?}");
}

#[tokio::test]
async fn a_stream_of_a_real_engine_is_relayed_whole() {
    let engine = Engine::start(|mut connection| async move {
        connection.request().await;
        connection.wire.send(CAPTURED_HEAD).await;
        for line in CAPTURED.split_inclusive("\n\n") {
            connection.wire.send_chunk(line).await;
        }
        connection.wire.send("0\r\n\r\n").await;
        connection.wire.closed().await;
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let response = router.client().await.chat(BODY).await;
    assert!(response.whole);
    assert_eq!(response.text(), CAPTURED);
    assert_eq!(response.header("server"), Some("uvicorn"));
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
}

#[tokio::test]
async fn an_engines_own_cache_control_stays() {
    let head = STREAM.replace("\r\n\r\n", "\r\ncache-control: no-store\r\n\r\n");
    let engine = Engine::replying(format!("{head}5\r\ndata:\r\n0\r\n\r\n")).await;
    let router = Router::of(&[&engine]).await;
    let response = router.client().await.chat(BODY).await;
    assert_eq!(response.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn an_error_in_place_of_a_stream_keeps_its_shape() {
    let error = r#"{"error":{"message":"Unsupported reasoning_effort: xhigh","type":"x"}}"#;
    let json = "content-type: application/json\r\n";
    let engine = Engine::replying(reply("400 Bad Request", json, error)).await;
    let router = Router::of(&[&engine]).await;
    let response = router.client().await.chat(BODY).await;
    assert_eq!((response.status(), response.text().as_str()), (400, error));
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(
        response.header("content-length"),
        Some(error.len().to_string().as_str())
    );
}

const EVENTS: [&str; 3] = ["data: one\n\n", "data: two\n\n", "data: three\n\n"];

/// Sends three events and `more`, and breaks off by `end`.
async fn breaking<F>(
    more: &'static str,
    end: impl Fn(Connection) -> F + Copy + Send + Sync + 'static,
) -> Engine
where
    F: Future<Output = ()> + Send + 'static,
{
    Engine::start(move |mut connection| async move {
        connection.request().await;
        connection.wire.send(STREAM).await;
        for event in EVENTS.iter().chain([&more]).filter(|e| !e.is_empty()) {
            connection.wire.send_chunk(event).await;
        }
        end(connection).await;
    })
    .await
}

/// What a client gets of a stream that `engine` breaks off, while another is there to take over.
async fn broken(engine: &Engine, id: &str) -> String {
    let other = Engine::replying(ok("other")).await;
    let router = Router::of(&[engine]).await;
    let mut client = router.client().await;
    client
        .send(chat(&format!("x-request-id: {id}\r\n"), BODY))
        .await;
    eventually("the engine has the request", || {
        engine.requests().len() == 1
    })
    .await;
    router.members("p", &[engine.address, other.address]);
    let response = client.response().await;
    assert_eq!(response.status(), 200);
    assert!(!response.whole, "a break must show: {response:?}");
    assert!(other.requests().is_empty(), "nothing is sent twice");
    eventually("it is logged", || log::lines(id).len() == 1).await;
    assert_eq!(log::lines(id)[0]["outcome"], "broken_stream");
    eventually("nothing is in flight", || router.in_flight() == 0).await;
    response.text()
}

#[tokio::test]
async fn a_break_between_events_is_told_and_shows() {
    for (i, engine) in [
        breaking("", |connection| async move { drop(connection) }).await,
        breaking("", |mut connection| async move {
            connection.wire.send("5\r\nda").await;
            connection.wire.send("zz").await;
        })
        .await,
    ]
    .iter()
    .enumerate()
    {
        let text = broken(engine, &format!("break-{i}")).await;
        let events = EVENTS.concat();
        assert!(text.starts_with(&events), "{text}");
        assert!(
            !text.contains("[DONE]") && !text.contains("finish_reason"),
            "{text}"
        );
        if i == 0 {
            let error = text.strip_prefix(&events).unwrap();
            let error = error
                .strip_prefix("data: ")
                .unwrap()
                .strip_suffix("\n\n")
                .unwrap();
            let error: serde_json::Value = serde_json::from_str(error).unwrap();
            assert_eq!(error["error"]["code"], "stream_broken");
        }
    }
}

#[tokio::test]
async fn a_reset_between_events_shows() {
    let engine = breaking("", |mut connection| async move {
        // Once the client has all three.
        connection.wire.head().await;
        connection.wire.reset();
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let mut client: Client = router.client().await;
    client.send(chat("", BODY)).await;
    let mut head = client.0.head().await.unwrap();
    let mut came = Vec::new();
    while came.len() < EVENTS.concat().len() {
        came.extend(client.0.chunk().await.unwrap());
    }
    drop(engine);
    client.0.body(&mut head).await;
    assert!(!head.whole);
    assert!(head.text().contains("stream_broken"), "{head:?}");
}

#[tokio::test]
async fn a_break_within_an_event_shows_without_garbling_it() {
    let engine = breaking("data: {\"cho", |connection| async move { drop(connection) }).await;
    let text = broken(&engine, "break-within").await;
    assert_eq!(text, format!("{}data: {{\"cho", EVENTS.concat()));
}

#[tokio::test]
async fn a_reply_of_known_length_that_breaks_off_is_short() {
    let engine = Engine::start(|mut connection| async move {
        connection.request().await;
        connection
            .wire
            .send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"par")
            .await;
    })
    .await;
    assert_eq!(broken(&engine, "break-length").await, "{\"par");
}

#[tokio::test]
async fn a_stream_without_done_that_ends_in_order_is_passed_as_it_is() {
    let engine = Engine::start(|mut connection| async move {
        connection.request().await;
        connection.wire.send(STREAM).await;
        connection
            .wire
            .send_chunk("data: {\"choices\":[]}\n\n")
            .await;
        connection.wire.send("0\r\n\r\n").await;
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let response = router.client().await.chat(BODY).await;
    assert!(response.whole);
    assert_eq!(response.text(), "data: {\"choices\":[]}\n\n");
}

async fn ten_streams(mut client: Client) {
    for _ in 0..10 {
        let response = client.chat(BODY).await;
        assert!(response.whole);
        assert_eq!(response.text(), CAPTURED);
    }
}

#[tokio::test]
async fn many_streams_at_once_end_whole() {
    let events = CAPTURED.split_inclusive("\n\n").map(chunk);
    let streamed = [
        STREAM.into(),
        events.collect::<Vec<_>>().concat(),
        "0\r\n\r\n".into(),
    ];
    let engine = Engine::replying(streamed.concat()).await;
    let router = Router::of(&[&engine, &engine]).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..50 {
        clients.spawn(ten_streams(router.client().await));
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    assert_eq!(router.in_flight(), 0);
}
