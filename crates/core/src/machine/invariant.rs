//! What is true of every task at all times (checked before each write and after each read), and
//! what a task waits for.

use super::apply::{resolve, unmet};
use super::entry::{asks_people, is_left_to_children, is_silent, running_timeouts};
use super::env::TaskEnv;
use super::reject::FieldError;
use super::task::{Damaged, Task};
use super::wait::wait_due;
use crate::ids::TaskId;
use crate::lifecycle::contract::{Field, Purpose};
use crate::lifecycle::{
    Activity, Lifecycle, RoleId, StateId, StateKind, Transition, TransitionTarget,
};
use crate::schedule::{Budget, Used};
use crate::time::Instant;
use crate::workflow::{Step, Workflow};

/// An impossible task: before a write, a bug of the program; after a read, corrupt data.
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
        let prior = if state.remembers { "missing" } else { "not expected" };
        return broken(format!("in {}, its earlier state is {prior}", state.name));
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
        if beyond || count.reset_at > count.total {
            let (name, used, limit) = (&counter.name, count.used(), counter.limit);
            return broken(format!("its counter {name} stands at {used} of {limit:?}"));
        }
    }
    match &task.lease {
        Some(lease) if state.terminal => {
            broken(format!("has ended, but run {} still has a lease", lease.epoch))
        }
        Some(lease) if lease.epoch != task.epoch => broken(format!(
            "its lease has epoch {}, but the last one given is {}",
            lease.epoch, task.epoch
        )),
        Some(_) | None => Ok(()),
    }
}

/// What the program could not read of a task: a field that its creator owes to its purpose, or data
/// that is not of its Rust type.
pub fn unreadable(lifecycle: &Lifecycle, task: &Task) -> Vec<FieldError> {
    let (purpose, mut errors) = (lifecycle.purpose, Vec::new());
    let known = Field::RULES.iter().map(|rule| rule.item).filter(|_| !lifecycle.legacy);
    let owed = known.filter(|field| field.is_owed_to(purpose) && lifecycle.has_field(*field));
    for field in owed {
        if !task.fields.contains_key(field.name()) {
            let message = format!("is missing, and every {purpose} is created with it");
            errors.push(FieldError::new(field.name(), message));
        } else if let Err(damaged) = read_data(lifecycle, task, field) {
            errors.push(FieldError::new(field.name(), format!("does not read: {}", damaged.why)));
        }
    }
    errors
}

fn read_data(lifecycle: &Lifecycle, task: &Task, field: Field) -> Result<(), Damaged> {
    let is = |fields: &[Field]| fields.contains(&field);
    if is(&[Field::Spec]) && lifecycle.purpose == Purpose::Step {
        task.data::<Step>(lifecycle, field).map(drop)
    } else if is(&[Field::Spec]) {
        task.data::<Workflow>(lifecycle, field).map(drop)
    } else if is(&[Field::Used]) {
        task.data::<Used>(lifecycle, field).map(drop)
    } else if is(&[Field::Limit, Field::More]) {
        task.data::<Budget>(lifecycle, field).map(drop)
    } else {
        Ok(())
    }
}

/// What will move a task on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    /// Nothing: the task has ended.
    Ended,
    /// The end of its run or of the run's lease, which expires at this time.
    Lease(Instant),
    /// Tasks that are not done, this many.
    Needs(i64),
    /// A worker: the task is in the queue.
    Queue,
    /// A person.
    Person,
    /// The end of its parent.
    Parent(TaskId),
    /// Its subtasks, which do the work of its state.
    Subtasks,
    /// A time: of a timer, or of its own that its state waits for.
    Timer(Instant),
    /// Nothing will move it on. This must never be.
    Stranded,
}

