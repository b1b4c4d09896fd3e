//! `banksman check`: checks the store for stuck or invalid tasks.

use clap::Args;

use super::output::sanitize;
use super::symbols::counted;
use super::{Context, Exit, Result};
use crate::api::store::Health;
use crate::ops::health;
use crate::store::health::HealthReport;

/// Check the store for stuck or invalid tasks
///
/// Exits with 5 if it finds any.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman check
  banksman check --json
")]
pub(super) struct CheckArgs {}

pub(super) fn run(context: &Context, _: &CheckArgs) -> Result<Exit> {
    let report = health::check(&context.session()?)?;
    context.out.answer(
        || Health::new(&report),
        || match report.findings.len() + report.faults.len() {
            0 => format!("{} tasks, no problems\n", report.tasks),
            found => format!(
                "{}{} tasks, {}\n",
                findings(&report),
                report.tasks,
                counted(found, "problem")
            ),
        },
    )?;
    Ok(exit(&report))
}

pub(super) fn findings(report: &HealthReport) -> String {
    let of_tasks = report.findings.iter();
    let of_tasks =
        of_tasks.map(|finding| format!("{}: {}\n", finding.task, sanitize(&finding.what)));
    of_tasks.chain(report.faults.iter().map(|fault| format!("{}\n", sanitize(fault)))).collect()
}

pub(super) fn exit(report: &HealthReport) -> Exit {
    if report.findings.is_empty() && report.faults.is_empty() { Exit::Done } else { Exit::Findings }
}
