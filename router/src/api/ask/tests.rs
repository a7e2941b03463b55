use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn ask(json: &str) -> Ask {
    Ask::read(Bytes::copy_from_slice(json.as_bytes())).unwrap()
}

#[test]
fn the_last_model_counts_as_it_does_for_engines() {
    let model = |json| ask(json).model().map(ToString::to_string);
    assert_eq!(model(r#"{"model":"a","model":"b"}"#).as_deref(), Some("b"));
    assert_eq!(model(r#"{"model":"a","model":null}"#), None);
    assert_eq!(
        model(r#"{"model":"\u00e9\"\ud83d\ude42"}"#).as_deref(),
        Some("é\"🙂")
    );
    assert_eq!(model(r#"{"messages":[{"model":"a"}]}"#), None);
    assert_eq!(model(r#"{"model":[1],"model":"b"}"#).as_deref(), Some("b"));
}

#[test]
fn a_model_that_is_no_string_is_refused() {
    for json in [
        r#"{"model":1}"#,
        r#"{"model":"a","model":{}}"#,
        r#"{"model":"\ud800"}"#,
    ] {
        let error = Ask::read(Bytes::copy_from_slice(json.as_bytes())).unwrap_err();
        assert_eq!(error.to_string(), "model must be a string");
    }
}

#[test]
fn a_stream_is_whatever_is_not_plainly_none() {
    for (json, stream) in [
        (r#"{"stream":true}"#, true),
        (r#"{"stream": 1}"#, true),
        (r#"{"stream":"true"}"#, true),
        (r#"{"stream" : false }"#, false),
        (r#"{"stream":null}"#, false),
        (r#"{"stream":true,"stream":false}"#, false),
        ("{}", false),
    ] {
        assert_eq!(ask(json).is_stream(), stream, "{json}");
    }
}

#[test]
fn the_same_model_leaves_the_body_untouched() {
    let ask = ask(r#"{"model":"\u0061"}"#);
    for model in [None, Some("a")] {
        assert_eq!(ask.body_for(model), r#"{"model":"\u0061"}"#);
    }
}

proptest! {
    #[test]
    fn a_renamed_body_differs_in_its_model_alone(
        mut members in prop::collection::btree_map(any::<String>(), any::<String>(), 0..6),
        old in prop::option::of(any::<String>()),
        new: String,
        pretty: bool,
    ) {
        members.remove("model");
        members.extend(old.map(|old| ("model".to_owned(), old)));
        let object: Map<String, Value> = members.into_iter().map(|(k, v)| (k, v.into())).collect();
        let mut object = Value::from(object);
        let json = if pretty { format!("{object:#}") } else { object.to_string() };
        let renamed = ask(&json).body_for(Some(&new));
        object["model"] = new.into();
        prop_assert_eq!(serde_json::from_slice::<Value>(&renamed).unwrap(), object);
    }
}
