//! The engine: turns what happened outside into events, and what was decided into work.
//!
//! A turn runs the reconcilers of [`FOLLOW_UP`] and then those of [`CLAIM`], in the order of the
//! lists. Each compares what the store wants with what is there and closes the gap, so a turn may
//! be cut off anywhere and the next one goes on. A turn runs no git, no agent and no check: keepers
//! do. To add a reconciler, add its file and one row.

mod activity;
mod answers;
mod assignment;
mod budgets;
mod children;
mod collect;
mod dispatch;
mod event;
mod job;
mod manual;
mod panel;
mod pauses;
mod planning;
mod policy;
mod preview;
mod project;
mod prompt;
mod provenance;
mod pulls;
mod recover;
mod relay;
mod run_end;
mod run_start;
mod signals;
mod steps;
mod submission;
mod sweep;
mod timers;
mod turn;
mod unblock;
pub mod wake;
mod workers;
mod workflows;

pub use preview::{PreviewRequest, PromptPreview};
pub use project::{Project, Projects};
pub use prompt::RenderedPrompt;
pub use turn::{ManualStep, TurnReport};

use std::path::PathBuf;
use std::sync::Arc;

use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::Purpose;
use banksman_core::lifecycle::problem::Problems;
use banksman_core::machine::Effect;
use banksman_core::time::{AwakeTime, Instant, Span};

use self::activity::Activities;
use self::budgets::Budgets;
use self::children::Children;
use self::collect::Collect;
use self::dispatch::Dispatcher;
use self::panel::PanelHandler;
use self::pauses::Pauses;
use self::planning::Subtasks;
use self::preview::Previews;
use self::project::Settings;
use self::recover::Recover;
use self::relay::{HandlerRow, Relay, Stops, Unavailable};
use self::signals::Signals;
use self::steps::Steps;
use self::sweep::Sweep;
use self::timers::Timers;
use self::turn::{Reconciler, Turn};
use self::unblock::Unblock;
use self::workflows::Workflows;
use crate::config::{Agents, WorkerSetup};
use crate::exec::mailbox::MailboxError;
use crate::exec::site::{Site, SiteError};
use crate::store::{Definition, Node, Store, StoreError};

/// Overdue work that cannot be done yet, such as ending a run that takes its time, is not retried
/// more often.
const SHORTEST_SLEEP: Span = Span(50);

type Result<T, E = EngineError> = std::result::Result<T, E>;

