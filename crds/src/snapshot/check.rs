//! What a router checks before it serves from a snapshot: all of it, or rule by rule.

use super::{FORMAT, Rule, Snapshot};

/// The router features that rules may require, as this version knows them.
pub(crate) const FEATURES: &[&str] = &[
    "match/Exact",
    "match/Prefix",
    "strategy/LeastLoad",
    "strategy/PowerOfTwo",
    "strategy/RoundRobin",
    "strategy/Random",
];

/// A snapshot that cannot be served at all.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BrokenSnapshot {
    /// Written by a newer operator whose layout this router does not know.
    #[error(
        "snapshot format {0} is newer than {FORMAT}, the newest this router reads: upgrade the routers"
    )]
    Format(u32),
    /// The writer broke an invariant.
    #[error("snapshot is not sorted: {0} comes out of order")]
    Order(String),
}

/// A rule that this router cannot serve.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("rule {rule} needs {}, which this router does not have: upgrade the routers", missing.join(", "))]
pub struct Unsupported {
    /// The rule's name.
    pub rule: String,
    /// The features that are missing.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// Checks what lookups rely on.
    pub fn check(&self) -> Result<(), BrokenSnapshot> {
        if self.format > FORMAT {
            return Err(BrokenSnapshot::Format(self.format));
        }
        for pair in self.providers.windows(2) {
            if let [a, b] = pair
                && a.origin.key >= b.origin.key
            {
                return Err(BrokenSnapshot::Order(format!("Provider {}", b.origin.key)));
            }
        }
        for pair in self.routes.windows(2) {
            if let [a, b] = pair
                && a.origin.key >= b.origin.key
            {
                return Err(BrokenSnapshot::Order(format!("Route {}", b.origin.key)));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Whether this version of the router can serve the rule.
    pub fn supported(&self) -> Result<(), Unsupported> {
        let unknown = |feature: &&String| !FEATURES.contains(&feature.as_str());
        let missing: Vec<String> = self.requires.iter().filter(unknown).cloned().collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Unsupported {
                rule: self.name.clone(),
                missing,
            })
        }
    }
}
