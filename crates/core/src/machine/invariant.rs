//! What is true of every task at every time. Checked before each write and after each read.

use super::apply::unmet;
use super::entry::{is_left_to_children, is_silent};
use super::env::TaskEnv;
use super::task::Task;
use crate::ids::TaskId;
use crate::lifecycle::{Lifecycle, RoleId, StateKind};
use crate::time::Instant;

/// A task that cannot be: our bug before a write, corrupt data after a read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

pub fn check(lifecycle: &Lifecycle, task: &Task) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken(what));
    let Some(state) = lifecycle.states.get(usize::from(task.state.0)) else {
        let number = task.state.0;
        return broken(format!("its state {number} is not in the lifecycle {}", lifecycle.id));
    };
    if let Some(error) = unmet(&state.requires, &TaskEnv { task, context: None }).next() {
        return broken(format!("in {} without {}: {}", state.name, error.field, error.message));
    }
    if state.remembers != task.prior.is_some() {
        let prior = if state.remembers { "lost" } else { "kept for nothing" };
        return broken(format!("in {}, where it came from is {prior}", state.name));
    }
    let Task { version, entered, epoch, .. } = task;
    if *version < 1 || *entered < 1 || entered > version {
        return broken(format!("version {version} does not fit its entry at {entered}"));
    }
    if *epoch < 0 || epoch.max(version) == &i64::MAX {
        return broken(format!("nothing follows version {version}, epoch {epoch}"));
    }
    if task.open_needs < 0 {
        return broken(format!("waits for {} tasks", task.open_needs));
    }
    for (name, value) in &task.fields {
        match lifecycle.fields.get(name).map(|field| field.accepts(value)) {
            Some(Ok(())) => {}
            Some(Err(message)) => return broken(format!("its field {name}: {message}")),
            None => return broken(format!("its field {name} is not declared")),
        }
    }
    for (counter, count) in lifecycle.counters.iter().zip(&task.counters) {
        let beyond = counter.limit.is_some_and(|limit| count.used() > limit);
        if beyond || count.renewed_at > count.total {
            let (name, used, limit) = (&counter.name, count.used(), counter.limit);
            return broken(format!("its counter {name} stands at {used} of {limit:?}"));
        }
    }
    match &task.lease {
        Some(lease) if state.terminal => {
            broken(format!("has ended, but its run {} still holds it", lease.epoch))
        }
        Some(lease) if lease.epoch != task.epoch => broken(format!(
            "is held under epoch {}, but the last one given is {}",
            lease.epoch, task.epoch
        )),
        Some(_) | None => Ok(()),
    }
}

/// The one thing that will move a task on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driver {
    /// Nothing has to: it has ended.
    Ended,
    /// A run holds it.
    Lease(Instant),
    /// It waits for tasks that are not done.
    Needs(i64),
    /// It has a place in the queue.
    Queue,
    /// A person has to do something.
    Person,
    /// Its parent will, when that is over.
    Parent(TaskId),
    /// Its subtasks will: they do the work of its state.
    Subtasks,
    /// A timer will.
    Timer(Instant),
    /// Nothing: this must never be.
    Stranded,
}

/// Finds what a task waits for. `next_timer` is the earliest timer that the store has for it.
pub fn driver_of(lifecycle: &Lifecycle, task: &Task, next_timer: Option<Instant>) -> Driver {
    let state = lifecycle.state(task.state);
    if state.terminal {
        return Driver::Ended;
    }
    if let Some(parent) = task.parent.filter(|_| state.provisional) {
        return Driver::Parent(parent);
    }
    if let Some(lease) = &task.lease {
        return Driver::Lease(lease.expires_at);
    }
    if task.rank(lifecycle).is_some() {
        return Driver::Queue;
    }
    if is_left_to_children(lifecycle, task) {
        return Driver::Subtasks;
    }
    if is_silent(lifecycle, task) {
        // Nobody is asked and no agent is called, so only the clock is left.
        return next_timer.map_or(Driver::Stranded, Driver::Timer);
    }
    if task.open_needs > 0 && (task.is_claimable(lifecycle) || state.kind == StateKind::Queued) {
        return Driver::Needs(task.open_needs);
    }
    let person = lifecycle
        .exits(task.state)
        .any(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN));
    let asks = match state.kind {
        StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked
        | StateKind::Failed
        | StateKind::Queued => person,
        StateKind::Reviewing => person && state.does.is_none(),
        StateKind::Working | StateKind::Done | StateKind::Cancelled => false,
    };
    match (asks && task.not_before.is_none(), next_timer) {
        (true, _) => Driver::Person,
        (false, Some(due)) => Driver::Timer(due),
        (false, None) if person => Driver::Person,
        (false, None) => Driver::Stranded,
    }
}
