//! Proofs about the conditions of a lifecycle: each can hold, and none compares prose.

use std::collections::BTreeMap;
use std::iter;

use super::contract::{Field, Trigger};
use super::expr::{Expr, KnownValues, ResolvedName, Type, Value};
use super::problem::Problem;
use super::prove::Proof;
use super::{FieldDecl, Requirement, RoleId, StateId, StateKind};

/// Combinations of values that are tried before a condition is believed to hold for one of them.
const MOST_COMBINATIONS: usize = 4_096;

/// A condition with its place.
struct Condition<'a> {
    line: u32,
    /// What it is, with the field that it is about.
    what: String,
    expr: &'a Expr,
}

/// What a field holds in one of the tried combinations.
struct Tried<'a>(BTreeMap<&'a str, Value>);

impl KnownValues for Tried<'_> {
    fn value(&self, name: &ResolvedName) -> Option<&Value> {
        // A project may override a setting, so it is not known here.
        match name.field()? {
            [field] => self.0.get(field.as_str()),
            _ => None,
        }
    }
}

impl Proof<'_> {
    pub(super) fn conditions_make_sense(&self, found: &mut Vec<Problem>) {
        for condition in self.conditions() {
            self.can_hold(&condition, found);
            self.compares_no_prose(&condition, found);
        }
    }

    fn conditions(&self) -> Vec<Condition<'_>> {
        let rows = self
            .lifecycle
            .transitions
            .iter()
            .flat_map(|row| row.guards.iter().map(|guard| required("guard", row.line, guard)));
        let states = self.lifecycle.states.iter().flat_map(|state| {
            let requires = state.requires.iter().map(|it| required("requirement", state.line, it));
            let does = state.does.as_ref();
            let own = [
                ("`until`", does.and_then(|does| does.until.as_ref())),
                ("`when`", does.and_then(|does| does.when.as_ref())),
                ("the `when` of `remind`", state.remind.as_ref().and_then(|it| it.when.as_ref())),
            ];
            let own = own.into_iter().filter_map(move |(what, expr)| {
                let what = format!("{what} of `{}`", state.name);
                Some(Condition { line: state.line, what, expr: expr? })
            });
            requires.chain(own)
        });
        rows.chain(states).collect()
    }

    /// A condition that no task can meet makes its row or state dead, whatever it says.
    fn can_hold(&self, condition: &Condition<'_>, found: &mut Vec<Problem>) {
        let Condition { line, what, expr } = condition;
        if self.may_be(expr, true, |name, field| self.values(name, field)) {
            return;
        }
        let declared = self.may_be(expr, true, |_, field| declared_values(field));
        let (message, help) = if declared {
            let set: Vec<String> =
                expr.names().filter_map(|name| self.only_set_to(name.field()?.first()?)).collect();
            let help = "set the value that it asks for, name the roles that may, or remove it";
            (format!("{what} can never hold: {}", set.join(", ")), help)
        } else {
            let help = "correct it, or remove it";
            (format!("{what} can never hold, whatever the task is like"), help)
        };
        found.push(Problem::in_line(*line, message, help));
    }

    /// Whether an expression may have a truth for some values of its fields, as far as they are
    /// few enough to be tried.
    fn may_be(
        &self,
        expr: &Expr,
        truth: bool,
        values: impl Fn(&str, &FieldDecl) -> Option<Vec<Value>>,
    ) -> bool {
        let mut tried = vec![Tried(BTreeMap::new())];
        for name in expr.names().filter_map(ResolvedName::field).filter_map(<[String]>::first) {
            let known = self.lifecycle.fields.get(name).and_then(|field| values(name, field));
            let Some(known) = known.filter(|_| !tried[0].0.contains_key(name.as_str())) else {
                continue;
            };
            if tried.len() * known.len() > MOST_COMBINATIONS {
                return true;
            }
            let mut next = Vec::with_capacity(tried.len() * known.len());
            for Tried(before) in &tried {
                next.extend(known.iter().map(|value| {
                    let own = iter::once((name.as_str(), value.clone()));
                    Tried(before.clone().into_iter().chain(own).collect())
                }));
            }
            tried = next;
        }
        tried.iter().any(|tried| expr.truth(tried) != Some(!truth))
    }

    /// All values that a task can have in a field, if they are few: what rows and counters set, and
    /// everything of the type if anybody gives it a value or it is computed.
    fn values(&self, name: &str, field: &FieldDecl) -> Option<Vec<Value>> {
        let all = declared_values(field)?;
        let is_computed = self.changes().any(|(_, changes)| changes.compute.contains_key(name));
        let set = self.changes().filter_map(|(_, changes)| changes.set.get(name));
        let set: Vec<&Value> = set.collect();
        // A field that nothing sets at all is reported by itself.
        let is_open = field.is_given() || is_computed || self.is_written_by_program(name);
        if is_open || set.is_empty() {
            return Some(all);
        }
        Some(all.into_iter().filter(|value| value.is_null() || set.contains(&value)).collect())
    }

    fn only_set_to(&self, name: &str) -> Option<String> {
        let field = self.lifecycle.fields.get(name)?;
        let values = self.values(name, field)?;
        if values.len() == declared_values(field)?.len() {
            return None;
        }
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_null())
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        Some(format!("`{name}` is only ever set to {}", values.join(", ")))
    }

    /// A condition on the words of a message breaks when somebody improves the message.
    fn compares_no_prose(&self, condition: &Condition<'_>, found: &mut Vec<Problem>) {
        for path in condition.expr.fields_compared_with_text() {
            let [name] = path else { continue };
            if self.lifecycle.fields.get(name).is_some_and(|field| field.kind == Type::Text) {
                let message = format!(
                    "`{name}` is text for people; a condition on it breaks when the words change"
                );
                let help = "declare a field with the cases, such as `cause: [unanswered, failed]`, and compare that";
                found.push(Problem::in_line(condition.line, message, help));
            }
        }
    }

    /// A state that does nothing while its `when` does not hold has to go on all the same: by its
    /// subtasks where the engine has made them, by the clock otherwise.
    pub(super) fn children_lead_on(&self, found: &mut Vec<Problem>) {
        for (id, state) in self.states() {
            // Such a state waits for people, whether it asks them or not.
            let waits_anyway =
                matches!(state.kind, StateKind::Blocked | StateKind::Parked | StateKind::Failed);
            let when = state.does.as_ref().and_then(|does| does.when.as_ref());
            let Some(when) = when.filter(|_| !waits_anyway) else { continue };
            let name = &state.name;
            let (message, help) = if self.may_be_without_subtasks(when) && !self.is_timed(id) {
                (
                    format!(
                        "a task without subtasks stays in `{name}` while its `when` does not hold"
                    ),
                    "add `timeouts: [{ after: 1d, to: … }]`, or write `when: split != true`",
                )
            } else if self.may_be(when, false, |name, _| with_split(name, true))
                && self.lifecycle.fields.contains_key(Field::Split.name())
                && !self.takes(id, Trigger::ChildrenMoved.name(), RoleId::SYSTEM)
            {
                (
                    format!("while its `when` does not hold, nothing leads out of `{name}`"),
                    "add a transition `on: children_moved` with `system` in its `by`",
                )
            } else {
                continue;
            };
            found.push(Problem::in_line(state.line, message, help));
        }
    }

    /// Whether a `when` may fail for a task that has no subtasks, as the engine's own `split` says.
    fn may_be_without_subtasks(&self, when: &Expr) -> bool {
        let split = Field::Split.name();
        let declared = self.lifecycle.fields.get(split);
        let is_engines =
            declared.is_some_and(|field| !field.is_given()) && !self.is_set_by_rows(split);
        !is_engines || self.may_be(when, false, |name, _| with_split(name, false))
    }

    fn is_timed(&self, id: StateId) -> bool {
        self.lifecycle.exits(id).any(|row| row.timeout.is_some())
    }
}

fn required<'a>(what: &str, line: u32, requirement: &'a Requirement) -> Condition<'a> {
    let what = format!("the {what} on `{}`", requirement.field);
    Condition { line, what, expr: &requirement.that }
}

/// The values of `split` for a task with subtasks or without; nothing is known of other fields.
fn with_split(name: &str, is_split: bool) -> Option<Vec<Value>> {
    let values =
        if is_split { vec![Value::from(true)] } else { vec![Value::from(false), Value::Null] };
    (name == Field::Split.name()).then_some(values)
}

/// The values of a type that has few.
fn declared_values(field: &FieldDecl) -> Option<Vec<Value>> {
    let values: Vec<Value> = match &field.kind {
        Type::Flag => vec![Value::from(true), Value::from(false)],
        Type::OneOf(words) => words.iter().map(|word| Value::from(word.as_str())).collect(),
        Type::Text
        | Type::Number
        | Type::Time
        | Type::Span
        | Type::List
        | Type::Record(_)
        | Type::Any => return None,
    };
    Some(values.into_iter().chain([Value::Null]).collect())
}
