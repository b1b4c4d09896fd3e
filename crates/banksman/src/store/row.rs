//! Converts between rows and the types of the domain.

use std::sync::Arc;

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::{
    AgentRole, CounterName, DrivenBy, Field, Purpose, Trigger,
};
use banksman_core::lifecycle::expr::{Fields, Value as Json};
use banksman_core::lifecycle::{Activity, Lifecycle, State};
use banksman_core::machine::{self, CounterValue, Lease, Overridden, Spent, Task};
use banksman_core::receipt::MergedAs;
use banksman_core::time::{Instant, Span};
use serde::de::DeserializeOwned;

use super::conn::{FromValue, Row, SqlValue};
use super::tx::params;
use super::{Result, StoreError};

/// Lets columns hold types of the domain that are plain numbers.
macro_rules! numbers {
    ($($name:ident),*) => {$(
        impl From<$name> for SqlValue {
            fn from(number: $name) -> Self {
                number.0.into()
            }
        }

        impl FromValue<'_> for $name {
            const KIND: &'static str = i64::KIND;

            fn from_value(value: &SqlValue) -> Option<Self> {
                i64::from_value(value).map(Self)
            }
        }
    )*};
}

numbers!(TaskId, DecisionId, Instant, Span);

/// The prefix of a branch that stands for a pull request when there is no remote.
const LOCAL: &str = "local:";

/// The pull request that a branch stands for.
pub fn local_pull_request(branch: &str) -> String {
    format!("{LOCAL}{branch}")
}

/// A stored task with its lifecycle version.
#[derive(Debug, Clone)]
pub struct Stored {
    pub task: Task,
    pub lifecycle: Arc<Lifecycle>,
    /// The hash of the last record of its history.
    pub(super) head: Vec<u8>,
    /// Its stored place in the queue.
    pub(super) queue_rank: Option<i64>,
}

impl Stored {
    /// The state that it is in.
    pub fn state(&self) -> &State {
        self.lifecycle.state(self.task.state)
    }

    /// The value of a field. The check of its lifecycle and the invariants of its row have made
    /// sure that it is of the type that the contract says.
    pub fn value(&self, field: Field) -> Option<&Json> {
        self.task.fields.get(field.name_in(&self.lifecycle))
    }

    pub fn text(&self, field: Field) -> Option<&str> {
        self.value(field).and_then(Json::as_str)
    }

    pub fn flag(&self, field: Field) -> bool {
        self.value(field).and_then(Json::as_bool).unwrap_or(false)
    }

    pub fn number(&self, field: Field) -> Option<i64> {
        self.value(field).and_then(Json::as_i64)
    }

    pub fn list(&self, field: Field) -> &[Json] {
        self.value(field).and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    /// The plain data of a field as its Rust type; data that does not read is damage of the task.
    pub fn data<T: DeserializeOwned>(&self, field: Field) -> Result<Option<T>> {
        Ok(self.task.data(&self.lifecycle, field)?)
    }

    /// The same, for data that every task of its purpose has.
    pub fn owed<T: DeserializeOwned>(&self, field: Field) -> Result<T> {
        let what = || format!("its field `{field}` is missing");
        let missing = || StoreError::Corrupt { task: self.task.id, what: what() };
        self.data(field)?.ok_or_else(missing)
    }

    /// Who gave facts of the task without proof, if somebody did. A row whose record does not read
    /// is never a `Stored`.
    pub fn overridden_by(&self) -> Option<String> {
        let overridden = Overridden::of(&self.task, &self.lifecycle).ok().flatten();
        overridden.map(|overridden| overridden.by)
    }

    /// Where the work of the task was merged, if it was. The same holds for its record.
    pub fn merged_as(&self) -> Option<MergedAs> {
        machine::merged_as(&self.task, &self.lifecycle).ok().flatten()
    }

    /// How often the program has counted; 0 if its lifecycle does not count that.
    pub fn count(&self, counter: CounterName) -> u32 {
        let name = counter.name_in(&self.lifecycle);
        let own = self.lifecycle.counters.iter().zip(&self.task.counters);
        own.filter(|(declared, _)| declared.name == name).map(|(_, count)| count.total).sum()
    }

    /// Whether a person is asked to do the step: the state's offers tell, not its name.
    pub fn is_manual_step(&self) -> bool {
        let does = self.state().does.as_ref();
        let signal = Trigger::Signal.name();
        does.is_some_and(|does| does.offers.iter().any(|(_, trigger)| trigger == signal))
    }

    /// Whether the person who does the step also drives its workflow: the engine starts nothing for
    /// them, lays nothing out, and leaves the gate to them.
    pub fn is_driven_by_person(&self) -> bool {
        self.text(Field::StepDriver).is_some_and(|word| word.parse() == Ok(DrivenBy::Person))
    }

    /// A field's name in the task's lifecycle, with a value for it.
    pub fn entry(&self, field: Field, value: Json) -> (String, Json) {
        (field.name_in(&self.lifecycle).to_owned(), value)
    }

    /// The name of a trigger in the task's lifecycle.
    pub fn trigger(&self, trigger: Trigger) -> &'static str {
        trigger.name_in(&self.lifecycle)
    }

    /// Whether a row with this trigger leads out of its state.
    pub fn has_exit(&self, trigger: Trigger) -> bool {
        self.lifecycle.has_exit(self.task.state, trigger)
    }

    /// The activity of its state.
    pub fn activity(&self) -> Option<Activity> {
        self.state().activity()
    }

