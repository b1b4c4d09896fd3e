//! Steps of workflows that a person drives: where they report that a step is done.
//!
//! The check of such a step is a keeper's job like any other: a person's report counts as little as
//! an agent's. The person works where they like, so the check needs no worktree and changes
//! nothing.

use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{Fields, Value};

use crate::store::Stored;

/// The node that has the folder to check, where it is another one: a folder of the same name here
/// would show nothing.
pub(super) fn done_elsewhere<'s>(stored: &'s Stored, node: &str) -> Option<&'s str> {
    stored.text(Field::DoneOn).filter(|done_on| *done_on != node)
}

/// The fields of a signal that was found on this node.
pub(super) fn done_here(child: &Stored, node: &str) -> Fields {
    let is_looked_at = child.is_driven_by_person() && child.flag(Field::Proof);
    let node = is_looked_at.then(|| child.entry(Field::DoneOn, Value::from(node)));
    node.into_iter().collect()
}
