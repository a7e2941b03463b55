//! What is kept of each object; the rest is dropped as it arrives.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;

use crds::api::EndpointCounts;
use crds::compile::{Entry, Grant};
use crds::report::{ANNOTATION, Report};
use crds::snapshot::Origin;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::shelf::Change;

/// The annotation of the snapshot Secret that names its content.
pub(crate) const DIGEST: &str = "refrain.dev/digest";
/// The annotation of the snapshot Secret that counts its changes.
pub(crate) const GENERATION: &str = "refrain.dev/generation";
/// The key of the snapshot Secret's data.
pub(crate) const SNAPSHOT_KEY: &str = "snapshot";

/// A value that a shelf keeps.
pub(crate) trait Keep: PartialEq + Clone {
    /// Whether a compile reads the same from both.
    fn reads_same(&self, other: &Self) -> bool;

    /// What its coming and going concerns.
    fn concerns(&self) -> Change {
        Change::Inputs
    }
}

/// A status as it is written; all kinds fit, each fills what it has.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoints: Option<EndpointCounts>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) models: Vec<String>,
}

impl Status {
    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_ == type_)
    }
}

/// An object of one of our kinds.
pub(crate) struct Object<K: Resource<DynamicType = ()>> {
    /// As a compile reads it: without its status.
    pub(crate) entry: Entry<K>,
    /// What is written in it now.
    pub(crate) status: Status,
}

// The derives would ask for them of `K`, which is behind an `Arc`.
impl<K: Resource<DynamicType = ()>> Clone for Object<K> {
    fn clone(&self) -> Self {
        let entry = match &self.entry {
            Entry::Read(object) => Entry::Read(Arc::clone(object)),
            Entry::Unreadable { origin, error } => Entry::Unreadable {
                origin: origin.clone(),
                error: error.clone(),
            },
        };
        Self {
            entry,
            status: self.status.clone(),
        }
    }
}

impl<K: Resource<DynamicType = ()>> std::fmt::Debug for Object<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({})", self.entry.origin().key)
    }
}

impl<K: Resource<DynamicType = ()> + PartialEq> PartialEq for Object<K> {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status && self.reads_same(other)
    }
}

impl<K: Resource<DynamicType = ()> + PartialEq> Keep for Object<K> {
    fn reads_same(&self, other: &Self) -> bool {
        match (&self.entry, &other.entry) {
            (Entry::Read(a), Entry::Read(b)) => a == b,
            (
                Entry::Unreadable { origin, error },
                Entry::Unreadable {
                    origin: o,
                    error: e,
                },
            ) => origin == o && error == e,
            _ => false,
        }
    }
}

impl Keep for Service {
    fn reads_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Keep for Secret {
    fn reads_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Keep for Grant {
    fn reads_same(&self, other: &Self) -> bool {
        self == other
    }
}

/// Does for one object what kube's `DeserializeGuard` does, and keeps the status of an object
/// without its kind's shape too, so that it is not written again and again.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every keep function")]
pub(crate) fn object<K>(mut object: DynamicObject) -> Option<Object<K>>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let status = object
        .data
        .as_object_mut()
        .and_then(|data| data.remove("status"));
    let status = status.and_then(|s| serde_json::from_value(s).ok());
    object.metadata = identity(object.metadata);
    let origin = Origin::of(&object.metadata);
    let entry = match object.try_parse::<K>() {
        Ok(read) => Entry::Read(Arc::new(read)),
        Err(error) => Entry::Unreadable {
            origin,
            // Its own words are about kube's types.
            error: error
                .source()
                .map_or_else(|| error.to_string(), ToString::to_string),
        },
    };
    Some(Object {
        entry,
        status: status.unwrap_or_default(),
    })
}

/// The metadata that tells objects and their edits apart.
fn identity(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp,
        ..ObjectMeta::default()
    }
}

/// Its ports.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every keep function")]
pub(crate) fn service(service: Service) -> Option<Service> {
    let ports = service.spec.and_then(|spec| spec.ports);
    let spec = ServiceSpec {
        ports,
        ..ServiceSpec::default()
    };
    Some(Service {
        spec: Some(spec),
        ..Service::default()
    })
}

/// Its data.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every keep function")]
pub(crate) fn secret(secret: Secret) -> Option<Secret> {
    Some(Secret {
        data: secret.data,
        ..Secret::default()
    })
}

