//! What comes of somebody's word that a step is done: it is looked at, and the history says how
//! that ended.

use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{Field, Trigger};

use crate::ops::principal::Operation;
use crate::ops::{OpsError, Session};
use crate::store::{Applied, HistoryEntry};

/// How a word stands that was put to the proof.
#[derive(Debug, Clone)]
pub enum ManualCheck {
    /// It is being looked at.
    Open,
    /// It was true, or somebody has moved the step on meanwhile.
    Over(Box<Applied>),
    /// What speaks against it. `again` says whether it can be fixed and reported again; else a person
    /// is asked.
    Against { found: String, again: bool },
}

/// What has become of a word since the move that it led to; none where that put nothing to the
/// proof. The answer is the same whenever it is asked for, so a word that is repeated with its key
/// gets it, too.
pub fn look_at(session: &Session, said: &Applied) -> Result<Option<ManualCheck>, OpsError> {
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
