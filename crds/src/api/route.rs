//! `Route`: which model name goes where.
#![expect(
    unreachable_pub,
    reason = "KubeSchema derives from a copy of each struct inside a function"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field::ProviderRef;

/// A Route says which model name goes where: requests whose `model` matches one of its rules are
/// sent to that rule's Providers.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "refrain.dev",
    version = "v1alpha1",
    kind = "Route",
    namespaced,
    status = "RouteStatus",
    derive = "PartialEq",
    shortname = "rfr",
    category = "refrain",
    doc = "A Route says which model name goes where: requests whose `model` matches one of its rules are sent to that rule's Providers.",
    printcolumn = r#"{"name":"Models","type":"string","jsonPath":".status.models","description":"The model names that this Route serves."}"#,
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"ResolvedRefs","type":"string","jsonPath":".status.conditions[?(@.type==\"ResolvedRefs\")].status","priority":1}"#,
    printcolumn = r#"{"name":"Programmed","type":"string","jsonPath":".status.conditions[?(@.type==\"Programmed\")].status"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpec {
    /// The rules. The rule that matches a request's model most specifically serves it: an exact
    /// match before the longest prefix, any prefix before a rule without `matches`.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[x_kube(validation = (
        "self.filter(r, !has(r.matches) || r.matches.size() == 0).size() <= 1",
        "at most one rule may be without matches: it takes every model that no other rule takes"
    ))]
    pub rules: Vec<RouteRule>,
}

/// One rule: what it matches, and where that goes.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// Name of the rule, unique in this Route. It appears in logs, metrics and status.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// What the rule takes; one match is enough. Without any it takes every model that no other
    /// rule takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub matches: Vec<RouteMatch>,
    /// The Providers that serve it. Each request draws one by weight.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[x_kube(validation = (
        "self.exists(b, b.weight > 0)",
        "at least one of backendRefs must have a weight above 0"
    ))]
    pub backend_refs: Vec<BackendRef>,
    /// How an endpoint of the drawn Provider is chosen.
    #[serde(default)]
    pub balancing: Balancing,
    /// What happens when an endpoint fails before it has sent a byte of the reply.
    #[serde(default)]
    pub retry: Retry,
}

/// One way for a request to match.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.model)", "model must be set: say which model name this matches"))]
pub struct RouteMatch {
    /// Matches the request's `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelMatch>,
}

/// How a model name is compared.
#[derive(
    Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
#[serde(rename_all = "camelCase")]
pub struct ModelMatch {
    /// `Exact`: the whole name. `Prefix`: its beginning, so that `llama-` takes `llama-8b` and
    /// `llama-70b`.
    #[serde(default)]
    pub r#type: MatchType,
    /// The name, or its beginning. Upper and lower case differ.
    #[schemars(length(min = 1, max = 253))]
    pub value: String,
}

/// The kinds of comparison.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
)]
pub enum MatchType {
    /// The whole name.
    #[default]
    Exact,
    /// Its beginning.
    Prefix,
}

/// One Provider of a rule.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// The Provider.
    pub provider_ref: ProviderRef,
    /// The model to ask this Provider for. Default: what the client asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub model: Option<String>,
    /// The share of requests that this Provider gets, relative to the rule's others. 0 gives it
    /// none. A Provider that cannot be used (see `ResolvedRefs`) gets none, and the others take
    /// its share.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub weight: i32,
}

fn one() -> i32 {
    1
}

/// How an endpoint is chosen among those of a Provider.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Balancing {
    /// `LeastLoad`: the endpoint with the fewest requests in flight. `PowerOfTwo`: the less loaded
    /// of two drawn at random. `RoundRobin`: each in turn. `Random`: any.
    #[serde(default)]
    pub strategy: Strategy,
}

/// The balancing strategies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The fewest requests in flight.
    #[default]
    LeastLoad,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// Each in turn.
    RoundRobin,
    /// Any.
    Random,
}

/// Retries, all of them before the first byte of a reply has been sent to the client.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How many other endpoints are tried when one cannot be reached, breaks the connection, or
    /// answers 502, 503 or 504. After the first byte nothing is tried again.
    #[serde(default = "two")]
    #[schemars(range(min = 0, max = 5))]
    pub attempts: i32,
}

fn two() -> i32 {
    2
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: two() }
    }
}

/// What the operator and the routers found.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RouteStatus {
    /// `Accepted`, `ResolvedRefs`, `Programmed` and `Ready`. A False one says what to do.
    #[serde(default)]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The first model names that this Route serves; `*` stands for the rest of a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 254)))]
    pub models: Vec<String>,
}
