//! Proofs about the conditions of a lifecycle: each can hold, and none compares prose.

use super::contract::{Field, Trigger};
use super::expr::{Expr, KnownValues, ResolvedName, Type, Value, is_present, number_value};
use super::problem::Problem;
use super::prove::Proof;
use super::{FieldDecl, Requirement, RoleId, StateKind, Transition};

/// Combinations of values that are tried before a condition is assumed to hold for one of them.
const MOST_COMBINATIONS: usize = 4_096;

/// A condition with its place.
pub(super) struct Condition<'a> {
    line: u32,
    /// What the condition is, with its field.
    pub(super) what: String,
    expr: &'a Expr,
    /// The transition whose guard it is.
    row: Option<&'a Transition>,
    /// What also holds whenever it is asked.
    given: Vec<&'a Expr>,
}

impl<'a> Condition<'a> {
    /// The same on the way of a transition.
    pub(super) fn of(self, row: &'a Transition) -> Self {
        Self { row: Some(row), ..self }
    }

    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        [self.expr].into_iter().chain(self.given.iter().copied())
    }

    fn thresholds(&self) -> Option<Vec<f64>> {
        let all: Option<Vec<_>> = self.exprs().map(Expr::thresholds).collect();
        Some(all?.concat())
    }
}

/// One thing that a name can stand for.
#[derive(Debug)]
pub(super) enum Possible {
    Value(Value),
    /// Some value; no more is known of it.
    Present,
}

impl Possible {
    fn number(&self) -> Option<f64> {
        if let Self::Value(value) = self { value.as_f64() } else { None }
    }
}

/// What a name can stand for.
type Domain = (ResolvedName, Vec<Possible>);

/// The same for the names of a condition. A name that is missing can stand for anything.
type Domains = Vec<Domain>;

/// The values of a field that count, out of all that its type allows.
type Narrow<'a> = &'a dyn Fn(&str, Vec<Possible>) -> Vec<Possible>;

/// One combination. A project may override a setting, so settings are unknown.
#[derive(Clone)]
struct Tried<'a>(Vec<(&'a ResolvedName, &'a Possible)>);

impl KnownValues for Tried<'_> {
    fn value<'a>(&'a self, name: &'a ResolvedName) -> Option<&'a Value> {
        match self.0.iter().find(|(known, _)| *known == name)?.1 {
            Possible::Value(value) => Some(value),
            Possible::Present => None,
        }
    }

    fn is_set(&self, name: &ResolvedName) -> Option<bool> {
        match self.0.iter().find(|(known, _)| *known == name)?.1 {
            Possible::Value(value) => Some(is_present(value)),
            Possible::Present => Some(true),
        }
    }
}

