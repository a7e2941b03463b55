//! Generated schemas, made to read well in `kubectl explain`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

/// Makes generated schemas read well: one line per paragraph, and no `nullable`, since the API
/// server drops a null where a field may not be null.
pub(super) fn polish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(schema) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            polish_schema(schema);
        }
    }
    crd
}

fn polish_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(text) = &mut schema.description {
        let paragraphs = text
            .split("\n\n")
            .map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|p| p.values_mut())
        .for_each(polish_schema);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        polish_schema(items);
    }
}
