use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn names(json: &[u8]) -> Result<Vec<(String, String)>, Broken> {
    let mut found = Vec::new();
    members(json, |name, place| {
        let value = String::from_utf8_lossy(&json[place]).into_owned();
        found.push((name.to_owned(), value));
    })?;
    Ok(found)
}

#[test]
fn members_are_found_where_they_stand() {
    let json = br#" { "a" : [1, {"b": "}\"]"}] ,"\u0062":-1.5e+3, "c":{}, "d" : null } "#;
    let found = names(json).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("a", r#"[1, {"b": "}\"]"}]"#),
            ("b", "-1.5e+3"),
            ("c", "{}"),
            ("d", "null")
        ]
    );
}

#[test]
fn what_python_reads_is_read() {
    for value in [
        "NaN",
        "Infinity",
        "-Infinity",
        "0",
        "-0",
        "1E5",
        "0.10",
        r#""\ud800""#,
        "[[],{}]",
        "\"\u{7f}é\"",
    ] {
        let json = format!(r#"{{"x":{value}}}"#);
        assert_eq!(
            names(json.as_bytes()).unwrap(),
            [("x".to_owned(), value.to_owned())]
        );
    }
}

#[test]
fn what_is_not_json_is_told_with_its_place() {
    for (json, message) in [
        ("", "expected an object at byte 0"),
        ("null", "expected an object at byte 0"),
        ("{", "expected a member's name at byte 1"),
        ("{'a':1}", "expected a member's name at byte 1"),
        (r#"{"a"}"#, "expected ':' at byte 4"),
        (r#"{"a":}"#, "expected a value at byte 5"),
        (r#"{"a":1,}"#, "expected a member's name at byte 7"),
        (r#"{"a":1"#, "expected ',' or '}' at byte 6"),
        (r#"{"a":[1}"#, "expected ',' or ']' at byte 7"),
        (r#"{"a":[1,]}"#, "expected a value at byte 8"),
        (r#"{"a":{"b":1]}"#, "expected ',' or '}' at byte 11"),
        (r#"{"a":01}"#, "expected ',' or '}' at byte 6"),
        (r#"{"a":1.}"#, "expected a digit at byte 7"),
        (r#"{"a":-}"#, "expected a digit at byte 6"),
        (r#"{"a":nul}"#, "expected a value at byte 5"),
        (r#"{"a":"b"#, "expected the end of a string at byte 7"),
        (r#"{"a":"\x"}"#, "expected an escape at byte 7"),
        (
            r#"{"a":"\u12g4"}"#,
            "expected four hexadecimal digits after \\u at byte 7",
        ),
        (
            "{\"a\":\"\n\"}",
            "expected no control character in a string at byte 6",
        ),
        ("{}{}", "expected the end at byte 2"),
    ] {
        assert_eq!(
            names(json.as_bytes()).unwrap_err().to_string(),
            message,
            "{json}"
        );
    }
}

#[test]
fn depth_is_no_limit() {
    let deep = format!(
        r#"{{"a":{}{},"b":1}}"#,
        r#"[{"x":"#.repeat(100_000),
        "}]".repeat(100_000)
    );
    // The innermost member has no value.
    assert!(names(deep.as_bytes()).is_err());
    let deep = format!(
        r#"{{"a":{}1{},"b":1}}"#,
        r#"[{"x":"#.repeat(100_000),
        "}]".repeat(100_000)
    );
    assert_eq!(names(deep.as_bytes()).unwrap().len(), 2);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[\"\\\\a{}\\[\\]:,\u{0}-\u{1f}]{0,80}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn it_reads_what_serde_writes(
        members in prop::collection::btree_map(any::<String>(), any_value(), 0..8),
        pretty: bool,
    ) {
        let object = Value::from(members.into_iter().collect::<Map<_, _>>());
        let json = if pretty { format!("{object:#}") } else { object.to_string() };
        let found: Map<_, _> = names(json.as_bytes())
            .unwrap()
            .into_iter()
            .map(|(name, value)| (name, serde_json::from_str(&value).unwrap()))
            .collect();
        // Floats are compared as they were written.
        prop_assert_eq!(Value::from(found), serde_json::from_str::<Value>(&json).unwrap());
    }

    #[test]
    fn it_takes_all_that_serde_takes_and_survives_the_rest(json in "[{}\\[\\]\":,\\\\a1tn.eE+-]{0,40}") {
        let read = names(json.as_bytes());
        if serde_json::from_str::<Map<String, Value>>(&json).is_ok() {
            prop_assert!(read.is_ok());
        }
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _either = names(&bytes);
        let _either = names(&[b"{\"a\":\"", bytes.as_slice()].concat());
    }
}
