//! Applies answers whose grace period is over, and fires due timers.

use super::Result;
use super::turn::{Reconciler, Turn};
use crate::store::Store;

/// Timers that are fired at once.
const AT_ONCE: i64 = 1_000;

pub(super) struct Timers<'a>(pub(super) &'a Store);

impl Reconciler for Timers<'_> {
    /// The store puts off the timers that it cannot fire, so that they do not keep others waiting.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        // An answer comes before the deadline that it was given in time for.
        for (decision, task) in self.0.due_answers(turn.now, AT_ONCE)? {
            turn.report.timers += 1;
            let applied = self.0.take_effect(decision, task, turn.now).map_err(Into::into);
            if turn.contain(Some(task), applied)?.is_none() {
                self.0.put_answer_off(decision, turn.now)?;
            }
        }
        loop {
            let due = self.0.fire_due(turn.now, AT_ONCE)?;
            let count = due.results.len() + due.refused.len();
            turn.report.timers += count;
            for (task, error) in due.refused {
                turn.contain::<()>(task, Err(error.into()))?;
            }
            if i64::try_from(count).unwrap_or(i64::MAX) < AT_ONCE {
                return Ok(());
            }
        }
    }
}
