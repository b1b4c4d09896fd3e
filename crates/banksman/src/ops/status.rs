//! The present state of the store: running agents, pending retries, and what waits for people; on
//! this machine also what its agents are doing and how much disk they use.
//!
//! It only reads, and every list is bounded, so that the page stays short with thousands of tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::StateKind;
use banksman_core::machine::{Actor, WaitsFor, waits_for};
use banksman_core::time::Instant;

use super::decisions::open_items;
use super::principal::Operation;
use super::rest::rest;
use super::{OpsError, Session};
use crate::clock;
use crate::config::Agents;
use crate::exec::job::JobId;
use crate::exec::site::LocalSite;
use crate::exec::worktree::mark;
use crate::exec::worktree::removal::disk_use;
use crate::store::query::{Filter, Overview, Progress};
use crate::store::runs::PastRun;
use crate::store::{Store, Stored};

pub use crate::exec::keeper::{KeeperStatus, Stage};
pub use crate::exec::worktree::removal::DiskUse;

/// How many files are counted before the disk usage is only a lower bound.
const DISK_ENTRIES: u64 = 20_000;
/// Most entries of each list.
pub const SHOWN: usize = 50;
/// Delayed tasks that are searched for those that are to be tried again.
const DELAYED: i64 = 200;

/// The whole page, from the store and from the folders of this machine.
#[derive(Debug, Clone)]
pub struct StatusPage {
    pub summary: StatusSummary,
    /// The job statuses of this machine's runs, by run.
    pub job_statuses: BTreeMap<RunId, KeeperStatus>,
    pub home: HomeUse,
}

/// Worktrees and disk usage of this machine, wherever they are.
#[derive(Debug, Clone, Copy)]
pub struct HomeUse {
    pub worktrees: usize,
    pub disk: DiskUse,
}

#[derive(Debug, Clone)]
pub struct StatusSummary {
    pub overview: Overview,
    /// The longest running first; `overview.running` counts all.
    pub at_work: Vec<ActiveRun>,
    /// The next one first.
    pub retries: Vec<PendingRetry>,
    /// Those with a deadline in the order of their decisions, then the others.
    pub asks: Vec<NeedsPerson>,
    /// The latest first.
    pub parents: Vec<ParentProgress>,
}

/// A run with its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveRun {
    pub run: RunId,
    pub title: String,
    pub state: String,
    pub worker: String,
    /// None for an external worker.
    pub node: Option<String>,
    pub started_at: Instant,
}

/// A task that rests and goes on by itself: its last run has failed and is retried, or something
/// was missing and is asked for again. It is neither running nor failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRetry {
    pub task: TaskId,
    pub title: String,
    pub state: String,
    /// The number of the next attempt.
    pub attempt: i64,
    pub at: Instant,
    /// How the last run ended; empty if it rests for another reason.
    pub outcome: &'static str,
    pub error: String,
}

/// A task that has not ended and whose children do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentProgress {
    pub task: TaskId,
    pub title: String,
    pub state: String,
    pub progress: Progress,
}

/// A task that only a person can move on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsPerson {
    pub task: TaskId,
    pub title: String,
    pub state: String,
    pub what: String,
    pub since: Instant,
    pub until: Option<Instant>,
    /// Something went wrong, or the reviewers could not agree.
    pub escalated: bool,
}

impl StatusSummary {
    /// How many of the tasks in each state wait for a retry.
    pub fn retries_by_state(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for retry in &self.retries {
            *counts.entry(retry.state.as_str()).or_default() += 1;
        }
        counts
    }
}

pub fn page(session: &Session, agents: &Agents) -> Result<StatusPage, OpsError> {
    let summary = summary(session)?;
    let (job_statuses, home) = (job_statuses(agents, &summary), home_use(agents, &summary));
    Ok(StatusPage { summary, job_statuses, home })
}

/// The job statuses of this machine's runs. One that cannot be read is left out.
pub fn job_statuses(agents: &Agents, summary: &StatusSummary) -> BTreeMap<RunId, KeeperStatus> {
    let job_status = |at_work: &ActiveRun| {
        let folder = LocalSite::find(&agents.home, JobId::Run(at_work.run))?;
        Some((at_work.run, folder.status().ok()??))
    };
    summary.at_work.iter().filter_map(job_status).collect()
}

/// Counts files, which is slow. A folder that cannot be read counts as empty.
pub fn home_use(agents: &Agents, summary: &StatusSummary) -> HomeUse {
    let home: &Path = &agents.home;
    let repos: Vec<PathBuf> =
        summary.overview.projects.iter().map(|(_, path)| PathBuf::from(path)).collect();
    let worktrees = mark::worktrees(home, &repos).unwrap_or_default();
    let mut disk = disk_use(home, DISK_ENTRIES);
    let real_home = home.canonicalize().unwrap_or_else(|_| home.to_path_buf());
    let is_outside = |path: &&Path| !path.starts_with(home) && !path.starts_with(&real_home);
    for path in worktrees.iter().map(|worktree| worktree.path.as_path()).filter(is_outside) {
        let more = disk_use(path, DISK_ENTRIES - disk.entries);
        disk.bytes += more.bytes;
        disk.entries += more.entries;
        disk.complete &= more.complete;
    }
    HomeUse { worktrees: worktrees.len(), disk }
}

