use std::path::Path;

use axum::routing::post;
use clap::Parser as _;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Notify;

use super::*;

/// An engine whose replies end when they are let go.
async fn engine(tasks: &mut JoinSet<()>, let_go: Arc<Notify>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let chat = move || {
        let rest = Arc::clone(&let_go);
        let last = async move {
            rest.notified().await;
            Ok("data: [DONE]\n\n")
        };
        let first = futures::future::ready(Ok::<_, std::io::Error>("data: one\n\n"));
        let body = futures::stream::once(first).chain(futures::stream::once(last));
        std::future::ready(axum::body::Body::from_stream(body))
    };
    let app = axum::Router::new().route("/v1/chat/completions", post(chat));
    tasks.spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

fn manifests(folder: &Path, engine: SocketAddr) {
    let text = format!(
        "
apiVersion: refrain.dev/v1alpha1
kind: Provider
metadata: {{name: engines}}
spec:
  service: {{name: engines, port: {port}}}
---
apiVersion: refrain.dev/v1alpha1
kind: Route
metadata: {{name: all}}
spec:
  rules: [{{name: all, backendRefs: [{{providerRef: {{name: engines}}}}]}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: engines-1
  labels: {{kubernetes.io/service-name: engines}}
addressType: IPv4
ports: [{{name: http, port: {port}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
",
        port = engine.port()
    );
    std::fs::write(folder.join("all.yaml"), text).unwrap();
}

fn args(more: &[&str]) -> Args {
    let fixed = [
        "refrain-router",
        "--listen=127.0.0.1:0",
        "--admin=127.0.0.1:0",
    ];
    Args::parse_from(fixed.iter().chain(more))
}

type Client = legacy::Client<legacy::connect::HttpConnector, Full<bytes::Bytes>>;

fn client() -> Client {
    legacy::Client::builder(TokioExecutor::new()).build_http()
}

async fn ready(client: &Client, admin: SocketAddr) -> (u16, String) {
    let url = format!("http://{admin}/readyz").parse().unwrap();
    let reply = client.get(url).await.unwrap();
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn becomes(client: &Client, admin: SocketAddr, status: u16) -> String {
    let wait = async {
        loop {
            let (now, body) = ready(client, admin).await;
            if now == status {
                return body;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), wait).await.unwrap()
}

#[tokio::test]
async fn it_serves_from_files_and_a_running_stream_ends_whole_at_shutdown() {
    let mut tasks = JoinSet::new();
    let let_go = Arc::new(Notify::new());
    let engine = engine(&mut tasks, Arc::clone(&let_go)).await;
    let folder = tempfile::tempdir().unwrap();
    manifests(folder.path(), engine);
    let manifests = format!("--manifests={}", folder.path().display());
    let running = build(args(&[&manifests])).await.unwrap();
    let (addresses, shutdown) = (running.addresses, running.shutdown());
    let mut joined = JoinSet::new();
    joined.spawn(running.join());
    let client = client();
    assert_eq!(becomes(&client, addresses.admin, 200).await, "ready\n");
    let request = http::Request::post(format!("http://{}/v1/chat/completions", addresses.data))
        .header("content-type", "application/json")
        .body(Full::from(r#"{"model":"m","messages":[],"stream":true}"#))
        .unwrap();
    let reply = client.request(request.clone()).await.unwrap();
    assert_eq!(reply.status(), 200);
    shutdown.cancel();
    assert!(
        becomes(&client, addresses.admin, 503)
            .await
            .contains("shutting down")
    );
    let refused = async {
        let fresh = self::client();
        while fresh.request(request.clone()).await.is_ok() {}
    };
    timeout(Duration::from_secs(10), refused).await.unwrap();
    let_go.notify_one();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "data: one\n\ndata: [DONE]\n\n");
    let ended = timeout(Duration::from_secs(10), joined.join_next()).await;
    ended.unwrap().unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_waiting_cannot_mend_ends_the_start_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = format!("--admin={}", taken.local_addr().unwrap());
    let table = [
        (
            vec!["--manifests=/nowhere"],
            "--manifests /nowhere cannot be read",
        ),
        (vec!["--manifests=/", &listen], "is the port taken?"),
    ];
    for (more, word) in table {
        let args = Args::parse_from(
            ["refrain-router", "--listen=127.0.0.1:0"]
                .into_iter()
                .chain(if more.len() == 1 {
                    vec!["--admin=127.0.0.1:0"]
                } else {
                    vec![]
                })
                .chain(more),
        );
        let error = build(args).await.unwrap_err();
        assert!(format!("{error:#}").contains(word), "{error:#}");
    }
}

#[tokio::test]
async fn a_task_that_ends_by_itself_ends_the_process_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = format!("--manifests={}", folder.path().display());
    let mut running = build(args(&[&manifests])).await.unwrap();
    running.tasks.spawn(async { ("report", Ok(())) });
    let error = timeout(Duration::from_secs(10), running.join())
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        error.to_string().contains("report ended unexpectedly"),
        "{error}"
    );
}
