//! `banksman check`: proves that nothing in the store is stranded or impossible.

use clap::Args;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::shown;
use crate::api::dto;
use crate::store::health::HealthReport;

/// Prove that no task is stranded or impossible
///
/// Exit code 5 when something is found.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman check
  banksman check --json
")]
pub(super) struct CheckArgs {}

pub(super) fn run(context: &Context, _: &CheckArgs) -> Result<Exit, Failure> {
    let report = context.store()?.check()?;
    context.out.answer(
        || dto::report(&report),
        || match report.findings.len() + report.faults.len() {
            0 => format!("{} tasks, nothing found\n", report.tasks),
            found => format!("{}{} tasks, {found} found\n", findings(&report), report.tasks),
        },
    )?;
    Ok(exit(&report))
}

pub(super) fn findings(report: &HealthReport) -> String {
    let of_tasks = report.findings.iter();
    let of_tasks = of_tasks.map(|finding| format!("{}: {}\n", finding.task, shown(&finding.what)));
    of_tasks.chain(report.faults.iter().map(|fault| format!("{}\n", shown(fault)))).collect()
}

pub(super) fn exit(report: &HealthReport) -> Exit {
    if report.findings.is_empty() && report.faults.is_empty() { Exit::Done } else { Exit::Findings }
}
