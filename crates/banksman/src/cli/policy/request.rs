//! `banksman policy request`: an agent requests a permission, for its own run or, from outside, for
//! the task it works on.

use std::path::Path;

use banksman_core::ids::{RunId, TaskId};
use clap::Args;

use super::ActionArgs;
use super::show::policy_here;
use crate::api::policy::Requested;
use crate::cli::arguments::ActorArgs;
use crate::cli::output::sanitize_lines;
use crate::cli::{Context, Exit, Failure, Result, report};
use crate::config::{EnvVars, Environment};
use crate::ops::error_report::Code;
use crate::ops::policy::{self, PermissionResult};
use crate::ops::reports::RunFolder;

/// Request a permission before an action
///
/// Exits with 0 if the agent may continue, and with 1 if a person is asked: then end your turn.
/// Inside a run it is for the task of that run; outside, name the task, and it moves to the state
/// where people are asked.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy request 'git push --force' --why 'the branch was rebased'
  banksman policy request --task t12 --as intern:ida --write migrations/7.sql
")]
pub(in crate::cli) struct RequestArgs {
    #[command(flatten)]
    action: ActionArgs,
    /// Why the action is needed
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    /// The task, if not inside a run
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &RequestArgs) -> Result<Exit> {
    let action = args.action.action();
    let environment = Environment::of_process()?;
    let run = environment.run();
    let own = run.as_deref().and_then(|run| run.parse::<RunId>().ok()).map(|run| run.task);
    // The request of a run for another task is refused below, like that of any other caller.
    if let Some(folder) = environment.get(EnvVars::RUN_FOLDER)
        && args.task.is_none_or(|task| Some(task) == own)
    {
        let token = environment.token_hash();
        let run = RunFolder::open(Path::new(folder), run.as_deref(), token.as_deref())?;
        return said(context, run.request_permission(&action, &args.why)?.as_deref());
    }
    let hint = "name it with --task; inside a run it is the run's task";
    let task = args.task.ok_or_else(|| Failure::argument("no task given", hint))?;
    let (session, what) = (context.session_as(&args.actor)?, (&action, args.why.as_str()));
    match policy::ask(&session, policy_here(context)?, task, what, context.now)? {
        PermissionResult::GoOn => said(context, None),
        PermissionResult::Waits { request, .. } => said(context, Some(&request.to_string())),
    }
}

fn said(context: &Context, request: Option<&str>) -> Result<Exit> {
    let asked = request.map(|_| "a person is asked; end your turn".to_owned());
    let text = match (&asked, request) {
        (Some(asked), Some(request)) => format!("{asked}\n{}\n", sanitize_lines(request)),
        _ => "continue\n".to_owned(),
    };
    let (code, asked) = (Code::NeedsPermission, asked.into_iter().collect());
    report::answer(&context.out, code, asked, || Requested::new(request), || text)
}
