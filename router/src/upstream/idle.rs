use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Open;

/// uvicorn closes idle connections after 5 s: below that, hardly any is lost to the race between
/// its close and our next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The connections to one endpoint that wait for a next request, the longest idle first.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Vec<(Open, Instant)>>);

impl Idle {
    /// The one used last that is ready now.
    pub(super) fn take(&self) -> Option<Open> {
        let now = Instant::now();
        let mut idle = self.0.lock();
        // One whose reply has only just ended may not be ready yet: it stays for the next time.
        let at = idle
            .iter()
            .rposition(|(open, since)| open.sender.is_ready() && is_fresh(*since, now))?;
        Some(idle.remove(at).0)
    }

    pub(super) fn put(&self, open: Open) {
        if !open.sender.is_closed() {
            self.0.lock().push((open, Instant::now()));
        }
    }

    /// Closes those that have been idle for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        self.0
            .lock()
            .retain(|(open, since)| !open.sender.is_closed() && is_fresh(*since, now));
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < IDLE_TIMEOUT
}
