//! The one loop: what happened outside becomes events, what was decided becomes work.
//!
//! [`Engine::pulse`] is one turn and returns; `pulse` calls it once, `up` calls it whenever
//! something may have changed. It runs no git, no agent and no check itself: those belong to
//! keepers. Everything it does may be cut off at any point and is found again by the next turn.

mod assignment;
mod budgets;
mod children;
mod collect;
mod dispatch;
mod evaluators;
mod manual;
mod panel;
mod plan;
mod planning;
mod policy;
mod prompt;
mod provenance;
mod pulls;
mod recover;
mod relay;
mod render;
mod signals;
mod steps;
mod sweep;
pub mod wake;

pub use prompt::RenderedPrompt;
pub use render::{PreviewRequest, PromptPreview};

use std::collections::BTreeMap;
use std::path::PathBuf;

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{ActivityReport, Event, WaitStatus, waits};
use banksman_core::schedule::Worker;
use banksman_core::time::{Instant, Span};

use crate::config::{Agents, WorkerSetup};
use crate::exec::job::JobId;
use crate::exec::mailbox::MailboxError;
use crate::exec::site::{JobStatus, Site, SiteError};
use crate::store::{Node, Store, StoreError, Stored};

/// What is overdue and not yet to be had, such as a run that takes its time to end, is not looked
/// at more often.
const SHORTEST_SLEEP: Span = Span(50);
/// Timers and effects that one turn looks at before it lets the others go on.
const PER_TURN: i64 = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Site(#[from] SiteError),
    #[error(transparent)]
    Mailbox(#[from] MailboxError),
    #[error("the settings of project {project} cannot be used: {message}")]
    Project { project: String, message: String },
}

/// A project's repository and the settings that hold in it.
#[derive(Debug, Clone)]
pub struct Project {
    pub path: PathBuf,
    /// The branch that work starts from and goes back to.
    pub base: String,
    pub remote: Option<String>,
    pub agents: Agents,
}

/// Finds projects. The real one reads their settings from their folders.
pub trait Projects {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError>;
}

/// What the engine is told once: who it is and what it may use.
pub struct EngineConfig {
    pub agents: Agents,
    pub workers: Vec<WorkerSetup>,
    /// Our own program, by which keepers renew leases and agents reach their tools.
    pub program: PathBuf,
    pub policy: RetryPolicy,
    /// A secret that nobody can guess, for the token of a run.
    pub secret: fn() -> String,
}

/// Something that people should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub task: Option<TaskId>,
    pub urgent: bool,
    pub text: String,
}

/// A step that somebody does by hand, for a window in front of them.
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
    /// Jobs whose end was put on record.
    pub ended: Vec<(JobId, String)>,
    pub started: Vec<(JobId, String)>,
    /// Runs that had lost their node or keeper.
    pub recovered: Vec<JobId>,
    pub timers: usize,
    pub effects: usize,
    pub notices: Vec<Notice>,
    pub manual_steps: Vec<ManualStep>,
    /// Where somebody may say something at any time.
    pub watched: Vec<PathBuf>,
    /// When there is something to do again, if nothing else happens before.
    pub next: Option<Instant>,
}

impl TurnReport {
    fn look_at(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

pub struct Engine<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    projects: &'a dyn Projects,
    config: &'a EngineConfig,
}

impl<'a> Engine<'a> {
    #[must_use]
    pub fn new(
        store: &'a Store,
        site: &'a dyn Site,
        projects: &'a dyn Projects,
        config: &'a EngineConfig,
    ) -> Self {
        Self { store, site, projects, config }
    }

    /// One turn of the loop.
    pub fn pulse(&self, local: Instant) -> Result<TurnReport, EngineError> {
        let mut pulse = self.follow_up(local)?;
        // A yes counts in this very turn, and what this turn uses up is asked about in it.
        self.settle_budgets(pulse.at)?;
        self.dispatch(pulse.at, &mut pulse)?;
        self.settle_budgets(pulse.at)?;
        if let Some(next) = self.next(pulse.at)? {
            pulse.look_at(next);
        }
        Ok(pulse)
    }

