//! Every object in `examples/` has the shape of its kind.

use std::path::{Path, PathBuf};

use crds::snapshot::Kind;
use serde_json::Value;

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn every_example_has_the_shape_of_its_kind() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")).unwrap();
    let mut checked = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let kind = match object["kind"].as_str() {
                Some("Provider") => Kind::Provider,
                Some("Route") => Kind::Route,
                _ => continue,
            };
            let problems = crds::schema::check(kind, &object);
            assert!(problems.is_empty(), "{}: {problems:?}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} objects");
}
