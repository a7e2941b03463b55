//! EndpointSlices → the endpoints of a pool. Pure: what a set of slices means does not depend on
//! the order in which they arrived, nor on how their endpoints are spread over them.
//!
//! ```text
//!  read    an EndpointSlice → what routing needs of it
//!  merge   all slices of one Service, and one of its ports → Members
//! ```

mod merge;

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use serde::{Deserialize, Serialize};

pub use self::merge::{Merged, merge};

/// The label that names the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What routing needs of an EndpointSlice.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The slice's name, unique in its namespace.
    pub name: String,
    /// The Service that it belongs to; empty when the label is missing.
    pub service: String,
    /// The kind of its addresses.
    pub family: Family,
    /// TCP ports by name; the empty name is the one of an unnamed Service port.
    pub ports: Vec<(String, u16)>,
    /// Its endpoints in their order.
    pub entries: Vec<Entry>,
}

/// The kind of a slice's addresses.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4 or IPv6: the addresses themselves say which.
    Ip,
    /// Host names, which Kubernetes gives no meaning.
    Fqdn,
}

/// One endpoint as a slice says it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first address: the API gives no meaning to the others.
    pub address: IpAddr,
    /// UID and name of the pod behind it.
    pub pod: Option<(String, String)>,
    /// What it is good for.
    pub state: State,
}

/// What an endpoint is good for, worst first.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Starting, failing its readiness, or about to be gone.
    Unready,
    /// Terminating, and it still serves.
    Draining,
    /// Takes new requests.
    Ready,
}

impl Slice {
    /// Reads an EndpointSlice. What cannot be used is left out.
    pub fn read(slice: &EndpointSlice) -> Self {
        let labels = slice.metadata.labels.as_ref();
        let service = labels.and_then(|labels| labels.get(SERVICE_NAME));
        let family = if slice.address_type == "FQDN" {
            Family::Fqdn
        } else {
            Family::Ip
        };
        let ports = slice.ports.iter().flatten().filter_map(read_port).collect();
        Self {
            name: slice.metadata.name.clone().unwrap_or_default(),
            service: service.cloned().unwrap_or_default(),
            family,
            ports,
            entries: slice.endpoints.iter().filter_map(read_entry).collect(),
        }
    }
}

/// A port without a number means all ports, which says nothing of where the engine listens.
fn read_port(port: &EndpointPort) -> Option<(String, u16)> {
    let tcp = port.protocol.as_deref().is_none_or(|p| p == "TCP");
    let number = u16::try_from(port.port?).ok()?;
    (tcp && number > 0).then(|| (port.name.clone().unwrap_or_default(), number))
}

fn read_entry(endpoint: &Endpoint) -> Option<Entry> {
    let address = endpoint.addresses.first()?.parse().ok()?;
    let target = endpoint.target_ref.as_ref();
    let pod = target
        .filter(|target| target.kind.as_deref() == Some("Pod"))
        .and_then(|pod| Some((pod.uid.clone()?, pod.name.clone().unwrap_or_default())))
        .filter(|(uid, _)| !uid.is_empty());
    Some(Entry {
        address,
        pod,
        state: read_state(endpoint),
    })
}

/// Absent conditions: `ready` means true unless the endpoint terminates, `serving` means `ready`.
fn read_state(endpoint: &Endpoint) -> State {
    let conditions = endpoint.conditions.as_ref();
    let terminating = conditions.and_then(|c| c.terminating).unwrap_or(false);
    let ready = conditions.and_then(|c| c.ready).unwrap_or(!terminating);
    let serving = conditions.and_then(|c| c.serving).unwrap_or(ready);
    match (terminating, ready, serving) {
        // `ready` stays true on terminating pods of Services that publish unready addresses.
        (true, _, true) => State::Draining,
        (false, true, _) => State::Ready,
        _ => State::Unready,
    }
}

#[cfg(test)]
mod tests;
