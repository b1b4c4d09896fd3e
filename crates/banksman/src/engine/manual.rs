//! Steps of workflows that a person drives: where they report that a step is done.
//!
//! The check of such a step is a keeper's job like any other: a person's report counts as little as
//! an agent's. The person works where they like, so the check needs no worktree and changes
//! nothing.

use serde_json::{Map, Value, json};

use super::steps::is_driven_manually;
use crate::store::Stored;

/// The folder in which a step was done, and the node that has it.
pub(super) const DONE_IN: &str = "done_in";
const DONE_ON: &str = "done_on";
/// Whether something beside the report shows that a step is done.
const PROOF: &str = "proof";

/// The node that has the folder to check, where it is another one: a folder of the same name here
/// would show nothing.
pub(super) fn done_elsewhere<'s>(stored: &'s Stored, node: &str) -> Option<&'s str> {
    stored.text(DONE_ON).filter(|done_on| *done_on != node)
}

/// The fields of a signal that was found on this node.
pub(super) fn done_here(child: &Stored, node: &str) -> Map<String, Value> {
    let is_looked_at = is_driven_manually(child) && child.flag(PROOF);
    let node = is_looked_at.then(|| (DONE_ON.to_owned(), json!(node)));
    node.into_iter().collect()
}
