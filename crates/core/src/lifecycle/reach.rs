//! Which states a task can get to by moves that somebody or something can really make.
//!
//! A field counts as set only once a task can have come to a transition that sets it, or whose
//! roles may give it. Everything else is taken to be possible: a state that is missing here is
//! certainly dead.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{Possible, required};
use super::contract::Field;
use super::expr::Value;
use super::problem::Problem;
use super::prove::{Proof, closure};
use super::{FieldUpdates, RoleId, State, StateId, Transition};

/// What is known so far.
#[derive(Default)]
struct Reach<'a> {
    states: BTreeSet<StateId>,
    /// The roles that can have made a move.
    roles: BTreeSet<RoleId>,
    /// The values that transitions can have set; none for a computed one.
    set: BTreeMap<&'a str, Vec<Option<&'a Value>>>,
}

impl<'a> Reach<'a> {
    /// What follows once a transition can be taken.
    fn takes(&mut self, row: &'a Transition, changes: impl Iterator<Item = &'a FieldUpdates>) {
        let roles = row.roles.iter().filter(|role| **role != RoleId::SYSTEM);
        self.roles.extend(roles.filter(|_| row.timeout.is_none()));
        for FieldUpdates { set, compute, .. } in changes {
            let set = set.iter().map(|(name, value)| (name, Some(value)));
            for (name, value) in set.chain(compute.keys().map(|name| (name, None))) {
                let known = self.set.entry(name).or_default();
                if !known.contains(&value) {
                    known.push(value);
                }
            }
        }
    }
}

impl Proof<'_> {
    pub(super) fn reachable(&self, found: &mut Vec<Problem>) {
        let reach = self.reach();
        let lead_on = closure(self.lifecycle.initial, &self.successors());
        let initial = self.lifecycle.state(self.lifecycle.initial);
        for (id, State { name, line, .. }) in self.states() {
            if reach.states.contains(&id) {
                continue;
            }
            let mut message =
                format!("the state `{name}` can never be reached from `{}`", initial.name);
            let mut help = "add a transition that leads here, or remove the state";
            if lead_on.contains(&id) {
                // What follows a state without a way in is not reported again.
                let Some((row, what)) = self.obstacle(id, &reach) else { continue };
                message += &format!(": in line {}, {what} cannot hold", row.line);
                help = "let a role that may set the field take a transition on the way, or set it \
                        on one";
            }
            found.push(Problem::in_line(*line, message, help));
        }
        if initial.terminal {
            found.push(Problem::in_line(
                initial.line,
                format!("the initial state `{}` is terminal", initial.name),
                "a task must be able to go somewhere",
            ));
        }
    }

    fn reach(&self) -> Reach<'_> {
        let mut reach = Reach::default();
        reach.states.insert(self.lifecycle.initial);
        let rows = self.lifecycle.transitions.iter().filter(|row| self.can_be_taken(row));
        let mut open: Vec<(&Transition, BTreeSet<StateId>)> =
            rows.map(|row| (row, self.targets(row).into_iter().collect())).collect();
        let mut grown = true;
        while grown {
            grown = false;
            for (row, targets) in &mut open {
                if !reach.states.contains(&row.from) {
                    continue;
                }
                let before = targets.len();
                targets.retain(|to| self.fails(row, *to, &reach).is_some());
                if targets.len() < before {
                    grown = true;
                    reach
                        .states
                        .extend(self.targets(row).iter().filter(|to| !targets.contains(to)));
                    reach.takes(row, self.changes_of(row));
                }
            }
            open.retain(|(_, targets)| !targets.is_empty());
        }
        reach
    }

    /// The first transition from a known state that would lead to another one, and the condition
    /// that cannot hold.
    fn obstacle(&self, to: StateId, reach: &Reach<'_>) -> Option<(&Transition, String)> {
        let rows = self.lifecycle.transitions.iter();
        let mut rows = rows.filter(|row| {
            let is_open = reach.states.contains(&row.from) && self.can_be_taken(row);
            is_open && self.targets(row).contains(&to)
        });
        rows.find_map(|row| Some((row, self.fails(row, to, reach)?)))
    }

    /// A condition of the move that cannot hold so far. One that never holds is reported by itself.
    fn fails(&self, row: &Transition, to: StateId, reach: &Reach<'_>) -> Option<String> {
        let state = self.lifecycle.state(to);
        let guards = row.guards.iter().map(|it| (required("guard", row.line, it), false));
        let requires = state.requires.iter();
        let requires = requires.map(|it| (required("requirement", state.line, it), true));
        for (condition, is_after) in guards.chain(requires) {
            let condition = condition.of(row);
            let so_far = |name: &str, all| self.settable_so_far(name, all, reach, (row, is_after));
            let is_open = self.may_hold(&condition, &so_far)
                || !self.may_hold(&condition, &|name, all| self.settable(name, all));
            if !is_open {
                return Some(condition.what);
            }
        }
        None
    }

    /// The values of a field that a task can have on a transition. What the transition itself
    /// changes counts only after its guards.
    fn settable_so_far(
        &self,
        name: &str,
        mut all: Vec<Possible>,
        reach: &Reach<'_>,
        (row, is_after): (&Transition, bool),
    ) -> Vec<Possible> {
        let (field, known) = (&self.lifecycle.fields[name], Field::named(name));
        let gives = |role: &RoleId| {
            let is_for = known.is_none_or(|known| known.is_for(*role));
            is_for && *role != RoleId::SYSTEM && field.may_be_given_by(*role)
        };
        let mut own = Reach::default();
        own.takes(row, self.changes_of(row).filter(|_| is_after));
        let own_set = own.set.get(name).into_iter().flatten();
        let set: Vec<_> = reach.set.get(name).into_iter().flatten().chain(own_set).collect();
        // People create tasks, the program sets some fields, and facts can be overridden. A field
        // that nothing sets at all is reported by itself.
        let is_open = field.line == 0
            || gives(&RoleId::HUMAN)
            || known.is_some_and(Field::is_fact)
            || self.is_written_by_program(name)
            || !self.is_set_by_rows(name) && !field.is_given()
            || reach.roles.iter().chain(&own.roles).any(gives)
            || set.contains(&&None);
        let is_set = set.iter().any(|value| value.is_some_and(|value| !value.is_null()));
        all.retain(|possible| match possible {
            Possible::Value(value) => is_open || value.is_null() || set.contains(&&Some(value)),
            Possible::Present => is_open || is_set,
        });
        all
    }

    /// What a transition changes itself, and by the counters that divert it.
    fn changes_of<'r>(&'r self, row: &'r Transition) -> impl Iterator<Item = &'r FieldUpdates> {
        let counters = row.changes.count.iter().map(|id| &self.lifecycle.counter(*id).changes);
        [&row.changes].into_iter().chain(counters)
    }
}
