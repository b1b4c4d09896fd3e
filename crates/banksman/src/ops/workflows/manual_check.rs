//! The result of a manual step's report: its check, and how the history says that it ended.

use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{Field, Trigger};

use crate::ops::principal::Operation;
use crate::ops::{OpsError, Session};
use crate::store::{Applied, HistoryEntry};

/// The status of a reported manual step.
#[derive(Debug, Clone)]
pub enum ManualCheck {
    /// The check is not finished.
    Open,
    /// The check passed, or the step has been moved on meanwhile.
    Over(Box<Applied>),
    /// What the check found. `again` says whether it can be fixed and reported again; otherwise a
    /// person is asked.
    Against { found: String, again: bool },
}

/// The result of a report since the move that it caused; none if that move started no check. The
/// result is the same whenever it is read, so a repeated report with the same key gets it too.
pub fn manual_check(session: &Session, said: &Applied) -> Result<Option<ManualCheck>, OpsError> {
    let store = session.may_on(Operation::ReadTask, said.stored.task.id)?;
    let lifecycle = &said.stored.lifecycle;
    let Some(entry) = &said.entry else { return Ok(None) };
    let state = lifecycle.find_state(&entry.record.to).map(|id| lifecycle.state(id));
    let does = state.and_then(|state| state.does.as_ref());
    if does.is_none_or(|does| does.activity != Activity::Check) {
        return Ok(None);
    }
    let moves = |later: &&HistoryEntry| later.record.from.as_ref() != Some(&later.record.to);
    let later = store.history(entry.task, entry.seq)?;
    let Some(end) = later.iter().find(moves) else { return Ok(Some(ManualCheck::Open)) };
    let found = end.record.text(Field::Diagnostic);
    if let Some(found) = found.filter(|_| end.record.trigger != Trigger::Proven.name()) {
        let again = Some(&end.record.to) == entry.record.from.as_ref();
        return Ok(Some(ManualCheck::Against { found: found.to_owned(), again }));
    }
    let (stored, replayed) = (store.task(entry.task)?, said.replayed);
    Ok(Some(ManualCheck::Over(Box::new(Applied { stored, entry: Some(end.clone()), replayed }))))
}