impl Proof<'_> {
    pub(super) fn conditions_make_sense(&self, found: &mut Vec<Problem>) {
        for condition in self.conditions() {
            if !self.may_hold(&condition, &|name, all| self.settable(name, all)) {
                found.push(self.never_holds(&condition));
            }
            self.compares_no_prose(condition.line, condition.expr, found);
        }
        for (line, changes) in self.changes() {
            for expr in changes.compute.values() {
                self.compares_no_prose(line, expr, found);
            }
        }
    }

    fn conditions(&self) -> Vec<Condition<'_>> {
        let rows = self.lifecycle.transitions.iter().flat_map(|row| {
            let given = self.given(row);
            row.guards.iter().map(move |guard| {
                let guard = required("guard", row.line, guard);
                Condition { row: Some(row), given: given.clone(), ..guard }
            })
        });
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
                Some(Condition { line: state.line, what, expr: expr?, row: None, given: vec![] })
            });
            requires.chain(own)
        });
        rows.chain(states).collect()
    }

    /// What always holds when a guard is asked: what its state requires of fields that nobody who
    /// may take the transition gives.
    fn given(&self, row: &Transition) -> Vec<&Expr> {
        let is_kept = |name: &ResolvedName| {
            let field = name.field().and_then(|path| self.lifecycle.fields.get(&path[0]));
            field.is_some_and(|field| !row.roles.iter().any(|role| field.may_be_given_by(*role)))
        };
        let requires = self.lifecycle.state(row.from).requires.iter().map(|it| &it.that);
        requires.filter(|that| that.names().all(is_kept)).collect()
    }

    pub(super) fn may_hold(&self, condition: &Condition<'_>, narrow: Narrow<'_>) -> bool {
        may_be(condition.expr, true, &condition.given, &self.domains(condition, narrow))
    }

    /// What can stand for the names of a condition.
    fn domains(&self, condition: &Condition<'_>, narrow: Narrow<'_>) -> Domains {
        let thresholds = condition.thresholds();
        let mut domains = Domains::new();
        for name in condition.exprs().flat_map(Expr::names) {
            if domains.iter().any(|(known, _)| known == name) {
                continue;
            }
            let possible = match name {
                ResolvedName::Field(path) if path.len() == 1 => {
                    let field = &self.lifecycle.fields[&path[0]];
                    Some(narrow(&path[0], values_of(field, thresholds.as_deref())))
                }
                ResolvedName::Priority => thresholds.as_ref().map(|all| numbers(all, true)),
                ResolvedName::Counter(id) => thresholds.as_ref().map(|all| {
                    let counter = self.lifecycle.counter(*id);
                    let limit = counter.limit.filter(|_| !counter.is_setting).map(f64::from);
                    let mut counts = numbers(all, true);
                    counts.retain(|count| {
                        let count = count.number().unwrap_or_default();
                        count >= 0.0 && limit.is_none_or(|limit| count <= limit)
                    });
                    counts
                }),
                ResolvedName::ActorRole => condition.row.map(|row| {
                    let roles = row.roles.iter().map(|role| self.lifecycle.role_name(*role));
                    roles.map(|role| Possible::Value(role.into())).collect()
                }),
                _ => None,
            };
            domains.extend(possible.map(|possible| (name.clone(), possible)));
        }
        domains
    }

    /// The values of a field that a task can have: those that transitions and counters set, or all
    /// if a role gives it a value or it is computed.
    pub(super) fn settable(&self, name: &str, mut all: Vec<Possible>) -> Vec<Possible> {
        let is_computed = self.changes().any(|(_, changes)| changes.compute.contains_key(name));
        let set = self.constants(name);
        let is_given = self.lifecycle.fields.get(name).is_some_and(FieldDecl::is_given);
        // A field that nothing sets is reported separately.
        let is_open = is_given || is_computed || self.is_written_by_program(name);
        all.retain(|possible| match possible {
            Possible::Value(value) => {
                is_open || set.is_empty() || value.is_null() || set.contains(&value)
            }
            Possible::Present => true,
        });
        all
    }

    /// What transitions and counters set a field to.
    fn constants(&self, name: &str) -> Vec<&Value> {
        let set = self.changes().filter_map(|(_, changes)| changes.set.get(name));
        let mut constants = Vec::new();
        for value in set.filter(|value| !value.is_null()) {
            if !constants.contains(&value) {
                constants.push(value);
            }
        }
        constants
    }

    /// The problem of a condition that no task can meet, so that its transition or state is dead.
    fn never_holds(&self, condition: &Condition<'_>) -> Problem {
        let Condition { line, what, .. } = condition;
        let settable = self.domains(condition, &|name, all| self.settable(name, all));
        let declared = self.domains(condition, &|_, all| all);
        if !self.may_hold(condition, &|_, all| all) {
            let message = format!("{what} can never hold, whatever the task is like");
            return Problem::in_line(*line, message, "correct it, or remove it");
        }
        let is_set_to = |((name, all), (_, values)): (&Domain, &Domain)| {
            let [name] = name.field().filter(|_| values.len() < all.len())? else { return None };
            let words = self.constants(name).into_iter().map(|value| match value {
                Value::String(word) => word.clone(),
                other => other.to_string(),
            });
            let values = words.collect::<Vec<_>>().join(", ");
            Some(format!("`{name}` is only ever set to {values}"))
        };
        let set: Vec<String> = declared.iter().zip(&settable).filter_map(is_set_to).collect();
        let message = format!("{what} can never hold: {}", set.join(", "));
        let help = "set the value that it asks for, name the roles that may, or remove it";
        Problem::in_line(*line, message, help)
    }

    /// A condition on the words of a message would break when the message is improved.
    fn compares_no_prose(&self, line: u32, expr: &Expr, found: &mut Vec<Problem>) {
        let is_text = |name: &&String| {
            self.lifecycle.fields.get(*name).is_some_and(|field| field.kind == Type::Text)
        };
        for name in expr.names_compared_with_text() {
            let prose = match name {
                ResolvedName::Detail => Some("detail"),
                ResolvedName::Title => Some("title"),
                other => other.field().and_then(<[_]>::first).filter(is_text).map(String::as_str),
            };
            let Some(prose) = prose else { continue };
            let message = format!(
                "`{prose}` is text for people; a condition on it breaks when the words change"
            );
            let help = "declare a field with the cases, such as `cause: [unanswered, failed]`, and compare that";
            found.push(Problem::in_line(line, message, help));
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
            } else if may_be(when, false, &[], &with_split(&[Value::Bool(true)]))
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
        !is_engines || may_be(when, false, &[], &with_split(&[Value::Bool(false), Value::Null]))
    }
}

