//! Structured answers for agents whose command line takes no schema: adds the schema to the prompt,
//! finds the answer in the last message and validates it.
//!
//! Only a small part of JSON Schema is supported, and loading a schema that uses more fails. A full
//! validator would be the slowest crate to build, for keywords that our prompts never use.

use serde_json::{Map, Value, json};

use super::AgentRequest;

/// People and prompts write schemas; a deeper one is a mistake, and every function here recurses.
const DEPTH: usize = 32;
/// The most violations reported to the agent at once; more would not help it.
const VIOLATIONS: usize = 20;
/// How much of the end of a text is searched for an answer.
const SEARCHED_BYTES: usize = 1024 * 1024;

const TYPES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
/// Keywords that document a schema and do not restrict an answer.
const ANNOTATIONS: [&str; 5] = ["$schema", "$id", "title", "description", "examples"];

/// The instruction, appended to a prompt, to end with an answer of this shape.
pub fn instruction(schema: &Value) -> String {
    format!(
        "\n\nWhen you are done, your last message must be exactly one JSON object and nothing else: \
         no text before or after it and no code fence. It must match this JSON Schema:\n\n{schema}\n"
    )
}

/// The prompt of a run for an agent that takes no schema.
pub(super) fn prompt_with_schema(request: &AgentRequest) -> String {
    let instruction = request.schema.as_ref().map(instruction).unwrap_or_default();
    format!("{}{instruction}", request.prompt)
}

/// The last JSON object in a text, with or without prose and code fences around it.
pub fn answer_in(text: &str) -> Option<Value> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(SEARCHED_BYTES));
    let text = &text[from..];
    let mut last = None;
    let mut at = 0;
    while let Some(found) = text[at..].find('{') {
        let start = at + found;
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        at = match values.next() {
            Some(Ok(value)) => {
                last = Some(value);
                start + values.byte_offset()
            }
            Some(Err(_)) | None => start + 1,
        };
    }
    last
}

/// The schema with one more member that an answer must have: one of these words.
pub fn with_choice(mut schema: Value, name: &str, words: &[&str]) -> Value {
    schema["properties"][name] = json!({ "type": "string", "enum": words });
    schema["required"].as_array_mut().into_iter().for_each(|all| all.push(json!(name)));
    schema
}

/// Checks that a schema is valid and uses only supported keywords.
///
/// # Errors
///
/// The place in the schema and the problem there.
pub fn check_supported(schema: &Value) -> Result<(), String> {
    check_schema(schema, "", 0)
}

/// The violations in an answer, each with its place; empty if it is valid. The schema must be
/// supported, see [`check_supported`].
pub fn violations(schema: &Value, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, answer, "", &mut found);
    found
}

