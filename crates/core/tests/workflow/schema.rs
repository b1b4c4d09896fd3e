//! The schema for editors agrees with the program: both accept the same files, and both know the
//! same keys.

use std::fs;

use banksman_core::workflow::load;
use serde_json::{Value, json};

use crate::broken::corpus;
use crate::{Params, documents, example};

fn schema() -> Value {
    let path = documents().join("reference/workflow.schema.json");
    let text = fs::read_to_string(path).expect("the schema is part of the documents");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Keywords that explain and do not restrict.
const WORDS: [&str; 7] =
    ["$schema", "$id", "title", "description", "default", "examples", "$comment"];

/// Whether a value is valid, by the few keywords that the schema uses. Any other keyword is an
/// error of this test.
fn fits(schema: &Value, value: &Value) -> bool {
    let rules = schema.as_object().expect("a schema is an object");
    rules.iter().filter(|(keyword, _)| !WORDS.contains(&keyword.as_str())).all(|(keyword, rule)| {
        match keyword.as_str() {
            "type" => kinds(rule).iter().any(|kind| is_a(value, kind)),
            "enum" => rule.as_array().expect("a list").contains(value),
            "minItems" => value
                .as_array()
                .is_none_or(|list| list.len() as u64 >= rule.as_u64().expect("a number")),
            "minimum" => {
                value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number"))
            }
            "items" => value.as_array().is_none_or(|list| list.iter().all(|part| fits(rule, part))),
            "required" => value.as_object().is_none_or(|object| {
                let names = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
                names.into_iter().all(|name| object.contains_key(name))
            }),
            "properties" => value.as_object().is_none_or(|object| {
                object.iter().all(|(key, part)| rule.get(key).is_none_or(|rule| fits(rule, part)))
            }),
            "additionalProperties" => value.as_object().is_none_or(|object| {
                let known = |key: &String| schema["properties"].get(key).is_some();
                let mut others = object.iter().filter(|(key, _)| !known(key));
                others.all(|(_, part)| match rule {
                    Value::Bool(allowed) => *allowed,
                    rule => fits(rule, part),
                })
            }),
            other => panic!("this test does not know the keyword `{other}`"),
        }
    })
}

fn kinds(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        single => single.as_str().into_iter().collect(),
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("this test does not know the type `{other}`"),
    }
}

fn value(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("it is YAML")
}

#[test]
fn the_examples_fit() {
    for name in ["phase-4.yaml", "release.yaml", "review.yaml"] {
        assert!(fits(&schema(), &value(&example(name).expect("it exists"))), "{name}");
    }
}

#[test]
fn an_editor_sees_the_faults_of_structure() {
    let mut seen = 0;
    for (name, text) in corpus() {
        let accepts = match text.lines().nth(1) {
            Some("# schema: accepts") => true,
            Some("# schema: refuses") => false,
            other => panic!("{name}: {other:?} does not say what the schema does"),
        };
        assert_eq!(fits(&schema(), &value(&text)), accepts, "{name}");
        seen += usize::from(!accepts);
    }
    assert!(seen >= 9, "only {seen} of the broken files are broken in their structure");
}

/// The keys that the program knows at a place: it lists them when it finds an unknown one. `doc` is
/// a file with such a key.
fn known_to_the_program(doc: &Value) -> Vec<String> {
    let text = doc.to_string();
    let problems =
        load(&text, "w.yaml", &Params::new(), &|_| Err(String::new())).expect_err("an unknown key");
    let problem = &problems.list[0];
    assert_eq!(problem.message, format!("unknown key `{STRANGE}`"), "{text}");
    let help = problem.help.as_deref().and_then(|help| help.strip_prefix("known here: "));
    let mut keys: Vec<String> = help.expect("all keys").split(", ").map(str::to_owned).collect();
    keys.sort();
    keys
}

/// Similar to no key at all.
const STRANGE: &str = "qqqqqqqqqqqqqqqqqqqqqqqq";

/// Every object of the schema with fixed keys, by its path.
fn objects(schema: &Value, way: &[Value], found: &mut Vec<(Vec<Value>, Vec<String>)>) {
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], json!(false), "{way:?}");
        let mut keys: Vec<String> = properties.keys().cloned().collect();
        keys.sort();
        found.push((way.to_vec(), keys));
        for (key, below) in properties {
            objects(below, &[way, &[json!(key)]].concat(), found);
        }
    } else if schema["additionalProperties"].is_object() {
        objects(&schema["additionalProperties"], &[way, &[json!("name")]].concat(), found);
    }
    if schema["items"].is_object() {
        objects(&schema["items"], &[way, &[json!(0)]].concat(), found);
    }
}

/// A file whose object at a path has an unknown key.
fn strange_at(way: &[Value]) -> Value {
    match way {
        [] => json!({ STRANGE: 1 }),
        [Value::String(key), rest @ ..] => json!({ key.as_str(): strange_at(rest) }),
        [_, rest @ ..] => json!([strange_at(rest)]),
    }
}

#[test]
fn the_program_and_the_schema_know_the_same_keys() {
    let mut found = Vec::new();
    objects(&schema(), &[], &mut found);
    assert_eq!(found.len(), 13, "{found:?}");
    for (way, keys) in found {
        assert_eq!(known_to_the_program(&strange_at(&way)), keys, "at {way:?}");
    }
}

#[test]
fn everything_in_the_schema_is_explained() {
    fn explained(schema: &Value, way: &str) {
        for (key, below) in schema["properties"].as_object().into_iter().flatten() {
            assert!(below["description"].is_string(), "{way}/{key} has no description");
            explained(below, &format!("{way}/{key}"));
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                explained(&schema[inner], &format!("{way}/{inner}"));
            }
        }
    }
    explained(&schema(), "");
}
