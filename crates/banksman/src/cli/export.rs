//! `banksman export`: writes every task as a line of JSON.

use clap::Args;

use super::output::json_line;
use super::{Context, Exit, Failure, Result};
use crate::api::task::Task;
use crate::ops::tasks;

/// Write every task as a line of JSON, for `banksman import`
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman export > tasks.jsonl
  banksman export | banksman --store other.db import
")]
pub(super) struct ExportArgs {}

pub(super) fn run(context: &Context, _: &ExportArgs) -> Result<Exit> {
    let session = context.session()?;
    context.out.stream(|out| {
        tasks::each_task(&session, |view| {
            writeln!(out, "{}", json_line(&Task::new(view))).map_err(Failure::Output)
        })
    })
}
