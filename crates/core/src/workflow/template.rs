//! Fills `${{ params.NAME }}`, `${{ matrix.NAME }}` and `${{ item }}` into the texts of a workflow.
//! Values are inserted as they are: nothing is computed, and inserted text is never scanned again.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::suggestion;
use crate::limits;
use crate::text::clip;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";
/// The name of the current value in a `for_each`.
pub(super) const ITEM: &str = "item";

/// The values for placeholders, by name.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Shared by all steps of a file.
    params: Rc<BTreeMap<String, Value>>,
    own: BTreeMap<String, Value>,
}

/// Why a text cannot be filled in, and what to write instead.
pub(super) struct Unfilled {
    pub(super) message: String,
    pub(super) help: String,
}

impl Scope {
    pub(super) fn of_params(params: &BTreeMap<String, Value>) -> Self {
        let named = params.iter().map(|(name, value)| (format!("params.{name}"), value.clone()));
        Self { params: Rc::new(named.collect()), own: BTreeMap::new() }
    }

    /// Adds the values of one step.
    pub(super) fn with(&self, own: &[(String, String)]) -> Self {
        let own = own.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        Self { params: Rc::clone(&self.params), own: own.collect() }
    }

    /// The value itself, if the text is only one placeholder.
    pub(super) fn whole(&self, text: &str) -> Option<&Value> {
        let name = text.trim().strip_prefix(OPEN)?.strip_suffix(CLOSE)?.trim();
        self.get(name)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.own.get(name).or_else(|| self.params.get(name))
    }

    pub(super) fn fill(&self, text: &str) -> Result<String, Unfilled> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let (name, behind) = after.split_once(CLOSE).ok_or_else(|| Unfilled {
                message: format!("`{OPEN}` without `{CLOSE}`"),
                help: "write `${{ params.NAME }}`".to_owned(),
            })?;
            filled.push_str(before);
            filled.push_str(&as_text(self.value(name.trim())?));
            // Checked in the loop, because a few placeholders can expand to very much.
            if filled.len() > limits::WORKFLOW_TEXT_BYTES {
                break;
            }
            rest = behind;
        }
        filled.push_str(rest);
        if filled.len() > limits::WORKFLOW_TEXT_BYTES {
            let message =
                format!("the text is longer than {} KiB", limits::WORKFLOW_TEXT_BYTES / 1024);
            return Err(Unfilled { message, help: "put it in a file".to_owned() });
        }
        Ok(filled)
    }

    fn value(&self, name: &str) -> Result<&Value, Unfilled> {
        self.get(name).ok_or_else(|| Unfilled {
            message: format!("unknown placeholder `{}`", clip(name)),
            help: suggestion(name, self.own.keys().chain(self.params.keys()).map(String::as_str)),
        })
    }
}

/// A value as text; the entries of a list are separated by commas.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(as_text).collect::<Vec<_>>().join(", "),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        let params = BTreeMap::from([
            ("files".to_owned(), json!(["a.rs", "b.rs"])),
            ("count".to_owned(), json!(3)),
            ("odd".to_owned(), json!("${{ params.count }}")),
        ]);
        Scope::of_params(&params).with(&[("matrix.os".to_owned(), "linux".to_owned())])
    }

    #[test]
    fn values_stand_in_texts() {
        for (text, filled) in [
            ("plain { } $", "plain { } $"),
            ("${{ params.count }} on ${{matrix.os}}!", "3 on linux!"),
            ("see ${{ params.files }}", "see a.rs, b.rs"),
            ("${{ params.odd }}", "${{ params.count }}"),
        ] {
            let found = scope().fill(text).unwrap_or_else(|fault| panic!("{}", fault.message));
            assert_eq!(found, filled);
        }
        assert_eq!(scope().whole("${{ params.files }}"), Some(&json!(["a.rs", "b.rs"])));
        assert_eq!(scope().whole("a ${{ params.files }}"), None);
    }

    #[test]
    fn an_unknown_name_is_met_with_the_nearest() {
        let fault = scope().fill("${{ params.cuont }}").expect_err("unknown");
        assert_eq!(fault.help, "did you mean `params.count`?");
        assert!(scope().fill("${{ params.count").is_err());
    }

    #[test]
    fn a_text_cannot_grow_without_end() {
        let long = BTreeMap::from([("x".to_owned(), json!("y".repeat(10_000)))]);
        let fault = Scope::of_params(&long).fill(&"${{ params.x }}".repeat(1_000));
        assert!(fault.expect_err("too long").message.contains("longer than 64 KiB"));
    }
}
