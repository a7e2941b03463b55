use crds::report::{Observation, Refusal};
use crds::snapshot::{Key, Kind, Snapshot};

use crate::fleet::Fleet;

/// As many as are shown in a Provider's status.
const MODELS: usize = 64;
/// As long as a status takes.
const MODEL_BYTES: usize = 253;
const ENGINE_BYTES: usize = 63;

/// What the table refuses, and Providers whose endpoints this router may not read.
pub(super) fn refusals(table: &[Refusal], denied: Vec<(Key, String)>) -> Vec<Refusal> {
    let denied = denied.into_iter().map(|(key, message)| Refusal {
        kind: Kind::Provider,
        key,
        reason: "EndpointsForbidden".to_owned(),
        message,
    });
    table.iter().cloned().chain(denied).collect()
}

/// What is seen of each Provider. Engines are not trusted to name things within bounds.
pub(super) fn observations(snapshot: &Snapshot, fleet: &Fleet) -> Vec<Observation> {
    let observe = |key: &Key| {
        let pool = fleet.pool(key);
        let members = pool.members();
        let discovered = pool.discovered();
        let engine = discovered.engine.as_ref();
        let models = discovered.models.iter().map(|(id, _)| id);
        Observation {
            provider: key.clone(),
            ready: count(members.usable.len()),
            total: count(members.iter().count()),
            engine: engine.filter(|e| e.len() <= ENGINE_BYTES).cloned(),
            models: models
                .filter(|id| id.len() <= MODEL_BYTES)
                .take(MODELS)
                .cloned()
                .collect(),
        }
    };
    let keys = snapshot.providers.iter().map(|p| &p.origin.key);
    keys.map(observe).collect()
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
