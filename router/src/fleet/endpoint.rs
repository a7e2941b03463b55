use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::HeaderValue;

use crate::upstream::Idle;

/// What makes an endpoint the same one over time: the pod's UID, or the address when no pod
/// stands behind it, and the port. A new pod at an old address is another endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId {
    /// Pod UID, or the address as text.
    pub owner: String,
    /// The port on it.
    pub port: u16,
}

impl std::fmt::Display for EndpointId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.owner, self.port)
    }
}

/// One addressable engine replica.
#[derive(Debug)]
pub struct Endpoint {
    id: EndpointId,
    name: String,
    address: SocketAddr,
    authority: HeaderValue,
    in_flight: AtomicU32,
    idle: Idle,
}

impl Endpoint {
    /// An endpoint without load. `name` is what logs call it: the pod's name, or the address.
    pub fn new(id: EndpointId, name: String, address: SocketAddr) -> Self {
        // Digits, dots, colons and brackets always make a header value.
        let authority = HeaderValue::from_str(&address.to_string());
        Self {
            id,
            name,
            address,
            authority: authority.unwrap_or(HeaderValue::from_static("")),
            in_flight: AtomicU32::new(0),
            idle: Idle::default(),
        }
    }

    /// What makes it the same endpoint over time.
    pub const fn id(&self) -> &EndpointId {
        &self.id
    }

    /// The pod's name, or the address.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a `Host` header.
    pub const fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Connections to it that wait for a next request.
    pub(crate) const fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Requests of this router that are with it now.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request in until the guard drops. It is taken with the choice, before any await,
    /// so that a burst sees its own load.
    pub fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

/// A request that is with an endpoint.
#[derive(Debug)]
pub struct InFlight(Arc<Endpoint>);

impl InFlight {
    /// The endpoint that it is with.
    pub const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_counted_until_the_guard_drops() {
        let id = EndpointId {
            owner: "pod".into(),
            port: 8000,
        };
        let endpoint = Arc::new(Endpoint::new(
            id,
            "pod".into(),
            ([127, 0, 0, 1], 8000).into(),
        ));
        let guards: Vec<_> = (0..3).map(|_| endpoint.enter()).collect();
        assert_eq!(endpoint.in_flight(), 3);
        drop(guards);
        assert_eq!(endpoint.in_flight(), 0);
    }
}
