//! A request for a permission reaches a person: wherever an agent works, a forbidden action and a
//! used-up budget lead to a state that asks people. Exceptions are listed here with their reasons;
//! an exception that is no longer needed fails as well.

use std::collections::BTreeSet;

use banksman_core::lifecycle::expr::ResolvedName;
use banksman_core::lifecycle::{
    Activity, Lifecycle, Outcome, RoleId, Route, StateActivity, StateId, Transition,
    TransitionTarget,
};

use crate::random::every_lifecycle;

/// An action of the class RED, or YELLOW by an intern, ends a run as `needs_person`; the other two
/// explain themselves.
const ASKS: [Outcome; 3] = [Outcome::NeedsPerson, Outcome::OverBudget, Outcome::Policy];

/// A reviewer that needs leave has no verdict, and a missing verdict is never an approval: its
/// panel asks a person.
const REVIEW: &str = "its panel asks";

/// A subtask that failed is a matter of its parent.
const SUBTASK: &str = "its parent asks";

const EXCEPTIONS: [(&str, &str, Outcome, &str); 4] = [
    ("leaf", "in_progress", Outcome::Policy, SUBTASK),
    ("review", "reviewing", Outcome::NeedsPerson, REVIEW),
    ("review", "reviewing", Outcome::OverBudget, REVIEW),
    ("review", "reviewing", Outcome::Policy, REVIEW),
];

#[test]
fn every_state_in_which_an_agent_works_leads_to_a_person() {
    let mut silent = BTreeSet::new();
    let mut looked_at = 0;
    for lifecycle in every_lifecycle() {
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            let does = state.does.as_ref().filter(|does| does.activity == Activity::Agent);
            for outcome in does.into_iter().flat_map(|does| not_asked(&lifecycle, id, does)) {
                silent.insert((lifecycle.id.clone(), state.name.clone(), outcome));
            }
            looked_at += usize::from(does.is_some());
        }
    }
    let named: BTreeSet<_> = EXCEPTIONS
        .iter()
        .map(|(lifecycle, state, outcome, _)| {
            ((*lifecycle).to_owned(), (*state).to_owned(), *outcome)
        })
        .collect();
    assert_eq!(silent, named);
    assert_eq!(looked_at, 11);
}

fn not_asked(lifecycle: &Lifecycle, from: StateId, does: &StateActivity) -> Vec<Outcome> {
    // `policy` is about what the task or its project forbids: the agent is told, and tries again
    // without it, until the failure policy gives up.
    let route = |outcome: &Outcome| match does.route(*outcome) {
        Some(Route::Again(_)) => does.route(Outcome::Exhausted),
        other => other,
    };
    let asks = |outcome: &Outcome| match route(outcome) {
        Some(Route::Trigger(trigger)) => leads_to_people(lifecycle, from, trigger),
        Some(Route::Again(_)) | None => false,
    };
    ASKS.into_iter().filter(|outcome| !asks(outcome)).collect()
}

fn leads_to_people(lifecycle: &Lifecycle, from: StateId, trigger: &str) -> bool {
    let by_system = |row: &&Transition| {
        row.timeout.is_none() && row.trigger == trigger && row.roles.contains(&RoleId::SYSTEM)
    };
    let mut rows = lifecycle.exits(from).filter(by_system).peekable();
    rows.peek().is_some() && rows.all(|row| opens_a_question(lifecycle, row))
}

/// Its target asks people; if that depends on a flag, the row sets it.
fn opens_a_question(lifecycle: &Lifecycle, row: &Transition) -> bool {
    let TransitionTarget::State(to) = row.to else { return false };
    let does = lifecycle.state(to).does.as_ref();
    let Some(does) = does.filter(|does| does.activity == Activity::Human) else { return false };
    let is_set = |name: &ResolvedName| {
        let field = name.field().and_then(<[String]>::first);
        field.is_some_and(|field| row.changes.set.contains_key(field))
    };
    does.when.as_ref().is_none_or(|when| when.names().any(is_set))
}
