//! `banksman status`: summarizes the session, running agents and open questions. It never changes
//! anything.

mod live;

use std::io::{self, IsTerminal};

use banksman_core::lifecycle::StateKind;
use banksman_core::time::{Instant, Span};
use clap::Args;

use super::output::{Cell, ToCell, cells, sanitize, section, table};
use super::symbols::{
    Symbols, counted, first_line, format_cost, format_span, format_tokens, local, progress, style,
};
use super::{Context, Exit, Result};
use crate::api::status::Status;
use crate::config::Config;
use crate::ops::status::{
    self, ActiveRun, HomeUse, NeedsPerson, ParentProgress, PendingRetry, Stage, StatusPage,
    StatusSummary,
};
use crate::store::query::StateCount;

/// Show the status: tasks by state, running agents, retries, and what needs you
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman status
  banksman status --watch        update live until you press q
  banksman status --json
")]
pub(super) struct StatusArgs {
    /// Update live until you press q; without a terminal, print once
    #[arg(short, long)]
    watch: bool,
}

pub(super) fn run(context: &Context, args: &StatusArgs) -> Result<Exit> {
    let session = context.session()?;
    let is_live = args.watch && !context.out.json && io::stdout().is_terminal();
    if is_live && io::stdin().is_terminal() {
        return live::watch(context, &session);
    }
    let page = status::page(&session, &context.config.agents)?;
    context.out.answer(
        || Status::new(&page, &page.summary, &page.summary.overview),
        || text(context.out.symbols, &context.config, &page, context.now),
    )?;
    let is_empty = page.summary.overview.states.is_empty();
    let mut next = vec![if is_empty { "add 'TITLE'" } else { "list --state STATE" }];
    if !page.summary.at_work.is_empty() {
        next.push("log ID -f");
    }
    Ok(context.out.next(&next))
}

fn text(symbols: Symbols, config: &Config, page: &StatusPage, now: Instant) -> String {
    let summary = &page.summary;
    let parts = [
        states(symbols, summary),
        facts(config, page, now),
        at_work(symbols, page, now),
        parents(&summary.parents),
        retries(symbols, &summary.retries, now),
        asks(symbols, &summary.asks, now),
    ];
    parts.concat()
}

fn states(symbols: Symbols, summary: &StatusSummary) -> String {
    let retrying = summary.retries_by_state();
    let row = |count: StateCount| {
        let kind = StateKind::ALL.into_iter().find(|kind| kind.as_str() == count.kind);
        let sign = kind.map(|kind| symbols.symbol_cell(kind)).unwrap_or_default();
        let state = Cell { style: kind.map(style).unwrap_or_default(), ..count.state.to_cell() };
        let retrying = retrying.get(count.state.as_str());
        let note = retrying.map(|tasks| format!("{} {tasks} to retry", symbols.retrying()));
        cells([&sign, &state, &count.kind, &count.tasks, &note.unwrap_or_default()])
    };
    let reviews = &summary.overview.ended_reviews;
    let shown = summary.overview.states.iter().map(|count| without(count, reviews));
    let rows: Vec<_> = shown.filter(|count| count.tasks > 0).map(row).collect();
    if rows.is_empty() {
        return "no tasks\n".to_owned();
    }
    table(["", "STATE", "KIND", "TASKS", ""], rows)
}

/// The count of tasks in a state without finished reviews.
fn without(count: &StateCount, reviews: &[StateCount]) -> StateCount {
    let is_same =
        |reviews: &&StateCount| reviews.state == count.state && reviews.kind == count.kind;
    let ended = reviews.iter().find(is_same).map_or(0, |reviews| reviews.tasks);
    StateCount { tasks: count.tasks - ended, ..count.clone() }
}

