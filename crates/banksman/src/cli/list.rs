//! `banksman list`: lists matching tasks, newest first.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::problem::nearest;
use clap::Args;

use super::output::{Cell, cells, sanitize, table};
use super::symbols::{counted, rough_span, style, unproven};
use super::{Context, Exit, Result};
use crate::api::task::{Task, TaskPage};
use crate::ops::rest::goes_on_by_itself;
use crate::ops::tasks::{self, TaskListing};
use crate::ops::{Session, projects};
use crate::store::Stored;
use crate::store::query::{Filter, PAGE, Progress};

/// List tasks, newest first
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman list
  banksman list --state blocked         by state, group of states or kind
  banksman list --project shop --tag bug
  banksman list --all                   with finished reviews
  banksman list -q --state done         print only ids
  banksman list --json --limit 100 --before t40
")]
pub(super) struct ListArgs {
    /// Only tasks in this state, group of states or kind (see `banksman help states`)
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only tasks of this batch
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// Only tasks with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// The maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=PAGE))]
    limit: i64,
    /// Only tasks older than this one
    #[arg(long, value_name = "ID")]
    before: Option<TaskId>,
    /// Also list finished reviews; --json and -q always do
    #[arg(long)]
    all: bool,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit> {
    let filter = Filter {
        state: args.state.clone(),
        project: context.project_flag.clone(),
        batch: args.batch.clone(),
        tag: args.tag.clone(),
    };
    let session = context.session()?;
    if context.out.json {
        let (views, next) = tasks::page(&session, &filter, args.before, args.limit)?;
        let tasks = views.iter().map(Task::new).collect();
        return context.out.json(&TaskPage { tasks, next: next.map(|id| id.to_string()) });
    }
    let is_hidden =
        if args.all || context.out.quiet { |_: &Stored| false } else { tasks::is_finished_review };
    let TaskListing { tasks, next, left_out } =
        tasks::listed(&session, &filter, args.before, args.limit, is_hidden)?;
    if context.out.quiet {
        let ids: String = tasks.iter().map(|stored| format!("{}\n", stored.task.id)).collect();
        return context.out.text(&ids);
    }
    if tasks.is_empty() {
        context.out.say(&empty_reason(context, &session, args)?);
        say_hidden(context, left_out);
        return Ok(context.out.next(&["add 'TITLE'", "status"]));
    }
    let progress = tasks::progress_of(&session, &tasks)?;
    let row = |stored: &Stored| row(context, stored, progress.get(&stored.task.id));
    context
        .out
        .text(&table(["", "ID", "STATE", "SINCE", "PROJECT", "TITLE"], tasks.iter().map(row)))?;
    say_hidden(context, left_out);
    Ok(match next {
        Some(id) => context.out.next(&[&format!("list --before {id}")]),
        None => context.out.next(&["show ID", "why ID"]),
    })
}

fn say_hidden(context: &Context, reviews: i64) {
    if reviews > 0 {
        context.out.say(&format!(
            "{} hidden (--all shows {})",
            counted(reviews, "finished review"),
            if reviews == 1 { "it" } else { "them" }
        ));
    }
}

/// Why the list is empty; perhaps there is no such project or state.
fn empty_reason(context: &Context, session: &Session, args: &ListArgs) -> Result<String> {
    if let Some(project) = &context.project_flag
        && !projects::is_set_up(session, project)?
    {
        let project = sanitize(project);
        return Ok(format!("no matching tasks, and no project `{project}` was set up here"));
    }
    let Some(state) = &args.state else { return Ok("no matching tasks".to_owned()) };
    let words = context.library().state_words()?;
    if words.contains(state) {
        return Ok("no matching tasks".to_owned());
    }
    let hint = match nearest(state, words.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "see `banksman help states`".to_owned(),
    };
    Ok(format!(
        "no matching tasks, and no lifecycle here has a state `{}`; {hint}",
        sanitize(state)
    ))
}

fn row(context: &Context, stored: &Stored, children: Option<&Progress>) -> [Cell; 6] {
    let task = &stored.task;
    let state = stored.lifecycle.state(task.state);
    let children = children.map(|children| format!(" ({} of {})", children.done, children.total));
    let text = format!("{}{}{}", state.name, children.unwrap_or_default(), unproven(stored));
    let symbols = context.out.symbols;
    let sign = match goes_on_by_itself(stored) {
        true => symbols.retrying_cell(),
        false => symbols.symbol_cell(state.kind),
    };
    let state = Cell { text, style: style(state.kind) };
    let since = rough_span(context.now.since(task.entered_at));
    cells([&sign, &task.id, &state, &since, &task.project, &task.title])
}
