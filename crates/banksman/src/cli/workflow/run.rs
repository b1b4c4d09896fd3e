//! `banksman workflow run`: creates the tasks of a workflow and works until it ends or waits for a
//! person.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::Field;
use banksman_core::machine::Record;
use banksman_core::time::Instant;
use clap::Args;

use super::FileArgs;
use super::status::{Extent, render};
use crate::api;
use crate::cli::arguments::ActorArgs;
use crate::cli::output::sanitize;
use crate::cli::symbols::{counted, first_line, local_time};
use crate::cli::up::{drive, follow_up};
use crate::cli::{Context, Exit, Result, report};
use crate::ops::error_report::Code;
use crate::ops::workflows::{self, StartRequest, Started, WorkflowStatus};
use crate::ops::{Session, tasks};
use crate::store::Stored;
use crate::store::runs::PastRun;

/// Run a workflow: its steps become tasks
///
/// It works as `up` does until the workflow has ended or waits for a person; if an `up` is already
/// running, it only watches. After Ctrl-C running agents continue, and `banksman up` resumes the
/// workflow.
///
/// Exits with 0 if the workflow is complete, with 1 if it was aborted, and with 3 if it waits for a
/// person or was interrupted: `banksman workflow next` shows what to do. With --detach or --manual,
/// 0 means that it was started.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow run .workflow/specs/phase-4.yaml
  banksman workflow run build.yaml release.yaml --param version=1.2
  banksman workflow run phase-4.yaml --detach     only create the tasks; `up` runs them
  banksman workflow run phase-4.yaml --manual     do the steps yourself: see `workflow next`
  id=$(banksman -q workflow run phase-4.yaml --detach)
")]
pub(in crate::cli) struct RunArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Only create the tasks
    #[arg(long)]
    detach: bool,
    /// Start no agents: people do the steps, answer the gates and report both
    #[arg(long)]
    manual: bool,
    /// Higher runs first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Idempotency key: repeating the command with the same key returns the first answer
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(super) fn run(context: &Context, args: &RunArgs) -> Result<Exit> {
    let flows = workflows::load(&args.files.files, &args.files.params.params()?)?;
    let session = context.session_or_new(&ActorArgs::default())?;
    let project = context.project(&session)?;
    let request = StartRequest {
        project,
        priority: args.priority,
        manual: args.manual,
        key: args.key.clone(),
    };
    let started = workflows::start(&session, &context.library(), &flows, &request, context.now)?;
    for Started { workflow, steps, replayed } in &started {
        let again = if *replayed { " (already started with this key)" } else { "" };
        let id = workflow.task.id;
        let (title, steps) = (sanitize(&workflow.task.title), counted(steps.len(), "step"));
        context.out.say(&format!("{id}  {title}: {steps}{again}"));
    }
    let ids: Vec<TaskId> = started.iter().map(|started| started.workflow.task.id).collect();
    let files = &args.files.files;
    for warning in workflows::copy_specs(&session, &request.project, files, &flows)? {
        context.out.say(&sanitize(&warning));
    }
    let stays = !args.detach && !args.manual;
    match (args.manual, args.detach) {
        (true, _) => follow_up(context, &session)?,
        (false, false) => work_until_idle(context, &session, &ids)?,
        (false, true) => {}
    }
    let mut standings = Vec::new();
    for id in &ids {
        let found = tasks::find(&session, *id)?;
        standings.push(workflows::status(&session, &context.config.agents, found)?);
    }
    let (code, failed) = if stays { unfinished(&standings) } else { (Code::Unfinished, vec![]) };
    let document = || api::list("workflows", standings.iter().map(api::workflow::Workflow::new));
    let exit = report::answer(&context.out, code, failed, document, || {
        standings.iter().map(|standing| answer(context, standing)).collect::<Vec<_>>().join("")
    })?;
    say_next(context, args, &standings);
    Ok(exit)
}

fn answer(context: &Context, standing: &WorkflowStatus) -> String {
    if context.out.quiet {
        return format!("{}\n", standing.workflow.task.id);
    }
    render(context, standing, Extent::Folded)
}

/// What is not complete: a command after `workflow run FILE &&` must not start before all is.
fn unfinished(standings: &[WorkflowStatus]) -> (Code, Vec<String>) {
    let left =
        standings.iter().map(|standing| (standing.workflow.task.id, standing.workflow.state()));
    let left: Vec<_> = left.filter(|(_, state)| state.kind != StateKind::Done).collect();
    let is_aborted =
        left.iter().any(|(_, at)| matches!(at.kind, StateKind::Cancelled | StateKind::Failed));
    let code = if is_aborted { Code::Incomplete } else { Code::Unfinished };
    (code, left.iter().map(|(id, state)| format!("{id} is in {}", state.name)).collect())
}

