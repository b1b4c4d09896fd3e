//! The parameters of a workflow: combines the file's declarations with the user's values into one
//! typed value each.

use std::collections::BTreeMap;

use serde_json::Number;

use super::reader::Report;
use super::source::{FullParam, ParamSource, ParamType};
use super::template::as_text;
use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::suggestion;
use crate::limits;
use crate::text::clip;
use crate::yaml::{Entries, Name, Spanned};

/// Values by parameter name.
pub(super) type Values = BTreeMap<String, Value>;

/// The value of every parameter. `at` is the workflow's id, for problems without a position of
/// their own; `how` says how a value is given.
pub(super) fn resolve(
    declared: &Entries<Spanned<ParamSource>>,
    given: &Values,
    at: &Name,
    how: &dyn Fn(&str) -> String,
    report: &mut Report,
) -> Values {
    if !report.fits(at, declared.0.len(), limits::WORKFLOW_PARAMS) {
        return Values::new();
    }
    for name in given.keys() {
        if !declared.0.iter().any(|(known, _)| known.value == *name) {
            let known = declared.0.iter().map(|(known, _)| known.value.as_str());
            let message = format!("unknown parameter `{}`", clip(name));
            report.at(at, message, suggestion(name, known));
        }
    }
    let mut values = Values::new();
    for (name, source) in &declared.0 {
        report.is_id(name, "parameter name");
        let declared = Declared::of(name, source, report);
        let value = match (given.get(&name.value), &declared.default) {
            (Some(given), _) => declared.accept(name, given, report),
            (None, Some(default)) => Some(default.clone()),
            (None, None) => {
                let message = format!("the parameter `{}` has no value", name.value);
                report.at(name, message, how(&name.value));
                None
            }
        };
        // The problem was reported; the empty text prevents follow-up errors.
        values.insert(name.value.clone(), value.unwrap_or_else(|| Value::from("")));
    }
    values
}

/// A valid value for each parameter without a default, so that a file can be checked before anybody
/// has chosen values.
pub(super) fn sample_values(declared: &Entries<Spanned<ParamSource>>) -> Values {
    let sample = |(name, source): &(Name, Spanned<ParamSource>)| {
        let declared = Declared::of(name, source, &mut Report::default());
        let needs_value = declared.default.is_none();
        needs_value.then(|| (name.value.clone(), declared.sample_value(&name.value)))
    };
    declared.0.iter().filter_map(sample).collect()
}

struct Declared {
    kind: ParamType,
    default: Option<Value>,
    choices: Vec<Value>,
}

impl Declared {
    fn of(name: &Name, source: &Spanned<ParamSource>, report: &mut Report) -> Self {
        match &source.value {
            ParamSource::Value(value) => {
                let kind = type_of(value);
                let default = Self::typed(source, kind, value, report);
                Self { kind, default, choices: Vec::new() }
            }
            ParamSource::Full(full) => Self::of_full(name, full, report),
        }
    }

    fn of_full(name: &Name, full: &FullParam, report: &mut Report) -> Self {
        let default = full.default.as_ref();
        let kind = full.kind.as_ref().and_then(|kind| report.known(kind, &ParamType::NAMES));
        let kind = kind.or_else(|| default.map(|default| type_of(&default.value)));
        let kind = kind.unwrap_or(ParamType::String);
        report.fits(name, full.choices.len(), limits::WORKFLOW_ITEMS);
        let mut choices = Vec::new();
        for choice in &full.choices {
            // Each entry of a list is one of the choices, and always a text.
            choices.extend(match kind {
                ParamType::List if is_single(&choice.value) => Some(as_text(&choice.value).into()),
                ParamType::List => Self::typed(choice, ParamType::String, &choice.value, report),
                ParamType::String | ParamType::Number | ParamType::Boolean => {
                    Self::typed(choice, kind, &choice.value, report)
                }
            });
        }
        let mut declared = Self { kind, default: None, choices };
        if let Some(default) = default
            && let Some(value) = Self::typed(default, kind, &default.value, report)
        {
            declared.default = declared.chosen(default, value, report);
        }
        declared
    }

