//! The history is the truth: folding a task's records reproduces the task.
//!
//! Records hold every change of a task by name. `changes` writes them and `fold` reads them back; a
//! comparison with the task's row reveals changes that the history does not have.

use super::apply::put;
use super::effect::{EPOCH, NOTE_DETAIL, Record, SPENT};
use super::task::{CounterValue, Lease, Spent, Task};
use crate::lifecycle::Lifecycle;
use crate::lifecycle::expr::{Fields, Value};
use crate::time::{Instant, Span};

/// The task that a history folds to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Folded {
    pub version: i64,
    pub state: String,
    pub attributes: Fields,
}

/// A history whose records do not follow from each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("record {seq} follows record {before}")]
    Gap { before: i64, seq: i64 },
    #[error("record {seq} starts from {from}, but the task was in {was}")]
    Broken { seq: i64, from: String, was: String },
    #[error("its history ends with {value} as its {name}")]
    Unread { name: String, value: Value },
}

/// Folds records, which come numbered and in order.
pub fn fold<'a>(records: impl IntoIterator<Item = (i64, &'a Record)>) -> Result<Folded, FoldError> {
    let mut folded = Folded::default();
    for (seq, record) in records {
        if seq != folded.version + 1 {
            return Err(FoldError::Gap { before: folded.version, seq });
        }
        let from = record.from.as_deref().unwrap_or_default();
        if from != folded.state {
            return Err(FoldError::Broken { seq, from: from.to_owned(), was: folded.state });
        }
        folded.version = seq;
        folded.state.clone_from(&record.to);
        for (name, value) in record.fields.iter().filter(|(name, _)| name.as_str() != NOTE_DETAIL) {
            put(&mut folded.attributes, name, value);
        }
    }
    Ok(folded)
}

impl Folded {
    /// What the history of a task must fold to.
    pub fn of(lifecycle: &Lifecycle, task: &Task) -> Self {
        let state = lifecycle.state(task.state).name.clone();
        Self { version: task.version, state, attributes: changes(lifecycle, None, task) }
    }

    /// An attribute, if the history has one of that name.
    fn read<'a, T>(
        &'a self,
        name: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, FoldError> {
        let value = self.attributes.get(name);
        value.map(|value| read(value).ok_or_else(|| unread(name, value))).transpose()
    }
}

/// The differences between two versions of a task; what was removed is `null`.
pub(super) fn changes(lifecycle: &Lifecycle, old: Option<&Task>, new: &Task) -> Fields {
    let mut difference = Difference { old, new, changed: Fields::new() };
    difference.note("title", |task| Some(task.title.as_str()));
    difference.note("body", |task| (!task.body.is_empty()).then_some(task.body.as_str()));
    let version = format!("{}@{}", lifecycle.id, lifecycle.version);
    difference.note("lifecycle", |_| Some(version.as_str()));
    difference.note("project", |task| Some(task.project.as_str()));
    difference.note("batch", |task| task.batch.clone());
    difference.note("tags", |task| (!task.tags.is_empty()).then(|| task.tags.clone()));
    difference.note("priority", |task| (task.priority != 0).then_some(task.priority));
    difference.note("parent", |task| task.parent.map(|id| id.to_string()));
    difference.note("prior", |task| task.prior.map(|id| lifecycle.state(id).name.as_str()));
    difference.note(EPOCH, |task| (task.epoch != 0).then_some(task.epoch));
    difference.note("lease", |task| task.run().map(|run| run.to_string()));
    difference.note(SPENT, |task| (task.spent != Spent::default()).then(|| task.spent.to_json()));
    for (index, counter) in lifecycle.counters.iter().enumerate() {
        let count = |task: &Task| task.counters.get(index).copied().unwrap_or_default();
        let number = |number: u32| (number != 0).then_some(number);
        difference.note(&counter.name, |task| number(count(task).total));
        let renewed = format!("{}.renewed", counter.name);
        difference.note(&renewed, |task| number(count(task).reset_at));
    }
    let gone = old.into_iter().flat_map(|old| old.fields.keys());
    let names = new.fields.keys().chain(gone.filter(|name| !new.fields.contains_key(*name)));
    for name in names {
        difference.note(name, |task| task.fields.get(name).cloned());
    }
    difference.changed
}

/// Collects the differences, each by a function that reads a value of a task, or none.
struct Difference<'a> {
    old: Option<&'a Task>,
    new: &'a Task,
    changed: Fields,
}

impl<'a> Difference<'a> {
    fn note<V: Into<Value>>(&mut self, name: &str, of: impl Fn(&'a Task) -> Option<V>) {
        let value = of(self.new).map(Into::into);
        if self.old.and_then(of).map(Into::into) != value {
            self.changed.insert(name.to_owned(), value.unwrap_or(Value::Null));
        }
    }
}

fn unread(name: &str, value: &Value) -> FoldError {
    FoldError::Unread { name: name.to_owned(), value: value.clone() }
}

/// One record with its number and its time.
pub type Dated<'a> = (i64, Instant, &'a Record);

/// The task as it was after the last of the given records, which start with the first of its
/// history.
pub fn rewind(
    lifecycle: &Lifecycle,
    current: &Task,
    history: &[Dated<'_>],
) -> Result<Task, FoldError> {
    let folded = fold(history.iter().map(|(seq, _, record)| (*seq, *record)))?;
    let mut task = Task { version: folded.version, not_before: None, ..current.clone() };
    for (seq, ts, record) in history {
        task.updated_at = *ts;
        task.progress_at = *ts;
        if record.from.as_deref() != Some(record.to.as_str()) {
            task.entered = *seq;
            task.entered_at = *ts;
        }
    }
    if task.entered != current.entered {
        task.uncounted = Span(0);
    }
    let state = |name: &str| lifecycle.find_state(name);
    task.state =
        state(&folded.state).ok_or_else(|| unread("state", &Value::from(folded.state.as_str())))?;
    task.prior = folded.read("prior", |prior| state(prior.as_str()?))?;
    task.epoch = folded.read(EPOCH, Value::as_i64)?.unwrap_or_default();
    let lease = folded.read("lease", Value::as_str)?;
    task.lease = lease.and_then(|_| lease_at(current, task.epoch, history));
    task.spent = folded.read(SPENT, Spent::from_json)?.unwrap_or_default();
    task.fields = folded
        .attributes
        .iter()
        .filter(|(name, _)| lifecycle.fields.contains_key(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let count = |name: &str| {
        let count = folded.read(name, |count| u32::try_from(count.as_i64()?).ok())?;
        Ok::<_, FoldError>(count.unwrap_or_default())
    };
    let counts = lifecycle.counters.iter().map(|counter| {
        let (total, reset_at) =
            (count(&counter.name)?, count(&format!("{}.renewed", counter.name))?);
        Ok(CounterValue { total, reset_at })
    });
    task.counters = counts.collect::<Result<_, FoldError>>()?;
    Ok(task)
}

/// A past lease. The history has no expiry times, so the time of the claim stands in for one unless
/// the lease is still current.
fn lease_at(current: &Task, epoch: i64, history: &[Dated<'_>]) -> Option<Lease> {
    if let Some(lease) = current.lease.as_ref().filter(|lease| lease.epoch == epoch) {
        return Some(lease.clone());
    }
    let claim = history.iter().rev().find(|(_, _, record)| record.epoch().is_some())?;
    Some(Lease { epoch, worker: claim.2.actor.to_string(), expires_at: claim.1 })
}
