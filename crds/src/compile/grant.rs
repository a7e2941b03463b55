use serde::Deserialize;
use serde_json::Value;

use crate::GROUP;

/// A Gateway API ReferenceGrant, `v1` or `v1beta1`: both have this shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The namespace that grants.
    pub namespace: String,
    spec: Spec,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct Spec {
    from: Vec<From>,
    to: Vec<To>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct From {
    group: String,
    kind: String,
    namespace: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
struct To {
    group: String,
    kind: String,
    name: Option<String>,
}

impl Grant {
    /// Reads the `spec` of a ReferenceGrant. `None` when it does not have the shape of one; it
    /// then grants nothing.
    pub fn read(namespace: impl Into<String>, spec: &Value) -> Option<Self> {
        let spec = Spec::deserialize(spec).ok()?;
        Some(Self {
            namespace: namespace.into(),
            spec,
        })
    }

    /// Whether Routes of the namespace `from` may name the Provider `name` of the namespace that
    /// grants.
    pub(super) fn allows(&self, from: &str, name: &str) -> bool {
        let asks = |f: &From| f.group == GROUP && f.kind == "Route" && f.namespace == from;
        let given = |t: &To| {
            t.group == GROUP && t.kind == "Provider" && t.name.as_deref().is_none_or(|n| n == name)
        };
        self.spec.from.iter().any(asks) && self.spec.to.iter().any(given)
    }
}
