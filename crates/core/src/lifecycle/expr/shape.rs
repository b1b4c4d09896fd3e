//! The type of a field, and which JSON values belong to it. It knows nothing of expressions.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use crate::time::Instant;

/// What a field may contain. Null, which means missing, belongs to every type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Text,
    Number,
    Flag,
    /// A text in RFC 3339.
    Time,
    /// A duration. Only settings have this type: a task has times, not durations.
    Span,
    List,
    /// A list of texts, none of them blank.
    Texts,
    /// A text that is one of these words.
    OneOf(Vec<String>),
    Record(BTreeMap<String, Type>),
    Any,
}

/// How much of a value a message repeats, in characters.
const MAX_SHOWN_CHARS: usize = 40;

/// Integers up to here are exact in an `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl Type {
    /// The type with this name in a lifecycle.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "text" => Some(Self::Text),
            "number" => Some(Self::Number),
            "flag" => Some(Self::Flag),
            "time" => Some(Self::Time),
            "list" => Some(Self::List),
            "texts" => Some(Self::Texts),
            "any" => Some(Self::Any),
            _ => None,
        }
    }

    /// The type in words, as in "must be …".
    pub fn describe(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Time => "a time".to_owned(),
            Self::Span => "a span of time".to_owned(),
            Self::List => "a list".to_owned(),
            Self::Texts => "a list of texts, none of them blank".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Record(members) if members.is_empty() => "a record".to_owned(),
            Self::Record(members) => format!("a record of {}", member_names(members)),
            Self::Any => "any value".to_owned(),
        }
    }

    /// Whether a field of this type may have the value. The message does not name the field.
    pub fn accepts(&self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (_, Value::Null)
            | (Self::Any, _)
            | (Self::Text, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Flag, Value::Bool(_))
            | (Self::List, Value::Array(_)) => Ok(()),
            (Self::Texts, Value::Array(items))
                if items.iter().all(|item| item.is_string() && is_present(item)) =>
            {
                Ok(())
            }
            (Self::Texts, Value::Array(_)) => Err(format!("must be {}", self.describe())),
            (Self::Time, Value::String(text)) => accept_time(text),
            (Self::OneOf(words), Value::String(text)) if words.contains(text) => Ok(()),
            (Self::OneOf(_), Value::String(text)) => {
                Err(format!("must be {}, not `{}`", self.describe(), shortened(text)))
            }
            (Self::Record(members), Value::Object(object)) => accept_members(members, object),
            (
                Self::Text
                | Self::Number
                | Self::Flag
                | Self::Time
                | Self::Span
                | Self::List
                | Self::Texts
                | Self::OneOf(_)
                | Self::Record(_),
                other,
            ) => Err(format!("must be {}, not {}", self.describe(), describe_value(other))),
        }
    }

    /// Parses a text that a person typed as a value of this type. A text that does not fit is left
    /// unchanged, so that [`Type::accepts`] can refuse it in the person's own words.
    pub fn coerce(&self, value: Value) -> Value {
        let Value::String(text) = &value else {
            return value;
        };
        let read = match self {
            Self::Number => text.trim().parse::<Number>().ok().map(Value::Number),
            Self::Flag => text.trim().parse::<bool>().ok().map(Value::Bool),
            Self::List | Self::Texts => read_list(text),
            Self::Record(_) => read_json(text).filter(Value::is_object),
            Self::Text | Self::Time | Self::Span | Self::OneOf(_) | Self::Any => None,
        };
        read.unwrap_or(value)
    }
}

/// Whether a value counts as set: neither missing nor empty. Blank text is empty; `0` and `false`
/// are not.
pub fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// An `f64` as a JSON number: an integer if it is one, null if JSON has no such number.
pub(in crate::lifecycle) fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        // A whole number in the exact range fits an i64.
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A text as part of a message.
pub(super) fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let mut shown: String =
        characters.by_ref().take(MAX_SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

fn accept_time(text: &str) -> Result<(), String> {
    match text.parse::<Instant>() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(format!("must be a time such as 2024-02-12T10:40:00Z, not `{}`", shortened(text)))
        }
    }
}

fn accept_members(
    members: &BTreeMap<String, Type>,
    object: &serde_json::Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in object {
        let Some(member) = members.get(name) else {
            return Err(format!(
                "has no member `{}`; its members are {}",
                shortened(name),
                member_names(members)
            ));
        };
        member.accepts(value).map_err(|message| format!("`{name}` {message}"))?;
    }
    Ok(())
}

fn member_names(members: &BTreeMap<String, Type>) -> String {
    members.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a record",
    }
}

