//! Connections to engines: HTTP/1.1, one request at a time on each, kept for the next request.
//!
//! Idle connections live with their endpoint, so that no map is searched and an endpoint that goes
//! takes its connections along. A connection is given back once its reply has been read to the
//! end; dropped before that, it is closed at once, which is how an engine learns that nobody waits
//! for the answer.

mod idle;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(crate) use self::idle::Idle;
use crate::fleet::Endpoint;

/// A pod that is there answers a connection attempt in milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A request as it is sent to an engine.
pub(crate) type Outbound = Request<Full<Bytes>>;

/// Sends requests to endpoints.
#[derive(Debug, Default)]
pub(crate) struct Upstream {
    drivers: TaskTracker,
}

/// Why an endpoint gave no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error("connecting failed: {0}")]
    Connect(#[source] std::io::Error),
    #[error("the connection broke before the reply: {source}")]
    Broken {
        source: hyper::Error,
        /// It had served an earlier request: the engine may just have closed it for idleness.
        reused: bool,
    },
}

/// Where a request may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// An idle connection, else a new one.
    Any,
    /// A new connection.
    New,
}

impl Upstream {
    /// Sends a request and waits for the head of its reply. Dropping the future, or the `Lease`
    /// before the reply has ended, closes the connection.
    pub(crate) async fn send(
        &self,
        endpoint: &Arc<Endpoint>,
        mut request: Outbound,
        via: Via,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        loop {
            let idle = match via {
                Via::Any => endpoint.idle().take(),
                Via::New => None,
            };
            let reused = idle.is_some();
            let mut open = match idle {
                Some(open) => open,
                None => self.connect(endpoint).await?,
            };
            match open.sender.try_send_request(request).await {
                Ok(response) => {
                    let endpoint = Arc::clone(endpoint);
                    return Ok((response, Lease { open, endpoint }));
                }
                Err(mut error) => match error.take_message() {
                    // It was closed before anything went out: nothing happened yet.
                    Some(unsent) if reused => request = unsent,
                    _ => {
                        let source = error.into_error();
                        return Err(SendError::Broken { source, reused });
                    }
                },
            }
        }
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<Open, SendError> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(endpoint.address()))
            .await
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(SendError::Connect)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|source| SendError::Broken {
                    source,
                    reused: false,
                })?;
        let driver = self.drivers.spawn(async move {
            // What went wrong reaches whoever waits for the reply.
            if let Err(error) = connection.await {
                tracing::trace!(%error, "upstream connection ended");
            }
        });
        Ok(Open {
            sender,
            driver: driver.abort_handle(),
        })
    }
}

/// A connection; dropping it closes the socket.
#[derive(Debug)]
struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection with a reply on it.
#[derive(Debug)]
pub(crate) struct Lease {
    open: Open,
    endpoint: Arc<Endpoint>,
}

impl Lease {
    /// The reply was read to its end: the connection serves the next request.
    pub(crate) fn give_back(self) {
        self.endpoint.idle().put(self.open);
    }
}
