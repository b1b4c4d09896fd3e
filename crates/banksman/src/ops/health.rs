//! Checks of the whole store.

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::health::HealthReport;

/// Looks for damaged rows and for tasks that nothing will move on.
pub fn check(session: &Session) -> Result<HealthReport, OpsError> {
    Ok(session.may(Operation::ReadStore)?.check()?)
}

/// Verifies the hash chain of the history, and that it leads to the tasks as they are.
pub fn verify_history(session: &Session) -> Result<HealthReport, OpsError> {
    Ok(session.may(Operation::ReadStore)?.verify_history()?)
}
