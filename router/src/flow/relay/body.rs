use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::Live;
use crate::api::error::broken_stream;
use crate::flow::record::Record;

/// The body of a response. It completes the request's record: at its end, when it breaks, or by
/// being dropped since the client is gone.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    /// It is an event stream of unknown length: a break can be told in words.
    breaks_visibly: bool,
    tail: Tail,
    record: Box<Record>,
}

#[derive(Debug)]
pub(super) enum Content {
    Whole(Bytes),
    Live(Live),
    /// The engine broke off.
    Broken(Broken),
}

/// What is left to do before the client's connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Let what was relayed reach the socket.
    Flush,
    Cut,
}

/// The reply broke off after its first byte.
#[derive(Debug, thiserror::Error)]
#[error("the engine broke off its reply")]
pub(crate) struct BrokeOff;

impl Body {
    pub(super) fn new(content: Content, breaks_visibly: bool, record: Box<Record>) -> Self {
        let of_unknown_length = match &content {
            Content::Live(live) => live.size_hint().exact().is_none(),
            _ => false,
        };
        Self {
            content,
            breaks_visibly: breaks_visibly && of_unknown_length,
            tail: Tail::default(),
            record,
        }
    }

    fn data(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        self.record.relayed(data.len());
        if self.breaks_visibly {
            self.tail.push(&data);
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        let Content::Live(live) = &mut self.content else {
            return Poll::Ready(None);
        };
        match ready!(live.poll_frame(cx)) {
            None => Poll::Ready(None),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => self.data(data),
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
            },
            Some(Err(error)) => {
                tracing::debug!(%error, "an engine broke off its reply");
                self.record.broke();
                self.content = Content::Broken(Broken::Flush);
                // Inside an event, words would only garble what the client has of it.
                if self.breaks_visibly && self.tail.is_between_events() {
                    return self.data(error_event());
                }
                self.poll_broken(cx)
            }
        }
    }

    /// Gives the connection one turn to write what was relayed, and then cuts it.
    fn poll_broken(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        match &mut self.content {
            Content::Broken(next) if *next == Broken::Flush => {
                *next = Broken::Cut;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(Some(Err(BrokeOff))),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.data(bytes)
            }
            Content::Live(_) => self.poll_live(cx),
            Content::Broken(_) => self.poll_broken(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Live(live) => live.is_end_stream(),
            Content::Broken(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Live(live) => live.size_hint(),
            Content::Broken(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if http_body::Body::is_end_stream(self) {
            self.record.ended();
        }
    }
}

/// The last bytes that were relayed.
#[derive(Debug, Default)]
struct Tail([u8; 4]);

impl Tail {
    fn push(&mut self, data: &[u8]) {
        for &byte in data.iter().skip(data.len().saturating_sub(self.0.len())) {
            self.0.rotate_left(1);
            if let Some(last) = self.0.last_mut() {
                *last = byte;
            }
        }
    }

    fn is_between_events(&self) -> bool {
        let ends: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];
        ends.iter().any(|end| self.0.ends_with(end))
    }
}

fn error_event() -> Bytes {
    let error = broken_stream("the engine broke off its reply; what came before is not complete");
    let mut event = BytesMut::from("data: ");
    event.extend_from_slice(&error);
    event.extend_from_slice(b"\n\n");
    event.freeze()
}
