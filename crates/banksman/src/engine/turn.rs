//! One turn: its time, its report, and the faults that it records without stopping.

use std::error::Error;
use std::path::PathBuf;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, Event, HistoryNote};
use banksman_core::time::{Instant, Span};

use super::{EngineError, Result};
use crate::exec::job::JobId;
use crate::exec::mailbox::Mailbox;
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{Damage, IdempotencyKey, Store};

/// After a fault the next turn comes after this time at the latest.
const RETRY_FAULT: Span = Span(5_000);
/// The history of a task has one record of the same reconciler's faults within this time.
const SAME_FAULT: Span = Span(60 * 60_000);

/// A part of a turn that closes the gap between what the store wants and what is there.
pub(super) trait Reconciler {
    /// Passes the fault of one task to [`Turn::contain`] and goes on; an error ends this
    /// reconciler.
    fn run_once(&self, turn: &mut Turn) -> Result<()>;
}

/// A manual step, for a window in front of the person who does it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualStep {
    pub name: String,
    /// Where the command is started.
    pub folder: PathBuf,
    /// For a shell.
    pub command: String,
}

/// What one turn did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnReport {
    /// When the turn began, by the store's clock; `next` is by the same one.
    pub at: Instant,
    /// Jobs whose end was recorded.
    pub ended: Vec<(JobId, String)>,
    pub started: Vec<(JobId, String)>,
    /// Runs that had lost their node or keeper.
    pub recovered: Vec<JobId>,
    pub timers: usize,
    pub effects: usize,
    /// Faults of single tasks that did not stop the turn.
    pub faults: usize,
    pub manual_steps: Vec<ManualStep>,
    /// Folders in which a signal may appear at any time.
    pub watched: Vec<PathBuf>,
    /// When to run the next turn, if nothing else happens before.
    pub next: Option<Instant>,
}

/// A turn in progress.
pub(super) struct Turn {
    pub(super) now: Instant,
    /// When this node was last seen before this turn.
    pub(super) seen_before: Option<Instant>,
    pub(super) report: TurnReport,
    store: Store,
    /// The name of the reconciler that runs.
    reconciler: &'static str,
}

impl Turn {
    pub(super) fn new(store: Store, now: Instant, seen_before: Option<Instant>) -> Self {
        let report = TurnReport { at: now, ..TurnReport::default() };
        Self { now, seen_before, report, store, reconciler: "" }
    }

    pub(super) fn run(&mut self, name: &'static str, reconciler: &dyn Reconciler) -> Result<()> {
        self.reconciler = name;
        match reconciler.run_once(self) {
            // A node that cannot read its own folders must not claim more.
            Err(error @ EngineError::Site(_)) => Err(error),
            done @ (Ok(()) | Err(_)) => self.contain(None, done).map(|_| ()),
        }
    }

    /// Does a part of the reconciler's work under the part's own name.
    pub(super) fn run_part<T>(
        &mut self,
        name: &'static str,
        task: TaskId,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let whole = std::mem::replace(&mut self.reconciler, name);
        let done = work(self);
        let contained = self.contain(Some(task), done);
        self.reconciler = whole;
        contained
    }

    pub(super) fn look_at(&mut self, at: Instant) {
        self.report.next = Some(self.report.next.map_or(at, |next| next.min(at)));
    }

    /// Records a fault against its task so that the turn continues. Only a failure of the database
    /// is returned as an error.
    pub(super) fn contain<T>(
        &mut self,
        task: Option<TaskId>,
        done: Result<T>,
    ) -> Result<Option<T>> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(error) if error.is_of_database() => Err(error),
            Err(error) => {
                self.report.faults += 1;
                self.look_at(self.now.plus(RETRY_FAULT));
                self.record_fault(error.task().or(task), with_causes(&error))?;
                Ok(None)
            }
        }
    }

    /// Writes a line to the log of a workflow. A folder that cannot be written holds up no work: it
    /// is never the truth.
    pub(super) fn log(
        &mut self,
        mailbox: &Mailbox,
        task: TaskId,
        (workflow, at): (&str, Instant),
        text: &str,
        mark: &str,
    ) -> Result<()> {
        let logged = mailbox.record(workflow, at, text, mark).map_err(EngineError::from);
        self.contain(Some(task), logged).map(|_| ())
    }

    /// Records what the reconcilers have left out because it is damaged.
    pub(super) fn record_damage(&mut self) -> Result<()> {
        self.reconciler = "damage";
        for Damage { task, what } in self.store.take_damaged() {
            self.record_fault(task, format!("damaged in the store: {what}"))?;
        }
        Ok(())
    }

    /// Records a fault in the history of its task, once an hour, with a notice. Another fault of
    /// the same hour has only the notice, and so has a task that is damaged itself.
    fn record_fault(&self, task: Option<TaskId>, text: String) -> Result<()> {
        let hour = self.now.0 / SAME_FAULT.0;
        let of = task.map_or_else(String::new, |task| task.to_string());
        let topic = format!("fault-{of}-{}", self.reconciler);
        let notice = NewNotice::alert(NoticeKind::Fault, task, text);
        let notice = notice.once_per(SAME_FAULT, &topic, self.now);
        let key = format!("{topic}-{hour}");
        if let Some(task) = task {
            let actor = Actor { name: Some(self.reconciler.to_owned()), ..Actor::system() };
            let (trigger, detail) = (Note::EngineFault.to_string(), Some(notice.text.clone()));
            let note = Event::Noted(HistoryNote { actor, trigger, detail });
            let (told, key) = (notice.clone(), Some(IdempotencyKey::new(&key, &key)));
            let noted =
                self.store.apply_telling(task, note, key, self.now, move |_| Some(told.clone()));
            match noted.map_err(EngineError::from) {
                Ok(applied) if !applied.replayed => return Ok(()),
                Err(error) if error.is_of_database() => return Err(error),
                // There is a record of this hour, or the task cannot be written.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(self.store.notice(notice, self.now)?)
    }
}

pub(super) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