/// What it grants.
pub(crate) fn grant(object: DynamicObject) -> Option<Grant> {
    let namespace = object.metadata.namespace?;
    Grant::read(namespace, object.data.get("spec")?)
}

/// What one router pod says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouterReport(pub(crate) Report);

impl Keep for RouterReport {
    fn reads_same(&self, _: &Self) -> bool {
        true
    }

    fn concerns(&self) -> Change {
        Change::Report
    }
}

/// The report on a router's Lease; none while there is none that can be read.
pub(crate) fn report(mut lease: Lease) -> Option<RouterReport> {
    let json = lease.annotations_mut().remove(ANNOTATION)?;
    match Report::decode(&json) {
        Ok(report) => Some(RouterReport(report)),
        Err(error) => {
            let lease = lease.name_any();
            tracing::warn!(lease, %error, "a router's report cannot be read: it counts as none");
            None
        }
    }
}

/// A router pod as an EndpointSlice lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouterPod {
    name: String,
    is_ready: bool,
    is_terminating: bool,
}

/// What one EndpointSlice of the routers' Service says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RouterSlice {
    /// The Service that the slice is of.
    pub(crate) service: Option<OwnerReference>,
    pub(crate) pods: Vec<RouterPod>,
}

impl Keep for RouterSlice {
    fn reads_same(&self, _: &Self) -> bool {
        true
    }

    fn concerns(&self) -> Change {
        Change::Report
    }
}

/// The Service that a slice is of, and the pods that it lists.
#[expect(clippy::unnecessary_wraps, reason = "the shape of every keep function")]
pub(crate) fn router_slice(slice: EndpointSlice) -> Option<RouterSlice> {
    let owners = slice.metadata.owner_references.unwrap_or_default();
    let service = owners.into_iter().find(|owner| owner.kind == "Service");
    Some(RouterSlice {
        service: service.map(|owner| OwnerReference {
            controller: None,
            block_owner_deletion: None,
            ..owner
        }),
        pods: slice.endpoints.into_iter().filter_map(router_pod).collect(),
    })
}

fn router_pod(endpoint: Endpoint) -> Option<RouterPod> {
    let target = endpoint.target_ref?;
    let is_pod = target.kind.as_deref() == Some("Pod");
    let conditions = endpoint.conditions.unwrap_or_default();
    Some(RouterPod {
        name: target.name.filter(|_| is_pod)?,
        is_ready: conditions.ready != Some(false),
        is_terminating: conditions.terminating == Some(true),
    })
}

/// The names of pods that some slice calls ready and none calls terminating, sorted.
pub(crate) fn ready_pods<'a>(pods: impl Iterator<Item = &'a RouterPod>) -> Vec<&'a str> {
    let mut seen: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for pod in pods {
        let (ready, terminating) = seen.entry(&pod.name).or_default();
        *ready |= pod.is_ready;
        *terminating |= pod.is_terminating;
    }
    seen.retain(|_, (ready, terminating)| *ready && !*terminating);
    seen.into_keys().collect()
}

/// The snapshot Secret as it is in the cluster.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) uid: String,
    pub(crate) bytes: Vec<u8>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.bytes.len();
        write!(f, "Held({bytes} bytes at {})", self.resource_version)
    }
}

impl Held {
    /// Whether it was there before the other. Versions are numbers wherever they can be compared.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        let version = |held: &Self| held.resource_version.parse::<u64>().ok();
        match (version(self), version(other)) {
            (Some(this), Some(other)) => this < other,
            _ => self.generation < other.generation,
        }
    }
}

impl Keep for Held {
    /// The cycle compares it with what it wrote itself and asks for a compile if need be.
    fn reads_same(&self, _: &Self) -> bool {
        true
    }

    fn concerns(&self) -> Change {
        Change::Report
    }
}

/// The sealed snapshot and its place in time.
pub(crate) fn snapshot(secret: Secret) -> Option<Held> {
    let generation = secret.annotations().get(GENERATION);
    let generation = generation.and_then(|text| text.parse().ok());
    let resource_version = secret.metadata.resource_version?;
    let bytes = secret.data.and_then(|mut data| data.remove(SNAPSHOT_KEY));
    Some(Held {
        resource_version,
        generation: generation.unwrap_or_default(),
        uid: secret.metadata.uid.unwrap_or_default(),
        bytes: bytes.map(|b| b.0).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
