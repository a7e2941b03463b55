use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What an engine saw of its inference requests.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Seen {
    /// All of them.
    pub requests: u64,
    /// Being answered now.
    pub running: u64,
    /// Given up by the client before the end, or broken on demand.
    pub cancelled: u64,
    /// The headers of the last one.
    pub headers: BTreeMap<String, String>,
    /// The body of the last one.
    pub body: String,
}

impl Seen {
    /// The two series of vLLM's `/metrics` that a router may read.
    pub(super) fn metrics(&self) -> String {
        let running = self.running;
        format!(
            "# TYPE vllm:num_requests_running gauge\n\
             vllm:num_requests_running{{model_name=\"stand-in\"}} {running}\n\
             # TYPE vllm:num_requests_waiting gauge\n\
             vllm:num_requests_waiting{{model_name=\"stand-in\"}} 0\n"
        )
    }
}

/// One request from its arrival to its end.
pub(super) struct Visit {
    seen: Arc<Mutex<Seen>>,
    finished: bool,
}

impl Visit {
    pub(super) fn new(seen: Arc<Mutex<Seen>>, head: &http::request::Parts, body: &Bytes) -> Self {
        let text =
            |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)));
        {
            let mut seen = seen.lock();
            seen.requests += 1;
            seen.running += 1;
            seen.headers = headers.collect();
            seen.body = String::from_utf8_lossy(body).into_owned();
        }
        Self {
            seen,
            finished: false,
        }
    }

    /// The reply was sent to its end.
    pub(super) fn done(mut self) {
        self.finished = true;
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut seen = self.seen.lock();
        seen.running -= 1;
        if !self.finished {
            seen.cancelled += 1;
        }
    }
}
