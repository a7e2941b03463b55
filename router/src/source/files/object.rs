//! A document → an object, checked as an API server would.

use std::sync::Arc;

use crds::compile::{Entry, Grant};
use crds::snapshot::{Key, Kind, Origin};
use crds::{api, schema};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fleet::slices::{SERVICE_NAME, Slice};

const KINDS: &str = "Provider and Route (refrain.dev/v1alpha1), Service, Secret and ConfigMap \
    (v1), EndpointSlice (discovery.k8s.io/v1), ReferenceGrant (gateway.networking.k8s.io/v1)";

/// Which object a document is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) kind: Name,
    pub(super) key: Key,
}

/// The kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Name {
    Provider,
    Route,
    Service,
    Secret,
    ConfigMap,
    EndpointSlice,
    ReferenceGrant,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}", self.kind, self.key)
    }
}

/// An object of a file.
#[derive(Clone, Debug)]
pub(super) enum Object {
    Provider(Entry<api::Provider>),
    Route(Entry<api::Route>),
    Service(Arc<Service>),
    Secret(Arc<Secret>),
    /// Nothing refers to one yet; it is checked all the same.
    ConfigMap,
    Slice(Slice),
    Grant(Grant),
}

/// Says which object a document is.
pub(super) fn identify(document: &Value) -> Result<Id, String> {
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str);
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    let (Some(version), Some(kind)) = (version, kind) else {
        return Err("apiVersion and kind must be set: is this a Kubernetes object?".to_owned());
    };
    let name = match (kind, version) {
        ("Provider", "refrain.dev/v1alpha1") => Name::Provider,
        ("Route", "refrain.dev/v1alpha1") => Name::Route,
        ("Service", "v1") => Name::Service,
        ("Secret", "v1") => Name::Secret,
        ("ConfigMap", "v1") => Name::ConfigMap,
        ("EndpointSlice", "discovery.k8s.io/v1") => Name::EndpointSlice,
        (
            "ReferenceGrant",
            "gateway.networking.k8s.io/v1" | "gateway.networking.k8s.io/v1beta1",
        ) => Name::ReferenceGrant,
        _ => {
            return Err(format!(
                "kind {kind} of apiVersion {version} is not read from files: remove it, or write \
                 one of {KINDS}"
            ));
        }
    };
    match text("/metadata/name") {
        Some(object) if !object.is_empty() => {
            let namespace = text("/metadata/namespace").filter(|n| !n.is_empty());
            Ok(Id {
                kind: name,
                key: Key::new(namespace.unwrap_or("default"), object),
            })
        }
        _ => Err(format!("metadata.name of the {kind} must be set")),
    }
}

/// A document that is not an object of its kind.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) error: String,
    /// For a Provider or Route: what the compiler takes to serve its last good form.
    pub(super) entry: Option<Box<Object>>,
}

impl From<String> for Bad {
    fn from(error: String) -> Self {
        Self { error, entry: None }
    }
}

/// Reads the object that [`identify`] found.
pub(super) fn read(id: &Id, document: Value, generation: i64) -> Result<Object, Bad> {
    match id.kind {
        Name::Provider => entry(Kind::Provider, id, document, generation, Object::Provider),
        Name::Route => entry(Kind::Route, id, document, generation, Object::Route),
        Name::Service => Ok(Object::Service(typed(document)?)),
        // The error itself could show what the Secret holds.
        Name::Secret => match typed(document) {
            Ok(secret) => Ok(Object::Secret(secret)),
            Err(_) => Err(Bad::from(
                "it does not have the shape of a Secret: write stringData with plain text, or \
                 data with base64"
                    .to_owned(),
            )),
        },
        Name::ConfigMap => {
            typed::<ConfigMap>(document)?;
            Ok(Object::ConfigMap)
        }
        Name::EndpointSlice => Ok(Object::Slice(slice(document)?)),
        Name::ReferenceGrant => Grant::read(id.key.namespace.clone(), &document["spec"])
            .map(Object::Grant)
            .ok_or_else(|| Bad::from("spec must have from and to, as Gateway API says".to_owned())),
    }
}

fn typed<K: DeserializeOwned>(document: Value) -> Result<Arc<K>, String> {
    let object = serde_json::from_value(document).map(Arc::new);
    object.map_err(|error| format!("it does not have the shape of its kind: {error}"))
}

fn slice(document: Value) -> Result<Slice, String> {
    let slice: Arc<EndpointSlice> = typed(document)?;
    let read = Slice::read(&slice);
    if read.service.is_empty() {
        return Err(format!(
            "metadata.labels must have {SERVICE_NAME} with the name of the Service"
        ));
    }
    if read.entries.len() < slice.endpoints.len() {
        return Err(format!(
            "every endpoint must have an address of type {}",
            slice.address_type
        ));
    }
    Ok(read)
}

fn entry<K>(
    kind: Kind,
    id: &Id,
    mut document: Value,
    generation: i64,
    wrap: fn(Entry<K>) -> Object,
) -> Result<Object, Bad>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    drop_nulls(&mut document);
    let uid = format!("file:{kind}/{}", id.key);
    let mut problems = schema::check(kind, &document);
    if problems.is_empty() {
        match serde_json::from_value::<K>(document) {
            Ok(mut object) => {
                let meta = object.meta_mut();
                meta.namespace = Some(id.key.namespace.clone());
                meta.uid = Some(uid);
                meta.generation = Some(generation);
                return Ok(wrap(Entry::Read(Arc::new(object))));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    let error = problems.join("; ");
    let origin = Origin {
        key: id.key.clone(),
        uid,
        generation,
        created: String::new(),
    };
    let unreadable = Entry::Unreadable {
        origin,
        error: error.clone(),
    };
    Err(Bad {
        error,
        entry: Some(Box::new(wrap(unreadable))),
    })
}

/// As an API server does where a field may not be null.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
