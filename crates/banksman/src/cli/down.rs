//! `banksman down`: stops the `up` of this home and, with `--agents`, its agents.

use std::env;

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
    // Which folder is that of the store is known once it is open; a broken one stops nothing here.
    drop(context.session());
    let pid = shutdown::stop_up(&caller, &agents.home)?;
    let mut stopped = StoppedJobs::default();
    if args.agents {
        let program = env::current_exe().map_err(Failure::Program)?;
        stopped = shutdown::stop_jobs(&caller, agents, &program)?;
    }
    let running = stopped.still_running.iter();
    let running: Vec<String> =
        running.map(|job| format!("{job} of {} is still running; try again", job.task())).collect();
    let unknown = stopped.unreadable.iter();
    let unknown: Vec<String> = unknown
        .map(|(job, error)| format!("{job} of {} is in an unknown state: {error}", job.task()))
        .collect();
    let left: Vec<&String> = running.iter().chain(&unknown).collect();
    let text = text(pid, args.agents, &stopped.ended, &left);
    let (code, failed) =
        if unknown.is_empty() { (Code::Unfinished, running) } else { (Code::File, unknown) };
    let document = || Stopped::new(pid, &stopped);
    let exit = report::answer(&context.out, code, failed, document, || text)?;
    Ok(if exit == Exit::Done { context.out.next(&["status", "up"]) } else { exit })
}

fn text(pid: Option<i32>, with_agents: bool, ended: &[JobId], left: &[&String]) -> String {
    let mut text = match pid {
        Some(pid) => format!("stopped `up`, process {pid}\n"),
        None => "`up` is not running here\n".to_owned(),
    };
    for job in ended {
        text.push_str(&format!("stopped {job} of {}\n", job.task()));
    }
    text.extend(left.iter().map(|line| format!("{line}\n")));
    if with_agents && ended.is_empty() && left.is_empty() {
        text.push_str("no agent was running\n");
    }
    text
}
