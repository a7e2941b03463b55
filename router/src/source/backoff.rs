use std::time::Duration;

use rand::RngExt as _;

/// Waits that double from `first` to `most`. Each is drawn from its upper half, so that many
/// routers do not come back in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// The API server is asked again soon: what it missed is felt by users.
    pub const API: Self = Self::new(Duration::from_millis(100), Duration::from_secs(5));

    /// Waits from `first` to `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            next: first,
        }
    }

    /// The next wait.
    pub fn wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.most);
        whole.mul_f64(rand::rng().random_range(0.5..=1.0))
    }

    /// Starts from the first wait again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_most_and_start_over_after_success() {
        let mut backoff = Backoff::API;
        for whole in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let (wait, whole) = (backoff.wait(), Duration::from_millis(whole));
            assert!(wait >= whole / 2 && wait <= whole, "{wait:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(100));
    }
}
