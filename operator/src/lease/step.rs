//! What a look at the Lease leads to. Pure.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is none.
    Create,
    /// It is free, or was not renewed in time.
    Take,
    /// It is ours.
    Renew,
    /// It is another's.
    Wait,
}

/// The last state of another's Lease, and when it was first seen here.
#[derive(Debug, Default)]
pub(super) struct Observed(Option<(LeaseSpec, Instant)>);

impl Observed {
    /// Since when the Lease looks like this.
    fn since(&mut self, spec: &LeaseSpec, now: Instant) -> Instant {
        match &self.0 {
            Some((seen, since)) if seen == spec => *since,
            _ => {
                self.0 = Some((spec.clone(), now));
                now
            }
        }
    }
}

pub(super) fn next(lease: Option<&Lease>, me: &str, observed: &mut Observed, now: Instant) -> Step {
    let Some(lease) = lease else {
        return Step::Create;
    };
    let spec = lease.spec.clone().unwrap_or_default();
    match spec.holder_identity.as_deref().unwrap_or_default() {
        "" => Step::Take,
        holder if holder == me => Step::Renew,
        _ => {
            let duration = spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(super::DURATION, Duration::from_secs);
            if now >= observed.since(&spec, now) + duration {
                Step::Take
            } else {
                Step::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held_by(holder: &str, renewed: i64) -> Lease {
        let renew_time = Timestamp::from_second(renewed).unwrap();
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(renew_time)),
            ..LeaseSpec::default()
        };
        Lease {
            spec: Some(spec),
            ..Lease::default()
        }
    }

    #[test]
    fn a_missing_lease_is_created_a_free_one_taken_and_ones_own_renewed() {
        let mut observed = Observed::default();
        let now = Instant::now();
        let mut step = |lease: Option<&Lease>| next(lease, "me", &mut observed, now);
        assert_eq!(step(None), Step::Create);
        assert_eq!(step(Some(&Lease::default())), Step::Take);
        assert_eq!(step(Some(&held_by("", 0))), Step::Take);
        assert_eq!(step(Some(&held_by("me", 0))), Step::Renew);
    }

    #[test]
    fn anothers_lease_is_taken_only_when_it_was_not_renewed_for_its_duration() {
        let mut observed = Observed::default();
        let start = Instant::now();
        let mut step = |at: Duration, renewed| {
            let lease = held_by("other", renewed);
            next(Some(&lease), "me", &mut observed, start + at)
        };
        assert_eq!(step(Duration::ZERO, 0), Step::Wait, "however old it looks");
        assert_eq!(step(14 * SECOND, 0), Step::Wait);
        assert_eq!(step(14 * SECOND, 1), Step::Wait, "renewed");
        assert_eq!(step(28 * SECOND, 1), Step::Wait);
        assert_eq!(step(29 * SECOND, 1), Step::Take);
    }
}
