use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::fleet::InFlight;
use crate::upstream::Lease;

/// The body of an engine's reply as it comes. Dropped before its end, it closes the engine's
/// connection; at its end it gives the connection back.
#[derive(Debug)]
pub(crate) struct Live {
    first: Option<Bytes>,
    rest: Incoming,
    held: Option<Held>,
}

/// What a reply holds until it has come whole.
#[derive(Debug)]
struct Held {
    lease: Lease,
    in_flight: Option<InFlight>,
}

impl Live {
    /// A body whose first frame has come; `None` when it ended without any.
    pub(in crate::flow) fn new(first: Option<Bytes>, rest: Incoming, lease: Lease) -> Self {
        let ended = first.is_none() || rest.is_end_stream();
        let held = Held {
            lease,
            in_flight: None,
        };
        let mut live = Self {
            first,
            rest,
            held: Some(held),
        };
        if ended {
            live.release();
        }
        live
    }

    pub(super) fn count(&mut self, in_flight: InFlight) {
        if let Some(held) = &mut self.held {
            held.in_flight = Some(in_flight);
        }
    }

    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            held.lease.give_back();
            drop(held.in_flight);
        }
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let frame = match &mut self.held {
            Some(held) => ready!(held.lease.poll_frame(&mut self.rest, cx)),
            None => None,
        };
        if frame.is_none() || self.rest.is_end_stream() {
            self.release();
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.held.is_none()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        match self.rest.size_hint().exact() {
            _ if self.held.is_none() => SizeHint::with_exact(first),
            Some(rest) => SizeHint::with_exact(first + rest),
            None => SizeHint::default(),
        }
    }
}
