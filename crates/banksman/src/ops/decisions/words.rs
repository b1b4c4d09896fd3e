//! Finds the field for a person's words: the one that an answer asks for, according to the
//! lifecycle's transitions. Commands such as `unblock` put them into the same one.

use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{ResolvedName, Type};
use banksman_core::lifecycle::{Lifecycle, RoleId, StateKind, Transition, TransitionTarget};
use banksman_core::machine::{Actor, FieldError, Task};

use crate::store::Stored;

/// Fields for remarks that no transition asks for, in the order in which they are tried.
const REMARKS: [Field; 2] = [Field::Note, Field::Feedback];

/// The field for the words of an answer: one that is missing without them, else one that the
/// transition asks for or keeps, else the reason of what is cancelled, else the lifecycle's field
/// for remarks.
pub(super) fn place(
    lifecycle: &Lifecycle,
    task: &Task,
    actor: &Actor,
    trigger: &str,
    missing: &[FieldError],
) -> Option<String> {
    let role = lifecycle.find_role(&actor.role)?;
    let may_take = |row: &&Transition| {
        row.trigger == trigger && row.timeout.is_none() && row.roles.contains(&role)
    };
    let rows: Vec<&Transition> = lifecycle.exits(task.state).filter(may_take).collect();
    let missing = missing.iter().map(|error| error.field.as_str());
    let asked = rows.iter().flat_map(|row| row.guards.iter().map(|guard| guard.field.as_str()));
    let kept = rows.iter().flat_map(|row| row.changes.keeps.iter().map(String::as_str));
    let ends = rows.iter().any(|row| is_cancelled(lifecycle, row));
    let reason = ends.then_some(Field::Reason).into_iter();
    let remarks = reason.chain(REMARKS).map(|field| -> &str { field.name() });
    let candidates = missing.chain(asked).chain(kept).chain(remarks);
    candidates.into_iter().find(|field| is_for_words(lifecycle, field, role)).map(str::to_owned)
}

fn is_cancelled(lifecycle: &Lifecycle, row: &Transition) -> bool {
    match row.to {
        TransitionTarget::State(to) => lifecycle.state(to).kind == StateKind::Cancelled,
        TransitionTarget::Prior => false,
    }
}

/// A text that this role may set, and that does not take a name: `worker_id` is no place for a
/// remark.
fn is_for_words(lifecycle: &Lifecycle, field: &str, role: RoleId) -> bool {
    let declared = lifecycle.fields.get(field);
    let is_text = declared.is_some_and(|field| field.kind == Type::Text);
    let names_somebody = |row: &Transition| {
        let computed = row.changes.compute.get(field);
        computed
            .is_some_and(|expr| expr.names().any(|name| matches!(name, ResolvedName::ActorName)))
    };
    is_text && may_give(lifecycle, field, role) && !lifecycle.transitions.iter().any(names_somebody)
}

/// Whether a role may set a field with a move.
pub(super) fn may_give(lifecycle: &Lifecycle, field: &str, role: RoleId) -> bool {
    let is_for = Field::named(field).is_none_or(|known| known.is_for(role));
    is_for && lifecycle.fields.get(field).is_some_and(|field| field.may_be_given_by(role))
}

/// Whether the person can be asked for a field with a move.
pub(super) fn may_be_asked(stored: &Stored, actor: &Actor, field: &str) -> bool {
    let role = stored.lifecycle.find_role(&actor.role);
    role.is_some_and(|role| may_give(&stored.lifecycle, field, role))
}

#[cfg(test)]
mod tests {
    use banksman_core::ids::TaskId;
    use banksman_core::lifecycle::check::Overrides;
    use banksman_core::lifecycle::contract::Trigger;
    use banksman_core::lifecycle::expr::Value;
    use banksman_core::lifecycle::{Requirement, StateId, builtin};
    use banksman_core::machine::{Event, NewTask, TransitionRequest, create, step};
    use banksman_core::time::Instant;

    use super::super::place_for_words;
    use super::*;

    /// Whatever a person types with `unblock`, `retry`, `cancel` or `escalate` is enough words for
    /// the move, in every state of every built-in lifecycle.
    #[test]
    fn the_words_of_every_steering_command_are_those_that_its_move_needs() {
        let (kim, now) = (Actor::human("kim"), Instant(1_000));
        let mut tried = 0;
        for (id, _) in builtin::SOURCES {
            let found = builtin::get(id, &Overrides::new()).expect("it is built in");
            let lifecycle = found.expect("it is sound");
            let required = lifecycle.state(lifecycle.initial).requires.iter();
            let x = || Value::from("x");
            let takes_x = |it: &&Requirement| lifecycle.fields[&it.field].accepts(&x()).is_ok();
            let fields = required.filter(takes_x).map(|it| (it.field.clone(), x())).collect();
            let new = NewTask { title: "x".to_owned(), fields, ..NewTask::default() };
            let first = create(&lifecycle, &new, &Actor::system(), TaskId(1), now);
            let first = first.expect("it can be added").task;
            let triggers = [Trigger::Unblock, Trigger::Retry, Trigger::Cancel, Trigger::Escalate];
            for (state, number) in lifecycle.states.iter().zip(0..) {
                let prior = state.remembers.then_some(first.state);
                let mut task = Task { state: StateId(number), prior, ..first.clone() };
                // What the way here has told is there already.
                let enters = |row: &&Transition| row.to == TransitionTarget::State(task.state);
                let told = lifecycle.transitions.iter().filter(enters);
                let told: Vec<_> = told.flat_map(|row| row.changes.compute.keys()).collect();
                let is_text = |name: &&String| lifecycle.fields[*name].accepts(&x()).is_ok();
                task.fields.extend(told.into_iter().filter(is_text).map(|it| (it.clone(), x())));
                let by_people = |trigger: &Trigger| {
                    let is_it = |row: &Transition| row.trigger == trigger.name();
                    let mut exits = lifecycle.exits(task.state);
                    exits.any(|row| is_it(row) && row.roles.contains(&RoleId::HUMAN))
                };
                for trigger in triggers.into_iter().filter(by_people) {
                    let name = trigger.name();
                    let place = place_for_words(&lifecycle, &task, &kim, name, now);
                    let given = place.map(|field| (field, Value::from("so be it")));
                    let ask = TransitionRequest {
                        actor: kim.clone(),
                        to: None,
                        trigger: Some(name.to_owned()),
                        fields: given.clone().into_iter().collect(),
                        epoch: None,
                        version: None,
                    };
                    let refused = step(&lifecycle, &task, &Event::Asked(ask), now).err();
                    let errors = refused.map(|refused| refused.errors).unwrap_or_default();
                    let is_words =
                        |error: &&FieldError| is_for_words(&lifecycle, &error.field, RoleId::HUMAN);
                    let lacks = errors.iter().find(is_words);
                    assert_eq!(lacks, None, "{id} {} {name} {given:?}", state.name);
                    tried += 1;
                }
            }
        }
        assert!(tried > 50, "only {tried} moves were tried");
    }
}
