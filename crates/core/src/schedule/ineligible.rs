//! Why a task does not start: the reason in words, what it waits for, and what would change
//! it.

use super::{Area, Budget, BudgetLimit, BudgetScope, Used};
use crate::ids::TaskId;
use crate::time::Instant;

/// One reason why a task does not start now.
///
/// The variants go from the most fundamental to the shortest: what a person must change, what ends
/// at some time, what ends when a run does. [`super::choose`] returns reasons in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ineligible {
    /// No agent of this program works in the state that follows; an outside worker may take it.
    NoActivity,
    /// It is assigned to workers that no live node has.
    NotAssigned { assignees: Vec<String> },
    /// No worker of any live node plays one of its roles and has all required capabilities. `needs`
    /// are those that the closest worker lacks, or all of them if no worker plays the role.
    NoWorker { role: String, needs: Vec<String> },
    /// A person has paused everything.
    Paused,
    /// A person has paused its batch.
    BatchPaused { batch: String },
    /// A budget that it counts against leaves nothing for another run.
    OverBudget { scope: BudgetScope, limit: BudgetLimit },
    /// Only other nodes have workers that can take it.
    NotHere { node: String, workers: Vec<String> },
    /// The provider has refused a run of this account until then.
    AccountPaused { account: String, until: Instant, reason: String },
    /// After a pause, one run probes the account first.
    AccountProbing { account: String },
    /// A running task works in one of its areas.
    AreaTaken { area: Area, by: TaskId },
    /// A task ahead of it in the queue waits for the same area and gets it first.
    AreaReserved { area: Area, to: TaskId },
    /// The account has as many runs as its setting allows, over all nodes.
    AccountFull { account: String, limit: u32 },
    /// The worker has as many runs as its setting allows.
    WorkerBusy { worker: String, max_concurrent: u32 },
    /// Its role has as many runs as the settings allow.
    LaneFull { role: String, limit: u32 },
    /// All nodes together have as many runs as the settings allow.
    Full { limit: u32 },
    /// This node has as many runs as its setting allows.
    NodeFull { node: String, capacity: u32 },
    /// Its batch has as many runs as it may.
    BatchFull { batch: String, concurrency: u32 },
}

impl Ineligible {
    /// One for each limit that leaves nothing for another run.
    pub fn over_budget(
        scope: &BudgetScope,
        budget: &Budget,
        used: &Used,
    ) -> impl Iterator<Item = Self> {
        let ineligible = |limit| Self::OverBudget { scope: scope.clone(), limit };
        budget.reached(used).into_iter().map(ineligible)
    }

