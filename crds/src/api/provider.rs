//! `Provider`: where tokens come from.
#![expect(
    unreachable_pub,
    reason = "KubeSchema derives from a copy of each struct inside a function"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field::{SecretRef, ServiceRef};

/// A Provider is where tokens come from: the engines (vLLM, SGLang, or any server that speaks the
/// OpenAI API) behind one Service. Routes send requests to it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "refrain.dev",
    version = "v1alpha1",
    kind = "Provider",
    namespaced,
    status = "ProviderStatus",
    derive = "PartialEq",
    shortname = "rfp",
    category = "refrain",
    doc = "A Provider is where tokens come from: the engines (vLLM, SGLang, or any server that speaks the OpenAI API) behind one Service. Routes send requests to it.",
    printcolumn = r#"{"name":"Service","type":"string","jsonPath":".spec.service.name"}"#,
    printcolumn = r#"{"name":"Engine","type":"string","jsonPath":".status.engine","description":"The engine that answered."}"#,
    printcolumn = r#"{"name":"Endpoints","type":"integer","jsonPath":".status.endpoints.ready","description":"Endpoints that take requests."}"#,
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].status","priority":1}"#,
    printcolumn = r#"{"name":"ResolvedRefs","type":"string","jsonPath":".status.conditions[?(@.type==\"ResolvedRefs\")].status","priority":1}"#,
    printcolumn = r#"{"name":"Programmed","type":"string","jsonPath":".status.conditions[?(@.type==\"Programmed\")].status"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "has(self.service)",
    "service must be set: name the Service whose endpoints are the engines"
))]
pub struct ProviderSpec {
    /// The Service whose endpoints are the engines. Routers follow its EndpointSlices themselves,
    /// so that pods which come and go are noticed within milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceRef>,
    /// How routers authenticate to the engines. Without it no credential is sent; a client's own
    /// credential never reaches an engine unless `type` is `Passthrough`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// The models that this Provider serves. Leave it out to discover them from the engines'
    /// `/v1/models`. When it is set, Routes may refer to these names only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub models: Vec<ProviderModel>,
}

/// How routers authenticate to a Provider's engines.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = (
    "self.type == 'Passthrough' ? !has(self.secretRef) : has(self.secretRef)",
    "secretRef must be set for BearerToken and APIKeyHeader, and must not be set for Passthrough"
))]
#[x_kube(validation = (
    "!has(self.headerName) || self.type == 'APIKeyHeader'",
    "headerName may be set for APIKeyHeader only"
))]
#[x_kube(validation = (
    "!has(self.headerName) || !(self.headerName.lowerAscii() in ['host', 'content-length', 'content-type', 'transfer-encoding', 'connection', 'keep-alive', 'te', 'trailer', 'upgrade'])",
    "headerName must be a header that carries a credential, such as x-api-key"
))]
pub struct Auth {
    /// `BearerToken` sends `Authorization: Bearer <secret>`. `APIKeyHeader` sends the secret in
    /// the header `headerName`. `Passthrough` sends the client's own `Authorization` and
    /// `x-api-key` headers on.
    pub r#type: AuthType,
    /// The Secret that holds the credential, in the namespace of this Provider. A changed Secret
    /// is used within seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The header that carries the key, for `APIKeyHeader`. Default: `x-api-key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 256),
        regex(pattern = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
    )]
    pub header_name: Option<String>,
}

/// The way a credential is sent.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthType {
    /// `Authorization: Bearer <secret>`.
    BearerToken,
    /// The secret alone, in a header of its own.
    APIKeyHeader,
    /// The client's own credential.
    Passthrough,
}

/// One model of a Provider.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ProviderModel {
    /// The name that Routes refer to, in `backendRefs[].model` or by passing the client's on.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The name that the engine knows it by. Default: `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub upstream_name: Option<String>,
}

/// What the operator and the routers found.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// `Accepted`, `ResolvedRefs`, `Programmed` and `Ready`. A False one says what to do.
    #[serde(default)]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The engine that answered, as it names itself: `vllm`, `sglang`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub engine: Option<String>,
    /// The endpoints that the routers see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointCounts>,
    /// The first models that the engines say they serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub models: Vec<String>,
}

/// How many endpoints there are.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EndpointCounts {
    /// Endpoints that take new requests.
    #[schemars(range(min = 0, max = 100_000))]
    pub ready: i32,
    /// All endpoints, those that are starting or terminating included.
    #[schemars(range(min = 0, max = 100_000))]
    pub total: i32,
}
