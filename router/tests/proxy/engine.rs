//! An engine that does what a test says, connection by connection.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::wire::{Message, Wire};

/// A listening engine; it stops when it drops.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    seen: Seen,
    _tasks: JoinSet<()>,
}

/// The requests that came, and how many connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    requests: Arc<Mutex<Vec<Message>>>,
    connections: Arc<Mutex<usize>>,
}

impl Seen {
    /// Another connection; how many came before it.
    fn connected(&self) -> usize {
        let mut count = self.connections.lock();
        *count += 1;
        *count - 1
    }
}

/// A connection at the engine's end.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    /// Counted from 0.
    pub(crate) number: usize,
    seen: Seen,
}

impl Connection {
    /// The next request, noted as seen.
    pub(crate) async fn request(&mut self) -> Option<Message> {
        let request = self.wire.message().await?;
        self.seen.requests.lock().push(request.clone());
        Some(request)
    }

    /// Gives every request the same reply.
    pub(crate) async fn reply(mut self, reply: Arc<Vec<u8>>) {
        while self.request().await.is_some() {
            self.wire.send(&*reply).await;
        }
    }
}

impl Engine {
    /// Runs `script` for each connection.
    pub(crate) async fn start<F>(script: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Seen::default();
        let noted = seen.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = noted.connected();
                connections.spawn(script(Connection {
                    wire: Wire::new(stream),
                    number,
                    seen: noted.clone(),
                }));
            }
        });
        Self {
            address,
            seen,
            _tasks: tasks,
        }
    }

    /// Gives every request the same reply.
    pub(crate) async fn replying(reply: impl Into<Vec<u8>>) -> Self {
        let reply = Arc::new(reply.into());
        Self::start(move |connection| connection.reply(Arc::clone(&reply))).await
    }

    /// An address at which nobody listens.
    pub(crate) async fn absent() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<Message> {
        self.seen.requests.lock().clone()
    }

    pub(crate) fn request(&self) -> Message {
        let requests = self.requests();
        assert_eq!(requests.len(), 1);
        requests.into_iter().next().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.seen.connections.lock()
    }
}

/// A reply of known length.
pub(crate) fn reply(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

pub(crate) fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    reply("200 OK", "content-type: application/json\r\n", body)
}

/// The head of a streamed reply.
pub(crate) const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                                 transfer-encoding: chunked\r\n\r\n";
