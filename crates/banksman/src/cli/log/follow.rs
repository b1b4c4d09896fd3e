//! Follows a task: its current run live, how it ended, and the next run if there is one.
//!
//! It sleeps until the run's folder or the store changes. A keeper that dies triggers no event, so
//! it also polls now and then.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::machine::{Driver, hold};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{LogArgs, LogPrinter, folder_of, past_run};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::output::sanitize;
use crate::cli::symbols::local_time;
use crate::clock;
use crate::exec::job::JobId;
use crate::exec::keeper::JobFolder;
use crate::exec::site::LocalSite;
use crate::store::Store;
use crate::store::conn::Waited;
use crate::store::runs::PastRun;

/// The longest time between two polls, for changes without an event.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The same on systems without file watches.
const POLL_INTERVAL_WITHOUT_WATCH: Duration = Duration::from_millis(500);
/// How long to wait for the judgement of a run that has ended. A pulse judges it; a running `up`
/// does so at once.
const JUDGEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long one wait for the store lasts.
const STORE_WAIT: Duration = Duration::from_secs(30);

/// `is_chosen`: the user named a run and not a task.
pub(super) fn follow(
    context: &Context,
    store: &Store,
    mut printer: LogPrinter,
    args: &LogArgs,
    is_chosen: bool,
) -> Result<(), Failure> {
    loop {
        let run = printer.run;
        printer.heading(context, &past_run(store, run)?);
        let folder = print_until_end(context, &mut printer)?;
        let past = judged(store, run)?;
        if let Some(folder) = &folder {
            printer.end(folder, &past)?;
        }
        if is_chosen || past.ended_at.is_none() {
            return Ok(());
        }
        let Some(next) = next_run(context, store, run)? else { return Ok(()) };
        let folder = wait_for_folder(context, next, &past_run(store, next)?)?;
        printer = LogPrinter::new(context, next, &folder, args)?;
    }
}

/// Prints a run until its keeper is gone. Its folder may be removed meanwhile.
fn print_until_end(
    context: &Context,
    printer: &mut LogPrinter,
) -> Result<Option<JobFolder>, Failure> {
    let home = &context.config.agents.home;
    let mut watch = Watch::new();
    let mut at = None;
    loop {
        let Some(folder) = LocalSite::find(home, JobId::Run(printer.run)) else { return Ok(None) };
        watch.on(folder.path());
        // Read before the log, so that nothing logged before the end is missed.
        let is_over = folder.receipt()?.is_some() || !folder.is_locked()?;
        printer.print_new(folder.path(), at)?;
        if is_over {
            printer.finish(at)?;
            return Ok(Some(folder));
        }
        watch.wait(POLL_INTERVAL);
        // What was logged before the first read may be hours old.
        at = Some(clock::now());
    }
}

/// The run with its outcome, or without one if no pulse judges it soon.
fn judged(store: &Store, run: RunId) -> Result<PastRun, Failure> {
    let until = clock::monotonic() + JUDGEMENT_TIMEOUT;
    loop {
        let mark = store.mark();
        let past = past_run(store, run)?;
        let left = until.saturating_duration_since(clock::monotonic());
        if past.ended_at.is_some() || left.is_zero() {
            return Ok(past);
        }
        let (Waited::Notified | Waited::TimedOut) = store.wait(mark, left);
    }
}

/// Waits for the run after this one; none when the task has ended or needs a person or other tasks.
fn next_run(context: &Context, store: &Store, last: RunId) -> Result<Option<RunId>, Failure> {
    let mut last_message = String::new();
    loop {
        let mark = store.mark();
        let detail = store.detail(last.task)?;
        let (task, lifecycle) = (&detail.stored.task, &detail.stored.lifecycle);
        if task.epoch > last.epoch {
            return Ok(Some(RunId { task: last.task, epoch: task.epoch }));
        }
        let state = &lifecycle.state(task.state).name;
        let next_timer = detail.timers.first().map(|timer| timer.due);
        let waits = match hold(lifecycle, task, next_timer) {
            Driver::Queue => "it waits for an agent".to_owned(),
            Driver::Lease(_) => "another worker has it".to_owned(),
            Driver::Timer(_) => match task.not_before {
                Some(at) => {
                    format!("attempt {} starts at {} or later", last.epoch + 1, local_time(at))
                }
                None => "it continues on its own".to_owned(),
            },
            Driver::Parts => "its subtasks are running".to_owned(),
            Driver::Parent(_) => return Ok(end(context, last.task, state, "it is done for now")),
            Driver::Ended => return Ok(end(context, last.task, state, "the task has ended")),
            Driver::Person => return Ok(end(context, last.task, state, "it waits for a person")),
            Driver::Needs(_) => {
                return Ok(end(context, last.task, state, "it waits for other tasks"));
            }
            Driver::Stranded => return Ok(end(context, last.task, state, "nothing will move it")),
        };
        let text = sanitize(&format!(
            "{} is in {state}: {waits}; press Ctrl-C to stop following",
            last.task
        ));
        if text != last_message {
            context.out.say(&text);
            last_message = text;
        }
        let (Waited::Notified | Waited::TimedOut) = store.wait(mark, STORE_WAIT);
    }
}

fn end(context: &Context, task: TaskId, state: &str, why: &str) -> Option<RunId> {
    context.out.say(&sanitize(&format!("{task} is in {state}: {why}")));
    context.out.next(&[&format!("why {task}"), &format!("show {task}")]);
    None
}

/// The folder of a run that was just claimed; its keeper starts a moment later.
pub(super) fn wait_for_folder(
    context: &Context,
    run: RunId,
    past: &PastRun,
) -> Result<JobFolder, Failure> {
    let agents = &context.config.agents;
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
    folder_of(context, run, past)
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
