use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

use futures::task::AtomicWaker;

/// Nobody is at the connection: what happens there wakes whoever waits for it.
const OPEN: u8 = 0;
/// Whoever waits for the connection is driving it, and will see what happens there.
const SHUT: u8 = 1;
/// Something happened meanwhile.
const KNOCKED: u8 = 2;

/// The waker of a connection. Asking for more makes a connection wake its task; as that is the very
/// task that asks, each such wake would only have it run a second time, on another thread at that.
/// The gate lets none through while the task is at it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: AtomicU8,
    waiting: AtomicWaker,
}

impl Gate {
    /// Keeps wakes back, forgetting those of before; they are for `waker` once it opens again.
    pub(super) fn shut(&self, waker: &Waker) {
        self.waiting.register(waker);
        self.state.store(SHUT, Ordering::Release);
    }

    /// Whether something has happened since it was shut.
    pub(super) fn is_knocked_at(&self) -> bool {
        self.state.load(Ordering::Acquire) == KNOCKED
    }

    /// Lets wakes through again. Whether something has happened since it was shut.
    pub(super) fn open(&self) -> bool {
        self.state.swap(OPEN, Ordering::AcqRel) == KNOCKED
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let knock = self
            .state
            .compare_exchange(SHUT, KNOCKED, Ordering::AcqRel, Ordering::Acquire);
        if knock == Err(OPEN) {
            self.waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Count(AtomicU8);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_happens_while_it_is_shut_is_told_when_it_opens_and_wakes_nobody() {
        let (gate, count) = (Arc::new(Gate::default()), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let woken = || count.0.load(Ordering::Relaxed);
        gate.shut(&waker);
        gate.wake_by_ref();
        gate.wake_by_ref();
        assert_eq!(woken(), 0);
        assert!(gate.is_knocked_at());
        assert!(gate.open());

        gate.wake_by_ref();
        assert_eq!(woken(), 1);
        gate.shut(&waker);
        assert!(!gate.open());
    }
}
