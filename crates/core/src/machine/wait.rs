//! Whether a task's wait is over.

use super::env::{TaskEnv, TransitionContext};
use super::event::Actor;
use super::task::Task;
use crate::lifecycle::expr::{Expr, ResolvedName, Type};
use crate::lifecycle::{Activity, Lifecycle, StateKind};
use crate::time::Instant;

/// The status of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStatus {
    /// The task's state waits for nothing.
    Not,
    Met,
    /// It is not over; it may be at this time, as far as the task's own times tell.
    Until(Option<Instant>),
}

pub fn waits(lifecycle: &Lifecycle, task: &Task, now: Instant) -> WaitStatus {
    let does = lifecycle.state(task.state).does.as_ref();
    let Some(does) = does.filter(|does| does.activity == Activity::Wait) else {
        return WaitStatus::Not;
    };
    let actor = Actor::system();
    let seen =
        TaskEnv { task, context: Some(TransitionContext { actor: &actor, now, outcome: None }) };
    let Some(until) = &does.until else { return WaitStatus::Until(None) };
    // A wait for a place in the queue does not start before the tasks that this one needs are done.
    if task.open_needs > 0 && lifecycle.state(task.state).kind == StateKind::Queued {
        return WaitStatus::Until(None);
    }
    if until.holds(&seen) {
        return WaitStatus::Met;
    }
    WaitStatus::Until(times(lifecycle, task, until).filter(|at| *at > now).min())
}

/// The first time at which the wait of the task's state may be over, as far as its own times tell,
/// whether that is past or not.
pub fn wait_due(lifecycle: &Lifecycle, task: &Task) -> Option<Instant> {
    let does = lifecycle.state(task.state).does.as_ref()?;
    let until = does.until.as_ref().filter(|_| task.is_active(lifecycle))?;
    times(lifecycle, task, until).min()
}

fn times<'a>(
    lifecycle: &'a Lifecycle,
    task: &'a Task,
    until: &'a Expr,
) -> impl Iterator<Item = Instant> + 'a {
    let time = |name: &ResolvedName| {
        let path = name.field()?;
        let field = path.first()?;
        let is_time = path.len() == 1
            && lifecycle.fields.get(field).is_some_and(|field| field.kind == Type::Time);
        let text = task.fields.get(field).filter(|_| is_time)?.as_str()?;
        text.parse::<Instant>().ok()
    };
    until.names().filter_map(time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::TaskId;
    use crate::lifecycle::check::{Overrides, check};
    use crate::machine::{Claim, Event, NewTask, StepResult, create, step};

    const SOURCE: &str = "
lifecycle: x
purpose: task
initial: queued
roles: [worker]
fields:
  free_at: { type: time, by: anyone }
  ready: { type: flag, by: anyone }
states:
  queued: { kind: queued }
  resting:
    kind: working
    does: { activity: wait, until: ready == true or now >= free_at, outcomes: { met: finish } }
    timeouts: [{ after: 1d, to: done }]
  done: { kind: done }
transitions:
  - { from: queued, to: resting, on: claim, by: [worker] }
  - { from: queued, to: done, on: drop, by: [human] }
  - { from: resting, to: done, on: finish, by: [system] }
";

    #[test]
    fn a_wait_is_met_by_the_task_or_by_the_clock() {
        let lifecycle = check(SOURCE, "x", &Overrides::new()).expect("it is sound");
        let (now, later) = (Instant(1_000), Instant(61_000));
        let new = NewTask { title: "rest".to_owned(), ..NewTask::default() };
        let task = create(&lifecycle, &new, &Actor::human("kim"), TaskId(1), now).unwrap().task;
        assert_eq!(waits(&lifecycle, &task, now), WaitStatus::Not);
        let actor = Actor { role: "worker".to_owned(), name: None };
        let claim = Event::Claimed(Claim { actor, expires_at: later });
        let Ok(StepResult::Step(claimed)) = step(&lifecycle, &task, &claim, now) else { panic!() };
        let mut task = claimed.task;
        assert_eq!(waits(&lifecycle, &task, now), WaitStatus::Until(None));
        task.fields.insert("free_at".to_owned(), json!(later));
        assert_eq!(waits(&lifecycle, &task, now), WaitStatus::Until(Some(later)));
        assert_eq!(waits(&lifecycle, &task, later), WaitStatus::Met);
        task.fields.insert("ready".to_owned(), json!(true));
        assert_eq!(waits(&lifecycle, &task, now), WaitStatus::Met);
    }
}
