//! Chooses which worker takes which task: a snapshot of the queue and the load goes in, a choice or
//! the reasons against it come out.
//!
//! The dispatcher calls it inside the claiming transaction, and `why` calls it to explain, so both
//! always agree. Nothing here starts, counts or remembers anything; the order of the queue is
//! `machine::Task::rank`.
//!
//! What a task requires of its worker:
//! - a tag that is a capability of any worker is required; a tag that no worker knows is only a
//!   label, so that people can tag freely;
//! - a tag `needs:WORD` always requires the capability WORD, or the worker of that name, even if
//!   there is none yet;
//! - a tag `avoid:WORKER` keeps that worker away.
//!
//! Of the workers that fit, the cheapest goes first, then the fastest, then by name.
//!
//! Overlapping tasks start in the order of the queue: the areas of a task that waits only for other
//! runs to leave them are reserved ([`Load::reserve_areas`]). Otherwise a task with two areas could
//! wait for ever while others took turns on each of them.

mod areas;
mod budget;
mod budget_request;
mod choose;
mod ineligible;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::lifecycle::contract::AgentRole;
use crate::limits;
use crate::time::Instant;

pub use areas::{Area, areas, overlap};
pub use budget::{Budget, BudgetLimit, BudgetScope, Used};
pub use budget_request::{
    BudgetAction, BudgetAnswer, BudgetFacts, BudgetRequest, RequestLog, RequestState,
    RequestedBudget, decide as decide_budget, task_limit,
};
pub use choose::{choose, could_serve};
pub use ineligible::Ineligible;

/// A configured agent: its capabilities, cost, limits and account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub name: String,
    /// Must contain every tag of a task that is a capability of any worker, and every WORD of its
    /// `needs:WORD` tags.
    pub capabilities: BTreeSet<String>,
    /// The lifecycle roles that it plays; empty means all roles of agents.
    pub roles: BTreeSet<String>,
    /// Relative, 1 to 5: the cheapest goes first.
    pub cost: u32,
    /// Relative, 1 to 5: at equal cost the fastest goes first.
    pub speed: u32,
    pub max_concurrent: u32,
    /// The provider account that it uses.
    pub account: String,
    /// The model that its settings name.
    #[serde(default)]
    pub model: Option<String>,
}

/// Roles that no worker can play: an agent must not answer for a person or for the system.
const NOT_FOR_WORKERS: [&str; 2] = ["human", "system"];

/// The worker of every node that runs the commands of workflow steps.
pub const COMMAND_WORKER: &str = "run-command";

impl Worker {
    /// The worker that every node has without settings. It takes only steps that name it, and it
    /// is no agent, so no list of workers shows it.
    pub fn for_commands() -> Self {
        Self {
            name: COMMAND_WORKER.to_owned(),
            capabilities: BTreeSet::new(),
            roles: BTreeSet::from([AgentRole::Command.to_string()]),
            cost: 1,
            speed: 5,
            // The node's own limit on runs decides.
            max_concurrent: u32::MAX,
            account: COMMAND_WORKER.to_owned(),
            model: None,
        }
    }

    /// The workers of a node with the one that it has without settings.
    pub fn all_of_node(own: impl IntoIterator<Item = Self>) -> impl Iterator<Item = Self> {
        own.into_iter().chain([Self::for_commands()])
    }

    pub fn plays(&self, role: &str) -> bool {
        !NOT_FOR_WORKERS.contains(&role) && (self.roles.is_empty() || self.roles.contains(role))
    }
}

/// A task at the head of the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<'a> {
    pub task: TaskId,
    pub project: &'a str,
    pub batch: Option<&'a str>,
    /// A plain tag is required only if some worker has it as a capability, `needs:WORD` always.
    pub tags: &'a [String],
    /// The roles that may take it; none if no agent of this program works on it.
    pub roles: &'a [String],
    /// The names of the only workers that may take it; empty means anybody.
    pub assignees: &'a [String],
    /// The roles as which its worker may act.
    pub lanes: &'a [String],
    /// The name or the model of the worker that it is for.
    pub model: Option<&'a str>,
    pub areas: &'a [Area],
    /// What all its runs have used.
    pub spent: Used,
    /// The limits over all its runs.
    pub budget: Budget,
}

/// A run that holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub task: TaskId,
    pub project: String,
    pub batch: Option<String>,
    pub worker: String,
    pub account: String,
    pub node: String,
    /// The role as which it acts.
    pub role: String,
    pub areas: Vec<Area>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchLoad {
    pub concurrency: u32,
    pub paused: bool,
    pub budget: Budget,
    /// By runs that have ended.
    pub used: Used,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountLoad {
    /// A time that has passed counts as [`Self::probing`] until the store has ended the pause.
    pub paused_until: Option<Instant>,
    pub reason: String,
    /// After a pause one run goes first, until it has shown that the provider answers again.
    pub probing: bool,
    /// The most runs at the same time; none means no limit.
    pub limit: Option<u32>,
}

/// Areas that a task further ahead in the queue gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedAreas {
    pub task: TaskId,
    pub project: String,
    pub areas: Vec<Area>,
}

/// The state of the whole system, as far as it decides which tasks may start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Load {
    pub paused: bool,
    /// Over all nodes.
    pub limit: Option<u32>,
    pub node: String,
    /// Of this node.
    pub capacity: u32,
    /// Of all nodes.
    pub running: Vec<Running>,
    pub batches: BTreeMap<String, BatchLoad>,
    pub accounts: BTreeMap<String, AccountLoad>,
    /// The most runs at once over all nodes, by the role as which they act.
    pub lanes: BTreeMap<String, u32>,
    /// By runs that have ended; running ones are in [`Self::running`] and count against `runs` as
    /// well.
    pub day: Used,
    pub day_budget: Budget,
    /// Filled by [`Self::reserve_areas`] in a pass over the queue from its head.
    pub reserved: Vec<ReservedAreas>,
}

impl Load {
    /// Whether as many runs as the settings allow act as this role.
    pub fn is_lane_full(&self, role: &str) -> bool {
        let running = || self.running.iter().filter(|run| run.role == role).count();
        self.lanes.get(role).is_some_and(|limit| running() >= *limit as usize)
    }

    /// Reserves the areas of a task that could not start, if it waits for an area and only for runs
    /// to end. A task that waits for a person, a reset or a missing worker reserves nothing,
    /// because it would lock its areas for nobody.
    pub fn reserve_areas(&mut self, candidate: &Candidate<'_>, reasons: &[Ineligible]) {
        let waits_for_area = reasons.iter().any(Ineligible::is_area)
            && reasons.iter().all(Ineligible::ends_with_a_run);
        if waits_for_area && self.reserved.len() < limits::RESERVING_TASKS {
            self.reserved.push(ReservedAreas {
                task: candidate.task,
                project: candidate.project.to_owned(),
                areas: candidate.areas.to_vec(),
            });
        }
    }
}
