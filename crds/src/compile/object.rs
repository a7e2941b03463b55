use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::Grant;
use crate::api::{Provider, Route};
use crate::snapshot::{Key, Origin};

/// Everything that a compile reads.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Every Provider in scope.
    pub providers: Vec<Entry<Provider>>,
    /// Every Route in scope.
    pub routes: Vec<Entry<Route>>,
    /// The Services that Providers may name.
    pub services: HashMap<Key, Arc<Service>>,
    /// The Secrets that Providers may name.
    pub secrets: HashMap<Key, Arc<Secret>>,
    /// Every ReferenceGrant in scope.
    pub grants: Vec<Grant>,
    /// Where the objects come from.
    pub scope: Scope,
}

/// Where objects come from; it decides what a missing Service means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// An API server: a Service that is not there is a problem.
    #[default]
    Cluster,
    /// Files: EndpointSlices may stand alone, and a port is then the slice's own.
    Files,
}

/// One object as it was read.
#[derive(Clone, Debug)]
pub enum Entry<K> {
    /// It has the shape of its kind.
    Read(Arc<K>),
    /// It does not: written past an older or loosened schema.
    Unreadable {
        /// Which object it is.
        origin: Origin,
        /// What is wrong with it.
        error: String,
    },
}

impl<K: Resource<DynamicType = ()>> Entry<K> {
    /// Which object, and which edit of it.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Read(object) => Origin::of(object.meta()),
            Self::Unreadable { origin, .. } => origin.clone(),
        }
    }
}

impl Origin {
    /// The origin of any object with metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        let created = meta.creation_timestamp.as_ref().map(|at| at.0.to_string());
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self {
            key: Key::new(text(&meta.namespace), text(&meta.name)),
            uid: text(&meta.uid),
            generation: meta.generation.unwrap_or_default(),
            created: created.unwrap_or_default(),
        }
    }
}