fn say_next(context: &Context, args: &RunArgs, standings: &[WorkflowStatus]) {
    let over = standings.iter().all(|standing| standing.workflow.state().terminal);
    let next: &[&str] = match (over, args.manual, args.detach) {
        (true, _, _) => &["workflow status"],
        (false, true, _) => &["workflow next"],
        (false, false, true) => &["up", "workflow status"],
        (false, false, false) => &["workflow next", "up"],
    };
    context.out.next(next);
}

/// Works until the workflow has ended or waits for a person.
fn work_until_idle(context: &Context, session: &Session, ids: &[TaskId]) -> Result<()> {
    let mut log = ProgressLog::default();
    let mut known: Vec<BTreeMap<TaskId, Stored>> = vec![BTreeMap::new(); ids.len()];
    drive(context, session, || {
        let mut moving = false;
        for (id, steps) in ids.iter().zip(&mut known) {
            let parent = tasks::find(session, *id)?;
            tasks::refresh_children(session, *id, steps)?;
            log.print_new(context, session, steps)?;
            moving |= workflows::is_moving(&parent, steps);
        }
        Ok(!moving)
    })
}

/// What was already printed.
#[derive(Default)]
struct ProgressLog {
    /// The last printed record of each step and review.
    printed: BTreeMap<TaskId, i64>,
    /// The reviews at the gate of each step.
    reviews: BTreeMap<TaskId, BTreeMap<TaskId, Stored>>,
}

/// When, which task, which record, and the text.
type Line = (Instant, TaskId, i64, String);

impl ProgressLog {
    /// Prints what has happened to the steps and their reviews since the last call.
    fn print_new(
        &mut self,
        context: &Context,
        session: &Session,
        steps: &BTreeMap<TaskId, Stored>,
    ) -> Result<()> {
        let mut lines = Vec::new();
        for step in steps.values() {
            let entries = self.new_records(session, step)?;
            // A step that has just left its gate may have done so because of a reviewer's last
            // action.
            if step.is_at_panel()
                || (!entries.is_empty() && self.reviews.contains_key(&step.task.id))
            {
                lines.extend(self.missed_answers(session, step)?);
            }
            for (at, seq, record) in entries {
                let text = if record.from.as_ref() == Some(&record.to) {
                    let failed = tasks::past_runs(session, step.task.id)?.into_iter();
                    let mut failed = failed.filter(|run| run.ended_at == Some(at));
                    failed.find(PastRun::has_failed).map(|run| first_line(&run.failure_line()))
                } else {
                    let told = [Field::Feedback, Field::Diagnostic, Field::Reason];
                    let why = told.into_iter().find_map(|field| record.text(field));
                    let why = why.map(|why| format!(": {}", first_line(why)));
                    Some(format!("{}{}", record.to, why.unwrap_or_default()))
                };
                let line = |text: String| {
                    let text = format!("{:<28} {}", sanitize(&step.task.title), sanitize(&text));
                    (at, step.task.id, seq, text)
                };
                lines.extend(text.map(line));
            }
        }
        lines.sort();
        for (at, id, _, text) in lines {
            context.out.say(&format!("{}  {:<5} {text}", local_time(at), id.to_string()));
        }
        Ok(())
    }

    /// The new records of a task, each with its time and its number.
    fn new_records(
        &mut self,
        session: &Session,
        stored: &Stored,
    ) -> Result<Vec<(Instant, i64, Record)>> {
        let printed = self.printed.entry(stored.task.id).or_insert(1);
        if *printed >= stored.task.version {
            return Ok(Vec::new());
        }
        let entries = tasks::records_after(session, stored.task.id, *printed)?;
        *printed = entries.last().map_or(*printed, |entry| entry.seq);
        Ok(entries.into_iter().map(|entry| (entry.ts, entry.seq, entry.record)).collect())
    }

    /// A line for each run of a reviewer that gave no answer.
    fn missed_answers(&mut self, session: &Session, step: &Stored) -> Result<Vec<Line>> {
        let mut reviews = self.reviews.remove(&step.task.id).unwrap_or_default();
        tasks::refresh_children(session, step.task.id, &mut reviews)?;
        let mut lines = Vec::new();
        for review in reviews.values() {
            let kind = |name: &str| {
                let id = review.lifecycle.find_state(name);
                id.map(|id| review.lifecycle.state(id).kind)
            };
            for (at, seq, record) in self.new_records(session, review)? {
                let from = record.from.as_deref().and_then(kind);
                let missed = match kind(&record.to) {
                    Some(StateKind::Blocked) if from == Some(StateKind::Working) => {
                        "will be asked again"
                    }
                    Some(StateKind::Failed) => "gave no answer",
                    Some(_) | None => continue,
                };
                // A record has only changed fields; the task has the others.
                let log = record.text(Field::Diagnostic);
                let why = first_line(log.or(review.text(Field::Diagnostic)).unwrap_or_default());
                let who = format!("{}: {}", sanitize(&step.task.title), review.reviewer());
                let text = format!("{:<28} {missed}: {}", sanitize(&who), sanitize(&why));
                lines.push((at, review.task.id, seq, text));
            }
        }
        self.reviews.insert(step.task.id, reviews);
        Ok(lines)
    }
}
