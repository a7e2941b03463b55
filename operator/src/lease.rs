//! Which replica may write: the holder of one Lease.
//!
//! A Lease is expired when it has not changed for its duration *as seen from here*, so clocks that
//! differ do not matter. Leadership ends by itself when the deadline of the last renewal passes,
//! before another replica can take the Lease, also while the API server cannot be reached.

mod step;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::step::{Observed, Step};
use crate::answer::said;
use crate::board::{Board, Need, Trouble, Weight};
use crate::metrics::Metrics;

/// After this long without a renewal the others may take the Lease.
const DURATION: Duration = Duration::from_secs(15);
/// After this long without a renewal its holder stops writing.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed, or looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// The longest that one call may take.
const CALL: Duration = Duration::from_secs(4);
/// Looks per turn, when someone else writes the Lease at the same time.
const ATTEMPTS: usize = 2;

/// Whether this replica may write. Ask before each write.
#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    until: Arc<Mutex<Option<Instant>>>,
    changed: watch::Receiver<bool>,
}

impl Leadership {
    /// True while writing is allowed.
    pub(crate) fn is_held(&self) -> bool {
        self.until
            .lock()
            .is_some_and(|until| Instant::now() < until)
    }

    /// Waits until it was gained or lost.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The lease task has ended: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Why a turn at the Lease failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("the API server did not answer within {} s", CALL.as_secs())]
    Timeout,
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
}

/// Who takes the Lease.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    /// As the Lease names it.
    pub(crate) identity: String,
    /// Its pod, where it runs in one: the Lease goes when the pod that held it last goes.
    pub(crate) pod: Option<OwnerReference>,
}

/// Takes, renews and releases the Lease.
#[derive(Debug)]
pub(crate) struct Candidate {
    leases: Api<Lease>,
    name: String,
    me: Holder,
    need: Need,
    board: Arc<Board>,
    metrics: Arc<Metrics>,
    observed: Observed,
    /// The Lease as it was last written here.
    mine: Option<Lease>,
    until: Arc<Mutex<Option<Instant>>>,
    told: watch::Sender<bool>,
}

impl Candidate {
    pub(crate) fn new(
        client: &Client,
        (namespace, name, me): (&str, &str, Holder),
        board: &Arc<Board>,
        metrics: &Arc<Metrics>,
    ) -> (Self, Leadership) {
        let need = Need {
            resource: "leases",
            purpose: "leader election",
            namespace: Some(namespace.to_owned()),
        };
        board.expect(need.clone(), Weight::Required);
        let (told, changed) = watch::channel(false);
        let until = Arc::new(Mutex::new(None));
        let leadership = Leadership {
            until: Arc::clone(&until),
            changed,
        };
        let candidate = Self {
            leases: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            me,
            need,
            board: Arc::clone(board),
            metrics: Arc::clone(metrics),
            observed: Observed::default(),
            mine: None,
            until,
            told,
        };
        (candidate, leadership)
    }

