use serde::{Deserialize, Serialize};

use super::{Key, Origin};

/// An accepted Route.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The object this was compiled from.
    pub origin: Origin,
    /// In the order written.
    pub rules: Vec<Rule>,
}

/// One rule of a Route.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Unique in its Route.
    pub name: String,
    /// Router features that this rule needs. A router that lacks one refuses the rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// What it takes; one is enough. Never empty as written by `compile` unless every claim was
    /// lost to another Route.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Match>,
    /// Claims lost to another Route: kept, so that they come back when the other is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Match>,
    /// Drawn by weight.
    pub backends: Vec<Backend>,
    /// How an endpoint is chosen.
    pub strategy: Strategy,
    /// Other endpoints tried before the first byte.
    pub attempts: u32,
}

/// What a rule takes.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub enum Match {
    /// The model of this name.
    Exact(String),
    /// Every model whose name begins so. The empty prefix takes everything, requests without a
    /// model included.
    Prefix(String),
    /// A newer operator's way to match; never matches.
    #[serde(other, skip_serializing)]
    Unknown,
}

impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// One Provider of a rule.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The Provider.
    pub provider: Key,
    /// The model to ask it for, before the Provider's own names apply. Absent: the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The share, relative to the rule's other usable backends.
    pub weight: u32,
    /// Why it gets nothing now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// Why something gets no request.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// CamelCase, as in a condition.
    pub reason: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// How an endpoint is chosen among those of a Provider.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The fewest requests in flight.
    LeastLoad,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// Each in turn.
    RoundRobin,
    /// Any.
    Random,
    /// A newer operator's; the rule's `requires` names it, so the rule is refused.
    #[serde(other, skip_serializing)]
    Unknown,
}
