//! `banksman list`: tasks that fit, newest first.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::problem::nearest;
use clap::Args;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Cell, shown, table};
use super::signs::{about, ended_reviewers, style};
use crate::api::dto::{Task, TaskPage};
use crate::ops::tasks::{self, TaskListing};
use crate::store::Stored;
use crate::store::query::{Filter, PAGE, Progress};

/// List tasks, newest first
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman list
  banksman list --state blocked         a state, a group of states or a kind
  banksman list --project shop --tag bug
  banksman list --all                   also reviewers who have answered
  banksman list -q --state done         only ids
  banksman list --json --limit 100 --before t40
")]
pub(super) struct ListArgs {
    /// A state, a group of states or a kind (see `banksman help states`)
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only tasks of this batch
    #[arg(long, value_name = "NAME")]
    batch: Option<String>,
    /// Only tasks with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=PAGE))]
    limit: i64,
    /// Begin after this one, going back in time
    #[arg(long, value_name = "ID")]
    before: Option<TaskId>,
    /// Also the reviewers of panels who have come to their end; --json and -q always have them
    #[arg(long)]
    all: bool,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let filter = Filter {
        state: args.state.clone(),
        project: context.project_flag.clone(),
        batch: args.batch.clone(),
        tag: args.tag.clone(),
    };
    let store = context.store()?;
    if context.out.json {
        let (views, next) = tasks::page(&store, &filter, args.before, args.limit)?;
        let tasks = views.iter().map(Task::from).collect();
        context.out.json(&TaskPage { tasks, next: next.map(|id| id.to_string()) })?;
        return Ok(Exit::Done);
    }
    let has_all = args.all || context.out.quiet;
    let TaskListing { tasks, next, left_out } = if has_all {
        let (tasks, next) = store.list(&filter, args.before, args.limit)?;
        TaskListing { tasks, next, left_out: 0 }
    } else {
        tasks::listed(&store, &filter, args.before, args.limit)?
    };
    if context.out.quiet {
        let ids: String = tasks.iter().map(|stored| format!("{}\n", stored.task.id)).collect();
        context.out.text(&ids)?;
        return Ok(Exit::Done);
    }
    if tasks.is_empty() {
        context.out.say(&nothing(context, args)?);
        say_left_out(context, left_out);
        context.out.next(&["add 'TITLE'", "status"]);
        return Ok(Exit::Done);
    }
    let progress = store.progress(&tasks::ids(&tasks))?;
    let row = |stored: &Stored| row(context, stored, progress.get(&stored.task.id));
    let rows: Vec<Vec<Cell>> = tasks.iter().map(row).collect();
    context.out.text(&table(&["", "ID", "STATE", "SINCE", "PROJECT", "TITLE"], &rows))?;
    say_left_out(context, left_out);
    match next {
        Some(id) => context.out.next(&[&format!("list --before {id}")]),
        None => context.out.next(&["show ID", "why ID"]),
    }
    Ok(Exit::Done)
}

fn say_left_out(context: &Context, reviewers: i64) {
    if reviewers > 0 {
        context.out.say(&format!("left out: {}", ended_reviewers(reviewers)));
    }
}

/// No task fits; perhaps because there is no such state.
fn nothing(context: &Context, args: &ListArgs) -> Result<String, Failure> {
    let Some(state) = &args.state else { return Ok("no task fits".to_owned()) };
    let words = context.library().state_words()?;
    if words.contains(state) {
        return Ok("no task fits".to_owned());
    }
    let hint = match nearest(state, words.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "see `banksman help states`".to_owned(),
    };
    Ok(format!("no task fits, and no lifecycle here has a state `{}`; {hint}", shown(state)))
}

fn row(context: &Context, stored: &Stored, children: Option<&Progress>) -> Vec<Cell> {
    let task = &stored.task;
    let state = stored.lifecycle.state(task.state);
    let children = children.map(|children| format!(" ({} of {})", children.done, children.total));
    let text = format!("{}{}", state.name, children.unwrap_or_default());
    let signs = context.out.signs;
    let sign = match tasks::tried_again_at(stored) {
        Some(_) => signs.retrying_cell(),
        None => signs.sign_cell(state.kind),
    };
    vec![
        sign,
        task.id.to_string().into(),
        Cell { text, style: style(state.kind) },
        about(context.now.since(task.entered_at)).into(),
        task.project.as_str().into(),
        task.title.as_str().into(),
    ]
}
