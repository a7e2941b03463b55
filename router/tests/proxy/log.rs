//! The access log of this process.

use std::io;
use std::sync::OnceLock;

use parking_lot::Mutex;
use serde_json::Value;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Sink;

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts to keep what is logged.
pub(crate) fn keep() {
    static KEPT: OnceLock<()> = OnceLock::new();
    KEPT.get_or_init(|| {
        tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_env_filter("access=info")
            .with_writer(|| Sink)
            .init();
    });
}

/// The lines about a request.
pub(crate) fn lines(request_id: &str) -> Vec<Value> {
    let lines = LINES.lock();
    let lines = lines.split(|&byte| byte == b'\n').filter(|l| !l.is_empty());
    lines
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter(|line| line["request_id"] == request_id)
        .collect()
}
