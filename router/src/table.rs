//! The snapshot made ready for lookup. It is built off the request path and swapped whole; a
//! request takes one and lives on it.

mod build;
mod claims;
mod rule;

use std::sync::Arc;

use crds::report::Refusal;
use crds::snapshot::{Digest, Snapshot};

use self::claims::Claims;
pub(crate) use self::rule::{Backend, Credential, Provider, Rule};
use crate::fleet::Fleet;

/// Everything that requests are routed by.
#[derive(Debug)]
pub struct Table {
    digest: Digest,
    refusals: Vec<Refusal>,
    claims: Claims,
}

impl Table {
    /// Compiles a snapshot. What cannot be served is refused on its own, and claims its models all
    /// the same: they must not fall to a wider rule.
    pub fn build(snapshot: &Snapshot, digest: Digest, fleet: &Fleet) -> Self {
        let (claims, refusals) = build::claims(snapshot, fleet);
        Self {
            digest,
            refusals,
            claims,
        }
    }

    /// The snapshot that this is.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// What of it is not served.
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// The rule that takes requests for `model`: its own, else the longest prefix.
    pub(crate) fn rule(&self, model: Option<&str>) -> Option<&Arc<Rule>> {
        self.claims.find(model)
    }

    /// The models that are claimed by name, in no order.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&str, &Arc<Rule>)> {
        self.claims.exact()
    }

    /// The rules that claim a prefix, each with the prefix, in no order.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (&str, &Arc<Rule>)> {
        self.claims.prefixes()
    }
}

#[cfg(test)]
pub(crate) mod tests;
