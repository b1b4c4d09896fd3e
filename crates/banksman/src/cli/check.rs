//! `banksman check`: checks the store for stuck or invalid tasks.

use clap::Args;

use super::output::sanitize;
use super::symbols::counted;
use super::{Context, Exit, Result, report};
use crate::api::store::Health;
use crate::clock;
use crate::ops::error_report::Code;
use crate::ops::health::{self, Repair};
use crate::store::health::{HealthFinding, HealthReport};

/// Check the store for stuck or invalid tasks
///
/// Finds every task that has not ended and that nothing will move on: no run, no timer, no open
/// decision, no subtask, no place in the queue, no task that it waits for, and no person. A task
/// that no worker of a live node can take is a warning. Exits with 5 if there are problems.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman check
  banksman check --repair
  banksman check --json
")]
pub(super) struct CheckArgs {
    /// Create missing timers, decisions and places in the queue again
    ///
    /// They follow from the lifecycle and the task. No task gets another state, and the history
    /// of each task says what was repaired.
    #[arg(long)]
    repair: bool,
}

pub(super) fn run(context: &Context, args: &CheckArgs) -> Result<Exit> {
    let (session, now) = (context.session()?, clock::now());
    let (repaired, report) = if args.repair {
        let Repair { repaired, report } = health::repair(&session, now)?;
        (repaired, report)
    } else {
        (Vec::new(), health::check(&session, now)?)
    };
    let (found, tasks) = (findings(&report), report.tasks);
    let mut text = lines(&named("repaired: ", &repaired));
    text += &lines(&named("warning: ", &report.warnings));
    text += &match found.len() {
        0 => format!("{tasks} tasks, no problems\n"),
        count => format!("{}{tasks} tasks, {}\n", lines(&found), counted(count, "problem")),
    };
    report::answer(&context.out, Code::Found, found, || Health::new(&report, &repaired), || text)
}

fn named(what: &str, findings: &[HealthFinding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{what}{}: {}", finding.task, finding.what)).collect()
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
