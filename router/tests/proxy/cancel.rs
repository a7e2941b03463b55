//! A client that hangs up: the engine is told at once, whatever the request was waiting for.

use std::time::Duration;

use crate::client::{Client, chat};
use crate::engine::{Connection, Engine, STREAM};
use crate::log;
use crate::router::Router;
use crate::wire::eventually;

const PROMPTLY: Duration = Duration::from_millis(100);

/// Sends `body`, lets the engine run `script`, hangs up once `reached`, and checks that the engine
/// saw the connection close in time.
async fn hang_up<F>(
    id: &str,
    body: &str,
    script: impl Fn(Connection) -> F + Send + 'static,
    reached: impl AsyncFnOnce(&mut Client),
) where
    F: Future<Output = Connection> + Send + 'static,
{
    let (closed_tx, closed_rx) = tokio::sync::oneshot::channel();
    let closed_tx = parking_lot::Mutex::new(Some(closed_tx));
    let engine = Engine::start(move |connection| {
        let scripted = script(connection);
        let closed_tx = closed_tx.lock().take();
        async move {
            scripted.await.wire.closed().await;
            closed_tx.unwrap().send(()).unwrap();
        }
    })
    .await;
    let router = Router::of(&[&engine]).await;
    let mut client = router.client().await;
    client
        .send(chat(&format!("x-request-id: {id}\r\n"), body))
        .await;
    eventually("the engine has the request", || {
        engine.requests().len() == 1
    })
    .await;
    assert_eq!(router.in_flight(), 1);
    reached(&mut client).await;

    drop(client);
    tokio::time::timeout(PROMPTLY, closed_rx)
        .await
        .expect("in time")
        .unwrap();
    eventually("nothing is in flight", || router.in_flight() == 0).await;
    eventually("it is logged", || log::lines(id).len() == 1).await;
    assert_eq!(log::lines(id)[0]["outcome"], "client_closed");
    let counted =
        r#"refrain_requests_total{route="ns/r",provider="ns/p",outcome="client_closed"} 1"#;
    assert!(router.has_metric(counted), "{}", router.metrics());
    assert!(router.has_metric("refrain_requests_in_flight 0"));
    assert_eq!(engine.connections(), 1, "no retry");
}

const STREAMED: &str = r#"{"model":"m","stream":true}"#;
const NOT_STREAMED: &str = r#"{"model":"m"}"#;

async fn silent(mut connection: Connection) -> Connection {
    connection.request().await;
    connection
}

async fn head_then_silent(mut connection: Connection) -> Connection {
    connection.request().await;
    connection.wire.send(STREAM).await;
    connection
}

async fn event_then_silent(mut connection: Connection) -> Connection {
    connection.request().await;
    connection.wire.send(STREAM).await;
    connection.wire.send_chunk("data: 1\n\n").await;
    connection
}

#[tokio::test]
async fn before_the_engine_has_answered() {
    hang_up("cancel-1", STREAMED, silent, async |_| {}).await;
}

#[tokio::test]
async fn before_the_engine_has_answered_a_request_without_a_stream() {
    hang_up("cancel-2", NOT_STREAMED, silent, async |_| {}).await;
}

#[tokio::test]
async fn between_head_and_first_byte() {
    hang_up("cancel-3", STREAMED, head_then_silent, async |_| {}).await;
}

#[tokio::test]
async fn amid_a_stream_that_is_silent() {
    hang_up("cancel-4", STREAMED, event_then_silent, async |client| {
        client.0.head().await.unwrap();
        assert_eq!(client.0.chunk().await.unwrap(), b"data: 1\n\n");
    })
    .await;
}

#[tokio::test]
async fn amid_a_stream_that_flows() {
    let flowing = |mut connection: Connection| async move {
        connection.request().await;
        connection.wire.send(STREAM).await;
        let event = crate::wire::chunk("data: 1\n\n".repeat(1000));
        while connection.wire.try_send(&event).await.is_ok() {}
        connection
    };
    hang_up("cancel-5", STREAMED, flowing, async |client| {
        client.0.head().await.unwrap();
        client.0.chunk().await.unwrap();
    })
    .await;
}