pub fn summary(session: &Session) -> Result<StatusSummary, OpsError> {
    let store = session.may(Operation::ReadStore)?;
    let (mut overview, retries) = (store.overview()?, retries(store)?);
    // The end of a rest need not be a timer.
    let next = retries.first().map(|retry| retry.at);
    overview.next_timer = overview.next_timer.into_iter().chain(next).min();
    Ok(StatusSummary {
        overview,
        at_work: at_work(store)?,
        retries,
        asks: asks(store, store.now(clock::now())?)?,
        parents: parents(store)?,
    })
}

fn at_work(store: &Store) -> Result<Vec<ActiveRun>, OpsError> {
    let mut open = store.open_runs(None)?;
    open.sort_by_key(|run| (run.started_at, run.run));
    let mut list = Vec::new();
    for open in open.into_iter().take(SHOWN) {
        let Some(stored) = store.readable_task(open.run.task)? else { continue };
        list.push(ActiveRun {
            run: open.run,
            state: state_of(&stored),
            title: stored.task.title,
            worker: open.worker,
            node: open.node,
            started_at: open.started_at,
        });
    }
    Ok(list)
}

fn retries(store: &Store) -> Result<Vec<PendingRetry>, OpsError> {
    let delayed: Vec<TaskId> = store.delayed(DELAYED)?.into_iter().map(|(id, _)| id).collect();
    let mut resting = Vec::new();
    for id in delayed {
        resting.extend(store.readable_task(id)?);
    }
    for kind in [StateKind::Waiting, StateKind::Blocked, StateKind::Failed] {
        let filter = Filter { state: Some(kind.as_str().to_owned()), ..Filter::default() };
        let (tasks, _) = store.list(&filter, None, DELAYED)?;
        resting.extend(tasks.into_iter().filter(|stored| stored.task.not_before.is_none()));
    }
    let mut list = Vec::new();
    for stored in resting {
        let Some(rest) = rest(store, &stored)? else { continue };
        list.push(PendingRetry {
            task: stored.task.id,
            state: state_of(&stored),
            title: stored.task.title,
            attempt: rest.attempt,
            at: rest.until,
            outcome: rest.outcome.map_or("", Outcome::as_str),
            error: rest.why,
        });
    }
    list.sort_by_key(|retry| (retry.at, retry.task));
    list.truncate(SHOWN);
    Ok(list)
}

fn asks(store: &Store, now: Instant) -> Result<Vec<NeedsPerson>, OpsError> {
    let mut list = Vec::new();
    let mut asked = BTreeSet::new();
    let reader = Actor::human("reader");
    for item in open_items(store, None, (&reader, now), SHOWN)? {
        let actions: Vec<&str> = item.possible().map(|offer| offer.action.as_str()).collect();
        asked.insert(item.decision.task);
        let then = match &item.decision.answer {
            Some(answer) => answer.in_words(),
            None => actions.join(", "),
        };
        list.push(NeedsPerson {
            task: item.decision.task,
            title: item.title(),
            state: state_of(&item.stored),
            what: format!("{} ({then})", item.decision.text()),
            since: item.decision.opened_at,
            until: item.decision.deadline,
            escalated: item.escalated,
        });
    }
    for kind in [StateKind::Waiting, StateKind::Blocked] {
        let filter = Filter { state: Some(kind.as_str().to_owned()), ..Filter::default() };
        let (tasks, _) = store.list(&filter, None, i64::try_from(SHOWN).unwrap_or(i64::MAX))?;
        for stored in tasks.into_iter().filter(|stored| !asked.contains(&stored.task.id)) {
            if list.len() < SHOWN && waits_for_a_person(store, &stored)? {
                list.push(unasked(store, stored)?);
            }
        }
    }
    Ok(list)
}

fn parents(store: &Store) -> Result<Vec<ParentProgress>, OpsError> {
    let ids = store.open_parents(i64::try_from(SHOWN).unwrap_or(i64::MAX))?;
    let progress = store.progress(&ids)?;
    let mut list = Vec::new();
    for task in ids {
        let (Some(stored), Some(progress)) = (store.readable_task(task)?, progress.get(&task))
        else {
            continue;
        };
        let state = state_of(&stored);
        list.push(ParentProgress { task, state, title: stored.task.title, progress: *progress });
    }
    Ok(list)
}

/// A blocked task may also wait for another task, a worker or a time.
fn waits_for_a_person(store: &Store, stored: &Stored) -> Result<bool, OpsError> {
    let next = store.timers_of(stored.task.id)?.first().map(|timer| timer.due);
    Ok(waits_for(&stored.lifecycle, &stored.task, next) == WaitsFor::Person)
}

/// A task that waits for a person without an open decision: how its last run ended explains it
/// best.
fn unasked(store: &Store, stored: Stored) -> Result<NeedsPerson, OpsError> {
    let last = last_run(store, stored.task.id)?.and_then(|last| last.detail);
    let state = state_of(&stored);
    Ok(NeedsPerson {
        task: stored.task.id,
        what: last.filter(|detail| !detail.is_empty()).unwrap_or_else(|| state.clone()),
        state,
        title: stored.task.title,
        since: stored.task.entered_at,
        until: None,
        escalated: false,
    })
}

pub(super) fn last_run(store: &Store, id: TaskId) -> Result<Option<PastRun>, OpsError> {
    Ok(store.past_runs(id, 1)?.pop().filter(|run| run.ended_at.is_some()))
}

fn state_of(stored: &Stored) -> String {
    stored.state().name.clone()
}
