use crds::report::{ANNOTATION, LABEL, Report};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};

use super::Pod;

const FIELD_MANAGER: &str = "refrain-router";
/// Why the newest snapshot is not served, for those who look at the Lease.
const PROBLEM: &str = "refrain.dev/problem";
/// Four renewals.
const SECONDS: i32 = 40;

/// Writes the pod's Lease.
pub(super) struct Leases {
    api: Api<Lease>,
    pod: Pod,
    since: Timestamp,
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leases({})", self.pod.name)
    }
}

impl Leases {
    pub(super) fn new(client: Client, pod: Pod) -> Self {
        Self {
            api: Api::namespaced(client, &pod.namespace),
            pod,
            since: Timestamp::now(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.pod.name
    }

    /// Writes it whole: whatever is there is replaced.
    pub(super) async fn write(&self, report: &Report, problem: Option<&str>) -> kube::Result<()> {
        let lease = lease(&self.pod, self.since, report, problem);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.api
            .patch(&self.pod.name, &params, &Patch::Apply(&lease))
            .await?;
        Ok(())
    }
}

fn lease(pod: &Pod, since: Timestamp, report: &Report, problem: Option<&str>) -> Lease {
    let owner = pod.uid.as_ref().map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.clone(),
        uid: uid.clone(),
        ..OwnerReference::default()
    });
    let mut annotations = vec![(ANNOTATION.to_owned(), report.encode())];
    annotations.extend(problem.map(|problem| (PROBLEM.to_owned(), problem.to_owned())));
    Lease {
        metadata: ObjectMeta {
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            labels: Some([(LABEL.to_owned(), pod.service.clone())].into()),
            annotations: Some(annotations.into_iter().collect()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(pod.name.clone()),
            lease_duration_seconds: Some(SECONDS),
            acquire_time: Some(MicroTime(since)),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }),
    }
}
