//! Follows a task: its current run live, how it ended, and the next run if there is one.
//!
//! It sleeps until the run's folder or the store changes. A keeper that dies triggers no event, so
//! it also polls now and then.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use banksman_core::ids::RunId;
use banksman_core::machine::{WaitsFor, waits_for};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::log::{LogEntry, LogPart, LogReader, LogView, TakeLog};
use super::{folder, past};
use crate::clock;
use crate::config::Agents;
use crate::exec::job::JobId;
use crate::exec::keeper::JobFolder;
use crate::exec::site::LocalSite;
use crate::ops::OpsError;
use crate::ops::Session;
use crate::ops::principal::Operation;
use crate::store::conn::Waited;
use crate::store::runs::PastRun;

/// The longest time between two polls, for changes without an event.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The same on systems without file watches.
const POLL_INTERVAL_WITHOUT_WATCH: Duration = Duration::from_millis(500);
/// How long to wait for the outcome of a run that has ended. A pulse determines it; a running `up`
/// does so at once.
const JUDGEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long one wait for the store lasts.
const STORE_WAIT: Duration = Duration::from_secs(30);

/// Passes on a run's log until the run has ended, and then that of the runs after it, until the
/// task ends or needs a person. `only_this`: the user named a run and not a task.
pub fn follow<E: From<OpsError>>(
    session: &Session,
    agents: &Agents,
    (mut run, only_this): (RunId, bool),
    view: LogView,
    take: &mut TakeLog<'_, E>,
) -> Result<(), E> {
    loop {
        let begun = past(session, run)?;
        let mut log = LogReader::new(run, &wait_for_folder(agents, run, &begun)?, view, take)?;
        log.begin(&begun)?;
        let folder = read_until_end(agents, &mut log)?;
        let judged = judged(session, run)?;
        if let Some(folder) = &folder {
            log.end(folder, &judged)?;
        }
        if only_this || judged.ended_at.is_none() {
            return Ok(());
        }
        let Some(next) = next_run(session, run, take)? else { return Ok(()) };
        run = next;
    }
}

/// Reads the log of a run until its keeper is gone. Its folder may be removed meanwhile.
fn read_until_end<E: From<OpsError>>(
    agents: &Agents,
    log: &mut LogReader<'_, E>,
) -> Result<Option<JobFolder>, E> {
    let mut watch = Watch::new();
    loop {
        let job = JobId::Run(log.run);
        let Some(folder) = LocalSite::find(&agents.home, job) else { return Ok(None) };
        watch.on(folder.path());
        // Read before the log, so that nothing logged before the end is missed.
        let receipt = folder.receipt().map_err(OpsError::from)?;
        let is_over = receipt.is_some() || !folder.is_locked().map_err(OpsError::from)?;
        log.read_new(folder.path())?;
        if is_over {
            log.finish()?;
            return Ok(Some(folder));
        }
        watch.wait(POLL_INTERVAL);
        // What was logged before the first read may be hours old.
        log.at = Some(clock::now());
    }
}

/// The run with its outcome, or without one if no pulse determines it soon.
fn judged(session: &Session, run: RunId) -> Result<PastRun, OpsError> {
    let until = clock::monotonic() + JUDGEMENT_TIMEOUT;
    loop {
        let mark = session.mark();
        let past = past(session, run)?;
        let left = until.saturating_duration_since(clock::monotonic());
        if past.ended_at.is_some() || left.is_zero() {
            return Ok(past);
        }
        let (Waited::Notified | Waited::TimedOut) = session.wait(mark, left);
    }
}

/// Waits for the run after this one; none when the task has ended or needs a person or other tasks.
fn next_run<E: From<OpsError>>(
    session: &Session,
    last: RunId,
    take: &mut TakeLog<'_, E>,
) -> Result<Option<RunId>, E> {
    let mut told = None;
    loop {
        let mark = session.mark();
        let detail = session
            .may_on(Operation::ReadTask, last.task)?
            .detail(last.task)
            .map_err(OpsError::from)?;
        let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
        if task.epoch > last.epoch {
            return Ok(Some(RunId { task: last.task, epoch: task.epoch }));
        }
        let next_timer = detail.timers.first().map(|timer| timer.due);
        let waits_for = waits_for(lifecycle, task, next_timer);
        let goes_on = goes_on(&waits_for);
        let state = lifecycle.state(task.state).name.clone();
        let now = (state, waits_for, task.not_before);
        if told.as_ref() != Some(&now) {
            let (state, waits_for, not_before) = now.clone();
            let entry = LogEntry::Between { state, waits_for, not_before, goes_on };
            take(LogPart { run: last, at: None, entries: vec![entry] })?;
            told = Some(now);
        }
        if !goes_on {
            return Ok(None);
        }
        let (Waited::Notified | Waited::TimedOut) = session.wait(mark, STORE_WAIT);
    }
}

/// Whether another run may follow without a person or other tasks.
fn goes_on(waits_for: &WaitsFor) -> bool {
    match waits_for {
        WaitsFor::Queue | WaitsFor::Lease(_) | WaitsFor::Timer(_) | WaitsFor::Subtasks => true,
        WaitsFor::Parent(_) | WaitsFor::Ended | WaitsFor::Person => false,
        WaitsFor::Needs(_) | WaitsFor::Stranded => false,
    }
}

/// The folder of a run that was just claimed; its keeper starts a moment later.
fn wait_for_folder(agents: &Agents, run: RunId, past: &PastRun) -> Result<JobFolder, OpsError> {
    let is_ours = past.node.as_deref() == Some(agents.node.as_str());
    let mut watch = Watch::new();
    let until = clock::monotonic() + STORE_WAIT;
    while is_ours && LocalSite::find(&agents.home, JobId::Run(run)).is_none() {
        let left = until.saturating_duration_since(clock::monotonic());
        if left.is_zero() {
            break;
        }
        watch.on(&agents.home.join("runs"));
        watch.wait(left.min(POLL_INTERVAL_WITHOUT_WATCH));
    }
    folder(agents, run, past)
}

/// Wakes when something in a folder changes.
struct Watch {
    receiver: Receiver<()>,
    sender: SyncSender<()>,
    watching: Option<RecommendedWatcher>,
}

impl Watch {
    fn new() -> Self {
        let (sender, receiver) = mpsc::sync_channel(1);
        Self { receiver, sender, watching: None }
    }

    /// Watches a folder from the first call on, also after it is renamed.
    fn on(&mut self, folder: &Path) {
        if self.watching.is_some() {
            return;
        }
        let sender = self.sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the log must not wake the reader. An error may mean that events were lost.
            if event.map_or(true, |event| !event.kind.is_access()) {
                // A full channel means that a wake-up is already pending.
                sender.try_send(()).unwrap_or_default();
            }
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        // The system limits the number of watches; without one, it polls more often.
        if let Ok(watcher) = watching {
            self.watching = Some(watcher);
            // Changes before the watch started trigger no event, so wake once.
            self.sender.try_send(()).unwrap_or_default();
        }
    }

    fn wait(&self, at_most: Duration) {
        let at_most = if self.watching.is_some() {
            at_most
        } else {
            at_most.min(POLL_INTERVAL_WITHOUT_WATCH)
        };
        match self.receiver.recv_timeout(at_most) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
