use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Outbound, SendError, undriven};

/// A pod that is there answers a connection attempt in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection; dropping it closes the socket.
#[derive(Debug)]
pub(super) struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Gone once the connection has ended.
    connection: Option<Pin<Box<Connection>>>,
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
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
        })
    }

    /// Hands a request over; it goes out as the connection is driven.
    pub(super) fn start(
        &mut self,
        request: Outbound,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Outbound>>> + use<> {
        self.sender.try_send_request(request)
    }

    /// Moves what can be moved; `cx` is woken when more can.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && let std::task::Poll::Ready(ended) = connection.as_mut().poll(cx)
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
        self.drive(&mut undriven());
        self.connection.is_some() && self.sender.is_ready()
    }
}
