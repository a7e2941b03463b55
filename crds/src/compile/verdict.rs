use crate::snapshot::{Kind, Origin};

/// Reasons of conditions that a compile decides, as users read them.
pub mod reason {
    /// `Accepted=True`.
    pub const ACCEPTED: &str = "Accepted";
    /// The spec contradicts itself.
    pub const INVALID: &str = "Invalid";
    /// The object does not have the shape of its kind.
    pub const UNREADABLE: &str = "Unreadable";
    /// Another Route serves a model that this one claims.
    pub const CONFLICTED: &str = "Conflicted";
    /// The change would make the snapshot larger than a Secret holds.
    pub const SNAPSHOT_TOO_LARGE: &str = "SnapshotTooLarge";
    /// `ResolvedRefs=True`.
    pub const RESOLVED: &str = "ResolvedRefs";
    /// There is no such Service.
    pub const SERVICE_NOT_FOUND: &str = "ServiceNotFound";
    /// The Service has no such port.
    pub const PORT_NOT_FOUND: &str = "PortNotFound";
    /// There is no such Secret, or no such key in it.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// The Secret holds what cannot be sent in a header.
    pub const INVALID_SECRET: &str = "InvalidSecret";
    /// There is no such Provider.
    pub const PROVIDER_NOT_FOUND: &str = "ProviderNotFound";
    /// The Provider exists but cannot be used.
    pub const PROVIDER_NOT_READY: &str = "ProviderNotUsable";
    /// No ReferenceGrant allows it.
    pub const REF_NOT_PERMITTED: &str = "RefNotPermitted";
    /// The Provider lists its models, and this is none of them.
    pub const MODEL_NOT_FOUND: &str = "ModelNotFound";
}

/// One condition, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True or False.
    pub ok: bool,
    /// One of [`reason`].
    pub reason: &'static str,
    /// What is wrong and what to do; empty when nothing is.
    pub message: String,
}

impl Outcome {
    pub(super) const fn good(reason: &'static str) -> Self {
        Self {
            ok: true,
            reason,
            message: String::new(),
        }
    }

    pub(super) fn bad(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            reason,
            message: message.into(),
        }
    }
}

/// What a compile says of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The object's kind.
    pub kind: Kind,
    /// The object, at the generation that was read.
    pub origin: Origin,
    /// The condition `Accepted`.
    pub accepted: Outcome,
    /// The condition `ResolvedRefs`.
    pub resolved: Outcome,
    /// The generation that is in the snapshot: an older one for a last good form, none when
    /// nothing of the object is served.
    pub served: Option<i64>,
    /// For a Route: the model names that it serves, `*` for the rest of a name.
    pub models: Vec<String>,
}
