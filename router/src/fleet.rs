//! The live endpoints of every Provider and what is known of them. It outlives tables: a swap of
//! the configuration keeps load counts, round-robin positions and discovered models, all keyed by
//! what they belong to.

mod endpoint;
pub mod follow;
pub(crate) mod keyed;
mod pool;
pub mod roster;
pub mod slices;

use std::collections::HashMap;
use std::sync::Arc;

use crds::snapshot::Key;
use parking_lot::Mutex;

pub use self::endpoint::{Endpoint, EndpointId, InFlight};
pub use self::pool::{Discovered, Members, Pool};

/// Every Provider's pool.
#[derive(Debug, Default)]
pub struct Fleet {
    pools: Mutex<HashMap<Key, Arc<Pool>>>,
}

impl Fleet {
    /// The pool of a Provider; it is made when it is first asked for.
    pub fn pool(&self, provider: &Key) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(provider) {
            return Arc::clone(pool);
        }
        let pool = Arc::new(Pool::new(provider.clone()));
        pools.insert(provider.clone(), Arc::clone(&pool));
        pool
    }

    /// Forgets the pools of Providers that are gone. Requests under way keep theirs.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        self.pools.lock().retain(|provider, _| keep(provider));
    }

    /// Every pool, in no order.
    pub fn pools(&self) -> Vec<Arc<Pool>> {
        self.pools.lock().values().cloned().collect()
    }
}
