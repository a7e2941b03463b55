//! The objects that stories and benches begin with.

use serde_json::{Value, json};

/// A Provider of the Service of its own name.
pub fn provider(name: &str) -> Value {
    json!({ "apiVersion": "refrain.dev/v1alpha1", "kind": "Provider", "metadata": { "name": name },
            "spec": { "service": { "name": name, "port": "http" } } })
}

/// A Route of one model to one Provider.
pub fn route(name: &str, model: &str, provider: &str) -> Value {
    json!({ "apiVersion": "refrain.dev/v1alpha1", "kind": "Route", "metadata": { "name": name },
            "spec": { "rules": [{ "name": "all", "matches": [{ "model": { "value": model } }],
                                  "backendRefs": [{ "providerRef": { "name": provider } }] }] } })
}
