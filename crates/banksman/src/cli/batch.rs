//! `banksman batch`: creates and changes batches, sets of tasks with a shared limit, budget and
//! pause switch.

use std::str::FromStr;

use banksman_core::limits;
use banksman_core::schedule::BudgetLimit;
use banksman_core::time::Span;
use clap::Args;

use super::arguments::ActorArgs;
use super::output::{cells, table};
use super::{Context, Exit, Failure, NoArgs, Result};
use crate::api;
use crate::api::batch::Batch as BatchDocument;
use crate::ops::capacity;
use crate::ops::error_report::Code;
use crate::ops::tasks::is_batch_name;
use crate::store::batches::{Batch, BatchChange, BudgetChange, NewBound};

commands! {
    /// Manage batches: sets of tasks that share limits
    #[command(before_long_help = "Examples:
  banksman batch create spring --concurrency 3
  banksman add 'Fix the login' --batch spring
  banksman batch list
  banksman batch pause spring
")]
    pub(super) enum BatchCommand(&Context) {
        /// Create a batch
        #[command(before_long_help = "Examples:
  banksman batch create spring --concurrency 3
  banksman batch create spring --cost 20
")]
        Create(BoundsArgs) => create,
        /// Change the limits of a batch; limits that are not given stay
        #[command(before_long_help = "Examples:
  banksman batch set spring --concurrency 6
  banksman batch set spring --cost 40
  banksman batch set spring --cost none
")]
        Set(BoundsArgs) => set,
        /// List all batches
        #[command(before_long_help = "Examples:
  banksman batch list
")]
        List(NoArgs) => list,
        /// Stop starting tasks of a batch; running agents continue
        #[command(before_long_help = "Examples:
  banksman batch pause spring
")]
        Pause(NameArgs) => pause,
        /// Start tasks of a batch again
        #[command(before_long_help = "Examples:
  banksman batch resume spring
")]
        Resume(NameArgs) => resume,
    }
}

#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// The batch
    #[arg(value_name = "NAME", value_parser = name)]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct BoundsArgs {
    #[command(flatten)]
    batch: NameArgs,
    /// How many of its tasks may run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: Option<u32>,
    /// Total runs allowed; `none` removes the limit
    #[arg(long, value_name = "N|none", value_parser = bound(count))]
    runs: Option<NewBound<i64>>,
    /// Total tokens allowed; `none` removes the limit
    #[arg(long, value_name = "N|none", value_parser = bound(count))]
    tokens: Option<NewBound<i64>>,
    /// Total cost allowed, in US dollars; `none` removes the limit
    #[arg(long, value_name = "DOLLARS|none", value_parser = bound(micros))]
    cost: Option<NewBound<i64>>,
    /// Total run time allowed; `none` removes the limit
    #[arg(long, value_name = "SPAN|none", value_parser = bound(Span::from_str))]
    time: Option<NewBound<Span>>,
}

/// The value that removes a limit.
const NO_BOUND: &str = "none";

/// More than any bill, and far from overflowing when counted in millionths.
const MOST_DOLLARS: f64 = 1e9;

fn create(context: &Context, args: &BoundsArgs) -> Result<Exit> {
    let (session, name) = (context.session_or_new(&ActorArgs::default())?, &args.batch.name);
    let created = capacity::create_batch(&session, name, wanted(args), context.now)?;
    let taken = || Failure::Invalid {
        code: Code::NameTaken,
        message: format!("there is a batch `{name}` already"),
        hint: format!("change it: banksman batch set {name}"),
    };
    print(context, name, Some(&created.ok_or_else(taken)?))
}

fn set(context: &Context, args: &BoundsArgs) -> Result<Exit> {
    change(context, &args.batch.name, wanted(args))
}

fn wanted(args: &BoundsArgs) -> BatchChange {
    let budget = BudgetChange {
        runs: args.runs.unwrap_or_default(),
        tokens: args.tokens.unwrap_or_default(),
        cost_micros: args.cost.unwrap_or_default(),
        time: args.time.unwrap_or_default(),
    };
    BatchChange { concurrency: args.concurrency, paused: None, budget }
}

fn pause(context: &Context, args: &NameArgs) -> Result<Exit> {
    change(context, &args.name, BatchChange { paused: Some(true), ..BatchChange::default() })
}

fn resume(context: &Context, args: &NameArgs) -> Result<Exit> {
    let batch = capacity::resume_batch(&context.session()?, &args.name, context.now)?;
    print(context, &args.name, batch.as_ref())
}

/// Accepts the same names as `add --batch`.
fn name(text: &str) -> Result<String, String> {
    if is_batch_name(text) {
        return Ok(text.to_owned());
    }
    let word = text.split_whitespace().collect::<Vec<_>>().join("-");
    let example = Some(word).filter(|word| is_batch_name(word));
    let example = example.map(|word| format!(", such as {word}")).unwrap_or_default();
    Err(format!("a batch name is one word of at most {} bytes{example}", limits::NAME_BYTES))
}

fn bound<T, E: ToString>(
    most: fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<NewBound<T>, String> + Clone {
    move |text| match text {
        NO_BOUND => Ok(NewBound::Lifted),
        most_of => most(most_of).map(NewBound::Most).map_err(|error| error.to_string()),
    }
}

fn count(text: &str) -> Result<i64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("expected a number of at least 1, or {NO_BOUND}"))
}

#[expect(clippy::cast_possible_truncation, reason = "the value is range-checked first")]
fn micros(text: &str) -> Result<i64, String> {
    let dollars = text.parse::<f64>().ok().filter(|dollars| (0.0..=MOST_DOLLARS).contains(dollars));
    let micros = dollars.map(|dollars| (dollars * 1e6).round() as i64);
    micros.ok_or_else(|| {
        format!(
            "expected an amount in dollars from 0 to {MOST_DOLLARS}, such as 2.50, or {NO_BOUND}"
        )
    })
}

fn change(context: &Context, name: &str, change: BatchChange) -> Result<Exit> {
    print(context, name, capacity::change_batch(&context.session()?, name, change)?.as_ref())
}

fn print(context: &Context, name: &str, batch: Option<&Batch>) -> Result<Exit> {
    let Some(batch) = batch else {
        let hint = format!("create it: banksman batch create {name}");
        return Err(Failure::unknown(format!("there is no batch `{name}`"), hint));
    };
    context.out.answer(|| BatchDocument::new(batch), || rows(std::slice::from_ref(batch)))?;
    Ok(context.out.next(&["batch list"]))
}

fn list(context: &Context, _: &NoArgs) -> Result<Exit> {
    let batches = capacity::batches(&context.session()?)?;
    context.out.answer(
        || api::list("batches", batches.iter().map(BatchDocument::new)),
        || if batches.is_empty() { "no batches\n".to_owned() } else { rows(&batches) },
    )
}

fn rows(batches: &[Batch]) -> String {
    let row = |batch: &Batch| {
        let state = if batch.paused { "paused" } else { "active" };
        let progress = format!("{} of {}", batch.done, batch.tasks);
        let running = format!("{} of {}", batch.running, batch.concurrency);
        let bounds: Vec<String> =
            batch.budget.limits(&batch.used).iter().map(BudgetLimit::to_string).collect();
        let (given_up, runs) = (batch.given_up, batch.used.runs);
        cells([&batch.name, &state, &progress, &running, &given_up, &runs, &bounds.join(", ")])
    };
    table(["BATCH", "", "DONE", "RUNNING", "GIVEN UP", "RUNS", "BUDGET"], batches.iter().map(row))
}
