use serde::{Deserialize, Serialize};

use super::Origin;
use crate::api::{Port, SecretRef};

/// An accepted Provider.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// The object this was compiled from.
    pub origin: Origin,
    /// Where its endpoints are.
    pub service: Service,
    /// What authenticates a request to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Public name → the engine's name, in the order written. Empty: discovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<(String, String)>,
    /// Why it cannot be used now, in words for its Routes' status and for clients. Routers send
    /// nothing to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<super::Refused>,
}

impl Provider {
    /// The engine's name of a model that this Provider calls `name`.
    pub fn upstream_model<'a>(&'a self, name: &'a str) -> &'a str {
        let found = self.models.iter().find(|(public, _)| public == name);
        found.map_or(name, |(_, upstream)| upstream.as_str())
    }
}

/// A Service of the Provider's namespace, and which of its ports.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// The Service's name: the value of the slices' label `kubernetes.io/service-name`.
    pub name: String,
    /// The port as the user wrote it.
    pub port: Port,
    /// The port as EndpointSlices say it. Absent while it could not be resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_port: Option<ServicePort>,
}

/// How a port is found in an EndpointSlice: slices carry the Service port's *name* and the
/// *target* port's number.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub enum ServicePort {
    /// The slice port of this name; the empty name is the one of an unnamed Service port.
    Name(String),
    /// The slice port with this number: files without the Service have no other way to say it.
    Number(u16),
}

/// What authenticates a request to a Provider.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Auth {
    /// The client's own `Authorization` and `x-api-key`.
    Passthrough,
    /// A header, set in place of the client's credentials.
    #[serde(rename_all = "camelCase")]
    Header {
        /// Lower-case header name.
        name: String,
        /// What stands before the credential: `Bearer ` or nothing.
        #[serde(default)]
        prefix: String,
        /// Where the credential comes from.
        secret_ref: SecretRef,
        /// The credential; empty while the Secret does not resolve.
        #[serde(default)]
        secret: String,
    },
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passthrough => f.write_str("Passthrough"),
            Self::Header {
                name, secret_ref, ..
            } => {
                write!(f, "Header({name} from Secret {})", secret_ref.name)
            }
        }
    }
}
