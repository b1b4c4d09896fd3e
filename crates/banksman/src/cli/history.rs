//! `banksman history`: shows what happened to a task.

use banksman_core::ids::TaskId;
use clap::Args;

use super::output::{cells, json_line, table};
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
    context.out.answer(|| &records, || text(context, &records))?;
    Ok(context.out.next(&[&format!("show {}", args.id), &format!("audit export {}", args.id)]))
}

fn text(context: &Context, records: &[Record]) -> String {
    let arrow = context.out.symbols.arrow();
    let row = |record: &Record| {
        let step = match &record.from {
            Some(from) if *from != record.to => format!("{from} {arrow} {}", record.to),
            Some(_) | None => record.to.clone(),
        };
        let changes =
            record.fields.iter().map(|(name, value)| format!("{name}={}", json_line(value)));
        let (at, changes) = (local(record.ts), changes.collect::<Vec<_>>().join(" "));
        cells([&record.seq, &at, &step, &record.trigger, &record.actor, &changes])
    };
    table(["#", "TIME", "MOVE", "TRIGGER", "BY", "CHANGES"], records.iter().map(row))
}
