//! The CRDs as files, and their schemas as a check for objects that no API server has seen.

use std::collections::HashSet;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::Validator;
use serde_json::{Value, json};

use crate::api;
use crate::snapshot::Kind;

const HEADER: &str = "# Generated from crds/src/api by `make crds`.\n";

/// File name and YAML of every CRD.
pub fn crd_files() -> Vec<(String, String)> {
    let file = |crd: CustomResourceDefinition| {
        let name = format!("{}.yaml", crd.spec.names.plural);
        let yaml = serde_saphyr::to_string(&crd).unwrap_or_default();
        (name, format!("{HEADER}{yaml}"))
    };
    api::crds().into_iter().map(file).collect()
}

/// What an API server would say against an object of this kind: structure, bounds, unknown fields
/// and CEL rules, each with the path of what it concerns. Empty when it would be accepted.
pub fn check(kind: Kind, object: &Value) -> Vec<String> {
    let schema = match kind {
        Kind::Provider => &*PROVIDER,
        Kind::Route => &*ROUTE,
    };
    schema.check(object)
}

static PROVIDER: LazyLock<Schema> = LazyLock::new(|| Schema::new(Kind::Provider));
static ROUTE: LazyLock<Schema> = LazyLock::new(|| Schema::new(Kind::Route));

/// A CRD's schema, prepared for checking.
struct Schema {
    api_version: String,
    kind: Kind,
    /// The OpenAPI schema as the API server has it: CEL rules and list-map keys included.
    open_api: Value,
    /// The same as JSON Schema, closed against unknown fields. None would be a generation bug; the
    /// golden test builds it.
    structure: Option<jsonschema::Validator>,
}

impl Schema {
    fn new(kind: Kind) -> Self {
        let crd = api::crds()
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind.as_str());
        let open_api = crd
            .and_then(|crd| crd.spec.versions.into_iter().next())
            .and_then(|version| version.schema?.open_api_v3_schema)
            .and_then(|schema| serde_json::to_value(schema).ok())
            .unwrap_or_default();
        let mut closed = open_api.clone();
        close(&mut closed);
        let structure = jsonschema::validator_for(&closed).ok();
        let api_version = format!("{}/{}", crate::GROUP, crate::VERSION);
        Self {
            api_version,
            kind,
            open_api,
            structure,
        }
    }

    fn check(&self, object: &Value) -> Vec<String> {
        if object.get("apiVersion").and_then(Value::as_str) != Some(&self.api_version) {
            let kind = self.kind;
            return vec![format!(
                "apiVersion: must be {} for kind {kind}",
                self.api_version
            )];
        }
        let Some(structure) = &self.structure else {
            return vec!["the schema of this kind does not compile".to_owned()];
        };
        // Metadata has no schema in a CRD: the API server checks it against its own.
        let mut bare = object.clone();
        if let Some(fields) = bare.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        let mut problems: Vec<String> = structure
            .iter_errors(&bare)
            .map(|error| say(&dotted(error.instance_path().as_str()), &error.to_string()))
            .collect();
        duplicates(&self.open_api, &bare, &mut String::new(), &mut problems);
        // CEL rules may rely on the structure, as they do on the API server.
        if problems.is_empty()
            && let Err(errors) = Validator::new().validate(&self.open_api, &bare, None)
        {
            problems.extend(
                errors
                    .as_slice()
                    .iter()
                    .map(|e| say(&e.field_path, &e.message)),
            );
        }
        problems
    }
}

fn say(path: &str, message: &str) -> String {
    if path.is_empty() {
        message.to_owned()
    } else {
        format!("{path}: {message}")
    }
}

/// `/spec/rules/0/name` → `spec.rules[0].name`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            path.extend(["[", part, "]"]);
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(part);
        }
    }
    path
}

/// Makes every object with properties refuse unknown ones.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            let is_object = fields.get("type") == Some(&json!("object"));
            if is_object && fields.get("properties").is_some_and(Value::is_object) {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Finds list entries that share the keys of their list-map.
fn duplicates(schema: &Value, value: &Value, path: &mut String, problems: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let depth = path.len();
                if depth > 0 {
                    path.push('.');
                }
                path.push_str(name);
                duplicates(&schema["properties"][name.as_str()], field, path, problems);
                path.truncate(depth);
            }
        }
        Value::Array(items) => {
            let keys = schema["x-kubernetes-list-map-keys"]
                .as_array()
                .map_or(&[][..], Vec::as_slice);
            let mut seen = HashSet::new();
            for (at, item) in items.iter().enumerate() {
                let depth = path.len();
                path.extend(["[", &at.to_string(), "]"]);
                let key: Vec<String> = keys
                    .iter()
                    .map(|k| item[k.as_str().unwrap_or_default()].to_string())
                    .collect();
                if !keys.is_empty() && !seen.insert(key.clone()) {
                    problems.push(say(path, &format!("duplicate {}", key.join(", "))));
                }
                duplicates(&schema["items"], item, path, problems);
                path.truncate(depth);
            }
        }
        _ => {}
    }
}
