//! Growing delays between attempts of one thing.

use std::time::Duration;

/// Doubles from `first` to `most`, each delay shortened at random by up to a quarter, so that
/// replicas do not try in step.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most,
            failures: 0,
        }
    }

    /// The delay after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let factor = 1_u32 << self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let full = self.first.saturating_mul(factor).min(self.most);
        full.mul_f64(rand::random_range(0.75..=1.0))
    }

    /// It worked.
    pub(crate) const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_cap_and_start_over_after_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let between = |delay: Duration, full: u64| {
            let full = Duration::from_millis(full);
            assert!(delay <= full && delay >= full.mul_f64(0.74), "{delay:?}");
        };
        for full in [100, 200, 400, 800, 1000, 1000] {
            between(backoff.next(), full);
        }
        (0..100).for_each(|_| between(backoff.next(), 1000));
        backoff.reset();
        between(backoff.next(), 100);
    }
}
