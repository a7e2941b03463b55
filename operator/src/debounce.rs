//! Many events, one compile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// How watches tell the cycle that something changed.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    notify: Notify,
    inputs: AtomicBool,
}

impl Wake {
    /// Something that a compile reads has changed.
    pub(crate) fn inputs(&self) {
        self.inputs.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Something else that a status depends on has changed.
    pub(crate) fn nudge(&self) {
        self.notify.notify_one();
    }

    /// Whether [`Wake::inputs`] was called since the last time this was asked.
    pub(crate) fn take_inputs(&self) -> bool {
        self.inputs.swap(false, Ordering::AcqRel)
    }
}

/// Waits until events have paused for `quiet`, but no longer than `most` after the first.
#[derive(Debug)]
pub(crate) struct Debounce {
    wake: Arc<Wake>,
    quiet: Duration,
    most: Duration,
    /// The first and the last event of the burst that is under way.
    burst: Option<(Instant, Instant)>,
}

impl Debounce {
    pub(crate) const fn new(wake: Arc<Wake>, quiet: Duration, most: Duration) -> Self {
        Self {
            wake,
            quiet,
            most,
            burst: None,
        }
    }

    /// Returns once per burst of events. What it has seen survives when the future is dropped.
    pub(crate) async fn settled(&mut self) {
        loop {
            let (first, last) = if let Some(burst) = self.burst {
                burst
            } else {
                self.wake.notify.notified().await;
                let now = Instant::now();
                (now, now)
            };
            self.burst = Some((first, last));
            let due = (first + self.most).min(last + self.quiet);
            tokio::select! {
                () = self.wake.notify.notified() => self.burst = Some((first, Instant::now())),
                () = sleep_until(due) => {
                    self.burst = None;
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio::time::{sleep, timeout};

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn debounce() -> (Arc<Wake>, Debounce) {
        let wake = Arc::new(Wake::default());
        (Arc::clone(&wake), Debounce::new(wake, 20 * MS, 100 * MS))
    }

    #[tokio::test(start_paused = true)]
    async fn one_event_is_answered_after_the_quiet_time() {
        let (wake, mut debounce) = debounce();
        wake.nudge();
        let start = Instant::now();
        debounce.settled().await;
        assert_eq!(start.elapsed(), 20 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_events_is_answered_after_the_longest_delay() {
        let (wake, mut debounce) = debounce();
        let start = Instant::now();
        let events = futures::stream::repeat(()).for_each(|()| {
            wake.inputs();
            sleep(10 * MS)
        });
        tokio::select! {
            () = debounce.settled() => {}
            () = events => {}
        }
        assert_eq!(start.elapsed(), 100 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_not_lost_when_the_wait_is_dropped() {
        let (wake, mut debounce) = debounce();
        wake.nudge();
        assert!(timeout(5 * MS, debounce.settled()).await.is_err());
        debounce.settled().await;
        assert!(timeout(1000 * MS, debounce.settled()).await.is_err());
    }

    #[test]
    fn only_inputs_ask_for_a_compile() {
        let wake = Wake::default();
        wake.nudge();
        assert!(!wake.take_inputs());
        wake.inputs();
        assert!(wake.take_inputs());
        assert!(!wake.take_inputs());
    }
}
