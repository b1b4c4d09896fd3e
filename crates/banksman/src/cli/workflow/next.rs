//! `banksman workflow next`: shows what to do now, and how to report it.

use clap::Args;

use super::{WhichArgs, standing};
use crate::api::workflow::Next;
use crate::cli::output::{sanitize, sanitize_lines};
use crate::cli::up::follow_up;
use crate::cli::{Context, Exit, Result, hints};
use crate::ops::tasks;
use crate::ops::workflows::{self, NextAction, NextActionKind};
use crate::store::Stored;

/// How many steps are explained at once.
const PARAGRAPHS: usize = 10;

/// Show what to do now, for a person or an agent that drives the workflow
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow next
  banksman workflow next --json     with the prompt and the report commands of each step
  banksman workflow next --json --known X-1,X-2   without the prompts of these steps
")]
pub(in crate::cli) struct NextArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Steps whose prompt you already have; they are listed without it
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    known: Vec<String>,
}

pub(super) fn run(context: &Context, args: &NextArgs) -> Result<Exit> {
    let session = context.session()?;
    let mut standing = standing(context, &session, args.which.workflow.as_deref())?;
    // Banksman starts nothing for it.
    if standing.steps.iter().any(Stored::is_driven_by_person) {
        follow_up(context, &session)?;
        let id = standing.workflow.task.id;
        let found = tasks::find(&session, id)?;
        standing = workflows::status(&session, &context.config.agents, found)?;
    }
    let mut todos = workflows::next(&standing);
    let is_known = |todo: &&mut NextAction| args.known.contains(&todo.step);
    todos.iter_mut().filter(is_known).for_each(|todo| todo.assignment = None);
    let parent = standing.workflow.state();
    context.out.answer(
        || Next::new(&standing.workflow, &todos, hints::command),
        || {
            if todos.is_empty() {
                let (id, name) = (standing.workflow.task.id, sanitize(&standing.flow.name));
                return format!("{id}  {name} is {}: nothing to do\n", parent.name);
            }
            paragraphs(&todos)
        },
    )
}

/// What people have to do comes before what Banksman does itself.
fn paragraphs(todos: &[NextAction]) -> String {
    let (waits, acts): (Vec<&NextAction>, Vec<&NextAction>) =
        todos.iter().partition(|todo| todo.kind == NextActionKind::Wait);
    let sorted: Vec<&NextAction> = acts.into_iter().chain(waits).collect();
    let mut text: String = sorted.iter().take(PARAGRAPHS).map(|todo| paragraph(todo)).collect();
    if let Some(more) = sorted.len().checked_sub(PARAGRAPHS).filter(|more| *more > 0) {
        text.push_str(&format!("... and {more} more (--json shows all)\n"));
    }
    text
}

fn paragraph(todo: &NextAction) -> String {
    let mut text = format!("{}  {}: {}\n", todo.task, sanitize(&todo.title), sanitize(&todo.what));
    if let Some(words) = &todo.assignment {
        for line in sanitize_lines(words).lines() {
            text.push_str(format!("    {line}").trim_end());
            text.push('\n');
        }
    }
    for suggestion in &todo.report {
        text.push_str(&format!("  {}\n", hints::command(suggestion)));
    }
    text.push('\n');
    text
}
