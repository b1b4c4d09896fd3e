//! `banksman audit`: verifies or exports the history of all tasks.

use std::io::Write;
use std::path::PathBuf;

use banksman_core::ids::TaskId;
use clap::Args;

use super::output::json_line;
use super::symbols::counted;
use super::{Context, Exit, Failure, Result, check, files, report};
use crate::api::store::Verification;
use crate::api::task::Record;
use crate::ops::error_report::Code;
use crate::ops::{Session, health, tasks};

commands! {
    /// Verify or export the history of all tasks
    #[command(before_long_help = "Examples:
  banksman audit verify
  banksman audit export > transitions.jsonl
")]
    pub(super) enum AuditCommand(&Context) {
        Verify(VerifyArgs) => verify,
        Export(ExportArgs) => export,
    }
}

/// Verify every history: its hash chain, and that it leads to the stored state
///
/// The digest covers all histories. Store it elsewhere and pass it with --expect to detect even a
/// deleted task. Exits with 5 if something is wrong.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman audit verify
  banksman audit verify --expect 3f0a…
")]
pub(super) struct VerifyArgs {
    /// The digest that an earlier verification printed
    #[arg(long, value_name = "DIGEST")]
    expect: Option<String>,
}

/// Write the history as JSON lines, oldest first within each task
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman audit export
  banksman audit export t12 -o t12.jsonl
")]
pub(super) struct ExportArgs {
    /// Only this task
    id: Option<TaskId>,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn verify(context: &Context, args: &VerifyArgs) -> Result<Exit> {
    let report = health::verify_history(&context.session()?)?;
    let is_expected = args.expect.as_ref().is_none_or(|digest| *digest == report.digest);
    let mut found = check::findings(&report);
    let problems = match found.len() {
        0 => "no problems".to_owned(),
        found => counted(found, "problem"),
    };
    let differs = "the digest differs from the expected one: a task was added, changed or deleted";
    found.extend((!is_expected).then(|| differs.to_owned()));
    let text = format!(
        "{}{} tasks, {} records, {problems}\ndigest {}\n",
        check::lines(&found),
        report.tasks,
        report.records,
        report.digest
    );
    let document = || Verification::new(&report, args.expect.as_deref());
    report::answer(&context.out, Code::Found, found, document, || text)
}

fn export(context: &Context, args: &ExportArgs) -> Result<Exit> {
    let session = context.session()?;
    let write = |out: &mut dyn Write| write_records(&session, args.id, out);
    match &args.output {
        Some(path) => files::write(path, write).map(|()| Exit::Done),
        None => context.out.stream(write),
    }
}

fn write_records(session: &Session, id: Option<TaskId>, out: &mut dyn Write) -> Result<()> {
    let mut write = |id| {
        tasks::each_record(session, id, |entry| {
            writeln!(out, "{}", json_line(&Record::new(entry))).map_err(Failure::Output)
        })
    };
    match id {
        Some(id) => write(id),
        None => tasks::each_task(session, |view| write(view.stored.task.id)),
    }
}
