//! Lists the transitions: one for each state that one starts from, and one for each timeout.

use super::check::Checker;
use super::names::ExprScope;
use super::problem::suggestion;
use super::source::{LifecycleSource, TimeoutSource, TransitionSource};
use super::{
    FieldUpdates, PRIOR, RoleId, Since, State, StateId, StateKind, Timeout, Transition,
    TransitionTarget, state_id,
};
use crate::limits;
use crate::yaml::{self, Name, OneOrMany, Spanned, place};

pub(super) fn spell_out(
    checker: &mut Checker<'_>,
    source: &LifecycleSource,
    states: &[State],
) -> Vec<Transition> {
    let mut rows = Vec::new();
    for transition in &source.transitions {
        let starts = starts(checker, transition, source, states);
        if let Some(row) = row(checker, transition) {
            rows.extend(starts.into_iter().map(|from| Transition { from, ..row.clone() }));
        }
        if rows.len() > limits::LIFECYCLE_TRANSITIONS {
            let message = format!("more than {} transitions", limits::LIFECYCLE_TRANSITIONS);
            checker.problem(transition, message, "");
            return rows;
        }
    }
    for (index, (_, state)) in source.states.0.iter().take(states.len()).enumerate() {
        for timeout in state.timeouts.iter().flatten() {
            rows.extend(timeout_row(checker, timeout, state_id(index)));
        }
    }
    rows
}

/// Completes the states with what depends on their exits.
pub(super) fn finish_states(states: &mut [State], transitions: &[Transition]) {
    for (index, state) in states.iter_mut().enumerate() {
        let mut exits = transitions.iter().filter(|transition| transition.from == state_id(index));
        state.terminal = exits.clone().next().is_none();
        state.remembers = exits.any(|transition| transition.to == TransitionTarget::Prior);
    }
}

fn row(checker: &mut Checker<'_>, at: &Spanned<TransitionSource>) -> Option<Transition> {
    let source = &at.value;
    let to = target(checker, at)?;
    let goal = match to {
        TransitionTarget::State(id) => checker.state_names[usize::from(id.0)].clone(),
        TransitionTarget::Prior => PRIOR.to_owned(),
    };
    if source.by.is_empty() {
        checker.problem(at, "nobody may take this transition", "name the roles: `by: [human]`");
    }
    let roles = source.by.iter().filter_map(|role| checker.role_named(role)).collect::<Vec<_>>();
    let mut guard = |guard| checker.requirement(guard, &goal, ExprScope::Transition);
    let guards = source.guards.iter().filter_map(&mut guard).collect();
    if !source.reset.is_empty() && !roles.iter().all(|role| *role == RoleId::HUMAN) {
        let help = "write `by: [human]` on this transition";
        checker.problem(&source.reset[0], "only a person may reset a counter", help);
    }
    let mut fields_of = |names: &[Name]| -> Vec<String> {
        let known = names.iter().filter(|name| checker.field(name).is_some());
        known.map(|name| name.value.clone()).collect()
    };
    let (clear, keeps) = (fields_of(&source.clear), fields_of(&source.keeps));
    let changes = FieldUpdates {
        set: checker.literals(&source.set),
        compute: checker.computed(&source.compute),
        clear,
        count: source.count.iter().filter_map(|name| checker.counter_named(name)).collect(),
        reset: source.reset.iter().filter_map(|name| checker.counter_named(name)).collect(),
        keeps,
    };
    let (trigger, line) = (source.on.value.clone(), place(at).0);
    Some(Transition { from: StateId(0), to, trigger, roles, guards, changes, timeout: None, line })
}

fn timeout_row(
    checker: &mut Checker<'_>,
    at: &Spanned<TimeoutSource>,
    from: StateId,
) -> Option<Transition> {
    let source = &at.value;
    let time = checker.span(&source.after);
    let to = if source.to.value == PRIOR {
        TransitionTarget::Prior
    } else {
        TransitionTarget::State(checker.state_named(&source.to)?)
    };
    let changes = FieldUpdates {
        set: checker.literals(&source.set),
        compute: checker.computed(&source.compute),
        count: source.count.iter().filter_map(|name| checker.counter_named(name)).collect(),
        ..FieldUpdates::default()
    };
    Some(Transition {
        from,
        to,
        trigger: source.on.clone().unwrap_or_else(|| "timeout".to_owned()),
        roles: vec![RoleId::SYSTEM],
        guards: Vec::new(),
        changes,
        timeout: Some(Timeout { time: time?, since: source.since.unwrap_or(Since::Entry) }),
        line: place(at).0,
    })
}

fn target(checker: &mut Checker<'_>, at: &Spanned<TransitionSource>) -> Option<TransitionTarget> {
    match &at.value.to {
        OneOrMany::One(name) if name == PRIOR => Some(TransitionTarget::Prior),
        OneOrMany::Many(names) if names.len() == 1 && names[0].value == "prior" => {
            Some(TransitionTarget::Prior)
        }
        OneOrMany::One(name) => {
            checker.state_named(&yaml::at(at, name)).map(TransitionTarget::State)
        }
        OneOrMany::Many(_) => {
            let help = "write `to: state`, or `to: [prior]`";
            checker.problem(at, "a transition leads to one state", help);
            None
        }
    }
}

fn starts(
    checker: &mut Checker<'_>,
    at: &Spanned<TransitionSource>,
    source: &LifecycleSource,
    states: &[State],
) -> Vec<StateId> {
    match &at.value.from {
        OneOrMany::One(name) if name == "any" => any(at, source, states),
        OneOrMany::One(name) => one_or_group(checker, &yaml::at(at, name), states),
        OneOrMany::Many(names) => {
            names.iter().flat_map(|name| one_or_group(checker, name, states)).collect()
        }
    }
}

/// `any` is every state but the target itself and those in which a task has ended. A failed state
/// counts as ended unless some transition names it as its start.
fn any(at: &Spanned<TransitionSource>, source: &LifecycleSource, states: &[State]) -> Vec<StateId> {
    let goal = match &at.value.to {
        OneOrMany::One(name) => Some(name.as_str()),
        OneOrMany::Many(_) => None,
    };
    let named = |name: &str| {
        source.transitions.iter().any(|transition| match &transition.value.from {
            OneOrMany::One(from) => from == name,
            OneOrMany::Many(list) => list.iter().any(|from| from.value == name),
        })
    };
    let open = |state: &State| {
        !state.kind.may_end() || state.kind == StateKind::Failed && named(&state.name)
    };
    let indexed = states.iter().enumerate();
    indexed
        .filter(|(_, state)| open(state) && Some(state.name.as_str()) != goal)
        .map(|(index, _)| state_id(index))
        .collect()
}

fn one_or_group(checker: &mut Checker<'_>, name: &Name, states: &[State]) -> Vec<StateId> {
    let matching = |wanted: &dyn Fn(&State) -> bool| -> Vec<StateId> {
        let indexed = states.iter().enumerate();
        indexed.filter(|(_, state)| wanted(state)).map(|(index, _)| state_id(index)).collect()
    };
    let mut found = matching(&|state| state.name == name.value);
    if found.is_empty() {
        found = matching(&|state| state.group.as_deref() == Some(name.value.as_str()));
    }
    if found.is_empty() {
        let help = suggestion(&name.value, states.iter().map(|state| state.name.as_str()));
        checker.problem(name, format!("there is no state or group `{}`", name.value), help);
    }
    found
}
