use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::ApiError;

/// The most that is set aside for a body on the word of its `Content-Length` alone.
const MAX_ADVANCE: usize = 1024 * 1024;

/// The body of a request, not read yet.
#[derive(Debug)]
pub(crate) struct Upload {
    body: Incoming,
    ended: bool,
}

impl Upload {
    pub(crate) fn new(body: Incoming) -> Self {
        let ended = body.is_end_stream();
        Self { body, ended }
    }

    /// Whether all of it has been read, so that the connection can take the next request.
    pub(crate) const fn is_read(&self) -> bool {
        self.ended
    }

    /// Reads it whole. One that announces more than `limit` is refused unread.
    pub(crate) async fn read(&mut self, limit: usize) -> Result<Bytes, ApiError> {
        let announced = self.body.size_hint().lower();
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(ApiError::too_large(limit));
        }
        let mut whole = Whole::default();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| ApiError::upload_broke(&error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if whole.len() + data.len() > limit {
                return Err(ApiError::too_large(limit));
            }
            whole.push(data, announced);
        }
        self.ended = true;
        Ok(whole.into_bytes())
    }
}

/// Frames put together; a single one stays as it came.
#[derive(Default)]
struct Whole {
    first: Bytes,
    joined: BytesMut,
}

impl Whole {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, data: Bytes, announced: usize) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            let first = std::mem::take(&mut self.first);
            let enough = announced.min(MAX_ADVANCE).max(first.len() + data.len());
            self.joined.reserve(enough);
            self.joined.extend_from_slice(&first);
        }
        self.joined.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}
