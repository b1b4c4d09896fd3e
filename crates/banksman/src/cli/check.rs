//! `banksman check`: checks the store for stuck or invalid tasks.

use clap::Args;

use super::output::sanitize;
use super::symbols::counted;
use super::{Context, Exit, Result, report};
use crate::api::store::Health;
use crate::ops::error_report::Code;
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
    let (found, tasks) = (findings(&report), report.tasks);
    let text = match found.len() {
        0 => format!("{tasks} tasks, no problems\n"),
        count => format!("{}{tasks} tasks, {}\n", lines(&found), counted(count, "problem")),
    };
    report::answer(&context.out, Code::Found, found, || Health::new(&report), || text)
}

/// Each problem in words.
pub(super) fn findings(report: &HealthReport) -> Vec<String> {
    let of_tasks = report.findings.iter();
    let of_tasks = of_tasks.map(|finding| format!("{}: {}", finding.task, finding.what));
    of_tasks.chain(report.faults.iter().cloned()).collect()
}

pub(super) fn lines(found: &[String]) -> String {
    found.iter().map(|line| format!("{}\n", sanitize(line))).collect()
}
