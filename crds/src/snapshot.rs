//! What routers serve from: every accepted object in one checked, versioned value. It knows serde
//! and a hash, and nothing of Kubernetes; the same bytes work from a Secret, a file or a test.
//!
//! Objects stay in the form in which they were accepted, so that the next compile can resolve them
//! again when the object itself has become invalid (`compile` calls that its last good form).

mod check;
mod provider;
mod route;
mod wire;

use serde::{Deserialize, Serialize};

pub use self::check::{BrokenSnapshot, Unsupported};
pub use self::provider::{Auth, Provider, Service, ServicePort};
pub use self::route::{Backend, Match, Refused, Route, Rule, Strategy};
pub use self::wire::{DecodeError, Digest, MAX_BYTES, Sealed};

/// The layout of [`Snapshot`]. A router refuses a newer one and keeps what it has.
pub const FORMAT: u32 = 1;

/// Everything that a router serves, apart from the endpoints, which it follows itself.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Sorted by namespace and name.
    #[serde(default)]
    pub providers: Vec<Provider>,
    /// Sorted by namespace and name.
    #[serde(default)]
    pub routes: Vec<Route>,
}

impl Snapshot {
    /// The snapshot of a cluster without objects.
    pub const fn empty() -> Self {
        Self {
            format: FORMAT,
            providers: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// The Provider that `key` names.
    pub fn provider(&self, key: &Key) -> Option<&Provider> {
        let at = self
            .providers
            .binary_search_by(|p| p.origin.key.cmp(key))
            .ok()?;
        self.providers.get(at)
    }

    /// The Route that `key` names.
    pub fn route(&self, key: &Key) -> Option<&Route> {
        let at = self
            .routes
            .binary_search_by(|r| r.origin.key.cmp(key))
            .ok()?;
        self.routes.get(at)
    }

    /// Every object's origin, Providers first.
    pub fn origins(&self) -> impl Iterator<Item = (Kind, &Origin)> {
        let providers = self.providers.iter().map(|p| (Kind::Provider, &p.origin));
        providers.chain(self.routes.iter().map(|r| (Kind::Route, &r.origin)))
    }
}

/// The kinds that a snapshot holds.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `providers.refrain.dev`
    Provider,
    /// `routes.refrain.dev`
    Route,
}

impl Kind {
    /// The kind as users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "Provider",
            Self::Route => "Route",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A namespace and a name; printed as `namespace/name`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Key {
    /// `namespace/name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which object, and which edit of it, a part of the snapshot was compiled from.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Namespace and name.
    #[serde(flatten)]
    pub key: Key,
    /// The object's UID: a deleted and recreated object is another one.
    pub uid: String,
    /// `metadata.generation` of the spec that is served.
    pub generation: i64,
    /// `metadata.creationTimestamp` in RFC 3339; the older of two claims wins.
    #[serde(default)]
    pub created: String,
}
