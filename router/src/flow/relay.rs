//! Hands a reply to the client: its head without what was about the engine's connection, its body
//! frame by frame as it comes.

mod body;
mod live;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, HeaderValue, Response, StatusCode, response};

pub(crate) use self::body::Body;
use self::body::Content;
pub(super) use self::live::Live;
use super::hop;
use super::record::{REQUEST_ID, Record};
use crate::api::ApiError;
use crate::fleet::InFlight;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A reply, live or not.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

impl Reply {
    /// An engine's.
    pub(super) fn live(head: response::Parts, live: Live) -> Self {
        let mut headers = head.headers;
        hop::strip(&mut headers);
        if is_event_stream(&headers) {
            unbuffered(&mut headers);
        }
        Self {
            status: head.status,
            headers,
            content: Content::Live(live),
        }
    }

    /// A document of the router's own.
    pub(super) fn json(body: Bytes) -> Self {
        let json = HeaderValue::from_static("application/json");
        Self {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            content: Content::Whole(body),
        }
    }

    pub(super) fn error(error: &ApiError) -> Self {
        Self {
            status: error.status(),
            headers: error.headers(),
            content: Content::Whole(error.body()),
        }
    }

    /// The endpoint is busy with it until its end.
    pub(super) fn counted(mut self, in_flight: InFlight) -> Self {
        if let Content::Live(live) = &mut self.content {
            live.count(in_flight);
        }
        self
    }
}

/// The response for a reply. Unless the request `is_read` to its end, the connection can take no
/// other.
pub(super) fn relay(reply: Reply, mut record: Box<Record>, is_read: bool) -> Response<Body> {
    record.replied(reply.status);
    let mut headers = reply.headers;
    headers.insert(REQUEST_ID, record.request_id.clone());
    if !is_read {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let breaks_visibly = is_event_stream(&headers) && is_plain(&headers);
    let mut response = Response::new(Body::new(reply.content, breaks_visibly, record));
    *response.status_mut() = reply.status;
    *response.headers_mut() = headers;
    response
}

pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.and_then(|kind| kind.get(..EVENT_STREAM.len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

fn is_plain(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_none_or(|encoding| encoding == "identity")
}

/// Tells proxies on the way to the client to pass each event on as it comes.
fn unbuffered(headers: &mut HeaderMap) {
    headers
        .entry(X_ACCEL_BUFFERING)
        .or_insert(HeaderValue::from_static("no"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache"));
}
