use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use crds::snapshot::Key;
use serde_json::value::RawValue;

use super::{Endpoint, EndpointId};

/// The endpoints of one Provider.
#[derive(Debug)]
pub struct Pool {
    provider: Key,
    members: ArcSwap<Members>,
    discovered: ArcSwap<Discovered>,
    turn: AtomicUsize,
}

/// The endpoints at one moment.
#[derive(Debug, Default)]
pub struct Members {
    /// Takes new requests: the ready ones, or while there is none the terminating ones that still
    /// serve.
    pub usable: Vec<Arc<Endpoint>>,
    /// Known, but takes none: starting, or terminating beside ready ones.
    pub unusable: Vec<Arc<Endpoint>>,
}

impl Members {
    /// Usable or not.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.usable.iter().chain(&self.unusable)
    }
}

/// What the engines say of themselves in `/v1/models`.
#[derive(Debug, Default)]
pub struct Discovered {
    /// `owned_by` of the first model: `vllm`, `sglang`, …
    pub engine: Option<String>,
    /// The engine's model cards in its order, each with its `id` and its own JSON.
    pub models: Vec<(String, Box<RawValue>)>,
}

impl Pool {
    /// A pool without endpoints.
    pub fn new(provider: Key) -> Self {
        Self {
            provider,
            members: ArcSwap::default(),
            discovered: ArcSwap::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whose endpoints these are.
    pub const fn provider(&self) -> &Key {
        &self.provider
    }

    /// The endpoints now.
    pub fn members(&self) -> Guard<Arc<Members>> {
        self.members.load()
    }

    /// Replaces the endpoints. An endpoint that was there already, by identity and address, keeps
    /// its state.
    pub fn set_members(&self, mut members: Members) {
        let now = self.members.load();
        let known: HashMap<&EndpointId, &Arc<Endpoint>> = now.iter().map(|e| (e.id(), e)).collect();
        for endpoint in members.usable.iter_mut().chain(&mut members.unusable) {
            if let Some(&same) = known.get(endpoint.id())
                && same.address() == endpoint.address()
            {
                *endpoint = Arc::clone(same);
            }
        }
        self.members.store(Arc::new(members));
    }

    /// What the engines last said of themselves.
    pub fn discovered(&self) -> Guard<Arc<Discovered>> {
        self.discovered.load()
    }

    /// Replaces what the engines said of themselves.
    pub fn set_discovered(&self, discovered: Discovered) {
        self.discovered.store(Arc::new(discovered));
    }

    /// The next turn of a round robin; it goes on over table swaps.
    pub fn turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(owner: &str, address: [u8; 4]) -> Arc<Endpoint> {
        let id = EndpointId {
            owner: owner.into(),
            port: 8000,
        };
        Arc::new(Endpoint::new(id, owner.into(), (address, 8000).into()))
    }

    fn pool(endpoints: Vec<Arc<Endpoint>>) -> Pool {
        let pool = Pool::new(Key::new("ns", "p"));
        pool.set_members(Members {
            usable: endpoints,
            unusable: vec![],
        });
        pool
    }

    #[test]
    fn an_endpoint_keeps_its_load_when_the_members_are_replaced() {
        let pool = pool(vec![endpoint("uid-1", [10, 0, 0, 1])]);
        let _guard = pool.members().usable[0].enter();
        pool.set_members(Members {
            usable: vec![endpoint("uid-2", [10, 0, 0, 2])],
            unusable: vec![endpoint("uid-1", [10, 0, 0, 1])],
        });
        assert_eq!(pool.members().unusable[0].in_flight(), 1);
    }

    #[test]
    fn a_new_pod_at_an_old_address_starts_without_state() {
        let pool = pool(vec![endpoint("uid-1", [10, 0, 0, 1])]);
        let _guard = pool.members().usable[0].enter();
        pool.set_members(Members {
            usable: vec![endpoint("uid-2", [10, 0, 0, 1])],
            unusable: vec![],
        });
        assert_eq!(pool.members().usable[0].in_flight(), 0);
    }

    #[test]
    fn a_pod_that_moves_is_reached_at_its_new_address() {
        let pool = pool(vec![endpoint("uid-1", [10, 0, 0, 5])]);
        pool.set_members(Members {
            usable: vec![endpoint("uid-1", [10, 0, 0, 9])],
            unusable: vec![],
        });
        assert_eq!(
            pool.members().usable[0].address().to_string(),
            "10.0.0.9:8000"
        );
    }
}
