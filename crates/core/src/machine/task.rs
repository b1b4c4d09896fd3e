//! A task as the machine sees it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::allowed::asks_about_the_move;
use super::env::TaskEnv;
use crate::ids::{RunId, TaskId};
use crate::lifecycle::contract::{Field, Trigger};
use crate::lifecycle::expr::{Fields, Value};
use crate::lifecycle::{Activity, CounterId, Lifecycle, Requirement, RoleId, StateId, StateKind};
use crate::time::{Instant, Span};

/// A counter: its total, and the total at its last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CounterValue {
    pub total: u32,
    #[serde(rename = "renewed_at")]
    pub reset_at: u32,
}

impl CounterValue {
    /// What counts towards the limit.
    pub fn used(self) -> u32 {
        self.total.saturating_sub(self.reset_at)
    }
}

/// The exclusive right of one run to work on the task. Epochs never repeat, so a stale write is
/// recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub epoch: i64,
    pub worker: String,
    pub expires_at: Instant,
}

/// What the runs of the task have cost so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub runs: i64,
    pub tokens: i64,
    /// Millionths of a US dollar.
    pub cost_micros: i64,
}

impl Spent {
    /// The costs as a JSON summary.
    pub fn to_json(self) -> Value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a sum of money in dollars is shown, not reckoned with"
        )]
        let total = self.cost_micros as f64 / 1_000_000.0;
        let counts = [("runCount", self.runs), ("tokenCount", self.tokens)];
        let counts = counts.map(|(name, count)| (name, Value::from(count)));
        counts.into_iter().chain([("totalCost", Value::from(total))]).collect()
    }

    /// Adds what a run or an activity reports.
    pub(super) fn add(&mut self, tokens: i64, cost_micros: i64) {
        self.tokens = self.tokens.saturating_add(tokens.max(0));
        self.cost_micros = self.cost_micros.saturating_add(cost_micros.max(0));
    }

    /// Reads the result of `to_json`.
    pub(super) fn from_json(summary: &Value) -> Option<Self> {
        let number = |name: &str| summary[name].as_i64();
        #[expect(clippy::cast_possible_truncation, reason = "millionths of a dollar fit by far")]
        let cost_micros = (summary["totalCost"].as_f64()? * 1_000_000.0).round() as i64;
        Some(Self { runs: number("runCount")?, tokens: number("tokenCount")?, cost_micros })
    }
}

/// A value of a task that the program cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its {what} does not read: {why}")]
pub struct Damaged {
    pub task: TaskId,
    pub what: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub title: String,
    pub body: String,
    pub project: String,
    pub batch: Option<String>,
    pub tags: Vec<String>,
    /// Higher goes first; one step is worth a day of waiting.
    pub priority: i32,
    pub parent: Option<TaskId>,

    pub state: StateId,
    /// Where `[prior]` leads; set if and only if the state remembers it.
    pub prior: Option<StateId>,
    /// Number of the last record in the task's history.
    pub version: i64,
    /// The version at which the state was entered. Timers of an earlier entry are void.
    pub entered: i64,
    pub fields: Fields,
    pub counters: Vec<CounterValue>,

    /// Tasks that must be done first and are not.
    pub open_needs: i64,
    /// The task must not be claimed before this time.
    pub not_before: Option<Instant>,
    pub lease: Option<Lease>,
    /// The last epoch that was assigned.
    pub epoch: i64,
    pub spent: Spent,

    pub created_at: Instant,
    pub updated_at: Instant,
    pub entered_at: Instant,
    pub progress_at: Instant,
    /// Time of the present stay that its timeouts do not count, because nobody could work then:
    /// its machine slept, or its batch was paused. Negative if a clock was put back.
    pub uncounted: Span,
}

/// One step of priority is worth a day of waiting, so that no task waits for ever.
const PRIORITY_MILLIS: i64 = 86_400_000;

impl Task {
    /// The field's value as its Rust type, if the field is set.
    pub fn data<T: DeserializeOwned>(
        &self,
        lifecycle: &Lifecycle,
        field: Field,
    ) -> Result<Option<T>, Damaged> {
        let name = field.name_in(lifecycle);
        let read = |value: &Value| {
            let what = format!("field `{name}`");
            T::deserialize(value).map_err(|error| self.damaged(what, error.to_string()))
        };
        self.fields.get(name).map(read).transpose()
    }

    pub(crate) fn damaged(&self, what: impl Into<String>, why: impl Into<String>) -> Damaged {
        Damaged { task: self.id, what: what.into(), why: why.into() }
    }

    /// The run that has the task's lease.
    pub fn run(&self) -> Option<RunId> {
        self.lease.as_ref().map(|lease| RunId { task: self.id, epoch: lease.epoch })
    }

    pub fn count(&self, id: CounterId) -> CounterValue {
        self.counters.get(usize::from(id.0)).copied().unwrap_or_default()
    }

    /// Whether the state's activity is for this task. Where its `when` does not hold, subtasks do
    /// the work instead.
    pub fn is_active(&self, lifecycle: &Lifecycle) -> bool {
        let does = lifecycle.state(self.state).does.as_ref();
        let when = does.and_then(|does| does.when.as_ref());
        when.is_none_or(|when| when.holds(&TaskEnv { task: self, context: None }))
    }

    /// Whether the state needs a worker and no run has the task.
    pub fn is_claimable(&self, lifecycle: &Lifecycle) -> bool {
        if self.lease.is_some() {
            return false;
        }
        let state = lifecycle.state(self.state);
        match state.kind {
            StateKind::Queued => {
                let worker = |roles: &[RoleId]| roles.iter().any(|role| *role != RoleId::HUMAN);
                // A guard about the move has no value before there is a move.
                let seen = TaskEnv { task: self, context: None };
                let open =
                    |guard: &Requirement| asks_about_the_move(guard) || guard.that.holds(&seen);
                let mut claims =
                    lifecycle.exits(self.state).filter(|row| row.trigger == Trigger::Claim.name());
                claims.any(|row| worker(&row.roles) && row.guards.iter().all(open))
            }
            StateKind::Working | StateKind::Reviewing => {
                let is_agents =
                    state.does.as_ref().is_some_and(|does| does.activity == Activity::Agent);
                is_agents && self.is_active(lifecycle)
            }
            StateKind::Waiting
            | StateKind::Blocked
            | StateKind::Parked
            | StateKind::Done
            | StateKind::Failed
            | StateKind::Cancelled => false,
        }
    }

    /// The names of the only workers that may take it once it has left the queue; empty if it is
    /// assigned to nobody.
    pub fn assignees(&self, lifecycle: &Lifecycle) -> Vec<String> {
        let names =
            self.fields.get(Field::AssigneeIds.name_in(lifecycle)).and_then(Value::as_array);
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        names.filter(|name| !name.trim().is_empty()).map(str::to_owned).collect()
    }

    /// The task's place in the queue (lowest first), or `None` while it must not be claimed. Tasks
    /// that are not ready have no place, so that a claim never has to skip them.
    pub fn rank(&self, lifecycle: &Lifecycle) -> Option<i64> {
        let ready =
            self.open_needs == 0 && self.not_before.is_none() && self.is_claimable(lifecycle);
        ready.then(|| self.created_at.0 - i64::from(self.priority) * PRIORITY_MILLIS)
    }
}