    pub fn is_workflow(&self) -> bool {
        self.lifecycle.purpose == Purpose::Workflow
    }

    /// Whether it reviews its parent's work instead of doing some of it.
    pub fn is_review(&self) -> bool {
        self.lifecycle.purpose == Purpose::Review
    }

    /// The name of the reviewer, for a review.
    pub fn reviewer(&self) -> &str {
        self.text(Field::Reviewer).unwrap_or(AgentRole::Reviewer.as_str())
    }

    /// Whether it waits for reviewers.
    pub fn is_at_panel(&self) -> bool {
        self.activity() == Some(Activity::Panel)
    }

    /// Whether it is a review of the panel that its parent is at.
    pub fn is_asked_by(&self, parent: &Self) -> bool {
        let asked_at = self.number(Field::AskedAt);
        self.is_review() && parent.is_at_panel() && asked_at == Some(parent.task.entered)
    }

    /// The branch that stands for its pull request, if one does.
    pub fn local_branch(&self) -> Option<&str> {
        self.text(Field::PrUrl)?.strip_prefix(LOCAL)
    }
}

/// The column that names the lifecycle version.
pub(super) const LIFECYCLE: usize = 3;
const QUEUE_RANK: usize = 27;

/// The place of a row in the queue: its rank and its id. A damaged rank sorts after all others.
pub(super) fn queue_place(row: &Row) -> Result<(i64, i64)> {
    Ok((row.int(QUEUE_RANK).unwrap_or(i64::MAX), row.int(0)?))
}

/// Reads the columns of `sql::task_columns`.
pub(super) fn stored(row: &Row, lifecycle: Arc<Lifecycle>) -> Result<Stored> {
    let id = row.get(0)?;
    let corrupt = |what: &str| StoreError::Corrupt { task: id, what: what.to_owned() };
    let state = |name: &str| {
        // Whole names only: a stored name is never abbreviated.
        let known = lifecycle.find_state(name).filter(|id| lifecycle.state(*id).name == name);
        known.ok_or_else(|| corrupt("its state is not in its lifecycle"))
    };
    let prior = row.get::<Option<&str>>(9)?.map(state).transpose()?;
    let epoch = row.int(16)?;
    let lease = match (row.get(17)?, row.get(18)?) {
        (Some(worker), Some(expires_at)) => Some(Lease { epoch, worker, expires_at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(corrupt("half a lease")),
    };
    let fields: Fields =
        serde_json::from_str(row.text(12)?).map_err(|_| corrupt("its fields are not JSON"))?;
    let counters: Vec<(u32, u32)> =
        serde_json::from_str(row.text(13)?).map_err(|_| corrupt("its counters are not numbers"))?;
    let task = Task {
        id,
        title: row.get(4)?,
        body: String::new(),
        project: row.get(1)?,
        batch: row.get(2)?,
        tags: serde_json::from_str(row.text(5)?).map_err(|_| corrupt("its tags are not a list"))?,
        priority: i32::try_from(row.int(6)?)
            .map_err(|_| corrupt("its priority is out of range"))?,
        parent: row.get(7)?,
        state: state(row.text(8)?)?,
        prior,
        version: row.int(10)?,
        entered: row.int(11)?,
        fields,
        counters: counters
            .into_iter()
            .map(|(total, reset_at)| CounterValue { total, reset_at })
            .collect(),
        open_needs: row.int(14)?,
        not_before: row.get(15)?,
        lease,
        epoch,
        spent: Spent { runs: row.int(19)?, tokens: row.int(20)?, cost_micros: row.int(21)? },
        created_at: row.get(22)?,
        updated_at: row.get(23)?,
        entered_at: row.get(24)?,
        progress_at: row.get(25)?,
        uncounted: row.get(30)?,
    };
    Overridden::of(&task, &lifecycle)?;
    machine::merged_as(&task, &lifecycle)?;
    // Queries use these columns to see whether the task is done, so they must agree with its state.
    let state = lifecycle.state(task.state);
    if row.text(28)? != state.kind.as_str()
        || row.get::<Option<&str>>(29)? != state.group.as_deref()
    {
        return Err(corrupt("its kind or its group is not that of its state"));
    }
    Ok(Stored { task, lifecycle, head: row.get(26)?, queue_rank: row.get(QUEUE_RANK)? })
}

/// The columns that a step may change, in the order of `SAVE_TASK_IF_VERSION` and, after the fixed
/// ones, of `INSERT_TASK`.
pub(super) fn changing(task: &Task, lifecycle: &Lifecycle) -> [SqlValue; 21] {
    let state = lifecycle.state(task.state);
    let counters: Vec<(u32, u32)> =
        task.counters.iter().map(|count| (count.total, count.reset_at)).collect();
    let lease = task.lease.as_ref();
    params![
        &state.name,
        state.kind.as_str(),
        state.group.as_deref(),
        task.prior.map(|id| lifecycle.state(id).name.as_str()),
        task.version,
        task.entered,
        json(&task.fields),
        json(&counters),
        task.open_needs,
        task.not_before,
        task.rank(lifecycle),
        task.epoch,
        lease.map(|lease| lease.worker.as_str()),
        lease.map(|lease| lease.expires_at),
        task.spent.runs,
        task.spent.tokens,
        task.spent.cost_micros,
        task.updated_at,
        task.entered_at,
        task.progress_at,
        task.uncounted,
    ]
}

/// JSON of a value that is made of maps, lists, texts and numbers only.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data is always JSON")
}
