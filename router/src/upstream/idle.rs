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
    /// The one used last that is still good.
    pub(super) fn take(&self) -> Option<Open> {
        let now = Instant::now();
        loop {
            let (mut open, since) = self.0.lock().pop()?;
            if is_fresh(since, now) && open.is_ready() {
                return Some(open);
            }
        }
    }

    pub(super) fn put(&self, open: Open) {
        self.0.lock().push((open, Instant::now()));
    }

    /// Closes those that have been idle for too long, or that the engine has closed.
    pub(crate) fn sweep(&self, now: Instant) {
        self.0
            .lock()
            .retain_mut(|(open, since)| is_fresh(*since, now) && open.is_ready());
    }
}

fn is_fresh(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < IDLE_TIMEOUT
}
