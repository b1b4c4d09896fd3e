//! Whether a workflow continues without a person.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{StateKind, TransitionTarget};

use crate::store::Stored;

/// Whether something will happen without a person.
pub fn is_moving(parent: &Stored, steps: &BTreeMap<TaskId, Stored>) -> bool {
    let by_itself = |stored: &Stored| {
        let state = stored.state();
        match state.kind {
            StateKind::Queued => stored.task.open_needs == 0,
            StateKind::Working | StateKind::Reviewing | StateKind::Blocked => true,
            // A timeout may mean consent, as in a veto window. If it only fails the step, the
            // workflow waits for a person.
            StateKind::Waiting | StateKind::Parked => {
                let mut bounds =
                    stored.lifecycle.exits(stored.task.state).filter(|row| row.timeout.is_some());
                bounds.any(|row| matches!(row.to, TransitionTarget::State(to) if stored.lifecycle.state(to).kind == StateKind::Done))
            }
            StateKind::Done | StateKind::Failed | StateKind::Cancelled => false,
        }
    };
    match parent.state().kind {
        StateKind::Working => {
            let over = steps.values().all(|step| step.state().kind == StateKind::Done);
            over || steps.values().any(by_itself)
        }
        StateKind::Queued | StateKind::Reviewing => true,
        StateKind::Waiting | StateKind::Blocked | StateKind::Parked => false,
        StateKind::Done | StateKind::Failed | StateKind::Cancelled => false,
    }
}