    fn sample_value(&self, name: &str) -> Value {
        let chosen = self.choices.first().cloned();
        let text = || Value::from(format!("any-{name}"));
        match self.kind {
            ParamType::String => chosen.unwrap_or_else(text),
            ParamType::Number => chosen.unwrap_or_else(|| Value::from(1)),
            ParamType::Boolean => chosen.unwrap_or(Value::Bool(true)),
            ParamType::List => Value::Array(vec![chosen.unwrap_or_else(text)]),
        }
    }

    /// A value from the file, which must have the declared type.
    fn typed<T>(
        at: &Spanned<T>,
        kind: ParamType,
        value: &Value,
        report: &mut Report,
    ) -> Option<Value> {
        if type_of(value) == kind
            && let Ok(value) = coerced(kind, value)
        {
            return Some(value);
        }
        let message = format!("`{}` is not {}", clip(&as_text(value)), described(kind));
        report.at(at, message, format!("write {}, or another `type`", described(kind)));
        None
    }

    /// A value from outside, which may be a text for every type.
    fn accept(&self, name: &Name, given: &Value, report: &mut Report) -> Option<Value> {
        match coerced(self.kind, given) {
            Ok(value) => self.chosen(name, value, report),
            Err(why) => {
                let message = format!("the parameter `{}` is {why}", name.value);
                report.at(name, message, format!("give it {}", described(self.kind)));
                None
            }
        }
    }

    fn chosen<T>(&self, at: &Spanned<T>, value: Value, report: &mut Report) -> Option<Value> {
        let parts = match &value {
            Value::Array(parts) => parts.as_slice(),
            single => std::slice::from_ref(single),
        };
        let wrong = parts.iter().find(|part| {
            !self.choices.is_empty()
                && !self.choices.iter().any(|choice| as_text(choice) == as_text(part))
        });
        let Some(wrong) = wrong else { return Some(value) };
        let known: Vec<String> = self.choices.iter().map(as_text).collect();
        let wrong = as_text(wrong);
        let help = suggestion(&wrong, known.iter().map(String::as_str));
        report.at(at, format!("`{}` is not one of the choices", clip(&wrong)), help);
        None
    }
}

fn type_of(value: &Value) -> ParamType {
    match value {
        Value::Number(_) => ParamType::Number,
        Value::Bool(_) => ParamType::Boolean,
        Value::Array(_) => ParamType::List,
        Value::String(_) | Value::Null | Value::Object(_) => ParamType::String,
    }
}

fn described(kind: ParamType) -> &'static str {
    match kind {
        ParamType::String => "a text",
        ParamType::Number => "a number",
        ParamType::Boolean => "true or false",
        ParamType::List => "a list of texts, separated by commas",
    }
}

/// A value of the wanted type, or a description of what it is instead.
fn coerced(kind: ParamType, value: &Value) -> Result<Value, String> {
    let refused = || Err(format!("`{}`, which is not {}", clip(&as_text(value)), described(kind)));
    match (kind, value) {
        (ParamType::String, Value::String(text)) if text.len() > limits::WORKFLOW_TEXT_BYTES => {
            Err("too long".to_owned())
        }
        (ParamType::String, Value::String(_)) => Ok(value.clone()),
        (ParamType::String, Value::Number(_) | Value::Bool(_)) => Ok(as_text(value).into()),
        (ParamType::Number, Value::Number(_)) | (ParamType::Boolean, Value::Bool(_)) => {
            Ok(value.clone())
        }
        (ParamType::Number, Value::String(text)) => {
            text.trim().parse::<Number>().map(Value::Number).or_else(|_| refused())
        }
        (ParamType::Boolean, Value::String(text)) => {
            text.trim().parse::<bool>().map(Value::Bool).or_else(|_| refused())
        }
        (ParamType::List, Value::String(text)) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            bounded(parts.map(Value::from).collect())
        }
        (ParamType::List, Value::Array(parts)) if parts.iter().all(is_single) => {
            bounded(parts.iter().map(|part| as_text(part).into()).collect())
        }
        (ParamType::String | ParamType::Number | ParamType::Boolean | ParamType::List, _) => {
            refused()
        }
    }
}

fn is_single(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

fn bounded(parts: Vec<Value>) -> Result<Value, String> {
    if parts.len() > limits::WORKFLOW_ITEMS {
        return Err(format!("a list of more than {} entries", limits::WORKFLOW_ITEMS));
    }
    Ok(Value::Array(parts))
}
