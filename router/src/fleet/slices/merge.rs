use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use crds::snapshot::ServicePort;

use super::{Entry, Family, Slice, State};
use crate::fleet::{Endpoint, EndpointId, Members};

/// The endpoints of a pool, and what its slices say that cannot be used.
#[derive(Debug, Default)]
pub struct Merged {
    /// The endpoints.
    pub members: Members,
    /// What is wrong, in words for the log.
    pub problem: Option<String>,
}

/// One port of one entry.
struct Found<'a> {
    entry: &'a Entry,
    address: SocketAddr,
}

/// Merges all slices of one Service.
pub fn merge<'a>(slices: impl IntoIterator<Item = &'a Slice>, port: &ServicePort) -> Merged {
    let mut found = Vec::new();
    let mut problem = None;
    for slice in slices {
        if slice.family == Family::Fqdn {
            problem = Some(format!(
                "EndpointSlice {} has addressType FQDN, which is ignored: use IPv4 or IPv6",
                slice.name
            ));
            continue;
        }
        let Some(number) = number(slice, port) else {
            if !slice.entries.is_empty() {
                problem = Some(no_port(slice, port));
            }
            continue;
        };
        found.extend(slice.entries.iter().map(|entry| Found {
            entry,
            address: SocketAddr::new(entry.address, number),
        }));
    }
    Merged {
        members: members(by_address(by_identity(&found))),
        problem,
    }
}

fn number(slice: &Slice, port: &ServicePort) -> Option<u16> {
    let wanted = |(name, number): &&(String, u16)| match port {
        ServicePort::Name(wanted) => name == wanted,
        ServicePort::Number(wanted) => number == wanted,
    };
    slice.ports.iter().find(wanted).map(|(_, number)| *number)
}

fn no_port(slice: &Slice, port: &ServicePort) -> String {
    let asked = match port {
        ServicePort::Name(name) if name.is_empty() => "without a name".to_owned(),
        ServicePort::Name(name) => format!("named {name}"),
        ServicePort::Number(number) => format!("{number}"),
    };
    let has: Vec<String> = slice
        .ports
        .iter()
        .map(|(name, number)| format!("{name} ({number})"))
        .collect();
    format!(
        "EndpointSlice {} has no TCP port {asked}, it has [{}]: its endpoints are left out",
        slice.name,
        has.join(", ")
    )
}

/// One endpoint per pod and port, else per address. Its state is the best that any slice says, its
/// address the preferred one: an IPv4 before an IPv6, so that updates of a dual-stack pod's two
/// slices do not move it to and fro, then the one that serves.
fn by_identity(found: &[Found<'_>]) -> Vec<(State, Endpoint)> {
    let mut pods: HashMap<SocketAddr, (Reverse<State>, &str)> = HashMap::new();
    for f in found {
        if let Some((uid, _)) = &f.entry.pod {
            let this = (Reverse(f.entry.state), uid.as_str());
            let owner = pods.entry(f.address).or_insert(this);
            *owner = this.min(*owner);
        }
    }
    let mut groups: BTreeMap<EndpointId, Vec<&Found<'_>>> = BTreeMap::new();
    for f in found {
        // An entry without a pod at the address of one with a pod is the same endpoint.
        let owner = match &f.entry.pod {
            Some((uid, _)) => uid.clone(),
            None => pods
                .get(&f.address)
                .map_or_else(|| f.address.ip().to_string(), |(_, uid)| (*uid).to_owned()),
        };
        let port = f.address.port();
        groups
            .entry(EndpointId { owner, port })
            .or_default()
            .push(f);
    }
    groups.into_iter().filter_map(endpoint).collect()
}

fn endpoint((id, group): (EndpointId, Vec<&Found<'_>>)) -> Option<(State, Endpoint)> {
    let state = group.iter().map(|f| f.entry.state).max()?;
    let preference = |f: &&&Found<'_>| (f.address.is_ipv6(), Reverse(f.entry.state), f.address);
    let address = group.iter().min_by_key(preference)?.address;
    let pod = group.iter().find_map(|f| f.entry.pod.as_ref());
    let name = match pod {
        Some((_, name)) if !name.is_empty() => name.clone(),
        _ => address.to_string(),
    };
    Some((state, Endpoint::new(id, name, address)))
}

/// Two pods at one address: a stale entry of the one that is gone. The better state has it.
fn by_address(endpoints: Vec<(State, Endpoint)>) -> Vec<(State, Endpoint)> {
    let mut best: BTreeMap<SocketAddr, (State, Endpoint)> = BTreeMap::new();
    for (state, endpoint) in endpoints {
        let address = endpoint.address();
        let known = best.get(&address);
        // Identities come in order, so that an equal later one does not replace the first.
        if known.is_none_or(|(other, _)| state > *other) {
            best.insert(address, (state, endpoint));
        }
    }
    best.into_values().collect()
}

fn members(endpoints: Vec<(State, Endpoint)>) -> Members {
    let best = endpoints.iter().map(|(state, _)| *state).max();
    let takes = match best {
        Some(State::Ready) => State::Ready,
        _ => State::Draining,
    };
    let mut members = Members::default();
    for (state, endpoint) in endpoints {
        let side = if state == takes {
            &mut members.usable
        } else {
            &mut members.unusable
        };
        side.push(Arc::new(endpoint));
    }
    members
}
