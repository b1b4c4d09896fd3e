//! Where a person's words belong: the field that an answer asks for, found in the lifecycle's own
//! rows.

use banksman_core::lifecycle::expr::{ResolvedName, Type};
use banksman_core::lifecycle::{Lifecycle, RoleId, Transition};
use banksman_core::machine::{Actor, FieldError};

use crate::store::Stored;

/// Fields for remarks that no row asks for, in the order in which they are looked for.
const REMARKS: [&str; 2] = ["note", "feedback"];

/// The field that takes the words of an answer: what is missing without them, else what its row
/// asks for or keeps, else the lifecycle's field for remarks.
pub(super) fn place(
    stored: &Stored,
    actor: &Actor,
    trigger: &str,
    missing: &[FieldError],
) -> Option<String> {
    let lifecycle = &stored.lifecycle;
    let role = lifecycle.find_role(&actor.role)?;
    let is_his = |row: &&Transition| {
        row.trigger == trigger && row.timeout.is_none() && row.roles.contains(&role)
    };
    let rows: Vec<&Transition> = lifecycle.exits(stored.task.state).filter(is_his).collect();
    let missing = missing.iter().map(|error| error.field.as_str());
    let asked = rows.iter().flat_map(|row| row.guards.iter().map(|guard| guard.field.as_str()));
    let kept = rows.iter().flat_map(|row| row.changes.keeps.iter().map(String::as_str));
    let candidates = missing.chain(asked).chain(kept).chain(REMARKS);
    candidates.into_iter().find(|field| is_for_words(lifecycle, field, role)).map(str::to_owned)
}

/// A text that this role may give, and that is not filled in with somebody's name: `worker_id` is
/// no place for a remark.
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

/// Whether a role may bring a field along.
pub(super) fn may_give(lifecycle: &Lifecycle, field: &str, role: RoleId) -> bool {
    lifecycle.fields.get(field).is_some_and(|field| field.may_be_given_by(role))
}
