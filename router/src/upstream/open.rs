use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::gate::Gate;
use super::{Outbound, SendError};

/// A pod that is there answers a connection attempt in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection that still moves after so many turns waits for the next poll.
const MAX_TURNS: usize = 4;

/// A connection; dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Gone once the connection has ended.
    connection: Option<Pin<Box<Connection>>>,
    gate: Arc<Gate>,
    /// Knocks at the gate.
    waker: Waker,
}

type Connection = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

impl Open {
    pub(super) async fn connect(address: SocketAddr) -> Result<Self, SendError> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
            .await
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(SendError::Connect)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|source| SendError::Broken {
            source,
            reused: false,
        })?;
        let gate = Arc::new(Gate::default());
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            waker: Arc::clone(&gate).into(),
            gate,
        })
    }

    /// Hands a request over; it goes out as the connection is driven.
    pub(super) fn start(
        &mut self,
        request: Outbound,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Outbound>>> + use<> {
        self.sender.try_send_request(request)
    }

    /// Drives the connection for what comes of it: `wanted` is polled until it is ready or nothing
    /// moves any more.
    pub(super) fn drive_for<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // It moves only while the connection does, and so has no need to wake anyone.
        let mut wanted = || wanted(&mut Context::from_waker(Waker::noop()));
        self.gate.shut(cx.waker());
        let mut polled = wanted();
        let mut turns = 0;
        while polled.is_pending() && turns < MAX_TURNS {
            self.gate.shut(cx.waker());
            self.drive();
            polled = wanted();
            turns = if self.gate.is_knocked_at() {
                turns + 1
            } else {
                MAX_TURNS
            };
        }
        // Once there is something, whoever took it comes back for more.
        if self.gate.open() && polled.is_pending() {
            cx.waker().wake_by_ref();
        }
        polled
    }

    /// Moves what can be moved.
    fn drive(&mut self) {
        let mut cx = Context::from_waker(&self.waker);
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = connection.as_mut().poll(&mut cx)
        {
            // What went wrong reaches whoever waits for the reply.
            if let Err(error) = ended {
                tracing::trace!(%error, "upstream connection ended");
            }
            self.connection = None;
        }
    }

    /// Whether it can take a request now: the last reply has ended, and the engine has not closed
    /// it as far as is known.
    pub(super) fn is_ready(&mut self) -> bool {
        self.drive();
        self.connection.is_some() && self.sender.is_ready()
    }
}
