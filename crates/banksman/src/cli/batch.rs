//! `banksman batch`: tasks that belong together, how many of them run at once, and what they may use up.

use banksman_core::schedule::Budget;
use banksman_core::time::Span;
use clap::{Args, Subcommand};
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, table};
use crate::api::dto;
use crate::store::places::{Batch, BatchChange};

/// Tasks that belong together
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman batch create spring --concurrency 3
  banksman add 'Fix the login' --batch spring
  banksman batch list
  banksman batch pause spring
")]
pub(super) struct BatchArgs {
    #[command(subcommand)]
    command: BatchCommand,
}

#[derive(Debug, Subcommand)]
enum BatchCommand {
    /// Make a batch
    #[command(before_long_help = "Examples:
  banksman batch create spring --concurrency 3
  banksman batch create spring --cost 20
")]
    Create(BoundsArgs),
    /// Change the bounds of a batch; those that are not named stay
    #[command(before_long_help = "Examples:
  banksman batch set spring --concurrency 6
  banksman batch set spring --cost 40
")]
    Set(BoundsArgs),
    List(ListArgs),
    /// Start no more tasks of a batch; those at work go on
    #[command(before_long_help = "Examples:
  banksman batch pause spring
")]
    Pause(NameArgs),
    /// Let tasks of a batch be started again
    #[command(before_long_help = "Examples:
  banksman batch resume spring
")]
    Resume(NameArgs),
}

/// List all batches
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman batch list
")]
struct ListArgs {}

#[derive(Debug, Args)]
struct NameArgs {
    /// The batch
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
struct BoundsArgs {
    #[command(flatten)]
    batch: NameArgs,
    /// Tasks of it that run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: Option<u32>,
    /// Runs that it may use up in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    runs: Option<i64>,
    /// Tokens that it may use up in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    tokens: Option<i64>,
    /// US dollars that it may use up in all
    #[arg(long, value_name = "DOLLARS")]
    cost: Option<f64>,
    /// Time of runs that it may use up in all
    #[arg(long, value_name = "SPAN")]
    time: Option<Span>,
}

/// How many tasks of a batch run at once, if nothing else is said.
const CONCURRENCY: u32 = 4;
/// Far beyond every bill, and far below what does not fit as millionths.
const MOST_DOLLARS: f64 = 1e9;

pub(super) fn run(context: &Context, args: &BatchArgs) -> Result<Exit, Failure> {
    match &args.command {
        BatchCommand::Create(args) => {
            let name = &args.batch.name;
            let bounds = args.change()?;
            let at_once = args.concurrency.unwrap_or(CONCURRENCY);
            context.store_or_new()?.put_batch(name, i64::from(at_once), context.now)?;
            change(context, name, bounds)
        }
        BatchCommand::Set(args) => change(context, &args.batch.name, args.change()?),
        BatchCommand::Pause(args) => change(
            context,
            &args.name,
            BatchChange { paused: Some(true), ..BatchChange::default() },
        ),
        BatchCommand::Resume(args) => {
            let store = context.store()?;
            store.resume_batch(&args.name, store.now(context.now)?)?;
            change(context, &args.name, BatchChange::default())
        }
        BatchCommand::List(_) => list(context),
    }
}

impl BoundsArgs {
    fn change(&self) -> Result<BatchChange, Failure> {
        let cost_micros = self.cost.map(micros).transpose()?;
        let budget = Budget { runs: self.runs, tokens: self.tokens, cost_micros, time: self.time };
        let budget = Some(budget).filter(|budget| *budget != Budget::default());
        Ok(BatchChange { concurrency: self.concurrency, paused: None, budget })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is bounded first")]
fn micros(dollars: f64) -> Result<i64, Failure> {
    if (0.0..=MOST_DOLLARS).contains(&dollars) {
        return Ok((dollars * 1e6).round() as i64);
    }
    Err(Failure::Argument {
        message: format!("an amount of dollars is from 0 to {MOST_DOLLARS}"),
        hint: "for example --cost 2.50".to_owned(),
    })
}

fn change(context: &Context, name: &str, change: BatchChange) -> Result<Exit, Failure> {
    let store = context.store()?;
    let known = store.set_batch(name, change)?;
    let batches = store.batches()?;
    let Some(batch) = batches.iter().find(|batch| batch.name == name).filter(|_| known) else {
        return Err(Failure::Argument {
            message: format!("there is no batch `{name}`"),
            hint: format!("`banksman batch create {name}` makes it"),
        });
    };
    context.out.answer(|| dto::batch(batch), || rows(std::slice::from_ref(batch)))?;
    context.out.next(&["batch list"]);
    Ok(Exit::Done)
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let batches = context.store()?.batches()?;
    context.out.answer(
        || json!({ "batches": batches.iter().map(dto::batch).collect::<Vec<_>>() }),
        || if batches.is_empty() { "no batches\n".to_owned() } else { rows(&batches) },
    )?;
    Ok(Exit::Done)
}

fn rows(batches: &[Batch]) -> String {
    let row = |batch: &Batch| -> Vec<Cell> {
        let state = if batch.paused { "paused" } else { "active" };
        let progress = format!("{} of {}", batch.done, batch.tasks);
        let running = format!("{} of {}", batch.running, batch.concurrency);
        vec![
            batch.name.as_str().into(),
            state.into(),
            progress.into(),
            running.into(),
            batch.given_up.to_string().into(),
            batch.used.runs.to_string().into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = batches.iter().map(row).collect();
    table(&["BATCH", "", "DONE", "RUNNING", "GIVEN UP", "RUNS"], &rows)
}
