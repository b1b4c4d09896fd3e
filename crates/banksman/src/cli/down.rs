//! `banksman down`: stops the `up` of this home and, with `--agents`, its agents.

use std::env;

use clap::Args;

use super::{Context, Exit, Failure, Result};
use crate::api::run::Stopped;
use crate::ops::shutdown::{self, StoppedJobs};

/// Stop a running `up`; agents continue unless `--agents` is given
///
/// With `--agents`, every agent of this machine is asked to exit, and killed if it does not. Its
/// work so far stays in its worktree, and its task returns to the queue at the next pulse.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman down
  banksman down --agents
  banksman pause && banksman down --agents      stop all, start none until `resume`
")]
pub(super) struct DownArgs {
    /// Stop the agents of this machine as well
    #[arg(long)]
    agents: bool,
}

pub(super) fn run(context: &Context, args: &DownArgs) -> Result<Exit> {
    let (caller, agents) = (context.principal(), &context.config.agents);
    let pid = shutdown::stop_up(&caller, &agents.home)?;
    let mut stopped = StoppedJobs::default();
    if args.agents {
        let program = env::current_exe().map_err(Failure::Program)?;
        stopped = shutdown::stop_jobs(&caller, agents, &program)?;
    }
    context.out.answer(|| Stopped::new(pid, &stopped), || text(pid, args.agents, &stopped))?;
    if !stopped.unreadable.is_empty() {
        return Ok(Exit::Failed);
    }
    if !stopped.still_running.is_empty() {
        return Ok(Exit::GaveUp);
    }
    Ok(context.out.next(&["status", "up"]))
}

fn text(pid: Option<i32>, with_agents: bool, agents: &StoppedJobs) -> String {
    let mut text = match pid {
        Some(pid) => format!("stopped `up`, process {pid}\n"),
        None => "`up` is not running here\n".to_owned(),
    };
    for job in &agents.ended {
        text.push_str(&format!("stopped {job} of {}\n", job.task()));
    }
    for job in &agents.still_running {
        text.push_str(&format!("{job} of {} is still running; try again\n", job.task()));
    }
    for (job, error) in &agents.unreadable {
        text.push_str(&format!("{job} of {} is in an unknown state: {error}\n", job.task()));
    }
    let is_unknown = !agents.unreadable.is_empty();
    if with_agents && !is_unknown && agents.ended.is_empty() && agents.still_running.is_empty() {
        text.push_str("no agent was running\n");
    }
    text
}
