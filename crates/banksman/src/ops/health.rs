//! Checks of the whole store.

use banksman_core::time::Instant;

use super::principal::Operation;
use super::{OpsError, Session};
use crate::store::health::{HealthFinding, HealthReport};

/// Looks for damaged rows and for tasks that nothing will move on.
pub fn check(session: &Session, now: Instant) -> Result<HealthReport, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    let mut report = store.check()?;
    report.findings.extend(store.waiting_in_vain()?);
    report.warnings = store.unserved(store.now(now)?)?;
    Ok(report)
}

/// What a repair has made again, and what is left.
#[derive(Debug, Clone)]
pub struct Repair {
    pub repaired: Vec<HealthFinding>,
    pub report: HealthReport,
}

/// Makes timers, decisions and places in the queue again that are missing. It never chooses a
/// state.
pub fn repair(session: &Session, now: Instant) -> Result<Repair, OpsError> {
    let store = session.may(Operation::RepairStore)?;
    let now = store.now(now)?;
    let repaired = store.repair(&session.actor(), now)?;
    Ok(Repair { repaired, report: check(session, now)? })
}

/// Verifies the hash chain of the history, and that it leads to the tasks as they are.
pub fn verify_history(session: &Session) -> Result<HealthReport, OpsError> {
    Ok(session.may(Operation::ReadStore)?.verify_history()?)
}
