//! Proofs about automatic moves: they always come to an end, and are never refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::contract::Trigger;
use super::expr::{Env, ResolvedName, Value, value_of};
use super::problem::Problem;
use super::prove::{Proof, closure, routes};
use super::{FieldUpdates, Requirement, RoleId, State, StateId, Transition, TransitionTarget};
use crate::time::Instant;

impl Proof<'_> {
    /// The transitions that the system takes by itself: timeouts, and those that outcomes lead to.
    fn automatic(&self) -> impl Iterator<Item = &Transition> {
        self.lifecycle.transitions.iter().filter(|row| {
            let does = self.lifecycle.state(row.from).does.as_ref();
            let triggered = does.is_some_and(|does| {
                routes(does).any(|(_, trigger)| trigger == Some(row.trigger.as_str()))
                    && row.roles.contains(&RoleId::SYSTEM)
            });
            row.timeout.is_some() || triggered
        })
    }

    pub(super) fn automatic_moves_end(&self, found: &mut Vec<Problem>) {
        let limited = |row: &Transition| {
            row.changes.count.iter().any(|id| self.lifecycle.counter(*id).limit.is_some())
        };
        // A worker claims queued tasks without being asked, so a claim may be part of such a cycle.
        let claims =
            self.lifecycle.transitions.iter().filter(|row| row.trigger == Trigger::Claim.name());
        let endless: Vec<&Transition> =
            self.automatic().chain(claims).filter(|row| !limited(row)).collect();
        let mut successors: BTreeMap<StateId, BTreeSet<StateId>> = BTreeMap::new();
        for row in &endless {
            successors.entry(row.from).or_default().extend(self.targets(row));
        }
        let mut reported = BTreeSet::new();
        for row in &endless {
            for to in self.targets(row) {
                let back = closure(to, &successors);
                if !back.contains(&row.from) || reported.contains(&row.from) {
                    continue;
                }
                let members: Vec<StateId> = back
                    .iter()
                    .copied()
                    .filter(|id| closure(*id, &successors).contains(&row.from))
                    .collect();
                let names: Vec<&str> =
                    members.iter().map(|id| self.lifecycle.state(*id).name.as_str()).collect();
                reported.extend(members);
                let message =
                    format!("the system can move tasks in an endless loop: {}", names.join(", "));
                let help = "let one of these moves `count` a counter that has a `limit`";
                found.push(Problem::in_line(row.line, message, help));
            }
        }
    }

    /// An automatic move gives no fields, so the lifecycle must set what the next state requires;
    /// otherwise the move would be refused and the task stranded.
    pub(super) fn automatic_moves_meet_requirements(&self, found: &mut Vec<Problem>) {
        for row in self.lifecycle.transitions.iter().filter(|row| row.timeout.is_some()) {
            let from = self.lifecycle.state(row.from);
            for id in &row.changes.count {
                let counter = self.lifecycle.counter(*id);
                if counter.limit.is_some() && counter.then.is_none() {
                    let message = format!(
                        "at its limit `{}` would refuse this timeout and leave the task where it is",
                        counter.name
                    );
                    let help = "give the counter a `then` or a `beyond`";
                    found.push(Problem::in_line(row.line, message, help));
                }
            }
            if let TransitionTarget::State(to) = row.to {
                self.meets(row.line, from, self.lifecycle.state(to), &[&row.changes], found);
            }
        }
        for row in &self.lifecycle.transitions {
            for counter in row.changes.count.iter().map(|id| self.lifecycle.counter(*id)) {
                if let Some(then) = counter.then {
                    let changes = [&row.changes, &counter.changes];
                    self.meets(
                        counter.line,
                        self.lifecycle.state(row.from),
                        self.lifecycle.state(then),
                        &changes,
                        found,
                    );
                }
            }
        }
    }

    fn meets(
        &self,
        line: u32,
        from: &State,
        to: &State,
        changes: &[&FieldUpdates],
        found: &mut Vec<Problem>,
    ) {
        for requirement in &to.requires {
            if !kept(requirement, from, changes) && !given(requirement, changes) {
                let message = format!(
                    "`{}` requires `{}`, which is not set on the way from `{}`",
                    to.name, requirement.field, from.name
                );
                let help = format!("add `set: {{ {}: … }}` here", requirement.field);
                found.push(Problem::in_line(line, message, help));
            }
        }
    }
}

/// Whether the state before requires the same and the move does not change it.
fn kept(requirement: &Requirement, from: &State, changes: &[&FieldUpdates]) -> bool {
    let same =
        |other: &&Requirement| other.field == requirement.field && other.that == requirement.that;
    let head = requirement.field.split('.').next().unwrap_or_default();
    let touched = changes.iter().any(|change| {
        change.clear.iter().any(|field| field == head)
            || change.set.contains_key(head)
            || change.compute.contains_key(head)
    });
    from.requires.iter().any(|other| same(&other)) && !touched
}

/// Whether the fields that the move sets are enough.
fn given(requirement: &Requirement, changes: &[&FieldUpdates]) -> bool {
    let head = requirement.field.split('.').next().unwrap_or_default();
    let mut computed = changes.iter().filter_map(|change| change.compute.get(head));
    let is_about_any_value = requirement.that.as_set().is_some();
    if is_about_any_value && computed.any(|computed| !computed.eval(&Least).is_null()) {
        return true;
    }
    let set = changes.iter().flat_map(|change| &change.set);
    requirement.that.holds(&OnlyThese(set.map(|(name, value)| (name.as_str(), value)).collect()))
}

/// A task of which only some fields are known.
struct OnlyThese<'a>(BTreeMap<&'a str, &'a Value>);

impl Env for OnlyThese<'_> {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value> {
        let Some(path) = name.field() else {
            return Cow::Owned(name.constant().cloned().unwrap_or(Value::Null));
        };
        let first = path.first().and_then(|head| self.0.get(head.as_str()).copied());
        let value = path.iter().skip(1).fold(first, |value, key| value?.get(key));
        value.map_or(Cow::Owned(Value::Null), Cow::Borrowed)
    }
}

/// A task and a move of which only those values are known that every task and move has.
struct Least;

impl Env for Least {
    fn value(&self, name: &ResolvedName) -> Cow<'_, Value> {
        Cow::Owned(match name {
            ResolvedName::Constant(value) => value.clone(),
            ResolvedName::Now => value_of(&Instant(0)),
            ResolvedName::Title
            | ResolvedName::Tags
            | ResolvedName::Priority
            | ResolvedName::Counter(_)
            | ResolvedName::Spent(_) => Value::from(0),
            ResolvedName::Field(_)
            | ResolvedName::ActorRole
            | ResolvedName::ActorName
            | ResolvedName::Outcome
            | ResolvedName::Detail => Value::Null,
        })
    }
}
