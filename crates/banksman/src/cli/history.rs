//! `banksman history`: shows what happened to a task.

use banksman_core::ids::TaskId;
use clap::Args;

use super::output::{Cell, json_line, table};
use super::symbols::local;
use super::{Context, Exit, Failure, Result};
use crate::api::task::Record;
use crate::ops::tasks;

/// Show the history of a task, oldest record first
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman history t12
  banksman history t12 --json
")]
pub(super) struct HistoryArgs {
    /// The task
    id: TaskId,
}

pub(super) fn run(context: &Context, args: &HistoryArgs) -> Result<Exit> {
    let session = context.session()?;
    let mut records: Vec<Record> = Vec::new();
    tasks::each_record(&session, args.id, |entry| {
        records.push(Record::new(entry));
        Ok::<(), Failure>(())
    })?;
    context.out.answer(
        || &records,
        || {
            table(
                ["#", "TIME", "MOVE", "TRIGGER", "BY", "CHANGES"],
                records.iter().map(|record| row(context, record)),
            )
        },
    )?;
    Ok(context.out.next(&[&format!("show {}", args.id), &format!("audit export {}", args.id)]))
}

fn row(context: &Context, record: &Record) -> [Cell; 6] {
    let step = match &record.from {
        Some(from) if *from != record.to => {
            format!("{from} {} {}", context.out.symbols.arrow(), record.to)
        }
        Some(_) | None => record.to.clone(),
    };
    let changes: Vec<String> =
        record.fields.iter().map(|(name, value)| format!("{name}={}", json_line(value))).collect();
    let seq = record.seq.to_string();
    let actor = record.actor.as_str();
    [
        seq.into(),
        local(record.ts).into(),
        step.into(),
        record.trigger.as_str().into(),
        actor.into(),
        changes.join(" ").into(),
    ]
}
