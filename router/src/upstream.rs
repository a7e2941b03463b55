//! Connections to engines: HTTP/1.1, one request at a time on each, kept for the next request.
//!
//! A connection has no task of its own: whoever waits for its reply drives it. That keeps a
//! request on one task from the client's socket to the engine's, joins what has come into one
//! write, and makes hanging up immediate: a request that is dropped drops its socket, which is how
//! an engine learns that nobody waits for the answer.
//!
//! Idle connections live with their endpoint, so that no map is searched and an endpoint that goes
//! takes its connections along.

mod gate;
mod idle;
mod open;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::Full;
use hyper::body::Incoming;

pub(crate) use self::idle::Idle;
use self::open::Open;
use crate::fleet::Endpoint;

/// A request as it is sent to an engine.
pub(crate) type Outbound = Request<Full<Bytes>>;

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

/// Sends a request and waits for the head of its reply. Dropping the future, or the `Lease` before
/// the reply has ended, closes the connection.
pub(crate) async fn send(
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
            None => Open::connect(endpoint.address()).await?,
        };
        let mut reply = pin!(open.start(request));
        match poll_fn(|cx| open.drive_for(cx, |cx| reply.as_mut().poll(cx))).await {
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

/// A connection with a reply on it.
#[derive(Debug)]
pub(crate) struct Lease {
    open: Open,
    endpoint: Arc<Endpoint>,
}

impl Lease {
    /// The next frame of the reply's body, which comes only if it is waited for here.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut body = Pin::new(body);
        self.open.drive_for(cx, |cx| body.as_mut().poll_frame(cx))
    }

    /// The reply was read to its end: the connection serves the next request.
    pub(crate) fn give_back(mut self) {
        if self.open.is_ready() {
            self.endpoint.idle().put(self.open);
        }
    }
}
