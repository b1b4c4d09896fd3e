//! `banksman attach`: shows where an agent works and opens a window that follows it. It never
//! changes anything.

use std::env;
use std::path::PathBuf;

use banksman_core::ids::TaskId;
use clap::Args;

use super::output::facts;
use super::{Context, Exit, Failure, Result};
use crate::api::run::Location;
use crate::ops::runs::{self, RunLocation, WindowHost};

/// Show where an agent works: its worktree, branch, log, processes and session
///
/// `--tmux` or `--tabby` opens a window that follows the log. The agent does not notice, and you
/// can close the window at any time. To continue the session yourself, wait until the run has
/// ended, or stop it with `banksman cancel`.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman attach t12
  banksman attach t12 --tmux
  cd \"$(banksman attach t12 -q)\"
")]
pub(super) struct AttachArgs {
    /// The task
    id: TaskId,
    /// Open a tmux window that follows the log
    #[arg(long, conflicts_with = "tabby")]
    tmux: bool,
    /// Open a Tabby tab that follows the log
    #[arg(long)]
    tabby: bool,
}

pub(super) fn run(context: &Context, args: &AttachArgs) -> Result<Exit> {
    let session = context.session()?;
    let run = runs::last(&session, args.id)?;
    let location = RunLocation::of(&session, &context.config.agents, run)?;
    let host = match (args.tmux, args.tabby) {
        (true, _) => Some(WindowHost::Tmux),
        (false, true) => Some(WindowHost::Tabby),
        (false, false) => None,
    };
    if let Some(host) = host {
        let program = env::current_exe().map_err(Failure::Program)?;
        runs::open_window(&context.config, &program, host, run)?;
    }
    context.out.answer(
        || Location::new(&location, host),
        || match context.out.quiet {
            true => {
                let path = location.worktree.as_ref().unwrap_or(&location.folder);
                format!("{}\n", path.display())
            }
            false => text(&location),
        },
    )?;
    if let Some(host) = host {
        context.out.say(&format!("opened a {} window that follows {run}", host.as_str()));
    }
    Ok(context.out.next(&[&format!("log {} -f", args.id), &format!("why {}", args.id)]))
}

fn text(location: &RunLocation) -> String {
    let path = |path: &PathBuf| path.display().to_string();
    let pid = |pid: Option<i32>| pid.map(|pid| pid.to_string()).unwrap_or_default();
    let state = if location.keeper.is_some() { "running" } else { "not running" };
    facts([
        ("run", format!("{}, {state}", location.run)),
        ("worktree", location.worktree.as_ref().map(path).unwrap_or_default()),
        ("branch", location.branch.clone().unwrap_or_default()),
        ("log", path(&location.log)),
        ("keeper", pid(location.keeper)),
        ("agent", pid(location.agent)),
        ("session", location.session.clone().unwrap_or_default()),
        ("resume", location.resume_line().unwrap_or_default()),
    ])
}
