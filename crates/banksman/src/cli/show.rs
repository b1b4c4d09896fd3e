//! `banksman show`: prints everything about one task.

use banksman_core::failure::{FailureClass, ProofLevel};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::Value;
use banksman_core::lifecycle::{Outcome, StateKind};
use banksman_core::machine::Spent;
use banksman_core::time::Instant;
use clap::Args;

use super::arguments::ActorArgs;
use super::decisions::show::verdicts;
use super::output::{self, cells, json_line, sanitize, sanitize_lines, section, table};
use super::symbols::{
    counted, first_line, format_cost, format_span, format_tokens, format_usage, local, merged_as,
    progress, state_cell, style, unproven,
};
use super::{Context, Exit, Result};
use crate::api::task::{Run, Task, TaskDetail};
use crate::ops::decisions::on_record;
use crate::ops::tasks::{self, TaskPage, TaskView};
use crate::store::query::{Detail, Progress};
use crate::store::runs::PastRun;
use crate::store::{Edge, Stored};

/// Show everything about a task
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman show t12
  banksman show 12 --json
  banksman show t12 --as worker      with the moves that a worker may make
")]
pub(super) struct ShowArgs {
    /// The task
    id: TaskId,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Printed in words above the other fields.
const REVIEW_FIELDS: [Field; 2] = [Field::Verdicts, Field::Concerns];
/// Shown as the proof of the work, and as the place where it was merged.
const SAID_OTHERWISE: [Field; 3] = [Field::Verified, Field::Merged, Field::MergedAs];
/// How many children are shown.
const CHILDREN: usize = 20;

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let page = tasks::everything(&session, args.id, context.now)?;
    let TaskPage { detail, progress, allowed: allowed_transitions, runs: past, children, spent } =
        page;
    let view = TaskView { stored: detail.stored.clone(), needs: detail.needs.clone(), progress };
    let task = Task::new(&view);
    if context.out.json {
        let runs = past.iter().map(|run| Run::new(args.id, run)).collect();
        return context.out.json(&TaskDetail { task, allowed_transitions, runs });
    }
    let mut text = heading(context, &detail);
    text.push_str(&verdicts(context.out.symbols, &on_record(&detail.stored)));
    text.push_str(&facts(&detail, &task, (progress, spent), &past, &allowed_transitions));
    if !detail.stored.task.body.is_empty() {
        text.push_str(&format!("\n{}\n", sanitize_lines(detail.stored.task.body.trim_end())));
    }
    if progress.is_some() {
        text.push_str(&child_table(context, children));
    }
    text.push_str(&runs(args.id, &past, context.now));
    context.out.text(&text)?;
    let id = args.id;
    let log = (!past.is_empty()).then(|| format!("log {id}"));
    let others = [format!("why {id}"), format!("history {id}")];
    let moves = (!detail.stored.state().terminal).then(|| format!("move {id} STATE"));
    let next: Vec<String> = log.into_iter().chain(others).chain(moves).collect();
    Ok(context.out.next(&next))
}

fn heading(context: &Context, detail: &Detail) -> String {
    let task = &detail.stored.task;
    let state = detail.stored.lifecycle.state(task.state);
    let style = style(state.kind);
    format!(
        "{style}{}{style:#} {}  {}\n",
        context.out.symbols.of(state.kind),
        task.id,
        sanitize(&task.title)
    )
}

