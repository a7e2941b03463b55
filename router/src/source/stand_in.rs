//! An API server inside the process that misbehaves on demand, for tests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use crds::api::Port;
use crds::snapshot::{Key, Origin, Provider, Service, ServicePort, Snapshot};
use futures::{StreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Reply = UnsyncBoxBody<Bytes, Infallible>;

/// A snapshot of one Provider, which is of the Service `engines`.
pub(crate) fn snapshot_of(provider: Key, generation: i64) -> Snapshot {
    let provider = Provider {
        origin: Origin {
            uid: provider.to_string(),
            key: provider,
            generation,
            created: String::new(),
        },
        service: Service {
            name: "engines".into(),
            port: Port::Number(80),
            slice_port: Some(ServicePort::Name("http".into())),
        },
        auth: None,
        models: vec![],
        refused: None,
    };
    Snapshot {
        providers: vec![provider],
        ..Snapshot::empty()
    }
}

/// Holds the objects of one kind in one namespace.
#[derive(Clone, Default)]
pub(crate) struct StandIn(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    log: Vec<(u64, String)>,
    watches: Vec<mpsc::UnboundedSender<String>>,
    /// Every request gets this status.
    pub(crate) fails: Option<u16>,
    /// No request is answered at all.
    pub(crate) hangs: bool,
    /// Watches stay open and tell nothing.
    pub(crate) silent: bool,
    /// A watch from before this version is told 410.
    pub(crate) oldest: u64,
    /// 410 comes as an HTTP status instead of an event.
    pub(crate) gone_as_status: bool,
    /// Requests that got it.
    pub(crate) failed: u32,
    /// Lists and watches asked for, as path and query.
    pub(crate) asked: Vec<String>,
    /// Bodies of writes.
    pub(crate) written: Vec<Value>,
}

impl StandIn {
    pub(crate) fn client(&self) -> Client {
        let state = self.clone();
        let service = tower::service_fn(move |request| {
            let state = state.clone();
            async move { Ok::<_, Infallible>(state.answer(request).await) }
        });
        Client::new(service, "ns")
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock());
    }

    pub(crate) fn get<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.lock())
    }

    pub(crate) fn apply(&self, mut object: Value) {
        let mut state = self.0.lock();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["resourceVersion"] = json!((state.version + 1).to_string());
        let known = state.objects.insert(name, object.clone()).is_some();
        state.tell(if known { "MODIFIED" } else { "ADDED" }, object);
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut state = self.0.lock();
        let mut object = state.objects.remove(name).unwrap();
        object["metadata"]["resourceVersion"] = json!((state.version + 1).to_string());
        state.tell("DELETED", object);
    }

    /// Ends every open watch, as a plain end of its stream.
    pub(crate) fn cut(&self) {
        self.0.lock().watches.clear();
    }

    /// As after a compaction: what is missed from now on can only be listed.
    pub(crate) fn compact(&self) {
        let mut state = self.0.lock();
        state.log.clear();
        state.oldest = state.version;
    }

    async fn answer(&self, request: Request<Body>) -> Response<Reply> {
        let (hangs, fails) = self.get(|s| (s.hangs, s.fails));
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(code) = fails {
            self.set(|s| s.failed += 1);
            return status(code);
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let writes = *request.method() != http::Method::GET;
        if writes {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            self.set(|s| s.written.push(serde_json::from_slice(&body).unwrap()));
            return reply(200, Full::new(body).boxed_unsync());
        }
        let uri = request.uri().to_string();
        self.set(|s| s.asked.push(uri));
        if query.contains("watch=true") {
            self.watch(&query)
        } else {
            self.list()
        }
    }

    fn list(&self) -> Response<Reply> {
        let list = self.get(|s| {
            let items: Vec<_> = s.objects.values().cloned().collect();
            json!({"kind": "List", "apiVersion": "v1", "items": items,
                "metadata": {"resourceVersion": (s.version + 1).to_string()}})
        });
        reply(200, Full::new(list.to_string().into()).boxed_unsync())
    }

    fn watch(&self, query: &str) -> Response<Reply> {
        let from = query
            .split('&')
            .find_map(|p| p.strip_prefix("resourceVersion="));
        // Lists answer one version ahead, so that an empty cluster has a version above 0.
        let from = from.unwrap().parse::<u64>().unwrap().saturating_sub(1);
        let (send, receive) = mpsc::unbounded_channel();
        let mut state = self.0.lock();
        if from < state.oldest {
            if state.gone_as_status {
                return status(410);
            }
            let gone = json!({"type": "ERROR", "object": failure(410)});
            send.send(format!("{gone}\n")).unwrap();
        } else {
            for (_, line) in state.log.iter().filter(|(at, _)| *at > from) {
                send.send(line.clone()).unwrap();
            }
            state.watches.push(send);
        }
        let lines = stream::unfold(receive, |mut receive| async {
            Some((receive.recv().await?, receive))
        });
        let frames = lines.map(|line| Ok(Frame::data(Bytes::from(line))));
        reply(200, StreamBody::new(frames).boxed_unsync())
    }
}

impl State {
    fn tell(&mut self, kind: &str, object: Value) {
        self.version += 1;
        let mut object = object;
        object["metadata"]["resourceVersion"] = json!((self.version + 1).to_string());
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.log.push((self.version, line.clone()));
        if !self.silent {
            self.watches
                .retain(|watch| watch.send(line.clone()).is_ok());
        }
    }
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "StandIn", "message": format!("stand-in says {code}")})
}

fn status(code: u16) -> Response<Reply> {
    reply(
        code,
        Full::new(failure(code).to_string().into()).boxed_unsync(),
    )
}

fn reply(code: u16, body: Reply) -> Response<Reply> {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap();
    reply
}

/// Waits until something holds; time may be paused.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let within = std::time::Duration::from_mins(10);
    assert!(
        tokio::time::timeout(within, wait).await.is_ok(),
        "never: {what}"
    );
}
