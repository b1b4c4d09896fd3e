//! What limits the start of agents: the global pause, batches, accounts and machines.

use banksman_core::time::Instant;

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::accounts::AccountRow;
use crate::store::batches::{Batch, BatchChange};
use crate::store::nodes::Node;
use crate::store::runs::OpenRun;

/// Stops or resumes the start of agents, and returns how many are running.
pub fn set_paused(session: &Session, paused: bool, now: Instant) -> Result<usize, OpsError> {
    let store = session.may(Operation::RunAgents)?;
    store.set_paused(paused, &session.actor().to_string(), now)?;
    Ok(store.open_runs(None)?.len())
}

pub fn batches(session: &Session) -> Result<Vec<Batch>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.batches()?)
}

/// Creates a batch. `None` if there is one of this name.
pub fn create_batch(
    session: &Session,
    name: &str,
    change: BatchChange,
    now: Instant,
) -> Result<Option<Batch>, OpsError> {
    let store = session.may(Operation::RunAgents)?;
    Ok(if store.create_batch(name, change, now)? { store.batch(name)? } else { None })
}

/// Changes a batch. `None` if there is none of this name.
pub fn change_batch(
    session: &Session,
    name: &str,
    change: BatchChange,
) -> Result<Option<Batch>, OpsError> {
    let store = session.may(Operation::RunAgents)?;
    Ok(if store.set_batch(name, change)? { store.batch(name)? } else { None })
}

/// Starts the tasks of a paused batch again.
pub fn resume_batch(
    session: &Session,
    name: &str,
    now: Instant,
) -> Result<Option<Batch>, OpsError> {
    let store = session.may(Operation::RunAgents)?;
    Ok(if store.resume_batch(name, store.now(now)?)? { store.batch(name)? } else { None })
}

/// Every account that was ever paused.
pub fn accounts(session: &Session) -> Result<Vec<(String, AccountRow)>, OpsError> {
    Ok(session.may(Operation::ReadStore)?.accounts()?)
}

/// Ends the pause of an account. False if it was never paused.
pub fn resume_account(session: &Session, name: &str) -> Result<bool, OpsError> {
    Ok(session.may(Operation::RunAgents)?.resume_account(name)?)
}

/// The machines with their workers, and the current runs.
pub fn machines(session: &Session) -> Result<(Vec<Node>, Vec<OpenRun>), OpsError> {
    let store = session.may(Operation::ReadStore)?;
    Ok((store.nodes()?, store.open_runs(None)?))
}

/// Removes a machine that will not come back. False if it is unknown.
pub fn forget_machine(session: &Session, name: &str) -> Result<bool, OpsError> {
    Ok(session.may(Operation::RunAgents)?.remove_node(name)?)
}