/// The answer without null members that are optional and not nullable. Where a provider requires
/// every member, null is the only way for an agent to omit one.
pub fn without_optional_nulls(schema: &Value, answer: Value) -> Value {
    match answer {
        Value::Object(members) => {
            let is_omitted = |name: &str, value: &Value| {
                value.is_null()
                    && !lists(&schema["required"], name)
                    && !violations(&schema["properties"][name], value).is_empty()
            };
            let kept = members.into_iter().filter(|(name, value)| !is_omitted(name, value));
            kept.map(|(name, value)| {
                let value = without_optional_nulls(&schema["properties"][&name], value);
                (name, value)
            })
            .collect()
        }
        Value::Array(items) => {
            items.into_iter().map(|item| without_optional_nulls(&schema["items"], item)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => answer,
    }
}

/// An object as it is plainly meant: names and words in another case, one text for a list, missing
/// texts and lists, and members that the schema does not know, whose values join the last list so
/// that people read them. A word that decides, such as a verdict, is never made up: only a choice
/// that may be empty is left empty, and of two spellings of one name neither is chosen.
pub fn plainly_meant(schema: &Value, answer: Value) -> Value {
    let (Some(known), Value::Object(given)) = (schema["properties"].as_object(), &answer) else {
        return answer;
    };
    let mut meant = Map::new();
    let mut unknown = Vec::new();
    for (name, value) in given {
        match known.keys().find(|known| known.eq_ignore_ascii_case(name)) {
            Some(name) if meant.insert(name.clone(), value.clone()).is_none() => {}
            Some(_) => return answer,
            None => unknown.push((name, value)),
        }
    }
    for (name, schema) in known {
        let value = meant.remove(name).filter(|value| !value.is_null());
        let value = value.map_or_else(|| empty(schema), |value| Some(as_meant(schema, value)));
        meant.extend(value.map(|value| (name.clone(), value)));
    }
    let is_list = |name: &&String| known[name.as_str()]["type"] == "array";
    if let Some(list) = known.keys().rfind(is_list)
        && let Some(Value::Array(items)) = meant.get_mut(list)
    {
        let says = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Bool(true) | Value::Number(_) => true,
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(members) => !members.is_empty(),
        };
        let more = unknown.into_iter().filter(|(_, value)| says(value));
        items.extend(more.map(|(name, value)| json!(format!("{name}: {}", plain(value)))));
    }
    Value::Object(meant)
}

/// The value of a member that is not there; none if leaving it out could mean something.
fn empty(schema: &Value) -> Option<Value> {
    match (&schema["enum"], schema["type"].as_str()) {
        (Value::Array(words), _) => words.contains(&json!("")).then(|| json!("")),
        (_, Some("array")) => Some(json!([])),
        (_, Some("string")) => Some(json!("")),
        (_, Some(_) | None) => None,
    }
}

fn as_meant(schema: &Value, value: Value) -> Value {
    match (&schema["enum"], schema["type"].as_str(), &value) {
        (Value::Array(words), _, Value::String(said)) => {
            let is_meant = |word: &&Value| {
                word.as_str().is_some_and(|word| word.eq_ignore_ascii_case(said.trim()))
            };
            // A reason without a way of its own takes the way of all others.
            words.iter().find(is_meant).cloned().or_else(|| empty(schema)).unwrap_or(value)
        }
        (_, Some("array"), Value::String(text)) if text.trim().is_empty() => json!([]),
        (_, Some("array"), Value::String(_)) => json!([value]),
        (_, Some("array"), Value::Array(items)) => {
            let texts = schema["items"]["type"] == "string";
            items.iter().map(|item| if texts { json!(plain(item)) } else { item.clone() }).collect()
        }
        (_, Some("string"), Value::Array(_) | Value::Object(_) | Value::Number(_)) => {
            json!(plain(&value))
        }
        (_, _, _) => value,
    }
}

/// A value as text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn lists(names: &Value, name: &str) -> bool {
    names.as_array().is_some_and(|names| names.iter().any(|one| one == name))
}

fn check_schema(schema: &Value, place: &str, depth: usize) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!("{}: nested more than {DEPTH} deep", shown(place)));
    }
    let keywords = schema
        .as_object()
        .ok_or_else(|| format!("{}: a schema must be an object", shown(place)))?;
    keywords.iter().try_for_each(|(keyword, value)| check_keyword(keyword, value, place, depth))
}

fn check_keyword(keyword: &str, value: &Value, place: &str, depth: usize) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{}: `{keyword}` must be {what}", shown(place)));
    match keyword {
        "type" if types(value).is_none() => wrong("a JSON type or a list of JSON types"),
        "required" if !value.as_array().is_some_and(|list| list.iter().all(Value::is_string)) => {
            wrong("a list of names")
        }
        "enum" if !value.is_array() => wrong("a list"),
        "minItems" | "maxItems" | "minLength" | "maxLength" if !value.is_u64() => {
            wrong("a non-negative integer")
        }
        "minimum" | "maximum" if !value.is_number() => wrong("a number"),
        "additionalProperties" if value.is_boolean() => Ok(()),
        "items" | "additionalProperties" => {
            check_schema(value, &format!("{place}/{keyword}"), depth + 1)
        }
        "properties" => match value.as_object() {
            None => wrong("an object"),
            Some(all) => all.iter().try_for_each(|(name, schema)| {
                check_schema(schema, &format!("{place}/properties/{name}"), depth + 1)
            }),
        },
        "type" | "required" | "enum" | "minItems" | "maxItems" | "minLength" | "maxLength"
        | "minimum" | "maximum" => Ok(()),
        other if ANNOTATIONS.contains(&other) => Ok(()),
        other => Err(format!("{}: `{other}` is not supported", shown(place))),
    }
}

