//! `banksman policy request`: an agent asks for leave, in its own run or for a task that it works
//! on from outside.

use banksman_core::ids::TaskId;
use clap::Args;
use serde_json::json;

use super::ActionArgs;
use super::show::policy_here;
use crate::cli::arguments::ActorArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::output::shown_lines;
use crate::config::{EnvVars, Environment};
use crate::mcp::{Permission, RunFolder};
use crate::ops::policy::{self, PermissionResult};

/// Ask for leave before an action
///
/// Exit code 0: go on. Exit code 1: a person is asked; end your turn. In an agent's run it is for
/// the task of that run; from outside it names the task and moves it to where people are asked.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman policy request 'git push --force' --why 'the branch was rebased'
  banksman policy request --task t12 --as intern:ida --write migrations/7.sql
")]
pub(super) struct RequestArgs {
    #[command(flatten)]
    action: ActionArgs,
    /// Why it is needed
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    /// The task, outside of a run
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    #[command(flatten)]
    actor: ActorArgs,
}

pub(super) fn run(context: &Context, args: &RequestArgs) -> Result<Exit, Failure> {
    let action = args.action.action();
    let environment = Environment::of_process()?;
    if let Some(folder) = environment.get(EnvVars::RUN_FOLDER) {
        let leave = RunFolder::new(folder.into()).request_permission(&action, &args.why);
        let leave = leave.map_err(|message| Failure::Input { message, hint: String::new() })?;
        return match leave {
            Permission::GoOn => said(context, None),
            Permission::Asked(request) => said(context, Some(&request)),
        };
    }
    let Some(task) = args.task else {
        return Err(Failure::Argument {
            message: "there is no task".to_owned(),
            hint: "name it with --task; in an agent's run it is that of the run".to_owned(),
        });
    };
    let (store, actor) = (context.store()?, context.actor(args.actor.actor.as_ref()));
    let (who, what) = ((task, &actor), (&action, args.why.as_str()));
    match policy::ask(&store, policy_here(context)?, who, what, context.now) {
        Ok(PermissionResult::GoOn) => said(context, None),
        Ok(PermissionResult::Waits { request, .. }) => said(context, Some(&request.to_string())),
        Err(error) => context.refused(error),
    }
}

fn said(context: &Context, request: Option<&str>) -> Result<Exit, Failure> {
    context.out.answer(
        || json!({ "goOn": request.is_none(), "request": request }),
        || match request {
            None => "go on\n".to_owned(),
            Some(request) => {
                format!("a person is asked; end your turn\n{}\n", shown_lines(request))
            }
        },
    )?;
    Ok(if request.is_none() { Exit::Done } else { Exit::Failed })
}
