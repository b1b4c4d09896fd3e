//! The fields of a random event: valid, odd, wrong or unknown.
//!
//! Values depend on the type of a field and on a random number, never on the task.

use std::fmt;

use banksman_core::lifecycle::Lifecycle;
use banksman_core::lifecycle::expr::Type;
use banksman_core::machine::Rejected;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

#[derive(Clone, PartialEq)]
pub(crate) enum Give {
    Nothing,
    /// Whatever the refusals ask for.
    Needed(u8),
    Fields(Vec<(String, u8)>),
    WrongType(String),
    Unknown,
}

impl fmt::Debug for Give {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Needed(pick) => write!(f, "what is needed #{pick}"),
            Self::Fields(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, pick)| format!("{name} #{pick}")).collect();
                f.write_str(&fields.join(", "))
            }
            Self::WrongType(name) => write!(f, "{name} of a wrong type"),
            Self::Unknown => f.write_str("an unknown field"),
        }
    }
}

pub(crate) fn give(lifecycle: &Lifecycle) -> impl Strategy<Value = Give> + Clone + use<> {
    let fields: Vec<String> = lifecycle.fields.keys().cloned().collect();
    prop_oneof![
        8 => any::<u8>().prop_map(Give::Needed),
        3 => Just(Give::Nothing),
        3 => vec((select(fields.clone()), 0..10_u8), 1..4).prop_map(Give::Fields),
        1 => select(fields).prop_map(Give::WrongType),
        1 => Just(Give::Unknown),
    ]
}

pub(crate) fn given(lifecycle: &Lifecycle, give: &Give) -> Map<String, Value> {
    let mut fields = Map::new();
    match give {
        Give::Nothing | Give::Needed(_) => {}
        Give::Fields(wanted) => {
            for (name, pick) in wanted {
                // The last picks remove a field or leave it blank.
                let value = match pick {
                    9 => Value::Null,
                    8 if lifecycle.fields[name].kind == Type::Text => json!("  "),
                    pick => value(&lifecycle.fields[name].kind, *pick),
                };
                fields.insert(name.clone(), value);
            }
        }
        Give::WrongType(name) => {
            let value = match lifecycle.fields[name].kind {
                Type::List | Type::Texts => json!(7),
                Type::Text
                | Type::Number
                | Type::Flag
                | Type::Time
                | Type::OneOf(_)
                | Type::Record(_)
                | Type::Span
                | Type::Any => json!([7]),
            };
            fields.insert(name.clone(), value);
        }
        Give::Unknown => {
            fields.insert("no_such_field".to_owned(), json!(1));
        }
    }
    fields
}

/// Adds a value for every field that a refusal names.
pub(crate) fn supply(
    lifecycle: &Lifecycle,
    rejected: &Rejected,
    pick: u8,
    fields: &mut Map<String, Value>,
) {
    for error in &rejected.errors {
        if let Some(kind) = lifecycle.fields.get(&error.field) {
            fields.insert(error.field.clone(), value(&kind.kind, pick));
        }
    }
}

/// A value of a type. The lists contain the values that the guards of the built-in lifecycles
/// distinguish.
fn value(kind: &Type, pick: u8) -> Value {
    let lists = [
        json!(["ann"]),
        json!(["ann", "bob", "cat"]),
        json!([{ "completed": true, "pr_sized": true, "verdict": "APPROVE" }]),
        json!(["bob"]),
        json!([{ "completed": false, "pr_sized": false, "verdict": "BLOCK" }]),
        json!([]),
    ];
    match kind {
        Type::Text | Type::Any => json!("some words"),
        Type::Number => json!(pick % 4),
        Type::Flag => json!(pick.is_multiple_of(2)),
        Type::Time => json!("2024-02-12T10:40:00Z"),
        // Only settings have this type, never fields.
        Type::Span => Value::Null,
        Type::List => lists[usize::from(pick) % lists.len()].clone(),
        Type::Texts => json!(["read it", "change it", "try it"]),
        Type::OneOf(words) => {
            words.get(usize::from(pick) % words.len()).map_or(Value::Null, |word| json!(word))
        }
        Type::Record(members) => members
            .iter()
            .map(|(name, kind)| (name.clone(), value(kind, pick)))
            .collect::<Map<_, _>>()
            .into(),
    }
}
