//! Proofs about the conditions of a lifecycle: each can hold, and none compares prose.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::{Field, Trigger};
use super::expr::{Expr, KnownValues, ResolvedName, Type, Value};
use super::problem::Problem;
use super::prove::Proof;
use super::{FieldDecl, Requirement, RoleId, StateKind};

/// Combinations of values that are tried before a condition is assumed to hold for one of them.
const MOST_COMBINATIONS: usize = 4_096;

/// A condition with its place.
struct Condition<'a> {
    line: u32,
    /// What the condition is, with its field.
    what: String,
    expr: &'a Expr,
}

/// The possible values of fields that have few of them.
type Domains<'a> = BTreeMap<&'a str, Vec<Value>>;

/// The values of the fields in one combination. A project may override a setting, so settings are
/// unknown.
struct Tried<'a>(BTreeMap<&'a str, &'a Value>);

impl KnownValues for Tried<'_> {
    fn value<'a>(&'a self, name: &'a ResolvedName) -> Option<&'a Value> {
        let [field] = name.field()? else { return None };
        self.0.get(field.as_str()).copied()
    }
}

impl Proof<'_> {
    pub(super) fn conditions_make_sense(&self, found: &mut Vec<Problem>) {
        let fields = self.lifecycle.fields.iter();
        let declared: Domains<'_> =
            fields.filter_map(|(name, field)| Some((name.as_str(), values_of(field)?))).collect();
        let settable: Domains<'_> =
            declared.iter().map(|(name, all)| (*name, self.settable(name, all))).collect();
        for condition in self.conditions() {
            if !may_be(condition.expr, true, &settable) {
                found.push(never_holds(&condition, &declared, &settable));
            }
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

    /// The values of a field that a task can have: those that transitions and counters set, or all
    /// if a role gives it a value or it is computed.
    fn settable(&self, name: &str, all: &[Value]) -> Vec<Value> {
        let is_computed = self.changes().any(|(_, changes)| changes.compute.contains_key(name));
        let set: Vec<&Value> = self
            .changes()
            .filter_map(|(_, changes)| changes.set.get(name))
            .filter(|value| !value.is_null())
            .collect();
        let is_given = self.lifecycle.fields.get(name).is_some_and(FieldDecl::is_given);
        // A field that nothing sets is reported separately.
        let is_open = is_given || is_computed || self.is_written_by_program(name);
        let can_be =
            |value: &&Value| is_open || set.is_empty() || value.is_null() || set.contains(value);
        all.iter().filter(can_be).cloned().collect()
    }

    /// A condition on the words of a message would break when the message is improved.
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

    /// A state that does nothing while its `when` does not hold must still be left: by its subtasks
    /// if the engine has created them, otherwise by a timeout.
    pub(super) fn children_lead_on(&self, found: &mut Vec<Problem>) {
        let is_timed = |id| self.lifecycle.exits(id).any(|row| row.timeout.is_some());
        for (id, state) in self.states() {
            // Such a state waits for people, whether it asks them or not.
            let waits_anyway =
                matches!(state.kind, StateKind::Blocked | StateKind::Parked | StateKind::Failed);
            let when = state.does.as_ref().and_then(|does| does.when.as_ref());
            let Some(when) = when.filter(|_| !waits_anyway) else { continue };
            let name = &state.name;
            let (message, help) = if self.may_be_without_subtasks(when) && !is_timed(id) {
                (
                    format!(
                        "a task without subtasks stays in `{name}` while its `when` does not hold"
                    ),
                    "add `timeouts: [{ after: 1d, to: … }]`, or write `when: split != true`",
                )
            } else if may_be(when, false, &with_split(&[Value::Bool(true)]))
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

    /// Whether a `when` may be false for a task without subtasks, according to the engine's own
    /// `split`.
    fn may_be_without_subtasks(&self, when: &Expr) -> bool {
        let split = Field::Split.name();
        let declared = self.lifecycle.fields.get(split);
        let is_engines =
            declared.is_some_and(|field| !field.is_given()) && !self.is_set_by_rows(split);
        !is_engines || may_be(when, false, &with_split(&[Value::Bool(false), Value::Null]))
    }
}

fn required<'a>(what: &str, line: u32, requirement: &'a Requirement) -> Condition<'a> {
    let what = format!("the {what} on `{}`", requirement.field);
    Condition { line, what, expr: &requirement.that }
}

/// The problem of a condition that no task can meet, so that its transition or state is dead.
fn never_holds(
    condition: &Condition<'_>,
    declared: &Domains<'_>,
    settable: &Domains<'_>,
) -> Problem {
    let Condition { line, what, expr } = condition;
    if !may_be(expr, true, declared) {
        let message = format!("{what} can never hold, whatever the task is like");
        return Problem::in_line(*line, message, "correct it, or remove it");
    }
    let is_set_to = |name: &str| {
        let values = settable.get(name).filter(|values| declared[name].len() > values.len())?;
        let values = values.iter().filter(|value| !value.is_null());
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let values = values.map(shown).collect::<Vec<_>>().join(", ");
        Some(format!("`{name}` is only ever set to {values}"))
    };
    let set: Vec<String> = fields_of(expr).filter_map(is_set_to).collect();
    let message = format!("{what} can never hold: {}", set.join(", "));
    let help = "set the value that it asks for, name the roles that may, or remove it";
    Problem::in_line(*line, message, help)
}

/// Whether an expression can have this truth value for some values of its fields.
fn may_be(expr: &Expr, truth: bool, domains: &Domains<'_>) -> bool {
    let names: BTreeSet<&str> = fields_of(expr).collect();
    let mut tried = vec![Tried(BTreeMap::new())];
    for (name, values) in names.iter().filter_map(|name| domains.get_key_value(name)) {
        if tried.len() * values.len() > MOST_COMBINATIONS {
            return true;
        }
        let mut longer = Vec::with_capacity(tried.len() * values.len());
        for Tried(before) in &tried {
            for value in values {
                let mut fields = before.clone();
                fields.insert(*name, value);
                longer.push(Tried(fields));
            }
        }
        tried = longer;
    }
    tried.iter().any(|tried| expr.truth(tried) != Some(!truth))
}

fn fields_of(expr: &Expr) -> impl Iterator<Item = &str> {
    expr.names().filter_map(|name| name.field()?.first()).map(String::as_str)
}

/// The values of `split`, and of no other field.
fn with_split(values: &[Value]) -> Domains<'static> {
    BTreeMap::from([(Field::Split.name(), values.to_vec())])
}

/// The values of a type, if there are few.
fn values_of(field: &FieldDecl) -> Option<Vec<Value>> {
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