/// A reconciler's name, by which its faults are recorded, and how it is made for a turn.
type Row = (&'static str, for<'a> fn(&Engine<'a>) -> Box<dyn Reconciler + 'a>);

/// What follows from what has happened.
const FOLLOW_UP: &[Row] = &[
    ("collect", |engine| Box::new(Collect::new(engine))),
    ("recover", |engine| Box::new(Recover::new(engine))),
    // A panel ends before the timeout of its state, also if both are overdue.
    ("relay", |engine| Box::new(Relay::new(engine))),
    ("timers", |engine| Box::new(Timers(engine.store))),
    ("pauses", |engine| Box::new(Pauses(engine.store))),
    ("signals", |engine| Box::new(Signals::new(engine))),
    ("unblock", |engine| Box::new(Unblock::new(engine))),
    ("relay", |engine| Box::new(Relay::new(engine))),
];
/// Claims tasks for agents. Budgets come first so that a person's yes counts in this turn, and
/// again at the end to ask about budgets that the claims used up.
const CLAIM: &[Row] = &[
    ("budgets", |engine| Box::new(Budgets::new(engine))),
    ("dispatch", |engine| Box::new(Dispatcher::new(engine))),
    ("budgets", |engine| Box::new(Budgets::new(engine))),
];
/// What runs once an hour.
const SWEEP: &[Row] = &[("sweep", |engine| Box::new(Sweep::new(engine)))];

const PANELS: HandlerRow = ("panels", |engine| Box::new(PanelHandler::new(engine)));
const WORKFLOWS: HandlerRow = ("workflows", |engine| Box::new(Workflows::new(engine)));
const STEPS: HandlerRow = ("steps", |engine| Box::new(Steps::new(engine)));
const SUBTASKS: HandlerRow = ("planned_subtasks", |engine| Box::new(Subtasks::new(engine)));
const CHILDREN: HandlerRow = ("children", |engine| Box::new(Children::new(engine)));
const ACTIVITIES: HandlerRow = ("activities", |engine| Box::new(Activities::new(engine)));
const CLEAN_UPS: HandlerRow = ("clean_ups", |engine| Box::new(Activities::new(engine)));
const STOPS: HandlerRow = ("stops", |engine| Box::new(Stops(engine.site)));
const UNAVAILABLE: HandlerRow = ("unavailable", |_| Box::new(Unavailable));

/// The handlers to which `relay` gives an effect, in this order. To add one, add its file and its
/// row.
fn handlers(effect: &Effect) -> &'static [HandlerRow] {
    match effect {
        Effect::Start { activity } => match activity {
            Activity::Check | Activity::Merge => &[ACTIVITIES],
            Activity::Panel => &[PANELS],
            Activity::Wait => &[CHILDREN],
            Activity::PullRequest | Activity::Capture => &[UNAVAILABLE],
            Activity::Agent | Activity::Human => &[],
        },
        Effect::Stop { .. } => &[STOPS],
        Effect::CloseReviews => &[PANELS],
        Effect::CleanUp => &[CLEAN_UPS],
        Effect::TellParent => &[PANELS, STEPS, SUBTASKS, CHILDREN],
        Effect::LeadChildren => &[WORKFLOWS, SUBTASKS, CHILDREN],
        // Notices are written with their transition.
        Effect::Notify | Effect::Alert | Effect::Remind { .. } => &[],
    }
}

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
    /// They may be readable again later.
    #[error("the settings of project {project} cannot be read: {message}")]
    Unread { project: String, message: String },
    #[error(
        "the built-in lifecycle for the purpose `{purpose}` cannot be used with these settings"
    )]
    BuiltIn {
        purpose: Purpose,
        #[source]
        source: Box<Problems>,
    },
}

/// The built-in lifecycle of tasks that the engine adds by itself.
fn definition_for(purpose: Purpose, overrides: Overrides) -> Result<Definition> {
    let (lifecycle, source) = builtin::for_purpose(purpose, &overrides)
        .map_err(|source| EngineError::BuiltIn { purpose, source: Box::new(source) })?;
    Ok(Definition { lifecycle: Arc::new(lifecycle), source, overrides })
}

impl EngineError {
    /// The task with the fault, which may not be the one that was being processed.
    fn task(&self) -> Option<TaskId> {
        match self {
            Self::Store(StoreError::Corrupt { task, .. } | StoreError::Bug { task, .. }) => {
                Some(*task)
            }
            Self::Store(_)
            | Self::Site(_)
            | Self::Mailbox(_)
            | Self::Project { .. }
            | Self::Unread { .. }
            | Self::BuiltIn { .. } => None,
        }
    }

    /// Whether the database itself failed. Every other error belongs to one task, one project or
    /// one job.
    fn is_of_database(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_of_database())
    }
}

/// The engine's node, its workers and its settings.
pub struct EngineConfig {
    pub agents: Agents,
    pub workers: Vec<WorkerSetup>,
    /// Our own program, by which keepers renew leases and agents reach their tools.
    pub program: PathBuf,
    pub policy: RetryPolicy,
    /// Makes a key for the keeper of a run.
    pub secret: fn() -> String,
    /// How long this machine has been awake; none if it does not tell.
    pub awake: fn() -> Option<AwakeTime>,
}

/// What reconcilers are made from. Each takes the references that it needs and no others.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    projects: &'a dyn Projects,
    config: &'a EngineConfig,
}

