//! Every object in `examples/` has the shape of its kind.

use std::path::{Path, PathBuf};

use crds::snapshot::Kind;
use serde_json::Value;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let inside = |path: PathBuf| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    };
    entries
        .flat_map(inside)
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect()
}

#[test]
fn every_example_has_the_shape_of_its_kind() {
    let files = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples"));
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