/// The properties of the task.
fn facts(
    detail: &Detail,
    shown_task: &Task,
    (children, spent): (Option<Progress>, Spent),
    past: &[PastRun],
    allowed: &[String],
) -> String {
    let task = &detail.stored.task;
    let state = detail.stored.lifecycle.state(task.state);
    let mut rows: Vec<(&str, String)> = Vec::new();
    let mut fact = |name, value| rows.push((name, value));
    let kind = if state.name == state.kind.as_str() {
        String::new()
    } else {
        format!(" ({})", state.kind)
    };
    let by = unproven(&detail.stored);
    fact("state", format!("{}{kind}{by} since {}", state.name, local(task.entered_at)));
    fact("lifecycle", format!("{} {}", shown_task.lifecycle, shown_task.lifecycle_version));
    fact("project", task.project.clone());
    fact("batch", task.batch.clone().unwrap_or_default());
    fact("tags", task.tags.join(", "));
    if task.priority != 0 {
        fact("priority", task.priority.to_string());
    }
    fact("parent", shown_task.parent.clone().unwrap_or_default());
    fact("children", children.map(progress).unwrap_or_default());
    // One run has a row of its own below.
    if children.is_some() && spent.runs > 0 {
        let used = format_usage(spent.tokens, spent.cost_micros);
        let with = [counted(spent.runs, "run"), used].join(", ");
        fact("spent", format!("{}, with its children", with.trim_end_matches(", ")));
    }
    for need in &detail.needs {
        fact(edge_label(need.edge), format!("{} {}: {}", need.task, need.state, need.title));
    }
    fact("not before", task.not_before.map(local).unwrap_or_default());
    if let Some(lease) = &shown_task.lease {
        fact(
            "run",
            format!("{} of {}, until {}", lease.run, lease.worker, local(lease.expires_at)),
        );
    }
    fact("proven by", proof(past).to_owned());
    let merged = detail.stored.merged_as();
    fact("work", merged.as_ref().map(merged_as).unwrap_or_default());
    // The verdicts are printed above, in words; a counter that has counted nothing says nothing.
    let is_silent = |name: &str, value: &Value| {
        let is_above = REVIEW_FIELDS.iter().any(|field| field.name() == name) && value.is_array();
        let counters = &detail.stored.lifecycle.counters;
        let said = if merged.is_some() { SAID_OTHERWISE.as_slice() } else { &[Field::Verified] };
        is_above
            || said.iter().any(|field| field.name() == name)
            || value == 0 && counters.iter().any(|counter| counter.name == name)
    };
    for (name, value) in shown_task.fields.iter().filter(|(name, value)| !is_silent(name, value)) {
        let text = value.as_str().map_or_else(|| json_line(value), str::to_owned);
        fact(name, text);
    }
    if let Some(decision) = &detail.decision {
        let actions: Vec<&str> =
            decision.offers.iter().map(|(action, _)| action.as_str()).collect();
        fact("question", format!("{} ({})", decision.asks, actions.join(", ")));
    }
    fact("added", local(task.created_at));
    fact("changed", format!("{}, version {}", local(task.updated_at), task.version));
    fact("allowed", allowed.join(", "));
    output::facts(rows)
}

/// The children in the order of their creation. If there are many, unfinished ones come first.
fn child_table(context: &Context, mut children: Vec<Stored>) -> String {
    children.retain(|child| !child.is_review());
    let all = children.len();
    if all > CHILDREN {
        children.sort_by_key(|child| child.state().kind == StateKind::Done);
        children.truncate(CHILDREN);
    }
    let row = |child: &Stored| {
        let (state, task) = (child.state(), &child.task);
        let sign = context.out.symbols.symbol_cell(state.kind);
        cells([&sign, &task.id, &state_cell(state), &task.title])
    };
    let more = match all - children.len() {
        0 => String::new(),
        more => format!("... and {more} more\n"),
    };
    format!("\n{}{more}", table(["", "CHILD", "STATE", "TITLE"], children.iter().map(row)))
}

/// The runs, oldest first, and how each ended.
/// How well the newest work that succeeded is proven.
fn proof(past: &[PastRun]) -> &'static str {
    let succeeded = |run: &&PastRun| run.outcome == Some(Outcome::Succeeded);
    match past.iter().rev().find(succeeded).and_then(|run| run.level) {
        Some(ProofLevel::Verified) => "all checks passed on the commit of the last run",
        Some(ProofLevel::Observed) => "there are commits; no checks ran",
        Some(ProofLevel::Claimed) | None => "",
    }
}

fn runs(task: TaskId, past: &[PastRun], now: Instant) -> String {
    let row = |run: &PastRun| {
        let outcome = match (&run.outcome, run.ended_at) {
            (Some(outcome), _) => outcome.as_str(),
            (None, Some(_)) => "ended",
            (None, None) => "running",
        };
        let took = run.ended_at.unwrap_or(now).since(run.started_at);
        cells([
            &RunId { task, epoch: run.epoch },
            &run.worker,
            &local(run.started_at),
            &format_span(took),
            &outcome,
            &run.class.map_or("", FailureClass::as_str),
            &format_tokens(run.tokens),
            &format_cost(run.cost_micros),
            &first_line(run.detail.as_deref().unwrap_or_default()),
        ])
    };
    let header =
        ["RUN", "WORKER", "STARTED", "TOOK", "OUTCOME", "CLASS", "TOKENS", "COST", "DETAIL"];
    section(header, past.iter().map(row))
}

/// Named as the flags of `banksman add`.
fn edge_label(edge: Edge) -> &'static str {
    match edge {
        Edge::Blocks => "after",
        Edge::Informs => "informed by",
    }
}
