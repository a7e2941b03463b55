//! Field types that several kinds share.
#![expect(
    unreachable_pub,
    reason = "KubeSchema derives from a copy of each struct inside a function"
)]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A Service of the Provider's own namespace.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRef {
    /// Name of a Service in the namespace of this Provider. Its ready endpoints are the engines.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The Service's port that serves the API: its name (`http`) or its number (`8000`).
    pub port: Port,
}

/// A Service port, by name or by the Service's own port number.
#[derive(Serialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(untagged)]
pub enum Port {
    /// The port's number on the Service, 1 to 65535.
    Number(u16),
    /// The port's name on the Service.
    Name(String),
}

impl<'de> Deserialize<'de> for Port {
    /// A number in quotes is a number: port names contain a letter.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u16),
            Text(String),
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Number(number) => Self::Number(number),
            Written::Text(text) => text.parse().map_or(Self::Name(text), Self::Number),
        })
    }
}

/// 1 to 65535, or a name with a letter in it. One expression for both, since it must hold for an
/// integer and for a string alike.
const PORT_RULE: &str = concat!(
    "string(self).matches('^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|",
    "655[0-2][0-9]|6553[0-5]|([a-z0-9][-a-z0-9]*)?[a-z]([-a-z0-9]*[a-z0-9])?)$')",
    " && string(self).size() <= 15"
);

impl JsonSchema for Port {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Port".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "maxLength": 15,
            "x-kubernetes-validations": [{
                "rule": PORT_RULE,
                "message": "port must be a port number from 1 to 65535, or a port name of at most 15 lower-case letters, digits and '-'"
            }]
        })
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// One key of a Secret in the same namespace.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of a Secret in the namespace of this object.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// The key in the Secret that holds the credential. Surrounding white space is ignored.
    #[serde(default = "api_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

fn api_key() -> String {
    "api-key".to_owned()
}

/// A Provider, in the same namespace unless `namespace` says another.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRef {
    /// Name of the Provider.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Namespace of the Provider, when it is not the Route's own. The Provider's namespace must
    /// then hold a ReferenceGrant that allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub namespace: Option<String>,
}