    /// A turn that claims nothing for agents: what follows from what has happened, for whoever
    /// drives a workflow by hand.
    pub fn follow_up(&self, local: Instant) -> Result<TurnReport, EngineError> {
        let now = self.store.now(local)?;
        let mut pulse = TurnReport { at: now, ..TurnReport::default() };
        let joined = self.store.put_node(&self.node(now))?;
        self.collect(now, &mut pulse)?;
        self.recover(now, &mut pulse)?;
        self.fire(now, &mut pulse)?;
        self.end_pauses(now, &mut pulse)?;
        self.take_signals(now, &mut pulse)?;
        if joined.workers {
            self.serve_the_stuck(now)?;
        }
        self.relay(now, &mut pulse)?;
        Ok(pulse)
    }

    fn node(&self, now: Instant) -> Node {
        Node {
            name: self.config.agents.node.clone(),
            seen_at: now,
            capacity: self.config.agents.limits.agents,
            workers: self.workers(),
        }
    }

    fn workers(&self) -> Vec<Worker> {
        self.config.workers.iter().map(|setup| setup.worker.clone()).collect()
    }

    fn worker(&self, name: &str) -> Option<&WorkerSetup> {
        self.config.workers.iter().find(|setup| setup.worker.name == name)
    }

    /// The projects of a turn are looked up once each.
    fn project<'c>(
        &self,
        name: &str,
        known: &'c mut BTreeMap<String, Option<Project>>,
    ) -> Result<Option<&'c Project>, EngineError> {
        if !known.contains_key(name) {
            known.insert(name.to_owned(), self.projects.find(name)?);
        }
        Ok(known.get(name).and_then(Option::as_ref))
    }

    fn fire(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        loop {
            let fired = self.store.fire_due(now, PER_TURN)?;
            pulse.timers += fired.len();
            if i64::try_from(fired.len()).unwrap_or(i64::MAX) < PER_TURN {
                return Ok(());
            }
        }
    }

    fn end_pauses(&self, now: Instant, pulse: &mut TurnReport) -> Result<(), EngineError> {
        for account in self.store.end_pauses(now)? {
            let text = format!("the pause of account {account} is over; one run tries first");
            pulse.notices.push(Notice { task: None, urgent: false, text });
        }
        Ok(())
    }

    /// Leads a task on whose wait is over. Answers with the task as it stands then.
    fn advance(&self, stored: Stored, now: Instant) -> Result<Stored, EngineError> {
        let (task, lifecycle) = (&stored.task, &stored.lifecycle);
        if waits(lifecycle, task, now) != WaitStatus::Met {
            return Ok(stored);
        }
        let report = ActivityReport {
            entered: task.entered,
            outcome: Outcome::Met,
            detail: String::new(),
            fields: serde_json::Map::new(),
            tokens: 0,
            cost_micros: 0,
        };
        let applied = self.store.apply(task.id, Event::Reported(report), None, now)?;
        Ok(applied.stored)
    }

    /// Whether another job of the task is still here. A job that waited for the other's worktree
    /// would get it the moment the other's keeper dies, and would work beside what that one has
    /// left; so it begins when the other is on record.
    fn is_in_the_way(&self, job: JobId) -> Result<bool, EngineError> {
        // A look at the remote is in nobody's way.
        let touches = |other: &JobId| !matches!(other, JobId::Look { .. });
        let others = self.site.jobs()?.into_iter().filter(|other| *other != job && touches(other));
        for other in others.filter(|other| other.task() == job.task()) {
            if self.site.look(other)? != JobStatus::Absent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The earliest of everything that has a time.
    fn next(&self, now: Instant) -> Result<Option<Instant>, EngineError> {
        let next = self.store.next_work(&self.config.agents.node, now)?;
        Ok(next.map(|at| at.max(now.plus(SHORTEST_SLEEP))))
    }
}
