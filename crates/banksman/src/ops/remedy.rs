//! What a person can do about the failure of a task's last run, before they answer: each failure
//! that is not retried names the command that leads on.

use banksman_core::failure::FailureClass;
use banksman_core::ids::TaskId;
use banksman_core::time::Instant;

use super::principal::Operation;
use super::status::last_run;
use super::suggestion::Suggestion;
use super::why::NextStep;
use super::{OpsError, Session};
use crate::store::runs::PastRun;
use crate::store::{Store, Stored};

/// What to do first, if the task waits because of how its last run ended.
pub(super) fn remedy(store: &Store, stored: &Stored) -> Result<Option<NextStep>, OpsError> {
    let id = stored.task.id;
    let Some(last) = last_run(store, id)? else { return Ok(None) };
    let PastRun { worker, agent, .. } = &last;
    let Some(class) = last.class else { return Ok(None) };
    let (what, command) = match class {
        FailureClass::Auth => {
            let account = account_of(store, worker)?;
            let program = agent.as_deref().unwrap_or("its program");
            let what = format!(
                "log in to the account {account} by running {program} in a terminal, then end the pause"
            );
            (what, Suggestion::ResumeAccount(account))
        }
        FailureClass::Permission => (
            format!("allow the tool in the settings of the agent of {worker}, or in the policy"),
            Suggestion::ShowPolicy,
        ),
        FailureClass::Noop => (
            "cancel it if nothing is left to do, or say what is".to_owned(),
            Suggestion::Cancel(id),
        ),
        FailureClass::Unusable => (
            format!("correct what it names; `workers.{worker}.command` says what the worker runs"),
            Suggestion::ListSettings,
        ),
        FailureClass::Policy
        | FailureClass::Setup
        | FailureClass::Env
        | FailureClass::Quota
        | FailureClass::Test
        | FailureClass::Flaky
        | FailureClass::ModelLoop
        | FailureClass::Model
        | FailureClass::Budget
        | FailureClass::Stall
        | FailureClass::NeedsPerson
        | FailureClass::Infra
        | FailureClass::Session => return Ok(None),
    };
    Ok(Some(NextStep { what, suggestions: vec![command] }))
}

/// A worker that no machine has any more has an account of its own name, as one without a setting.
fn account_of(store: &Store, worker: &str) -> Result<String, OpsError> {
    let nodes = store.nodes()?;
    let mut workers = nodes.iter().flat_map(|node| &node.workers);
    let known = workers.find(|known| known.name == worker);
    Ok(known.map_or(worker, |known| known.account.as_str()).to_owned())
}

/// The account that the next run of a task waits for, because the provider refused its login, and
/// until when.
pub fn refused_account(
    session: &Session,
    id: TaskId,
    now: Instant,
) -> Result<Option<(String, Instant)>, OpsError> {
    let store = session.may_on(Operation::ReadTask, id)?;
    let last = last_run(store, id)?.filter(|last| last.class == Some(FailureClass::Auth));
    let Some(last) = last else { return Ok(None) };
    let (account, now) = (account_of(store, &last.worker)?, store.now(now)?);
    let paused = store.accounts()?.into_iter().find(|(name, _)| *name == account);
    let until = paused.and_then(|(_, row)| row.paused_until).filter(|until| *until > now);
    Ok(until.map(|until| (account, until)))
}
