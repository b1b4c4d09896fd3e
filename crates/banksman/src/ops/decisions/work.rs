//! The work that a person judges, in words: the records that callers have given to a task in a
//! state that requires one of them, such as a deliverable with its checklist and its plan.

use banksman_core::lifecycle::FieldDecl;
use banksman_core::lifecycle::expr::{Type, Value};

use crate::store::Stored;

/// Lines that are shown of one record; `banksman show` has all of them.
const LINES: usize = 60;
/// The names under which an item of a checklist says whether it is done.
const DONE: [&str; 2] = ["checked", "completed"];

/// One record of the task in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkRecord {
    pub name: String,
    pub lines: Vec<String>,
}

impl WorkRecord {
    /// All of it on one line.
    pub fn line(&self) -> String {
        let lines: Vec<&str> = self.lines.iter().map(|line| line.trim()).collect();
        format!("{}: {}", self.name, lines.join("; "))
    }
}

/// The records that a person judges: those that the state requires first. None if the question is
/// not about work.
pub(super) fn work(stored: &Stored) -> Vec<WorkRecord> {
    let (task, declared) = (&stored.task, &stored.lifecycle.fields);
    let is_record = |name: &str| declared.get(name).is_some_and(is_given_record);
    let required = stored.state().requires.iter().map(|requirement| requirement.field.as_str());
    let mut names: Vec<&str> = required.filter(|name| is_record(name)).collect();
    if names.is_empty() {
        return Vec::new();
    }
    names.extend(declared.keys().map(String::as_str).filter(|name| is_record(name)));
    let mut records: Vec<WorkRecord> = Vec::new();
    for name in names {
        let Some(Value::Object(members)) = task.fields.get(name) else { continue };
        if records.iter().all(|record| record.name != name) {
            let lines = members.iter().flat_map(|(name, value)| member(name, value));
            records.push(WorkRecord { name: name.to_owned(), lines: lines.take(LINES).collect() });
        }
    }
    records
}

/// Whether callers give the field, and the engine does not compute it.
fn is_given_record(field: &FieldDecl) -> bool {
    matches!(field.kind, Type::Record(_)) && field.is_given()
}

fn member(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            let items = items.iter().map(|value| format!("  - {}", item(value)));
            [format!("{name}:")].into_iter().chain(items).collect()
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            vec![format!("{name}: {}", item(value))]
        }
    }
}

/// A value on one line. An item of a checklist has a box.
fn item(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let is_done = DONE.iter().find_map(|name| members.get(*name)?.as_bool());
            let others = members.iter().filter(|(name, _)| !DONE.contains(&name.as_str()));
            let words = match is_done {
                Some(_) => others.map(|(_, value)| item(value)).collect::<Vec<_>>(),
                None => others.map(|(name, value)| format!("{name} {}", item(value))).collect(),
            };
            let mark = is_done.map_or("", |is_done| if is_done { "[x] " } else { "[ ] " });
            format!("{mark}{}", words.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => value.to_string(),
    }
}
