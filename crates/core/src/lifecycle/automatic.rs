//! Proofs about automatic moves: they always come to an end, and are never refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::contract::Trigger;
use super::expr::{Env, KnownValues, ResolvedName, Value, is_present, value_of};
use super::problem::Problem;
use super::prove::{Proof, closure, routes};
use super::{
    CounterId, FieldUpdates, Outcome, Requirement, RoleId, Route, State, StateId, Transition,
};
use crate::time::Instant;

impl Proof<'_> {
    /// The transitions that the system takes by itself: timeouts, and those that outcomes lead to.
    fn automatic(&self) -> impl Iterator<Item = &Transition> {
        self.lifecycle.transitions.iter().filter(|row| {
            let does = self.lifecycle.state(row.from).does.as_ref();
            // The failure policy bounds how often an activity is tried again.
            let leads = |(_, route): (Outcome, Option<&Route>)| match route {
                Some(Route::Trigger(trigger)) => *trigger == row.trigger,
                Some(Route::Again(_)) | None => false,
            };
            let triggered = does
                .is_some_and(|does| routes(does).any(leads) && row.roles.contains(&RoleId::SYSTEM));
            row.timeout.is_some() || triggered
        })
    }

    /// Where a transition can lead again and again. A counter with a limit lets it through only so
    /// often; from then on it diverts it each time, or refuses it.
    fn endless_targets(&self, row: &Transition) -> Vec<StateId> {
        let counters = row.changes.count.iter().map(|id| self.lifecycle.counter(*id));
        let limited: Vec<Option<StateId>> = counters
            .filter(|counter| counter.limit.is_some())
            .map(|counter| counter.then)
            .collect();
        if limited.is_empty() {
            return self.targets(row);
        }
        limited.into_iter().collect::<Option<_>>().unwrap_or_default()
    }

    pub(super) fn automatic_moves_end(&self, found: &mut Vec<Problem>) {
        // A worker claims queued tasks without being asked, so a claim may be part of such a cycle.
        let claims =
            self.lifecycle.transitions.iter().filter(|row| row.trigger == Trigger::Claim.name());
        let endless: Vec<(&Transition, Vec<StateId>)> =
            self.automatic().chain(claims).map(|row| (row, self.endless_targets(row))).collect();
        let mut successors: BTreeMap<StateId, BTreeSet<StateId>> = BTreeMap::new();
        for (row, targets) in &endless {
            successors.entry(row.from).or_default().extend(targets);
        }
        let mut reported = BTreeSet::new();
        for (row, targets) in &endless {
            for to in targets {
                let back = closure(*to, &successors);
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
                let help = "let one of these moves `count` a counter with a `limit` that leads out of the loop";
                found.push(Problem::in_line(row.line, message, help));
            }
        }
    }

    /// An automatic move gives no fields, so the lifecycle must set what the next state requires;
    /// otherwise the move would be refused and the task stranded.
    pub(super) fn automatic_moves_meet_requirements(&self, found: &mut Vec<Problem>) {
        for row in self.lifecycle.transitions.iter().filter(|row| row.timeout.is_some()) {
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
        }
        let rows = self.lifecycle.transitions.iter();
        let timeouts = rows.clone().filter(|row| row.timeout.is_some()).flat_map(|row| {
            let states = self.states_of(row.from, row.to).into_iter();
            states.map(|to| (row.line, row.from, to, vec![&row.changes]))
        });
        let diverted = rows.flat_map(|row| {
            let counters = row.changes.count.iter().map(|id| self.lifecycle.counter(*id));
            counters.filter_map(|counter| {
                let changes = vec![&row.changes, &counter.changes];
                Some((counter.line, row.from, counter.then?, changes))
            })
        });
        for (line, from, to, changes) in timeouts.chain(diverted) {
            for Requirement { field, .. } in self.unmet(from, to, &changes) {
                let [from, to] = [from, to].map(|id| &self.lifecycle.state(id).name);
                let message = format!(
                    "`{to}` requires `{field}`, which is not certain on the way from `{from}`"
                );
                let help = format!(
                    "add `set: {{ {field}: … }}` here, or the same requirement to `{from}`"
                );
                found.push(Problem::in_line(line, message, help));
            }
        }
    }

    /// What a state requires and a move into it may leave open.
    pub(super) fn unmet(
        &self,
        from: StateId,
        to: StateId,
        changes: &[&FieldUpdates],
    ) -> Vec<&Requirement> {
        let (after, from) = (AfterMove::new(changes), self.lifecycle.state(from));
        let required = self.lifecycle.state(to).requires.iter();
        required.filter(|requirement| !after.ensures(requirement, from)).collect()
    }
}

/// What is known of a task after a move: only what the move itself changes.
#[derive(Default)]
struct AfterMove<'a> {
    /// The fields that change; none for a computed value, which is unknown.
    fields: BTreeMap<&'a str, Option<&'a Value>>,
    /// Those that are computed, and set whatever the task is like.
    computed: BTreeSet<&'a str>,
    counters: BTreeSet<CounterId>,
}

impl<'a> AfterMove<'a> {
    fn new(changes: &[&'a FieldUpdates]) -> Self {
        let mut after = Self::default();
        for change in changes {
            let cleared = change.clear.iter().map(|name| (name, &Value::Null));
            let known = cleared.chain(&change.set);
            after.fields.extend(known.map(|(name, value)| (name.as_str(), Some(value))));
            after.fields.extend(change.compute.keys().map(|name| (name.as_str(), None)));
            let set = change.compute.iter().filter(|(_, expr)| is_present(&expr.eval(&Least)));
            after.computed.extend(set.map(|(name, _)| name.as_str()));
            after.counters.extend(change.count.iter().chain(&change.reset));
        }
        after
    }

    /// Whether a requirement holds after the move, whatever else the task is like.
    fn ensures(&self, requirement: &Requirement, from: &State) -> bool {
        let that = &requirement.that;
        let is_changed = |name: &ResolvedName| match name {
            ResolvedName::Counter(id) => self.counters.contains(id),
            other => other.field().is_some_and(|path| self.fields.contains_key(path[0].as_str())),
        };
        let is_kept = || {
            from.requires.iter().any(|before| before.that == *that) && !that.names().any(is_changed)
        };
        let is_set = || match that.as_set() {
            Some([name]) => {
                let name = name.as_str();
                self.fields.get(name) == Some(&None) && self.computed.contains(name)
            }
            Some(_) | None => false,
        };
        that.truth(self) == Some(true) || is_set() || is_kept()
    }
}

impl KnownValues for AfterMove<'_> {
    fn value<'a>(&'a self, name: &'a ResolvedName) -> Option<&'a Value> {
        let Some((head, rest)) = name.field().and_then(<[String]>::split_first) else {
            return name.constant();
        };
        let first = (*self.fields.get(head.as_str())?)?;
        Some(rest.iter().fold(first, |value, key| value.get(key).unwrap_or(&Value::Null)))
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
            | ResolvedName::Priority
            | ResolvedName::Counter(_)
            | ResolvedName::Spent(_) => Value::from(0),
            ResolvedName::Field(_)
            | ResolvedName::Tags
            | ResolvedName::ActorRole
            | ResolvedName::ActorName
            | ResolvedName::Outcome
            | ResolvedName::Detail => Value::Null,
        })
    }
}
