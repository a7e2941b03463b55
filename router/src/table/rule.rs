use std::collections::HashMap;
use std::sync::Arc;

use crds::snapshot::Strategy;
use http::{HeaderName, HeaderValue};

use crate::fleet::Pool;
use crate::metrics::Meters;

/// One rule of a Route.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `namespace/name` of its Route.
    pub(crate) route: String,
    pub(crate) name: String,
    /// When its Route was created, in Unix seconds.
    pub(crate) created: i64,
    pub(crate) strategy: Strategy,
    /// Other endpoints tried before the first byte.
    pub(crate) attempts: u32,
    pub(crate) backends: Vec<Arc<Backend>>,
    /// Why this router cannot serve it.
    pub(crate) refused: Option<String>,
}

/// One Provider of a rule.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) provider: Arc<Provider>,
    pub(crate) pool: Arc<Pool>,
    /// The model to ask for in place of the client's.
    pub(crate) model: Option<String>,
    pub(crate) weight: u32,
    /// Why it gets nothing.
    pub(crate) refused: Option<String>,
    pub(crate) meters: Meters,
}

/// Where tokens come from.
#[derive(Debug)]
pub(crate) struct Provider {
    /// `namespace/name`.
    pub(crate) label: String,
    /// Public name → the engine's. Empty: whatever its engines serve.
    pub(crate) models: HashMap<String, Arc<str>>,
    pub(crate) credential: Credential,
    /// Why nothing is sent to it.
    pub(crate) refused: Option<String>,
}

/// What authenticates a request to a Provider.
#[derive(Debug)]
pub(crate) enum Credential {
    /// Nothing.
    None,
    /// The client's own.
    Passthrough,
    /// A header of the Provider's.
    Header(HeaderName, HeaderValue),
}

impl Backend {
    /// Whether it takes part in draws.
    pub(crate) const fn is_usable(&self) -> bool {
        self.refused.is_none() && self.weight > 0
    }

    /// The name by which the Provider knows what a client calls `model`.
    pub(crate) fn asked<'a>(&'a self, model: Option<&'a str>) -> Option<&'a str> {
        self.model.as_deref().or(model)
    }

    /// Whether the Provider has what a client calls `model`.
    pub(crate) fn has(&self, model: Option<&str>) -> bool {
        let models = &self.provider.models;
        models.is_empty()
            || self
                .asked(model)
                .is_none_or(|name| models.contains_key(name))
    }

    /// The engine's name of what a client calls `model`.
    pub(crate) fn upstream_model(&self, model: Option<&Arc<str>>) -> Option<Arc<str>> {
        let asked = self.asked(model.map(|model| &**model))?;
        if let Some(upstream) = self.provider.models.get(asked) {
            return Some(Arc::clone(upstream));
        }
        match model {
            Some(model) if **model == *asked => Some(Arc::clone(model)),
            _ => Some(asked.into()),
        }
    }
}