    /// Runs until told to stop, then releases the Lease if it is held.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let started = Instant::now();
            match self.turn().await {
                Ok(true) => self.lead(started + DEADLINE),
                Ok(false) => self.follow(),
                Err(error) => self.failed(&error),
            }
            stop.run_until_cancelled(sleep(PERIOD)).await;
        }
        self.follow();
        self.release().await;
    }

    /// Looks at the Lease and does what follows. True when it is held afterwards.
    async fn turn(&mut self) -> Result<bool, LeaseError> {
        for _ in 0..ATTEMPTS {
            let lease = match self.mine.take() {
                Some(mine) => Some(mine),
                None => call(self.leases.get_opt(&self.name)).await?,
            };
            let step = step::next(
                lease.as_ref(),
                &self.me.identity,
                &mut self.observed,
                Instant::now(),
            );
            if step == Step::Wait {
                return Ok(false);
            }
            match self.write(step, lease).await {
                Ok(lease) => {
                    self.mine = Some(lease);
                    return Ok(true);
                }
                // Someone else has written or deleted it: look again.
                Err(LeaseError::Api(kube::Error::Api(status)))
                    if [404, 409].contains(&status.code) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    async fn write(&self, step: Step, lease: Option<Lease>) -> Result<Lease, LeaseError> {
        match (step, lease) {
            (Step::Renew, Some(lease)) => self.replace(renewed(lease)).await,
            (_, Some(lease)) => self.replace(taken(lease, &self.me)).await,
            (_, None) => {
                let lease = created(&self.name, &self.me);
                call(self.leases.create(&PostParams::default(), &lease)).await
            }
        }
    }

    async fn replace(&self, lease: Lease) -> Result<Lease, LeaseError> {
        call(
            self.leases
                .replace(&self.name, &PostParams::default(), &lease),
        )
        .await
    }

    fn lead(&mut self, until: Instant) {
        self.answered();
        *self.until.lock() = Some(until);
        self.tell(true);
    }

    fn follow(&mut self) {
        self.answered();
        *self.until.lock() = None;
        self.tell(false);
    }

    fn failed(&mut self, error: &LeaseError) {
        self.metrics.wrote("Lease", "error");
        let trouble = match error {
            LeaseError::Api(kube::Error::Api(status)) if status.code == 403 => {
                Trouble::Refused(format!(
                    "{} may not use {}: give its ServiceAccount the verbs get, create and update on \
                     leases in a Role there ({})",
                    crate::NAME,
                    self.need,
                    status.message
                ))
            }
            error => Trouble::Failing(format!("cannot use {}: {error}", self.need)),
        };
        let text = trouble.text().to_owned();
        if self.board.trouble(&self.need, trouble, Instant::now()) {
            tracing::warn!("{text}");
        }
        let passed = self
            .until
            .lock()
            .is_none_or(|until| Instant::now() >= until);
        if passed {
            self.tell(false);
        }
    }

    fn answered(&self) {
        if self.board.met(&self.need) {
            tracing::info!(need = %self.need, "works again");
        }
    }

    fn tell(&self, leading: bool) {
        let changed = self.told.send_if_modified(|told| {
            let changed = *told != leading;
            *told = leading;
            changed
        });
        if changed {
            tracing::info!(lease = self.name, leading, "leadership changed");
            self.metrics.leader.set(i64::from(leading));
        }
    }

    async fn release(&mut self) {
        if let Some(mine) = self.mine.take()
            && let Err(error) = self.replace(released(mine)).await
        {
            tracing::warn!(lease = self.name, %error, "the Lease is not released");
        }
    }
}

async fn call<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
    Ok(timeout(CALL, call)
        .await
        .map_err(|_| LeaseError::Timeout)??)
}

fn created(name: &str, me: &Holder) -> Lease {
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    let mut lease = taken(lease, me);
    if let Some(spec) = &mut lease.spec {
        spec.lease_transitions = Some(0);
    }
    lease
}

fn taken(mut lease: Lease, me: &Holder) -> Lease {
    lease.metadata.owner_references = me.pod.clone().map(|pod| vec![pod]);
    let now = Some(MicroTime(Timestamp::now()));
    let before = lease.spec.take().unwrap_or_default();
    let transitions = before.lease_transitions.unwrap_or_default();
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(me.identity.clone()),
        acquire_time: now.clone(),
        renew_time: now,
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        lease_transitions: Some(transitions.saturating_add(1)),
        ..before
    });
    lease
}

fn renewed(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
    }
    lease
}

fn released(mut lease: Lease) -> Lease {
    if let Some(spec) = &mut lease.spec {
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(lease: Lease) -> LeaseSpec {
        lease.spec.unwrap()
    }

    fn holder(name: &str) -> Holder {
        Holder {
            identity: name.to_owned(),
            pod: Some(OwnerReference {
                name: name.to_owned(),
                ..OwnerReference::default()
            }),
        }
    }

    #[test]
    fn the_lease_belongs_to_the_pod_that_took_it_last() {
        let lease = taken(created("l", &holder("a")), &holder("b"));
        let owners = lease.metadata.owner_references.unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0].name, "b");
    }

    #[test]
    fn taking_counts_and_renewing_does_not() {
        let first = created("l", &holder("a"));
        assert_eq!(spec(first.clone()).lease_transitions, Some(0));
        assert_eq!(spec(renewed(first.clone())).lease_transitions, Some(0));
        let second = spec(taken(first, &holder("b")));
        assert_eq!(second.lease_transitions, Some(1));
        assert_eq!(second.holder_identity.as_deref(), Some("b"));
    }

    #[test]
    fn a_released_lease_has_no_holder() {
        let lease = spec(released(created("l", &holder("a"))));
        assert_eq!(lease.holder_identity.as_deref(), Some(""));
    }

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_at_the_deadline_without_being_told() {
        let (_told, changed) = watch::channel(true);
        let until = Arc::new(Mutex::new(Some(Instant::now() + DEADLINE)));
        let leadership = Leadership { until, changed };
        assert!(leadership.is_held());
        tokio::time::advance(DEADLINE).await;
        assert!(!leadership.is_held());
    }

    #[test]
    fn the_holder_stops_before_another_can_start() {
        assert!(DEADLINE + CALL < DURATION);
    }
}