pub(super) fn required<'a>(what: &str, line: u32, requirement: &'a Requirement) -> Condition<'a> {
    let what = format!("the {what} on `{}`", requirement.field);
    Condition { line, what, expr: &requirement.that, row: None, given: Vec::new() }
}

/// Whether an expression can have this truth value while others hold.
fn may_be(expr: &Expr, truth: bool, given: &[&Expr], domains: &[Domain]) -> bool {
    let mut tried = vec![Tried(Vec::new())];
    for (name, possible) in domains {
        if tried.len() * possible.len() > MOST_COMBINATIONS {
            return true;
        }
        let longer = tried.iter().flat_map(|Tried(before)| {
            let with = |one| before.iter().copied().chain([(name, one)]).collect();
            possible.iter().map(move |one| Tried(with(one)))
        });
        tried = longer.collect();
    }
    let is_one = |tried: &Tried<'_>| {
        expr.truth(tried) != Some(!truth)
            && given.iter().all(|given| given.truth(tried) != Some(false))
    };
    tried.iter().any(is_one)
}

/// The values of `split`, and of no other field.
fn with_split(values: &[Value]) -> Domains {
    let values = values.iter().cloned().map(Possible::Value).collect();
    vec![(ResolvedName::Field(vec![Field::Split.name().to_owned()]), values)]
}

/// The values of a type as far as conditions can tell them apart.
fn values_of(field: &FieldDecl, thresholds: Option<&[f64]>) -> Vec<Possible> {
    let mut values = match &field.kind {
        Type::Flag => [true, false].map(|flag| Possible::Value(flag.into())).into(),
        Type::OneOf(words) => {
            words.iter().map(|word| Possible::Value(word.as_str().into())).collect()
        }
        Type::Number if thresholds.is_some() => {
            numbers(thresholds.unwrap_or_default(), field.whole)
        }
        Type::Text
        | Type::Number
        | Type::Time
        | Type::Span
        | Type::List
        | Type::Texts
        | Type::Record(_)
        | Type::Any => vec![Possible::Present],
    };
    values.push(Possible::Value(Value::Null));
    values
}

/// Numbers that stand for all: the thresholds, and one below, between and above them.
fn numbers(thresholds: &[f64], whole: bool) -> Vec<Possible> {
    let mut all: Vec<f64> = vec![0.0];
    for one in thresholds {
        all.extend([one.floor() - 1.0, *one, one.floor(), one.floor() + 1.0]);
        all.extend(thresholds.iter().map(|other| f64::midpoint(*one, *other)));
    }
    all.retain(|number| !whole || number.fract() == 0.0);
    all.sort_by(f64::total_cmp);
    all.dedup();
    all.into_iter().map(|number| Possible::Value(number_value(number))).collect()
}