/// The types that a schema names; none if one of them is not a JSON type.
fn types(value: &Value) -> Option<Vec<&str>> {
    let names: Vec<&str> = match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(Value::as_str).collect::<Option<_>>()?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    (!names.is_empty() && names.iter().all(|name| TYPES.contains(name))).then_some(names)
}

fn check(schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(names) = types(&schema["type"])
        && !names.iter().any(|name| is_of_type(value, name))
    {
        add(found, place, &format!("must be {}, not {}", names.join(" or "), type_of(value)));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        add(found, place, &format!("must be one of {}", allowed.join(", ")));
    }
    match value {
        Value::Object(object) => check_object(schema, object, place, found),
        Value::Array(list) => check_list(schema, list, place, found),
        Value::String(text) => {
            // Blank text says nothing.
            let length = text.trim().chars().count();
            check_size(schema, ("minLength", "maxLength"), length, place, found);
        }
        Value::Number(number) => check_number(schema, number.as_f64(), place, found),
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_object(schema: &Value, object: &Map<String, Value>, place: &str, found: &mut Vec<String>) {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in names.filter(|name| !object.contains_key(*name)) {
        add(found, place, &format!("`{name}` is missing"));
    }
    for (name, value) in object {
        let place = format!("{place}/{name}");
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(schema), _) => check(schema, value, &place, found),
            (None, Value::Bool(false)) => add(found, &place, "is not part of the schema"),
            (None, rest) => check(rest, value, &place, found),
        }
    }
}

fn check_list(schema: &Value, list: &[Value], place: &str, found: &mut Vec<String>) {
    check_size(schema, ("minItems", "maxItems"), list.len(), place, found);
    for (index, value) in list.iter().enumerate() {
        check(&schema["items"], value, &format!("{place}/{index}"), found);
    }
}

fn check_size(
    schema: &Value,
    (least, most): (&str, &str),
    size: usize,
    place: &str,
    found: &mut Vec<String>,
) {
    let size = size as u64;
    if let Some(least) = schema[least].as_u64().filter(|least| size < *least) {
        add(found, place, &format!("is too short: {size}, at least {least}"));
    }
    if let Some(most) = schema[most].as_u64().filter(|most| size > *most) {
        add(found, place, &format!("is too long: {size}, at most {most}"));
    }
}

fn check_number(schema: &Value, number: Option<f64>, place: &str, found: &mut Vec<String>) {
    let Some(number) = number else { return };
    if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
        add(found, place, &format!("must be at least {least}"));
    }
    if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
        add(found, place, &format!("must be at most {most}"));
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        // JSON has one number type, so 3.0 is an integer.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        name => type_of(value) == name,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn add(found: &mut Vec<String>, place: &str, what: &str) {
    if found.len() < VIOLATIONS {
        found.push(format!("{} {what}", shown(place)));
    }
}