    /// A stable identifier for scripts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoActivity => "no_activity",
            Self::NotAssigned { .. } => "not_assigned",
            Self::NoWorker { .. } => "no_worker",
            Self::Paused => "paused",
            Self::BatchPaused { .. } => "batch_paused",
            Self::OverBudget { .. } => "over_budget",
            Self::NotHere { .. } => "not_here",
            Self::AreaTaken { .. } => "area_taken",
            Self::AreaReserved { .. } => "area_reserved",
            Self::AccountPaused { .. } => "account_paused",
            Self::AccountProbing { .. } => "account_probing",
            Self::AccountFull { .. } => "account_full",
            Self::WorkerBusy { .. } => "worker_busy",
            Self::LaneFull { .. } => "lane_full",
            Self::Full { .. } => "full",
            Self::NodeFull { .. } => "node_full",
            Self::BatchFull { .. } => "batch_full",
        }
    }

    /// The reason in a short sentence.
    pub fn detail(&self) -> String {
        match self {
            Self::NoActivity => {
                "the state after it names no activity, so only an outside worker takes it"
                    .to_owned()
            }
            Self::NotAssigned { assignees } => {
                format!("it is assigned to {}, whom no live node has", assignees.join(", "))
            }
            Self::NoWorker { role, needs } if needs.is_empty() => {
                format!("no worker plays the role {role}")
            }
            Self::NoWorker { role, needs } => {
                format!("no {role} has all required capabilities; missing: {}", needs.join(", "))
            }
            Self::Paused => "all work is paused".to_owned(),
            Self::BatchPaused { batch } => format!("batch {batch} is paused"),
            Self::OverBudget { scope, limit } => format!("{scope} has used up its {limit}"),
            Self::NotHere { node, workers } => {
                format!("node {node} has no worker for it; others have: {}", workers.join(", "))
            }
            Self::AreaTaken { area, by } => format!("{by} is working in {}", area.0),
            Self::AreaReserved { area, to } => {
                format!("{to} is ahead of it in the queue and waits for {}", area.0)
            }
            Self::AccountPaused { account, reason, .. } if reason.is_empty() => {
                format!("account {account} is paused")
            }
            Self::AccountPaused { account, reason, .. } => {
                format!("account {account} is paused: {reason}")
            }
            Self::AccountProbing { account } => {
                format!("account {account} was paused, and one run probes it first")
            }
            Self::AccountFull { account, limit } => full(&format!("account {account}"), *limit),
            Self::WorkerBusy { worker, max_concurrent } => {
                full(&format!("worker {worker}"), *max_concurrent)
            }
            Self::LaneFull { role, limit } => full(&format!("the lane of {role}"), *limit),
            Self::Full { limit } => full("the whole system", *limit),
            Self::NodeFull { node, capacity } => full(&format!("node {node}"), *capacity),
            Self::BatchFull { batch, concurrency } => full(&format!("batch {batch}"), *concurrency),
        }
    }

    /// When it ends by itself, if that is known.
    pub fn until(&self) -> Option<Instant> {
        if let Self::AccountPaused { until, .. } = self { Some(*until) } else { None }
    }

    /// What it waits for: a person, a task, a worker, an account or a node.
    pub fn waits_for(&self) -> Option<String> {
        match self {
            // The day ends by itself.
            Self::OverBudget { scope: BudgetScope::Day, .. } => None,
            Self::NoActivity => Some("a worker".to_owned()),
            Self::NotAssigned { assignees } => Some(assignees.join(", ")),
            Self::NoWorker { .. }
            | Self::Paused
            | Self::BatchPaused { .. }
            | Self::OverBudget { scope: BudgetScope::Task(_) | BudgetScope::Batch(_), .. } => {
                Some("human".to_owned())
            }
            Self::NotHere { workers, .. } => Some(workers.join(", ")),
            Self::AreaTaken { by: task, .. } | Self::AreaReserved { to: task, .. } => {
                Some(task.to_string())
            }
            Self::AccountPaused { account, .. }
            | Self::AccountProbing { account }
            | Self::AccountFull { account, .. } => Some(account.clone()),
            Self::WorkerBusy { worker, .. } => Some(worker.clone()),
            Self::NodeFull { node, .. } => Some(node.clone()),
            Self::Full { .. } | Self::LaneFull { .. } | Self::BatchFull { .. } => None,
        }
    }

    /// What would change it, in a short sentence with the setting to change.
    pub fn remedy(&self) -> String {
        match self {
            Self::NoActivity => "an outside worker claims it, or a person moves it".to_owned(),
            Self::NotAssigned { .. } => {
                "an assignee moves it on, or a person assigns it to somebody else".to_owned()
            }
            Self::NoWorker { role, needs } => {
                let which = if needs.is_empty() {
                    String::new()
                } else {
                    format!(" and {} (`workers.NAME.capabilities`)", needs.join(", "))
                };
                format!(
                    "give a worker the role {role} (`workers.NAME.roles`){which}, or start a node that has one"
                )
            }
            Self::Paused => "resume the start of agents".to_owned(),
            Self::BatchPaused { batch } => format!("resume the batch {batch}"),
            Self::OverBudget { scope, limit: BudgetLimit { what, .. } } => match scope {
                BudgetScope::Day => format!(
                    "wait for the next day (UTC), or raise `budget.day_{what}` and start `up` again"
                ),
                BudgetScope::Batch(batch) => {
                    format!("raise the limit of {what} of the batch {batch}, or lift it")
                }
                BudgetScope::Task(_) => format!("raise `budget.task_{what}`"),
            },
            Self::NotHere { .. } => {
                "another node takes it; `workers` in the settings adds a worker here".to_owned()
            }
            Self::AreaTaken { by, .. } => format!("it can start when {by} ends"),
            Self::AreaReserved { to, .. } => format!("it can start after {to}"),
            Self::AccountPaused { account, until, .. } => {
                format!(
                    "it continues by itself at {until}, or when you resume the account {account}"
                )
            }
            Self::AccountProbing { account } => format!(
                "it continues when the provider answers that run, or when you resume the account {account}"
            ),
            Self::AccountFull { account, .. } => {
                format!("wait for a run to end, or raise `accounts.{account}.max_concurrent`")
            }
            Self::WorkerBusy { worker, .. } => {
                format!("wait for a run to end, or raise `workers.{worker}.max_concurrent`")
            }
            Self::LaneFull { role, .. } => {
                format!("wait for a run to end, or raise `lanes.{role}.max_concurrent`")
            }
            Self::Full { .. } => "wait for a run to end, or raise `limits.total`".to_owned(),
            Self::NodeFull { .. } => "wait for a run to end, or raise `limits.agents`".to_owned(),
            Self::BatchFull { batch, .. } => {
                format!("wait for a run to end, or raise the concurrency of the batch {batch}")
            }
        }
    }

    pub(super) fn is_area(&self) -> bool {
        matches!(self, Self::AreaTaken { .. } | Self::AreaReserved { .. })
    }

    /// Whether it ends as soon as enough runs have ended, on this node or on one that can take the
    /// task.
    pub(super) fn ends_with_a_run(&self) -> bool {
        match self {
            Self::AreaTaken { .. } | Self::AreaReserved { .. } | Self::NotHere { .. } => true,
            Self::AccountFull { .. } | Self::WorkerBusy { .. } | Self::Full { .. } => true,
            Self::NodeFull { .. } | Self::BatchFull { .. } | Self::LaneFull { .. } => true,
            Self::NoActivity | Self::NotAssigned { .. } | Self::NoWorker { .. } => false,
            Self::Paused | Self::BatchPaused { .. } => false,
            Self::OverBudget { .. } | Self::AccountPaused { .. } => false,
            Self::AccountProbing { .. } => false,
        }
    }
}

fn full(what: &str, limit: u32) -> String {
    let runs = if limit == 1 { "run" } else { "runs" };
    format!("{what} is full: the limit is {limit} {runs}")
}