fn read_list(text: &str) -> Option<Value> {
    if text.trim() == "null" {
        return Some(Value::Null);
    }
    if text.trim_start().starts_with('[') {
        return read_json(text).filter(Value::is_array);
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    Some(items.map(Value::from).collect())
}

fn read_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOT_TEXTS: &str = "must be a list of texts, none of them blank";

    fn words() -> Type {
        Type::OneOf(vec!["standard".to_owned(), "escalated".to_owned()])
    }

    fn plan() -> Type {
        Type::Record(BTreeMap::from([
            ("bullets".to_owned(), Type::List),
            ("cost".to_owned(), Type::Number),
        ]))
    }

    #[test]
    fn a_type_accepts_its_values_and_null() {
        let cases = [
            (Type::Text, json!("")),
            (Type::Number, json!(1.5)),
            (Type::Flag, json!(false)),
            (Type::Time, json!("2024-02-12T11:40:00+01:00")),
            (Type::List, json!([1, "a", null])),
            (Type::Texts, json!(["a", "b"])),
            (words(), json!("escalated")),
            (plan(), json!({ "bullets": [], "cost": null })),
            (Type::Any, json!({ "x": [true] })),
        ];
        for (value_type, value) in cases {
            assert_eq!(value_type.accepts(&value), Ok(()), "{value_type:?} {value}");
            assert_eq!(value_type.accepts(&Value::Null), Ok(()), "{value_type:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_it_must_be() {
        let long = "x".repeat(50);
        let cases = [
            (Type::Text, json!(1), "must be text, not a number".to_owned()),
            (Type::Number, json!("1"), "must be a number, not text".to_owned()),
            (Type::Flag, json!([]), "must be true or false, not a list".to_owned()),
            (
                Type::Time,
                json!("tomorrow"),
                "must be a time such as 2024-02-12T10:40:00Z, not `tomorrow`".to_owned(),
            ),
            (Type::Time, json!(5), "must be a time, not a number".to_owned()),
            (Type::List, json!({}), "must be a list, not a record".to_owned()),
            (Type::Texts, json!(["a", " "]), NOT_TEXTS.to_owned()),
            (Type::Texts, json!([null]), NOT_TEXTS.to_owned()),
            (Type::Texts, json!([1]), NOT_TEXTS.to_owned()),
            (
                words(),
                json!(long),
                format!("must be one of standard, escalated, not `{}…`", "x".repeat(40)),
            ),
            (
                words(),
                json!(true),
                "must be one of standard, escalated, not true or false".to_owned(),
            ),
            (plan(), json!("x"), "must be a record of bullets, cost, not text".to_owned()),
            (plan(), json!({ "cost": "x" }), "`cost` must be a number, not text".to_owned()),
            (
                plan(),
                json!({ "price": 1 }),
                "has no member `price`; its members are bullets, cost".to_owned(),
            ),
        ];
        for (value_type, value, message) in cases {
            assert_eq!(value_type.accepts(&value), Err(message), "{value_type:?} {value}");
        }
    }

    #[test]
    fn typed_text_is_read_as_the_type_or_left_alone() {
        let cases = [
            (Type::Number, json!(" 12 "), json!(12)),
            (Type::Number, json!("1.5"), json!(1.5)),
            (Type::Number, json!("1e999"), json!("1e999")),
            (Type::Number, json!("twelve"), json!("twelve")),
            (Type::Number, json!(7), json!(7)),
            (Type::Flag, json!("true"), json!(true)),
            (Type::Flag, json!("yes"), json!("yes")),
            (Type::List, json!("a, b,,c"), json!(["a", "b", "c"])),
            (Type::List, json!(""), json!([])),
            (Type::List, json!("[1, \"a\"]"), json!([1, "a"])),
            (Type::List, json!("[1, "), json!("[1, ")),
            (Type::Texts, json!("null"), Value::Null),
            (plan(), json!("{\"cost\": 5}"), json!({ "cost": 5 })),
            (plan(), json!("[5]"), json!("[5]")),
            (Type::Text, json!("12"), json!("12")),
            (Type::Any, json!("12"), json!("12")),
            (Type::Time, json!("now"), json!("now")),
            (words(), json!("standard"), json!("standard")),
        ];
        for (value_type, typed, read) in cases {
            assert_eq!(value_type.coerce(typed.clone()), read, "{value_type:?} {typed}");
        }
    }

    #[test]
    fn numbers_are_whole_where_they_can_be() {
        for (number, value) in [
            (3.0, json!(3)),
            (-0.0, json!(0)),
            (1.5, json!(1.5)),
            (1e300, json!(1e300)),
            (f64::INFINITY, json!(null)),
            (f64::NAN, json!(null)),
        ] {
            assert_eq!(number_value(number), value, "{number}");
        }
    }
}
