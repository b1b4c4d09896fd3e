//! `banksman workflow graph`: draws a workflow file, or the current state of a workflow.

use std::path::PathBuf;

use banksman_core::lifecycle::StateKind;
use banksman_core::time::Instant;
use banksman_core::workflow::Workflow;
use banksman_core::workflow::graph::{StepMark, StepMarks, graph};
use clap::Args;

use super::{ParamArgs, standing};
use crate::cli::drawing::DrawingArgs;
use crate::cli::symbols::format_span;
use crate::cli::{Context, Exit, Failure, Result, files};
use crate::ops::workflows::{self, WorkflowStatus};
use crate::store::Stored;

/// Draw a file, or the current state of a workflow
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow graph phase-4.yaml                 print Mermaid text
  banksman workflow graph phase-4.yaml -o phase-4.svg
  banksman workflow graph phase-4-search-index         draw its current state
  banksman workflow graph t12 --format svg > t12.svg
")]
pub(in crate::cli) struct GraphArgs {
    /// A file, or a started workflow: its name, or the id of its task [default: the last one
    /// started]
    #[arg(value_name = "FILE|WORKFLOW")]
    subject: Option<String>,
    #[command(flatten)]
    params: ParamArgs,
    #[command(flatten)]
    drawing: DrawingArgs,
}

pub(super) fn run(context: &Context, args: &GraphArgs) -> Result<Exit> {
    let (flow, marks) = subject(context, args)?;
    args.drawing.draw(context, &graph(&flow, &marks))
}

fn subject(context: &Context, args: &GraphArgs) -> Result<(Workflow, StepMarks)> {
    let params = args.params.params()?;
    if let Some(file) = args.subject.as_deref().filter(|word| files::is_yaml(word)) {
        let mut flows = workflows::load(&[PathBuf::from(file)], &params)?;
        return Ok((flows.remove(0), StepMarks::new()));
    }
    if !params.is_empty() {
        return Err(Failure::argument(
            "--param works with a file only; a started workflow already has its values",
            "remove it, or name the file",
        ));
    }
    let session = context.session()?;
    let WorkflowStatus { steps, flow, .. } = standing(context, &session, args.subject.as_deref())?;
    let mark = |(stored, id): (&Stored, &String)| (id.clone(), mark(stored, context.now));
    let marks = steps.iter().zip(flow.steps.iter().map(|step| &step.id)).map(mark).collect();
    Ok((flow, marks))
}

fn mark(stored: &Stored, now: Instant) -> StepMark {
    let (task, state) = (&stored.task, stored.state());
    let runs = task.spent.runs;
    let attempts = (runs > 0).then(|| format!("attempt {runs}"));
    // The time is only useful while something is going on.
    let since = match state.kind {
        StateKind::Working | StateKind::Reviewing | StateKind::Waiting | StateKind::Blocked => {
            Some(format_span(now.since(task.entered_at)))
        }
        StateKind::Queued
        | StateKind::Parked
        | StateKind::Done
        | StateKind::Failed
        | StateKind::Cancelled => None,
    };
    let note = attempts.into_iter().chain(since).collect::<Vec<_>>().join(", ");
    // The person is working on it, not being asked.
    let works_on_it = state.kind == StateKind::Waiting && stored.is_manual_step();
    let kind = if works_on_it { StateKind::Working } else { state.kind };
    StepMark { state: state.name.clone(), kind, note }
}
