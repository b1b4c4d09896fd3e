//! Answers that are refused because of their caller, or of the version that the caller saw. They
//! change nothing, and each is recorded once.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Note, SettingName};
use banksman_core::machine::Actor;
use banksman_core::policy::Rank;
use banksman_core::time::Instant;

use super::answer::stale;
use super::{DecisionError, DecisionRef, find};
use crate::ops::principal::{Operation, Principal, RunCaller};
use crate::ops::{OpsError, Session};
use crate::store::Store;
use crate::store::query::Decision;

/// How much of a name a key contains, so that the rest fits beside it.
const NAME_CHARS: usize = 40;

/// The store, for an answer. Only a person may answer; any other attempt is refused and recorded.
pub(in crate::ops) fn may_answer(
    session: &Session,
    which: Option<DecisionRef>,
    now: Instant,
) -> Result<&Store, OpsError> {
    if let Ok(store) = session.may(Operation::AnswerDecision) {
        return Ok(store);
    }
    record_attempt(session, which, now)?;
    Err(not_a_person(session.principal()).into())
}

fn not_a_person(caller: &Principal) -> DecisionError {
    match caller {
        Principal::Run(_) => DecisionError::OfRun,
        Principal::Person(_) | Principal::Worker(_) | Principal::Keeper(_) | Principal::System => {
            DecisionError::NotAPerson(caller.actor())
        }
    }
}

/// Refuses every caller but a person, before anything is shown that only a person can continue
/// with.
pub fn require_person(session: &Session, now: Instant) -> Result<(), OpsError> {
    may_answer(session, None, now).map(|_| ())
}

/// The store, for a move. A run's move must not be the answer to an open decision, unless the run
/// works as a lead and the lifecycle lets leads approve. An attempt is recorded, whichever task it
/// is about.
pub(in crate::ops) fn may_move(
    session: &Session,
    id: TaskId,
    now: Instant,
) -> Result<&Store, OpsError> {
    let allowed = session.may_on(Operation::MoveTask, id);
    let Principal::Run(run) = session.principal() else { return allowed };
    if let Ok(store) = allowed
        && run.actor.role == Rank::Lead.as_str()
        && store.task(id)?.lifecycle.flag(SettingName::LeadMayApprove)
    {
        return Ok(store);
    }
    let last = session.unchecked().last_decision(id)?;
    if last.is_none_or(|last| last.settled.is_some()) {
        return allowed;
    }
    record_attempt(session, Some(DecisionRef::Task(id)), now)?;
    allowed.and_then(|_| Err(not_a_person(session.principal()).into()))
}

/// Records a forbidden attempt to answer: in the history of the task whose open decision it was
/// about, or else of the run's own task.
fn record_attempt(
    session: &Session,
    which: Option<DecisionRef>,
    now: Instant,
) -> Result<(), OpsError> {
    let store = session.unchecked();
    let (actor, own) = match session.principal() {
        // The name that a caller gives itself proves nothing, and chooses no history.
        Principal::Run(RunCaller { own, .. }) => {
            let name = own.map_or_else(|| "unknown".to_owned(), |run| run.to_string());
            (Actor { role: "run".to_owned(), name: Some(name) }, own.map(|run| run.task))
        }
        caller @ (Principal::Person(_)
        | Principal::Worker(_)
        | Principal::Keeper(_)
        | Principal::System) => (caller.actor(), None),
    };
    let asked = which.and_then(|which| find(store, which).ok());
    let asked = asked.filter(|decision| decision.settled.is_none());
    let about = asked.map(|decision| (decision.task, decision.id.to_string()));
    let about = about.into_iter().chain(own.map(|task| (task, "own".to_owned())));
    // An unreadable task has no history to write to; the answer is refused all the same.
    if let Some((task, which)) = about.into_iter().find(|(task, _)| store.task(*task).is_ok()) {
        let name: String = actor.to_string().chars().take(NAME_CHARS).collect();
        // Once for each decision and caller, and once for all that a run tries beside, so that
        // repeated attempts do not fill the history.
        let key = format!("refused-{which}-{name}");
        store.note(task, &actor, Note::AnswerRefused, &key, store.now(now)?)?;
    }
    Ok(())
}

/// Records the refusal of an answer to a settled decision or about an older version.
pub(super) fn record_refusal(
    store: &Store,
    actor: &Actor,
    decision: &Decision,
    seen: Option<i64>,
    error: &DecisionError,
    now: Instant,
) -> Result<(), OpsError> {
    let why = if let DecisionError::Settled { .. } = error {
        "settled"
    } else if let DecisionError::MovedOn { .. } = error {
        "stale"
    } else {
        return Ok(());
    };
    let name: String = actor.to_string().chars().take(NAME_CHARS).collect();
    let seen = seen.unwrap_or(decision.seq);
    let key = format!("refused-{}-{why}-{seen}-{name}", decision.id);
    store.note(decision.task, actor, Note::AnswerRefused, &key, now)?;
    Ok(())
}

/// The refusal of an answer to a settled decision.
pub(in crate::ops) fn settled(store: &Store, decision: &Decision) -> Result<OpsError, OpsError> {
    Ok(stale(store, decision, decision.seq)?.into())
}
