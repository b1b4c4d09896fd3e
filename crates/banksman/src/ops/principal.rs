//! The callers, and what each kind of caller may do: the one table. A surface only finds out who is
//! calling; [`Session`](super::Session) checks this table before it hands out the store.

use std::fmt;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::machine::Actor;

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    Person(Actor),
    /// A worker outside Banksman, or another program with a role of a lifecycle.
    Worker(Actor),
    Run(RunCaller),
    /// The process that owns a run, which does nothing in the store but renew the run's lease.
    Keeper(RunId),
    /// This program: the engine.
    System,
}

/// An agent, inside a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCaller {
    /// The run that the caller's token belongs to, while the run has its lease.
    pub own: Option<RunId>,
    /// The run that the caller's processes belong to. It grants nothing.
    pub name: Option<String>,
    /// The actor that claimed the run.
    pub actor: Actor,
}

impl RunCaller {
    /// A run that has shown no valid token.
    pub fn unproven(name: Option<&str>) -> Self {
        let name = name.map(str::to_owned);
        let actor = Actor { role: Actor::AGENT.to_owned(), name: name.clone() };
        Self { own: None, name, actor }
    }
}

/// How far a kind of caller may go with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    All,
    /// The task of the caller's own run.
    Own,
    None,
}

macro_rules! operations {
    ($($name:ident $what:literal $person:ident $worker:ident $run:ident $keeper:ident $system:ident)*) => {
        /// An operation that a caller can ask for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Operation { $($name),* }

        impl Operation {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Completes "may not".
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }

            pub fn access(self, principal: &Principal) -> Access {
                let [person, worker, run, keeper, system] = match self {
                    $(Self::$name => [
                        Access::$person, Access::$worker, Access::$run, Access::$keeper,
                        Access::$system,
                    ]),*
                };
                match principal {
                    Principal::Person(_) => person,
                    Principal::Worker(_) => worker,
                    Principal::Run(_) => run,
                    Principal::Keeper(_) => keeper,
                    Principal::System => system,
                }
            }
        }
    };
}

operations! {
    //             may not …                                person worker run  keeper system
    ReadTask       "read this task"                         All    All    Own  None   All
    ReadStore      "read other tasks"                       All    All    None None   All
    LocateProject  "find the project of a folder"           All    All    All  All    All
    AddTasks       "add tasks"                              All    All    None None   All
    ImportTasks    "import tasks"                           All    None   None None   All
    MoveTask       "move this task"                         All    All    Own  None   All
    OverrideFacts  "override facts"                         All    None   None None   None
    AskPermission  "ask for permission on this task"        All    All    Own  None   All
    ReportRun      "report on this run"                     All    None   Own  None   All
    AnswerDecision "answer decisions"                       All    None   None None   None
    FollowUp       "carry out what follows from events"     All    All    None None   All
    RunAgents      "start, stop, pause or limit agents"     All    None   None None   All
    RepairStore    "repair the store"                       All    None   None None   All
    SetUpProject   "set up projects"                        All    None   None None   All
    RenewLease     "renew the lease of a run"               All    None   None Own    All
}

impl Principal {
    /// A caller outside every run, by the role that it gives.
    pub fn outside(actor: Actor) -> Self {
        if actor.is_human() { Self::Person(actor) } else { Self::Worker(actor) }
    }

    /// The actor in the history.
    pub fn actor(&self) -> Actor {
        match self {
            Self::Person(actor) | Self::Worker(actor) => actor.clone(),
            Self::Run(run) => run.actor.clone(),
            Self::Keeper(_) | Self::System => Actor::system(),
        }
    }

    /// Checks one operation, on one task if it has one.
    pub fn may(&self, operation: Operation, task: Option<TaskId>) -> Result<(), Forbidden> {
        let own = self.own_run().map(|run| run.task);
        let is_allowed = match operation.access(self) {
            Access::All => true,
            Access::Own => task.is_some() && task == own,
            Access::None => false,
        };
        if is_allowed {
            return Ok(());
        }
        let is_of_run = matches!(self, Self::Run(_) | Self::Keeper(_));
        Err(Forbidden { caller: self.actor(), is_of_run, operation, own })
    }

    /// The run that a caller has proven to be.
    pub(super) fn own_run(&self) -> Option<RunId> {
        match self {
            Self::Run(RunCaller { own, .. }) => *own,
            Self::Keeper(run) => Some(*run),
            Self::Person(_) | Self::Worker(_) | Self::System => None,
        }
    }
}

/// An operation that this caller may not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Forbidden {
    pub caller: Actor,
    pub is_of_run: bool,
    pub operation: Operation,
    /// The task of the caller's run.
    pub own: Option<TaskId>,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.operation.what();
        match (self.is_of_run, self.own) {
            (true, Some(own)) => write!(f, "the run of {own} may not {what}"),
            (true, None) => write!(f, "an agent's run may not {what}"),
            (false, _) => write!(f, "{} may not {what}", self.caller),
        }
    }
}
