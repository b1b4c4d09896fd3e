//! The state of a whole store as JSON.

use banksman_core::time::Instant;

use super::batch::Batch;
use super::task::ChildProgress;
use crate::ops::status::{
    ActiveRun, DiskUse, KeeperStatus, NeedsPerson, ParentProgress, PendingRetry, StatusPage,
    StatusSummary,
};
use crate::store::accounts::AccountRow;
use crate::store::query::{Overview, StateCount as CountRow};

documents! {
    /// The output of `status`.
    Status<'a>(page: &'a StatusPage, summary: &'a StatusSummary, overview: &'a Overview) {
        batches: Vec<Batch<'a>> = overview.batches.iter().map(Batch::new).collect(),
        dead_effects: i64 = overview.dead_effects,
        disk: Disk = Disk::new(page.home.disk),
        needs_person: Vec<Ask<'a>> = summary.asks.iter().map(Ask::new).collect(),
        next_timer: Option<Instant> = overview.next_timer,
        open_decisions: i64 = overview.open_decisions,
        parents: Vec<Parent<'a>> = summary.parents.iter().map(Parent::new).collect(),
        paused: bool = overview.paused,
        paused_accounts: Vec<PausedAccount<'a>> =
            overview.paused_accounts.iter().map(PausedAccount::new).collect(),
        pending_effects: i64 = overview.pending_effects,
        projects: Vec<Project<'a>> = overview.projects.iter().map(Project::new).collect(),
        ready: i64 = overview.ready,
        retrying: Vec<Retry<'a>> = summary.retries.iter().map(Retry::new).collect(),
        running: Vec<Running<'a>> = summary
            .at_work
            .iter()
            .map(|run| Running::new(run, page.job_statuses.get(&run.run)))
            .collect(),
        states: Vec<StateCount<'a>> = overview.states.iter().map(StateCount::new).collect(),
        worktrees: usize = page.home.worktrees,
    }

    Disk(disk: DiskUse) {
        bytes: u64 = disk.bytes,
        complete: bool = disk.complete,
    }

    /// What the keeper of a run last said.
    Live<'a>(status: &'a KeeperStatus) {
        cost_micros: Option<i64> = status.cost_micros,
        last: &'a str = &status.last,
        last_output_at: Option<Instant> = status.last_output_at,
        stage: &'static str = status.stage.as_str(),
        tokens: i64 = status.input_tokens + status.output_tokens,
    }

    Ask<'a>(ask: &'a NeedsPerson) {
        escalated: bool = ask.escalated,
        since: Instant = ask.since,
        state: &'a str = &ask.state,
        task: String = ask.task.to_string(),
        title: &'a str = &ask.title,
        until: Option<Instant> = ask.until,
        what: &'a str = &ask.what,
    }

    Parent<'a>(parent: &'a ParentProgress) {
        children: ChildProgress = ChildProgress::new(&parent.progress),
        state: &'a str = &parent.state,
        task: String = parent.task.to_string(),
        title: &'a str = &parent.title,
    }

    PausedAccount<'a>(named: &'a (String, AccountRow)) {
        name: &'a str = &named.0,
        reason: &'a str = &named.1.reason,
        until: Option<Instant> = named.1.paused_until,
    }

    Project<'a>(project: &'a (String, String)) {
        name: &'a str = &project.0,
        path: &'a str = &project.1,
    }

    Retry<'a>(retry: &'a PendingRetry) {
        attempt: i64 = retry.attempt,
        last_error: &'a str = &retry.error,
        last_outcome: &'a str = retry.outcome,
        next_try_at: Instant = retry.at,
        state: &'a str = &retry.state,
        task: String = retry.task.to_string(),
        title: &'a str = &retry.title,
    }

    Running<'a>(active: &'a ActiveRun, status: Option<&'a KeeperStatus>) {
        attempt: i64 = active.run.epoch,
        live: Option<Live<'a>> = status.map(Live::new),
        node: Option<&'a str> = active.node.as_deref(),
        run: String = active.run.to_string(),
        started_at: Instant = active.started_at,
        state: &'a str = &active.state,
        task: String = active.run.task.to_string(),
        title: &'a str = &active.title,
        worker: &'a str = &active.worker,
    }

    StateCount<'a>(count: &'a CountRow) {
        kind: &'a str = &count.kind,
        state: &'a str = &count.state,
        tasks: i64 = count.tasks,
    }

    /// Whether agents are started, and how many work.
    Switch(is_paused: bool, running: usize) {
        paused: bool = is_paused,
        running: usize = running,
    }
}