fn shown(place: &str) -> &str {
    if place.is_empty() { "the answer" } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_is_plainly_meant() {
        let shape: Value =
            serde_json::from_str(include_str!("../../../prompts/verdict.schema.json")).unwrap();
        let routed = with_choice(shape.clone(), "reason", &["", "bad-plan"]);
        let full = json!({ "verdict": "BLOCK", "rationale": "no", "concerns": ["c"], "suggestions": [], "reason": "" });
        let plain = [
            full.clone(),
            json!({ "verdict": "BLOCK", "rationale": "no", "concerns": ["c"], "suggestions": [] }),
            json!({ "verdict": "block", "rationale": "no", "concerns": "c" }),
            json!({ "Verdict": "Block ", "rationale": "no", "concerns": ["c"], "reason": null }),
            json!({ "verdict": "BLOCK", "rationale": "no", "concerns": ["c"], "reason": "other" }),
            json!({ "verdict": "BLOCK", "rationale": "no", "concerns": ["c"], "veto": false }),
        ];
        for answer in plain {
            let meant = plainly_meant(&routed, answer.clone());
            assert_eq!(meant, full, "{answer}");
            assert_eq!(violations(&routed, &meant), Vec::<String>::new());
        }
        let more = json!({ "verdict": "APPROVE", "confidence": 0.4, "must_fix": ["the index"] });
        let meant = plainly_meant(&shape, more);
        assert_eq!(meant["suggestions"], json!(["confidence: 0.4", "must_fix: [\"the index\"]"]));
        assert_eq!(violations(&shape, &meant), Vec::<String>::new());
        // Nonsense is no verdict, least of all an approval.
        for nonsense in [
            json!({ "VERDICT": "BLOCK", "Verdict": "APPROVE" }),
            json!({ "verdict": "APPROVE", "Verdict": "BLOCK" }),
            json!({ "verdict": "APPROVE", "Concerns": ["a"], "concerns": [] }),
            json!({}),
            json!({ "rationale": "it is fine", "concerns": [], "suggestions": [] }),
            json!({ "verdict": "", "rationale": "it is fine" }),
            json!({ "verdict": "fine" }),
            json!({ "verdict": true }),
            json!({ "verdict": ["APPROVE"] }),
            json!({ "review": { "verdict": "APPROVE" } }),
            json!({ "verdict": "APPROVE or BLOCK" }),
            json!(["APPROVE"]),
            json!("APPROVE"),
        ] {
            for shape in [&shape, &routed] {
                let meant = plainly_meant(shape, nonsense.clone());
                assert_ne!(violations(shape, &meant), Vec::<String>::new(), "{nonsense}");
            }
        }
    }

    use serde_json::json;

    #[test]
    fn the_last_object_is_the_answer() {
        for (text, answer) in [
            ("", None),
            ("no object here, { not even }", None),
            (r#"{"a":1}"#, Some(json!({"a": 1}))),
            (
                "Sure!\n```json\n{\"a\": {\"b\": [1, {\"c\": \"}\"}]}}\n```\nDone.",
                Some(json!({"a": {"b": [1, {"c": "}"}]}})),
            ),
            (r#"first {"a":1} then {"a":2}, { half"#, Some(json!({"a": 2}))),
            (r#"{"a": {"b": 1}"#, Some(json!({"b": 1}))),
            ("{{{{{{", None),
        ] {
            assert_eq!(answer_in(text), answer, "{text}");
        }
        let deep = "{\"a\":".repeat(5_000);
        assert_eq!(answer_in(&deep), None);
        let long =
            format!("{}é{}{{\"a\":1}}", "é".repeat(SEARCHED_BYTES), "x".repeat(SEARCHED_BYTES - 8));
        assert_eq!(answer_in(&long), Some(json!({"a": 1})));
    }

    fn verdict() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "verdict": {"type": "string", "enum": ["approve", "block"]},
                "score": {"type": "integer", "minimum": 0, "maximum": 10},
                "note": {"type": ["string", "null"], "minLength": 2, "maxLength": 5},
                "files": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            },
            "required": ["verdict", "score"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn each_keyword_is_checked() {
        let schema = verdict();
        assert_eq!(check_supported(&schema), Ok(()));
        let good = json!({"verdict": "block", "score": 3.0, "note": null, "files": ["a"]});
        assert_eq!(violations(&schema, &good), Vec::<String>::new());
        for (answer, wrong) in [
            (json!([]), vec!["the answer must be object, not array"]),
            (json!({"score": 1}), vec!["the answer `verdict` is missing"]),
            (
                json!({"verdict": "maybe", "score": 1}),
                vec![r#"/verdict must be one of "approve", "block""#],
            ),
            (json!({"verdict": "block", "score": 1.5}), vec!["/score must be integer, not number"]),
            (json!({"verdict": "block", "score": -1}), vec!["/score must be at least 0"]),
            (json!({"verdict": "block", "score": 11}), vec!["/score must be at most 10"]),
            (
                json!({"verdict": "block", "score": 1, "note": " é   "}),
                vec!["/note is too short: 1, at least 2"],
            ),
            (
                json!({"verdict": "block", "score": 1, "note": "éééééé"}),
                vec!["/note is too long: 6, at most 5"],
            ),
            (
                json!({"verdict": "block", "score": 1, "note": 1}),
                vec!["/note must be string or null, not number"],
            ),
            (
                json!({"verdict": "block", "score": 1, "files": []}),
                vec!["/files is too short: 0, at least 1"],
            ),
            (
                json!({"verdict": "block", "score": 1, "files": ["a", 2, "c"]}),
                vec!["/files is too long: 3, at most 2", "/files/1 must be string, not number"],
            ),
            (
                json!({"verdict": "block", "score": 1, "more": 1}),
                vec!["/more is not part of the schema"],
            ),
        ] {
            assert_eq!(violations(&schema, &answer), wrong, "{answer}");
        }
    }

    #[test]
    fn an_optional_null_is_removed() {
        let schema = json!({
            "type": "object",
            "properties": {
                "must": {"type": ["string", "null"]},
                "needed": {"type": "string"},
                "may": {"type": "string"},
                "open": {"type": ["string", "null"]},
                "list": {"type": "array", "items": {
                    "type": "object", "properties": {"c": {"type": "integer"}, "d": {}},
                }},
            },
            "required": ["must", "needed"],
            "additionalProperties": false,
        });
        let item = json!({"c": null, "d": null});
        let answer = json!({"must": null, "needed": null, "may": null, "open": null, "list": [item], "odd": null});
        let expected =
            json!({"must": null, "needed": null, "open": null, "list": [{"d": null}], "odd": null});
        let kept = without_optional_nulls(&schema, answer);
        assert_eq!(kept, expected);
        let wrong = ["/needed must be string, not null", "/odd is not part of the schema"];
        assert_eq!(violations(&schema, &kept), wrong);
    }

    #[test]
    fn other_properties_may_have_a_schema() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "boolean"}});
        assert_eq!(check_supported(&schema), Ok(()));
        assert_eq!(violations(&schema, &json!({"a": true})), Vec::<String>::new());
        assert_eq!(violations(&schema, &json!({"a": 1})), ["/a must be boolean, not number"]);
    }

    #[test]
    fn the_list_of_violations_is_bounded() {
        let schema = json!({"type": "array", "items": {"type": "string"}});
        let answer: Vec<u32> = (0..1_000).collect();
        assert_eq!(violations(&schema, &json!(answer)).len(), VIOLATIONS);
    }

    #[test]
    fn an_unsupported_schema_is_refused() {
        let deep = (0..DEPTH + 2).fold(json!({}), |inner, _| json!({"items": inner}));
        for (schema, wrong) in [
            (json!([]), "the answer: a schema must be an object"),
            (json!({"oneOf": []}), "the answer: `oneOf` is not supported"),
            (
                json!({"properties": {"a": {"pattern": "x"}}}),
                "/properties/a: `pattern` is not supported",
            ),
            (json!({"items": {"$ref": "#"}}), "/items: `$ref` is not supported"),
            (
                json!({"additionalProperties": {"not": {}}}),
                "/additionalProperties: `not` is not supported",
            ),
            (
                json!({"type": "text"}),
                "the answer: `type` must be a JSON type or a list of JSON types",
            ),
            (json!({"type": []}), "the answer: `type` must be a JSON type or a list of JSON types"),
            (json!({"required": [1]}), "the answer: `required` must be a list of names"),
            (json!({"enum": "a"}), "the answer: `enum` must be a list"),
            (json!({"minItems": -1}), "the answer: `minItems` must be a non-negative integer"),
            (json!({"maximum": "9"}), "the answer: `maximum` must be a number"),
            (json!({"properties": []}), "the answer: `properties` must be an object"),
        ] {
            assert_eq!(check_supported(&schema), Err(wrong.to_owned()), "{schema}");
        }
        assert!(check_supported(&deep).unwrap_err().ends_with("nested more than 32 deep"));
    }

    #[test]
    fn the_instruction_contains_the_schema() {
        let schema = verdict();
        assert_eq!(answer_in(&instruction(&schema)), Some(schema));
    }
}
