//! What must be true of a step before it is written, compared with the task and the event that it
//! was decided on. `machine::check` says what must be true of the task alone.
//!
//! `docs/design/0006-invariants.md` gives the reasons.

use banksman_core::lifecycle::Lifecycle;
use banksman_core::machine::{self, Broken, Event, Task, TaskUpdate};

/// Refuses a step that no event may lead to. It is our bug, and nothing of it is written.
pub(super) fn check_step(
    lifecycle: &Lifecycle,
    old: &Task,
    event: &Event,
    step: &TaskUpdate,
) -> Result<(), Broken> {
    machine::check(lifecycle, &step.task)?;
    let rules = history_rules(lifecycle, old, step).into_iter().chain(lease_rules(old, step));
    let broken = rules.chain(event_rule(old, event, &step.task)).find(|(holds, _)| !holds);
    broken.map_or(Ok(()), |(_, what)| Err(Broken(what.to_owned())))
}

type CheckedRule = (bool, &'static str);

/// Every change of state has one record, and every record one version.
fn history_rules(lifecycle: &Lifecycle, old: &Task, step: &TaskUpdate) -> [CheckedRule; 4] {
    let (new, record) = (&step.task, step.record.as_ref());
    let name = |task: &Task| lifecycle.state(task.state).name.as_str();
    let names_both = record
        .is_none_or(|record| record.from.as_deref() == Some(name(old)) && record.to == name(new));
    [
        (new.id == old.id, "the step is of another task"),
        (
            new.version == old.version + i64::from(record.is_some()),
            "the version does not match the records",
        ),
        (record.is_some() || new.state == old.state, "the state changed without a record"),
        (names_both, "its record names other states"),
    ]
}

/// An epoch is given once and counted, and a run ends when its lease does.
fn lease_rules(old: &Task, step: &TaskUpdate) -> [CheckedRule; 5] {
    let new = &step.task;
    let held = |task: &Task| task.lease.as_ref().map(|lease| lease.epoch);
    let lost = held(old).filter(|epoch| held(new) != Some(*epoch));
    let ended = step.ended_run.as_ref().map(|(epoch, _)| *epoch);
    let spent = |task: &Task| [task.spent.runs, task.spent.tokens, task.spent.cost_micros];
    [
        ((0..=1).contains(&(new.epoch - old.epoch)), "the epoch grew by more than one"),
        (new.epoch == old.epoch || held(new).is_some(), "the epoch grew without a lease"),
        (
            new.epoch == old.epoch || old.spent.runs.checked_add(1) == Some(new.spent.runs),
            "the run is not counted in the usage",
        ),
        (ended == lost, "a run ends when its lease does, and only then"),
        (spent(old).iter().zip(spent(new)).all(|(old, new)| *old <= new), "the usage decreased"),
    ]
}

/// What an event of a run leaves behind.
fn event_rule(old: &Task, event: &Event, new: &Task) -> Option<CheckedRule> {
    let lease = new.lease.as_ref();
    match event {
        Event::Claimed(claim) => Some(match lease {
            // A counter at its limit may have led the task elsewhere.
            None => (new.state != old.state, "a claim leaves neither a lease nor its queue"),
            Some(lease) => (
                old.lease.is_none()
                    && lease.worker == claim.actor.to_string()
                    && lease.expires_at == claim.expires_at,
                "the lease is not the one that was claimed",
            ),
        }),
        Event::Finished(finish) => Some((
            lease.is_none_or(|lease| lease.epoch != finish.epoch),
            "a run that has ended still holds its task",
        )),
        Event::Heartbeat(heartbeat) => Some((
            lease.is_some_and(|lease| lease.epoch == heartbeat.epoch),
            "a heartbeat has changed who holds the task",
        )),
        Event::Asked(_)
        | Event::Reported(_)
        | Event::Due { .. }
        | Event::StaleWrite { .. }
        | Event::Noted(_)
        | Event::DelaySkipped(_)
        | Event::Overridden(_)
        | Event::Restored { .. }
        | Event::NeedsLeft(_)
        | Event::Uncounted(_)
        | Event::LateCost(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use banksman_core::ids::TaskId;
    use banksman_core::lifecycle::Outcome;
    use banksman_core::lifecycle::builtin;
    use banksman_core::machine::{Actor, Claim, Finish, Heartbeat, NewTask, StepResult};
    use banksman_core::time::Instant;

    use super::*;

    const NOW: Instant = Instant(1_000);

    fn lifecycle() -> Lifecycle {
        builtin::get("supervised", &Default::default()).expect("built in").expect("sound")
    }

    fn decided(lifecycle: &Lifecycle, task: &Task, event: &Event) -> TaskUpdate {
        match machine::step(lifecycle, task, event, NOW).expect("it is accepted") {
            StepResult::Step(step) => *step,
            StepResult::Later(_) | StepResult::Ignored(_) => panic!("it changes something"),
        }
    }

    fn new_task(lifecycle: &Lifecycle) -> Task {
        let new = NewTask { title: "a wall".to_owned(), ..NewTask::default() };
        let made = machine::create(lifecycle, &new, &Actor::system(), TaskId(1), NOW);
        made.expect("it is created").task
    }

    fn claim() -> Event {
        let actor: Actor = "worker:ada".parse().expect("an actor");
        Event::Claimed(Claim { actor, expires_at: Instant(9_000) })
    }

    fn finish(epoch: i64) -> Event {
        Event::Finished(Finish {
            epoch,
            outcome: Outcome::Crashed,
            detail: String::new(),
            fields: Default::default(),
            tokens: 5,
            cost_micros: 7,
            again_at: None,
        })
    }

    /// What the check says of a step that is sound but for one change.
    fn said(old: &Task, event: &Event, bend: impl Fn(&mut TaskUpdate)) -> String {
        let lifecycle = lifecycle();
        let mut step = decided(&lifecycle, old, event);
        assert_eq!(check_step(&lifecycle, old, event, &step), Ok(()));
        bend(&mut step);
        check_step(&lifecycle, old, event, &step).expect_err("it is not sound").to_string()
    }

    #[test]
    fn each_rule_of_a_claim_refuses_the_step_that_breaks_it() {
        let task = new_task(&lifecycle());
        let said = |bend: fn(&mut TaskUpdate)| said(&task, &claim(), bend);
        assert_eq!(said(|step| step.task.id = TaskId(2)), "the step is of another task");
        assert!(said(|step| step.task.version += 1).starts_with("the version does not match"));
        assert!(said(|step| step.record = None).starts_with("the version does not match"));
        let unrecorded = |step: &mut TaskUpdate| {
            step.record = None;
            step.task.version -= 1;
            step.task.entered = step.task.version;
        };
        assert_eq!(said(unrecorded), "the state changed without a record");
        let elsewhere = |step: &mut TaskUpdate| {
            step.record.iter_mut().for_each(|record| record.to = "elsewhere".to_owned());
        };
        assert_eq!(said(elsewhere), "its record names other states");
        let leap = |step: &mut TaskUpdate| {
            step.task.epoch += 1;
            step.task.lease.iter_mut().for_each(|lease| lease.epoch += 1);
        };
        assert_eq!(said(leap), "the epoch grew by more than one");
        assert_eq!(said(|step| step.task.lease = None), "the epoch grew without a lease");
        assert_eq!(said(|step| step.task.spent.runs -= 1), "the run is not counted in the usage");
        let other = |step: &mut TaskUpdate| {
            step.task.lease.iter_mut().for_each(|lease| lease.worker = "worker:bob".to_owned());
        };
        assert_eq!(said(other), "the lease is not the one that was claimed");
        // A counter at its limit may lead the task elsewhere instead. It must not stay in the
        // queue.
        let in_vain = |step: &mut TaskUpdate| {
            let spent = task.spent;
            step.task = Task { version: step.task.version, spent, ..task.clone() };
            step.record.iter_mut().for_each(|record| {
                record.to = record.from.clone().unwrap_or_default();
            });
        };
        let said = self::said(&task, &claim(), in_vain);
        assert_eq!(said, "a claim leaves neither a lease nor its queue");
    }

    #[test]
    fn each_rule_of_an_end_and_a_heartbeat_refuses_the_step_that_breaks_it() {
        let lifecycle = lifecycle();
        let task = decided(&lifecycle, &new_task(&lifecycle), &claim()).task;
        let forgotten = said(&task, &finish(1), |step| step.ended_run = None);
        assert_eq!(forgotten, "a run ends when its lease does, and only then");
        let cheaper = said(&task, &finish(1), |step| step.task.spent.runs -= 2);
        assert_eq!(cheaper, "the usage decreased");
        let event =
            Event::Heartbeat(Heartbeat { epoch: 1, expires_at: Instant(20_000), progressed: true });
        let kept = said(&task, &event, |step| {
            step.task.lease = None;
            step.ended_run = Some((1, Outcome::Crashed));
        });
        assert_eq!(kept, "a heartbeat has changed who holds the task");
        let mut held = decided(&lifecycle, &task, &event);
        held.task.epoch = task.epoch;
        let broken = check_step(&lifecycle, &task, &finish(1), &held);
        assert_eq!(
            broken.expect_err("it holds").to_string(),
            "a run that has ended still holds its task"
        );
    }
}
