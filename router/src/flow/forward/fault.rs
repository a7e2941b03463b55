use http::StatusCode;

use super::Reply;
use crate::upstream::SendError;

/// Why an endpoint gave nothing that can be relayed, or nothing that should be while there are
/// others.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("the connection broke after the head of the reply: {0}")]
    Cut(#[source] hyper::Error),
    #[error("the stream ended before it began")]
    Empty,
    /// The engine says so itself. Its reply is passed on if nobody has a better one.
    #[error("the engine replied {0}")]
    Busy(StatusCode, Option<Box<Reply>>),
}

impl Fault {
    /// As metrics say it.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Send(SendError::Connect(_)) => "connect",
            Self::Send(SendError::Broken { .. }) => "reset",
            Self::Cut(_) => "cut",
            Self::Empty => "empty",
            Self::Busy(StatusCode::BAD_GATEWAY, _) => "502",
            Self::Busy(StatusCode::GATEWAY_TIMEOUT, _) => "504",
            Self::Busy(..) => "503",
        }
    }

    /// Whether the engine may only have closed an idle connection as the request was sent.
    pub(super) const fn is_stale(&self) -> bool {
        matches!(self, Self::Send(SendError::Broken { reused: true, .. }))
    }

    pub(super) fn take_reply(&mut self) -> Option<Reply> {
        match self {
            Self::Busy(_, reply) => reply.take().map(|reply| *reply),
            _ => None,
        }
    }
}
