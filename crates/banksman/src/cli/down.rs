//! `banksman down`: stops the `up` of this home and, with `--agents`, its agents.

use std::env;
use std::fmt::Display;

use clap::Args;

use super::{Context, Exit, Failure, Result, report};
use crate::api::run::Stopped;
use crate::ops::error_report::Code;
use crate::ops::shutdown::{self, JobId, StoppedJobs};

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
    let unreadable = stopped.unreadable.iter();
    let mut failed: Vec<String> = unreadable.map(|(job, error)| is_unknown(job, error)).collect();
    let mut code = Code::File;
    if failed.is_empty() {
        failed = stopped.still_running.iter().map(is_running).collect();
        code = Code::Unfinished;
    }
    let document = || Stopped::new(pid, &stopped);
    let exit =
        report::answer(&context.out, code, failed, document, || text(pid, args.agents, &stopped))?;
    Ok(if exit == Exit::Done { context.out.next(&["status", "up"]) } else { exit })
}

fn is_running(job: &JobId) -> String {
    format!("{job} of {} is still running; try again", job.task())
}

fn is_unknown(job: &JobId, error: &impl Display) -> String {
    format!("{job} of {} is in an unknown state: {error}", job.task())
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
        text.push_str(&format!("{}\n", is_running(job)));
    }
    for (job, error) in &agents.unreadable {
        text.push_str(&format!("{}\n", is_unknown(job, error)));
    }
    let is_unknown = !agents.unreadable.is_empty();
    if with_agents && !is_unknown && agents.ended.is_empty() && agents.still_running.is_empty() {
        text.push_str("no agent was running\n");
    }
    text
}