fn facts(config: &Config, page: &StatusPage, now: Instant) -> String {
    let overview = &page.summary.overview;
    let mut text = String::new();
    let mut fact =
        |name: &str, value: String| text.push_str(&format!("{name:<11}{}\n", sanitize(&value)));
    if overview.paused {
        fact("paused", "no agents start until `banksman resume`".to_owned());
    }
    let ended: i64 = overview.ended_reviews.iter().map(|reviews| reviews.tasks).sum();
    if ended > 0 {
        fact("hidden", format!("{} (banksman list --all)", counted(ended, "finished review")));
    }
    fact("ready", overview.ready.to_string());
    fact("running", overview.running.to_string());
    fact("decisions", format!("{} open", overview.open_decisions));
    let dead = if overview.dead_effects > 0 {
        format!(", {} failed for good", overview.dead_effects)
    } else {
        String::new()
    };
    fact("effects", format!("{} pending{dead}", overview.pending_effects));
    if let Some(due) = overview.next_timer {
        fact("next timer", local(due));
    }
    for (name, account) in &overview.paused_accounts {
        let wait =
            account.paused_until.map(|until| format_span(until.since(now))).unwrap_or_default();
        fact("account", format!("{name}  paused for {wait}: {}", first_line(&account.reason)));
    }
    for (name, path) in &overview.projects {
        fact("project", format!("{name}  {path}"));
    }
    for batch in &overview.batches {
        let paused = if batch.paused { ", paused" } else { "" };
        let count = batch.given_up;
        let given_up = if count > 0 { format!(", {count} given up") } else { String::new() };
        fact(
            "batch",
            format!(
                "{}  {} of {} done{given_up}, {} of {} running{paused}",
                batch.name, batch.done, batch.tasks, batch.running, batch.concurrency
            ),
        );
    }
    let HomeUse { worktrees, disk } = page.home;
    if worktrees > 0 {
        let at_least = if disk.complete { "" } else { "more than " };
        let size = disk.bytes / (1024 * 1024);
        fact("worktrees", format!("{worktrees}, {at_least}{size} MB including the home folder"));
    }
    let most = config.agents.worktrees.warn_above;
    if worktrees > usize::try_from(most).unwrap_or(usize::MAX) {
        fact("warning", format!("more than {most} worktrees; finished tasks release theirs"));
    }
    text
}

fn at_work(symbols: Symbols, page: &StatusPage, now: Instant) -> String {
    let row = |at_work: &ActiveRun| {
        let said = page.job_statuses.get(&at_work.run);
        let tokens = said.map(|said| format_tokens(said.input_tokens + said.output_tokens));
        let cost = said.and_then(|said| said.cost_micros).map(format_cost);
        let last = said.map(|said| first_line(&said.last)).filter(|last| !last.is_empty());
        cells([
            &symbols.symbol_cell(StateKind::Working),
            &at_work.run.task,
            &at_work.run,
            &at_work.run.epoch,
            &at_work.worker,
            &at_work.node.as_deref().unwrap_or_default(),
            &said.map_or("", |said| stage(said.stage)),
            &format_span(now.since(at_work.started_at)),
            &tokens.unwrap_or_default(),
            &cost.unwrap_or_default(),
            &last.unwrap_or_else(|| first_line(&at_work.title)),
        ])
    };
    let header =
        ["", "TASK", "RUN", "TRY", "WORKER", "NODE", "STAGE", "FOR", "TOKENS", "COST", "ACTIVITY"];
    section(header, page.summary.at_work.iter().map(row))
}

/// Parent tasks, and the progress of their children.
fn parents(parents: &[ParentProgress]) -> String {
    let row = |parent: &ParentProgress| {
        let (children, title) = (progress(parent.progress), first_line(&parent.title));
        cells([&parent.task, &parent.state, &children, &title])
    };
    section(["TASK", "STATE", "CHILDREN", "TITLE"], parents.iter().map(row))
}

/// Pending retries have their own symbol: such a task is neither running nor failed.
fn retries(symbols: Symbols, retries: &[PendingRetry], now: Instant) -> String {
    let row = |retry: &PendingRetry| {
        let wait = retry.at.since(now);
        let when =
            if wait > Span(0) { format!("in {}", format_span(wait)) } else { "now".to_owned() };
        let said = [retry.outcome.to_owned(), first_line(&retry.error)];
        let said = said.into_iter().filter(|text| !text.is_empty());
        let error = said.collect::<Vec<_>>().join(": ");
        let (sign, title) = (symbols.retrying_cell(), first_line(&retry.title));
        cells([&sign, &retry.task, &when, &retry.attempt, &title, &error])
    };
    section(["", "TASK", "NEXT TRY", "ATTEMPT", "TITLE", "LAST ERROR"], retries.iter().map(row))
}

fn asks(symbols: Symbols, asks: &[NeedsPerson], now: Instant) -> String {
    let row = |ask: &NeedsPerson| {
        let until = ask.until.map(|until| format_span(until.since(now))).unwrap_or_default();
        let mut sign = symbols.symbol_cell(StateKind::Waiting);
        if ask.escalated {
            // As in the list of decisions.
            sign.text = sign.text.repeat(2);
        }
        cells([
            &sign,
            &ask.task,
            &ask.state,
            &format_span(now.since(ask.since)),
            &until,
            &first_line(&ask.title),
            &first_line(&ask.what),
        ])
    };
    section(["", "TASK", "STATE", "FOR", "LEFT", "TITLE", "NEEDS YOU"], asks.iter().map(row))
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Prepare => "preparing",
        Stage::Agent => "agent",
        Stage::Evidence => "checking",
        Stage::Evaluate => "judging",
        Stage::Merge => "merging",
        Stage::CleanUp => "cleaning up",
    }
}