/// Finds what a task waits for. `next_timer` is the earliest timer that the store has for it.
pub fn waits_for(lifecycle: &Lifecycle, task: &Task, next_timer: Option<Instant>) -> WaitsFor {
    let state = lifecycle.state(task.state);
    if state.terminal {
        return WaitsFor::Ended;
    }
    if let Some(parent) = task.parent.filter(|_| state.provisional) {
        return WaitsFor::Parent(parent);
    }
    if let Some(lease) = &task.lease {
        return WaitsFor::Lease(lease.expires_at);
    }
    if task.rank(lifecycle).is_some() {
        return WaitsFor::Queue;
    }
    if is_left_to_children(lifecycle, task) {
        return WaitsFor::Subtasks;
    }
    if is_silent(lifecycle, task) {
        // No person is asked and no agent runs, so only a timer can move the task.
        return next_timer.map_or(WaitsFor::Stranded, WaitsFor::Timer);
    }
    if task.open_needs > 0 && (task.is_claimable(lifecycle) || state.kind == StateKind::Queued) {
        return WaitsFor::Needs(task.open_needs);
    }
    if let Some(at) = rests_until(lifecycle, task, next_timer) {
        return WaitsFor::Timer(at);
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
    let asks = asks || person && is_asked(lifecycle, task);
    match (asks && task.not_before.is_none(), next_timer) {
        (true, _) => WaitsFor::Person,
        (false, Some(due)) => WaitsFor::Timer(due),
        (false, None) if person => WaitsFor::Person,
        (false, None) => WaitsFor::Stranded,
    }
}

fn is_asked(lifecycle: &Lifecycle, task: &Task) -> bool {
    asks_people(lifecycle.state(task.state)) && task.is_active(lifecycle)
}

/// Whether the task rests in its state, and goes on by itself when a time has come: nobody is
/// asked, and it waits for a time of its own, or its next timeout leads it back to work. People may
/// end the rest, but need not.
pub fn rests(lifecycle: &Lifecycle, task: &Task) -> bool {
    use StateKind::{
        Blocked, Cancelled, Done, Failed, Parked, Queued, Reviewing, Waiting, Working,
    };
    if is_asked(lifecycle, task) || task.lease.is_some() {
        return false;
    }
    let leads_back = || {
        let to = next_timeout(lifecycle, task).map(|to| lifecycle.state(to).kind);
        matches!(to, Some(Queued | Working | Reviewing))
    };
    match lifecycle.state(task.state).kind {
        Waiting | Blocked | Parked | Failed => wait_due(lifecycle, task).is_some() || leads_back(),
        Queued | Working | Reviewing | Done | Cancelled => false,
    }
}

/// The state to which the first timeout of the task's state leads.
fn next_timeout(lifecycle: &Lifecycle, task: &Task) -> Option<StateId> {
    let next = running_timeouts(lifecycle, task).min_by_key(|(_, timeout)| timeout.time);
    let row = lifecycle.transitions.get(next?.0 as usize)?;
    resolve(row.to, task)
}

/// Whether reviewers are asked again when the task's rest is over.
pub fn rests_for_reviewers(lifecycle: &Lifecycle, task: &Task) -> bool {
    let to = next_timeout(lifecycle, task).filter(|_| rests(lifecycle, task));
    to.is_some_and(|to| lifecycle.state(to).activity() == Some(Activity::Panel))
}

/// When the rest of a task ends. `next_timer` is the earliest timer that the store has for it.
fn rests_until(lifecycle: &Lifecycle, task: &Task, next_timer: Option<Instant>) -> Option<Instant> {
    let ends = || wait_due(lifecycle, task).into_iter().chain(next_timer).min();
    rests(lifecycle, task).then(ends)?
}

/// How often the task has come into its state and how often it may, if a counter limits that.
pub fn attempts(lifecycle: &Lifecycle, task: &Task) -> Option<(u32, u32)> {
    let enters = |row: &&Transition| row.to == TransitionTarget::State(task.state);
    let rows = lifecycle.transitions.iter().filter(enters);
    let counted = rows.flat_map(|row| &row.changes.count).next()?;
    let counter = lifecycle.counters.get(usize::from(counted.0))?;
    Some((task.counters.get(usize::from(counted.0))?.used(), counter.limit?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lifecycle::builtin;
    use crate::lifecycle::check::Overrides;
    use crate::machine::{Actor, NewTask, create};

    /// Where the built-in lifecycles rest. In all other states a task is in the queue, at work, at
    /// its end, or waits for a person or another task.
    #[test]
    fn tasks_rest_where_their_state_leads_on_by_itself() {
        let mut found = Vec::new();
        for (id, _) in builtin::SOURCES {
            let lifecycle = builtin::get(id, &Overrides::new()).expect("built in").expect("sound");
            let required = lifecycle.state(lifecycle.initial).requires.iter();
            let takes_x = |it: &&crate::lifecycle::Requirement| {
                lifecycle.fields[&it.field].accepts(&json!("x")).is_ok()
            };
            let fields = required.filter(takes_x).map(|it| (it.field.clone(), json!("x")));
            let fields = fields.collect();
            let new = NewTask { title: "x".to_owned(), fields, ..NewTask::default() };
            let task = create(&lifecycle, &new, &Actor::system(), TaskId(1), Instant(1_000));
            let mut task = task.expect("it can be added").task;
            if lifecycle.fields.contains_key("retry_at") {
                task.fields.insert("retry_at".to_owned(), json!(Instant(31_000)));
            }
            for (state, number) in lifecycle.states.iter().zip(0..) {
                let prior = state.remembers.then_some(lifecycle.initial);
                let task = Task { state: StateId(number), prior, ..task.clone() };
                let next = running_timeouts(&lifecycle, &task).map(|(_, it)| it.time.0).min();
                let next = next.map(|after| Instant(1_000 + after));
                let by_person = waits_for(&lifecycle, &task, next) == WaitsFor::Person;
                assert!(!(by_person && rests(&lifecycle, &task)), "{id} {}", state.name);
                if rests(&lifecycle, &task) {
                    found.push(format!("{id} {}", state.name));
                }
            }
        }
        let expected = [
            "autonomous consensus(unserved)",
            "autonomous review(unserved)",
            "leaf review(unserved)",
            "review resting(once)",
            "review resting(twice)",
            "judged blocked(no_judge)",
            "judged blocked(quota_wait)",
            "judged blocked(needs_rework)",
            "judged failed",
            "supervised blocked(no_evaluator)",
        ];
        assert_eq!(found, expected);
    }
}
