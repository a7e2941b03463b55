//! What a schema refuses, and in which words. The same table is put to a real API server by the
//! stories in `e2e`.

use crds::snapshot::Kind;
use serde_json::Value;

#[test]
fn every_wrong_object_is_refused_with_the_words_that_help() {
    let table = include_str!("data/refused.yaml");
    let cases: Vec<Value> = serde_saphyr::from_multiple(table).unwrap();
    assert!(cases.len() > 20, "{} cases", cases.len());
    for case in cases {
        let (words, object) = (case["refusedWith"].as_str().unwrap(), &case["object"]);
        let kind = if object["kind"] == "Route" {
            Kind::Route
        } else {
            Kind::Provider
        };
        let problems = crds::schema::check(kind, object);
        let told = problems.iter().any(|p| p.contains(words));
        let offline = case["offline"].as_str();
        let told = told || offline.is_some_and(|words| problems.iter().any(|p| p.contains(words)));
        assert!(told, "{words:?} is not in {problems:?} for {object}");
    }
}
