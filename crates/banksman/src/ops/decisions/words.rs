//! Finds the field for a person's words: the one that an answer asks for, according to the
//! lifecycle's transitions.

use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{ResolvedName, Type};
use banksman_core::lifecycle::{Lifecycle, RoleId, Transition};
use banksman_core::machine::{Actor, FieldError};

use crate::store::Stored;

/// Fields for remarks that no transition asks for, in the order in which they are tried.
const REMARKS: [Field; 2] = [Field::Note, Field::Feedback];

/// The field for the words of an answer: one that is missing without them, else one that the
/// transition asks for or keeps, else the lifecycle's field for remarks.
pub(super) fn place(
    stored: &Stored,
    actor: &Actor,
    trigger: &str,
    missing: &[FieldError],
) -> Option<String> {
    let lifecycle = &stored.lifecycle;
    let role = lifecycle.find_role(&actor.role)?;
    let may_take = |row: &&Transition| {
        row.trigger == trigger && row.timeout.is_none() && row.roles.contains(&role)
    };
    let rows: Vec<&Transition> = lifecycle.exits(stored.task.state).filter(may_take).collect();
    let missing = missing.iter().map(|error| error.field.as_str());
    let asked = rows.iter().flat_map(|row| row.guards.iter().map(|guard| guard.field.as_str()));
    let kept = rows.iter().flat_map(|row| row.changes.keeps.iter().map(String::as_str));
    let candidates = missing.chain(asked).chain(kept).chain(REMARKS.map(Field::name));
    candidates.into_iter().find(|field| is_for_words(lifecycle, field, role)).map(str::to_owned)
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
