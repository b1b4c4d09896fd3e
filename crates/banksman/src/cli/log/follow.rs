//! Following a task: its run as it happens, how it ended, and the next run if there is one.
//!
//! It sleeps until the run's folder or the store changes. A keeper that dies leaves no sign, so it
//! also looks now and then whether there still is one.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::machine::{Driver, hold};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{LogArgs, Shown, folder_of, past_run};
use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::output::shown;
use crate::cli::signs::local_time;
use crate::clock;
use crate::exec::job::JobId;
use crate::exec::keeper::JobFolder;
use crate::exec::site::LocalSite;
use crate::store::Store;
use crate::store::conn::Waited;
use crate::store::runs::PastRun;

/// The longest time without a look, for what gives no sign.
const LOOK: Duration = Duration::from_secs(2);
/// The same where the system has no watch to give.
const LOOK_WITHOUT_WATCH: Duration = Duration::from_millis(500);
/// A run that has ended is judged by a pulse, at once where `up` is at work.
const JUDGEMENT: Duration = Duration::from_secs(3);
/// How long a wait in the store lasts before the store is looked at again.
const SIT: Duration = Duration::from_secs(30);

/// `is_chosen`: one run was asked for and not the task.
pub(super) fn follow(
    context: &Context,
    store: &Store,
    mut shown: Shown,
    args: &LogArgs,
    is_chosen: bool,
) -> Result<(), Failure> {
    loop {
        let run = shown.run;
        shown.heading(context, &past_run(store, run)?);
        let folder = until_its_end(context, &mut shown)?;
        let past = judged(store, run)?;
        if let Some(folder) = &folder {
            shown.end(folder, &past)?;
        }
        if is_chosen || past.ended_at.is_none() {
            return Ok(());
        }
        let Some(next) = next_run(context, store, run)? else { return Ok(()) };
        let folder = begun(context, next, &past_run(store, next)?)?;
        shown = Shown::new(context, next, &folder, args)?;
    }
}

/// Shows a run until its keeper is gone. It may be put away meanwhile.
fn until_its_end(context: &Context, shown: &mut Shown) -> Result<Option<JobFolder>, Failure> {
    let home = &context.config.agents.home;
    let mut watch = Watch::new();
    let mut at = None;
    loop {
        let Some(folder) = LocalSite::find(home, JobId::Run(shown.run)) else { return Ok(None) };
        watch.on(folder.path());
        // Asked before the look at the log, so that nothing which stands in it is missed.
        let is_over = folder.receipt()?.is_some() || !folder.is_locked()?;
        shown.more(folder.path(), at)?;
        if is_over {
            shown.finish(at)?;
            return Ok(Some(folder));
        }
        watch.wait(LOOK);
        // What was there at the first look may be hours old.
        at = Some(clock::now());
    }
}

/// The run with its outcome, or as it is if nobody judges it soon.
fn judged(store: &Store, run: RunId) -> Result<PastRun, Failure> {
    let until = clock::monotonic() + JUDGEMENT;
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

/// Waits for the run after this one; none when the task is over, or when it does not go on by
/// itself.
fn next_run(context: &Context, store: &Store, last: RunId) -> Result<Option<RunId>, Failure> {
    let mut said = String::new();
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
            Driver::Lease(_) => "somebody else works on it".to_owned(),
            Driver::Timer(_) => match task.not_before {
                Some(at) => {
                    format!("attempt {} at {} the earliest", last.epoch + 1, local_time(at))
                }
                None => "it goes on by itself".to_owned(),
            },
            Driver::Parts => "its subtasks are at work".to_owned(),
            Driver::Parent(_) => return Ok(end(context, last.task, state, "it is done for now")),
            Driver::Ended => return Ok(end(context, last.task, state, "that is its end")),
            Driver::Person => return Ok(end(context, last.task, state, "it waits for a person")),
            Driver::Needs(_) => {
                return Ok(end(context, last.task, state, "it waits for other tasks"));
            }
            Driver::Stranded => return Ok(end(context, last.task, state, "nothing moves it on")),
        };
        let text = shown(&format!("{} is in {state}: {waits}; Ctrl-C ends this", last.task));
        if text != said {
            context.out.say(&text);
            said = text;
        }
        let (Waited::Notified | Waited::TimedOut) = store.wait(mark, SIT);
    }
}

fn end(context: &Context, task: TaskId, state: &str, why: &str) -> Option<RunId> {
    context.out.say(&shown(&format!("{task} is in {state}: {why}")));
    context.out.next(&[&format!("why {task}"), &format!("show {task}")]);
    None
}

/// The folder of a run that was just claimed; its keeper is started a moment later.
pub(super) fn begun(context: &Context, run: RunId, past: &PastRun) -> Result<JobFolder, Failure> {
    let agents = &context.config.agents;
    let is_ours = past.node.as_deref() == Some(agents.node.as_str());
    let mut watch = Watch::new();
    let until = clock::monotonic() + SIT;
    while is_ours && LocalSite::find(&agents.home, JobId::Run(run)).is_none() {
        let left = until.saturating_duration_since(clock::monotonic());
        if left.is_zero() {
            break;
        }
        watch.on(&agents.home.join("runs"));
        watch.wait(left.min(LOOK_WITHOUT_WATCH));
    }
    folder_of(context, run, past)
}

/// Wakes when something changes in a folder.
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

    /// Watches a folder from the first call on. It stays the same folder when it is renamed.
    fn on(&mut self, folder: &Path) {
        if self.watching.is_some() {
            return;
        }
        let sender = self.sender.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own looks open files, and must not be the reason to look again. An error may mean
            // that events were lost.
            if event.map_or(true, |event| !event.kind.is_access()) {
                // Full means that it is going to look anyway.
                sender.try_send(()).unwrap_or_default();
            }
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        // The system limits how many there may be; without one it looks by itself, more often.
        if let Ok(watcher) = watching {
            self.watching = Some(watcher);
            // What came before the watch is not told, so it looks once more.
            self.sender.try_send(()).unwrap_or_default();
        }
    }

    fn wait(&self, at_most: Duration) {
        let at_most =
            if self.watching.is_some() { at_most } else { at_most.min(LOOK_WITHOUT_WATCH) };
        match self.receiver.recv_timeout(at_most) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}
