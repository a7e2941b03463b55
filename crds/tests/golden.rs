//! The committed CRDs are those that the types generate. `BLESS=1` rewrites them.

use std::path::{Path, PathBuf};

fn folders() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    [root.to_owned(), root.join("../charts/refrain-crds/files")]
}

#[test]
fn the_committed_crds_equal_the_generated_ones() {
    for (file, yaml) in crds::schema::crd_files() {
        for folder in folders() {
            let path = folder.join(&file);
            if std::env::var_os("BLESS").is_some() {
                std::fs::write(&path, &yaml).unwrap();
            }
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == yaml,
                "{} is stale: run with BLESS=1",
                path.display()
            );
        }
    }
}

#[test]
fn every_list_string_and_number_of_a_spec_is_bounded() {
    for crd in crds::api::crds() {
        let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
        let spec = &schema["openAPIV3Schema"]["properties"]["spec"];
        unbounded(spec, &format!("{}.spec", crd.spec.names.kind));
    }
}

fn unbounded(schema: &serde_json::Value, path: &str) {
    let has = |key: &str| !schema[key].is_null();
    match schema["type"].as_str() {
        Some("string") => assert!(has("maxLength") || has("enum"), "{path} has no maxLength"),
        Some("integer") => assert!(has("minimum") && has("maximum"), "{path} has no range"),
        Some("array") => {
            assert!(has("maxItems"), "{path} has no maxItems");
            assert!(has("x-kubernetes-list-type"), "{path} has no list type");
            unbounded(&schema["items"], &format!("{path}[]"));
        }
        other => assert_ne!(other, Some("number"), "{path} is a float"),
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        assert!(has_text(property), "{path}.{name} has no description");
        unbounded(property, &format!("{path}.{name}"));
    }
}

fn has_text(property: &serde_json::Value) -> bool {
    property["description"]
        .as_str()
        .is_some_and(|text| !text.is_empty())
}