impl<'a> Engine<'a> {
    pub fn new(
        store: &'a Store,
        site: &'a dyn Site,
        projects: &'a dyn Projects,
        config: &'a EngineConfig,
    ) -> Self {
        Self { store, site, projects, config }
    }

    /// One turn.
    pub fn pulse(&self, local: Instant) -> Result<TurnReport, EngineError> {
        let mut turn = self.begin_turn(local)?;
        self.run(FOLLOW_UP, &mut turn)?;
        self.run(CLAIM, &mut turn)?;
        if let Some(next) = self.store.next_work(&self.config.agents.node, turn.now)? {
            turn.look_at(next.max(turn.now.plus(SHORTEST_SLEEP)));
        }
        Ok(turn.report)
    }

    /// A turn that claims nothing for agents, for a person who drives a workflow by hand.
    pub fn follow_up(&self, local: Instant) -> Result<TurnReport, EngineError> {
        let mut turn = self.begin_turn(local)?;
        self.run(FOLLOW_UP, &mut turn)?;
        Ok(turn.report)
    }

    /// Begins to remove worktrees that should be gone, and removes old changes and notices.
    pub fn sweep(&self, local: Instant) -> Result<(), EngineError> {
        let now = self.store.now(local)?;
        self.store.prune(now)?;
        self.run(SWEEP, &mut Turn::new(self.store.clone(), now, None))
    }

    /// The prompt that an agent would get for a task now, or why there is none.
    pub fn render(
        &self,
        id: TaskId,
        request: &PreviewRequest,
        now: Instant,
    ) -> Result<Result<PromptPreview, String>, EngineError> {
        Previews::new(self).render(id, request, now)
    }

    fn begin_turn(&self, local: Instant) -> Result<Turn> {
        let now = self.store.now(local)?;
        let agents = &self.config.agents;
        // Before any lease or timeout is looked at.
        let seen_before = self.store.put_node(&Node {
            name: agents.node.clone(),
            seen_at: now,
            capacity: agents.limits.agents,
            workers: self.config.workers.iter().map(|setup| setup.worker.clone()).collect(),
            awake: (self.config.awake)(),
        })?;
        Ok(Turn::new(self.store.clone(), now, seen_before))
    }

    fn run(&self, rows: &[Row], turn: &mut Turn) -> Result<()> {
        rows.iter().try_for_each(|(name, make)| turn.run(name, make(self).as_ref()))?;
        turn.record_damage()
    }

    fn settings(&self) -> Settings<'a> {
        Settings { projects: self.projects, agents: &self.config.agents }
    }
}

#[cfg(test)]
mod tests {
    use banksman_core::lifecycle::Setting;

    use super::*;
    use crate::store::conn::{Cause, DbError};

    #[test]
    fn settings_that_a_built_in_lifecycle_refuses_are_the_error_of_one_task() {
        let overrides = Overrides::from([("nonsense".to_owned(), Setting::Number(3.0))]);
        let refused =
            definition_for(Purpose::Review, overrides).expect_err("it has no such setting");
        assert!(
            matches!(refused, EngineError::BuiltIn { purpose: Purpose::Review, .. }),
            "{refused}"
        );
        assert!(!refused.is_of_database(), "the turn goes on");
    }

    #[test]
    fn only_a_failure_of_the_database_itself_ends_a_turn() {
        let ends = |error: DbError| EngineError::from(StoreError::from(error)).is_of_database();
        let cause: Cause = Arc::new(std::io::Error::other("x"));
        let operation = || "x".to_owned();
        assert!(ends(DbError::Closed) && ends(DbError::Conflict));
        assert!(ends(DbError::Full { operation: operation() }));
        assert!(ends(DbError::Disconnected { operation: operation(), source: cause.clone() }));
        assert!(!ends(DbError::Other { operation: operation(), source: cause }));
        assert!(!ends(DbError::Unique { constraint: "keys.key".to_owned() }));
        assert!(!ends(DbError::Panicked { message: "x".to_owned() }));
        assert!(!ends(DbError::WriteInRead));
    }
}
