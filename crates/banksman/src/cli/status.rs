//! `banksman status`: the whole store at a glance.

use clap::Args;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, shown, table};
use super::signs::{kind_named, local, style};
use crate::api::dto;
use crate::store::query::Overview;

/// Show the whole store at a glance
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman status
  banksman status --json
")]
pub(super) struct StatusArgs {}

pub(super) fn run(context: &Context, _: &StatusArgs) -> Result<Exit, Failure> {
    let overview = context.store()?.overview()?;
    context.out.answer(|| dto::overview(&overview), || text(context, &overview))?;
    let command = if overview.states.is_empty() { "add 'TITLE'" } else { "list --state STATE" };
    context.out.next(&[command]);
    Ok(Exit::Done)
}

fn text(context: &Context, overview: &Overview) -> String {
    let row = |count: &crate::store::query::StateCount| -> Vec<Cell> {
        let kind = kind_named(&count.kind);
        let sign = kind.map(|kind| context.out.signs.sign_cell(kind)).unwrap_or_default();
        let state =
            Cell { style: kind.map(style).unwrap_or_default(), ..count.state.as_str().into() };
        vec![sign, state, count.kind.as_str().into(), count.tasks.to_string().into()]
    };
    let rows: Vec<Vec<Cell>> = overview.states.iter().map(row).collect();
    let mut text = if rows.is_empty() {
        "no tasks\n".to_owned()
    } else {
        table(&["", "STATE", "KIND", "TASKS"], &rows)
    };
    let mut fact =
        |name: &str, value: String| text.push_str(&format!("{name:<11}{}\n", shown(&value)));
    fact("ready", overview.ready.to_string());
    fact("decisions", format!("{} open", overview.open_decisions));
    let dead = if overview.dead_effects > 0 {
        format!(", {} given up", overview.dead_effects)
    } else {
        String::new()
    };
    fact("effects", format!("{} pending{dead}", overview.pending_effects));
    if let Some(due) = overview.next_timer {
        fact("next timer", local(due));
    }
    for (name, path) in &overview.projects {
        fact("project", format!("{name}  {path}"));
    }
    for batch in &overview.batches {
        let paused = if batch.paused { ", paused" } else { "" };
        fact(
            "batch",
            format!("{}  {} tasks, {} at once{paused}", batch.name, batch.tasks, batch.concurrency),
        );
    }
    text
}
