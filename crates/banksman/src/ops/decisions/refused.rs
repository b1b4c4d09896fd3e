//! Answers that are refused because of who gives them or of what he has seen: they change nothing
//! and are on record, once each.

use banksman_core::ids::RunId;
use banksman_core::machine::Actor;
use banksman_core::policy::REFUSED;
use banksman_core::time::Instant;

use super::answer::{person, stale};
use super::{DecisionError, DecisionRef, find};
use crate::ops::OpsError;
use crate::store::Store;
use crate::store::query::Decision;

/// What a key holds of a name: it has to fit beside the rest.
const NAME_CHARS: usize = 40;

/// Puts on record that a run has tried to decide, on the task that it was about or else on its own,
/// and says the refusal.
pub fn refuse_run(
    store: &Store,
    which: DecisionRef,
    run: Option<&str>,
    now: Instant,
) -> Result<OpsError, OpsError> {
    let own = run.and_then(|run| run.parse::<RunId>().ok());
    let tasks = [find(store, which).ok().map(|decision| decision.task), own.map(|run| run.task)];
    let name = run.unwrap_or("unknown");
    let actor = Actor { role: "run".to_owned(), name: Some(name.to_owned()) };
    let task = tasks.into_iter().flatten().find(|task| store.task(*task).is_ok());
    if let Some(task) = task {
        let name: String = name.chars().take(NAME_CHARS).collect();
        // Once for each question and run: one that goes on knocking must not fill the history.
        let key = format!("refused-{which}-{name}");
        store.note(task, &actor, REFUSED, &key, store.now(now)?)?;
    }
    Ok(DecisionError::OfRun.into())
}

/// The refusal as it came, put on record if it is one of somebody who may not or who has seen
/// something else.
pub(super) fn refused(
    store: &Store,
    actor: &Actor,
    decision: &Decision,
    seen: Option<i64>,
    error: DecisionError,
    now: Instant,
) -> Result<OpsError, OpsError> {
    let why = match error {
        DecisionError::NotAPerson(_) => "person",
        DecisionError::Settled { .. } => "settled",
        DecisionError::MovedOn { .. } => "stale",
        DecisionError::Unknown(_)
        | DecisionError::NothingAsked(_)
        | DecisionError::NotOffered { .. }
        | DecisionError::NeedsWords { .. }
        | DecisionError::NoPlaceForWords { .. }
        | DecisionError::OfRun
        | DecisionError::NothingToAllow(_)
        | DecisionError::DueBefore { .. }
        | DecisionError::TooLong
        | DecisionError::NothingToUndo { .. }
        | DecisionError::StillOpen(_)
        | DecisionError::NotYours { .. }
        | DecisionError::TooLate { .. }
        | DecisionError::GoneOn { .. }
        | DecisionError::NoWayBack { .. } => return Ok(error.into()),
    };
    let name: String = actor.to_string().chars().take(NAME_CHARS).collect();
    let seen = seen.unwrap_or(decision.seq);
    let key = format!("refused-{}-{why}-{seen}-{name}", decision.id);
    store.note(decision.task, actor, REFUSED, &key, now)?;
    Ok(error.into())
}

pub(in crate::ops) fn only_a_person(actor: &Actor) -> Result<(), DecisionError> {
    person(actor)
}

/// The refusal of what comes after the question was settled.
pub(in crate::ops) fn settled(store: &Store, decision: &Decision) -> Result<OpsError, OpsError> {
    Ok(stale(store, decision, decision.seq)?.into())
}
