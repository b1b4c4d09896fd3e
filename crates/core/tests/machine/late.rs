//! Late, early and repeated events are legal and change nothing.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{
    Actor, Effect, Event, Finish, Ignored, RejectReason, Rejected, StepResult, TimerKind, Uncounted,
};
use banksman_core::time::{Instant, Span};
use serde_json::json;

use crate::walk::{asking, complaints, of_source, span};
use crate::world::World;

/// A worker works, a person reviews, and both have a time limit.
const SOURCE: &str = "
lifecycle: late
purpose: task
initial: queued
roles: [worker]
fields:
  reason: { type: text, by: anyone }
  result: { type: text, by: anyone }
states:
  queued: { kind: queued }
  working:
    kind: working
    does: { activity: agent, role: worker, outcomes: { succeeded: submit, crashed: again, otherwise: give_up } }
    timeouts: [{ after: 1h, since: progress, to: failed, on: stalled }, { after: 5h, to: failed, on: too_long }]
  review: { kind: waiting, timeouts: [{ after: 2d, to: failed }] }
  done: { kind: done }
  failed: { kind: failed }
  cancelled: { kind: cancelled }
transitions:
  - { from: queued, to: working, on: claim, by: [worker] }
  - { from: working, to: review, on: submit, by: [worker, system] }
  - { from: working, to: failed, on: give_up, by: [system] }
  - { from: review, to: done, on: approve, by: [human] }
  - { from: review, to: working, on: revise, by: [human] }
  - { from: failed, to: queued, on: retry, by: [human] }
  - { from: any, to: cancelled, on: cancel, by: [human] }
";

fn working() -> World {
    let mut world = of_source(SOURCE);
    world.is_claimed_by("worker:w1", "working");
    world
}

fn bound(world: &World, trigger: &str) -> TimerKind {
    let row = world
        .lifecycle
        .transitions
        .iter()
        .position(|row| row.timeout.is_some() && row.trigger == trigger);
    TimerKind::Timeout(u32::try_from(row.expect("the bound exists")).expect("there are few rows"))
}

fn is_stale(refused: Result<impl std::fmt::Debug, Rejected>) {
    let rejected = refused.expect_err("its time is over");
    assert_eq!(rejected.why, RejectReason::StaleLease);
    assert_eq!(rejected.errors[0].field, "epoch");
}

/// Reports of an old run are ignored.
fn is_deaf_to(world: &mut World, epoch: i64) {
    let before = world.task.clone();
    is_stale(world.finish(Finish { epoch, ..world.ending(Outcome::Succeeded) }));
    is_stale(world.heartbeat(epoch, true));
    let mut late = asking("worker:w1", "on submit", json!({ "result": "late" }));
    late.epoch = Some(epoch);
    is_stale(world.meet(&Event::Asked(late)));
    assert_eq!(world.task, before);
}

#[test]
fn a_second_finish_is_stale() {
    let mut world = working();
    world.ends(Outcome::Succeeded, "", json!({}), "review");
    is_deaf_to(&mut world, 1);
}

#[test]
fn a_finish_after_a_cancel_is_stale() {
    let mut world = working();
    let step = world.goes("human:kim", "on cancel", json!({}), "cancelled");
    assert_eq!(step.effects, [Effect::Stop { epoch: 1 }]);
    assert_eq!(step.ended_run, Some((1, Outcome::Stopped)));
    is_deaf_to(&mut world, 1);
}

#[test]
fn a_finish_after_a_timeout_is_stale() {
    let mut world = working();
    let step = world.times_out("1h", "failed");
    assert_eq!(step.effects, [Effect::Stop { epoch: 1 }]);
    is_deaf_to(&mut world, 1);
}

#[test]
fn an_old_run_is_not_mistaken_for_the_new_one() {
    let mut world = working();
    world.ends(Outcome::Crashed, "", json!({}), "working");
    world.is_claimed_by("worker:w2", "working");
    assert_eq!(world.task.epoch, 2);
    is_deaf_to(&mut world, 1);
    is_deaf_to(&mut world, 3);
    world.ends(Outcome::Succeeded, "", json!({}), "review");
}

#[test]
fn a_claimed_task_is_not_claimed_again() {
    let mut world = working();
    for who in ["worker:w1", "worker:w2", "human:kim"] {
        let rejected = world.claim(who).expect_err("it is taken");
        assert_eq!(complaints(&rejected), ["task: t1 cannot be claimed now"], "{who}");
    }
    world.goes("human:kim", "on cancel", json!({}), "cancelled");
    assert!(world.claim("worker:w1").is_err(), "nor when it has ended");
}

#[test]
fn a_timer_of_an_earlier_stay_is_dropped() {
    let mut world = working();
    let (stalled, entered) = (bound(&world, "stalled"), world.task.entered);
    world.ends(Outcome::Succeeded, "", json!({}), "review");
    world.after("3h");
    assert_eq!(world.fires(stalled, entered), Err(Ignored::Stale));
    // Entering the same state again is another stay.
    world.goes("human:kim", "on revise", json!({}), "working");
    world.after("59min");
    assert_eq!(world.fires(stalled, entered), Err(Ignored::Stale));
    assert_eq!(world.state(), "working");
}

#[test]
fn a_timer_that_does_not_exist_is_dropped() {
    let mut world = working();
    let entered = world.task.entered;
    for timer in [TimerKind::Timeout(9_999), TimerKind::Timeout(0), TimerKind::Remind(0)] {
        assert_eq!(world.fires(timer, entered), Err(Ignored::Stale), "{timer:?}");
    }
    assert_eq!(world.fires(TimerKind::Ready, entered), Err(Ignored::NothingNew));
}

#[test]
fn an_early_timer_is_told_when_to_come_back() {
    let mut world = working();
    let (stalled, entered) = (bound(&world, "stalled"), world.task.entered);
    world.pass(span("40min"));
    world.heartbeat(1, true).expect("it holds the task");
    world.pass(span("20min"));
    let later = world.at("40min");
    assert_eq!(world.fires(stalled, entered), Ok(StepResult::Later(later)));
    // A heartbeat without progress moves nothing.
    world.heartbeat(1, false).expect("it holds the task");
    world.times_out("40min", "failed");
}

#[test]
fn an_early_reminder_is_not_sent() {
    let source = SOURCE
        .replace("kind: waiting, timeouts", "kind: waiting, remind: { after: [1d] }, timeouts");
    let mut world = of_source(&source);
    world.is_claimed_by("worker:w1", "working");
    world.ends(Outcome::Succeeded, "", json!({}), "review");
    let (entered, due) = (world.task.entered, world.at("1d"));
    world.pass(span("23h"));
    assert_eq!(world.fires(TimerKind::Remind(0), entered), Ok(StepResult::Later(due)));
    assert_eq!(world.after("1h")[0].effects, [Effect::Remind { age_days: 1 }]);
    assert_eq!(world.fires(TimerKind::Remind(1), entered), Err(Ignored::Stale));
}

#[test]
fn progress_does_not_extend_what_counts_from_the_entry() {
    let mut world = working();
    for _ in 0..9 {
        world.after("30min");
        world.heartbeat(1, true).expect("it holds the task");
    }
    let step = world.times_out("30min", "failed");
    assert_eq!(step.record.expect("it moved").trigger, "too_long");
}

/// The stay ends by its bound exactly when it has lasted that long without this time.
fn ends_as(world: &World, trigger: &str, time: &str) {
    let kind = bound(world, trigger);
    let due = world.armed.iter().find(|armed| armed.kind == kind).expect("it has a timer").due;
    assert_eq!(due.to_string(), world.at(time).to_string(), "{trigger}");
}

#[test]
fn time_that_does_not_count_is_left_out_however_the_stay_goes_on() {
    for slept in ["8h", "-8h"] {
        let mut world = working();
        world.after("30min");
        let slept = slept.strip_prefix('-').map_or_else(|| span(slept), |back| Span(-span(back).0));
        world.now = world.now.plus(slept);
        let since = Instant(world.now.0 - slept.0.max(-10_000) + 1);
        let uncounted = Event::Uncounted(Uncounted { span: slept, since });
        world.meet(&uncounted).expect("time passes anyway");
        ends_as(&world, "too_long", "270min");
        ends_as(&world, "stalled", "30min");
        // A failed run that goes again, and progress, plan the timers anew.
        let due = world.now;
        world
            .finish(Finish { again_at: Some(due), ..world.ending(Outcome::Crashed) })
            .expect("it holds the task");
        world.is_claimed_by("worker:w1", "working");
        ends_as(&world, "too_long", "270min");
        world.times_out("60min", "failed");
        // Nothing of it is left for the next stay.
        world.goes("human:kim", "on retry", json!({}), "queued");
        world.is_claimed_by("worker:w1", "working");
        ends_as(&world, "too_long", "5h");
        // A stay that began after the machine woke has lost nothing by its sleep.
        world.pass(span("1min"));
        let since = Instant(world.now.0 - span("10min").0);
        let late = Event::Uncounted(Uncounted { span: span("8h"), since });
        assert_eq!(world.meet(&late), Ok(StepResult::Ignored(Ignored::NothingNew)));
    }
}

#[test]
fn whoever_saw_an_old_version_is_told() {
    let mut world = working();
    let mut ask = asking("human:kim", "on cancel", json!({}));
    ask.version = Some(1);
    let rejected = world.meet(&Event::Asked(ask.clone())).expect_err("it has moved on");
    assert_eq!(rejected.why, RejectReason::StaleVersion);
    assert_eq!(complaints(&rejected), ["version: t1 has moved on: you saw version 1, it is now 2"]);
    ask.version = Some(2);
    world.meet(&Event::Asked(ask)).expect("this is the current one");
    assert_eq!(world.state(), "cancelled");
}

#[test]
fn a_retry_waits_for_its_time_and_is_ready_once() {
    let mut world = working();
    let entered = world.task.entered;
    let due = world.at("10min");
    world
        .finish(Finish { again_at: Some(due), ..world.ending(Outcome::Crashed) })
        .expect("it holds the task");
    assert!(world.claim("worker:w1").is_err(), "not yet");
    world.pass(span("5min"));
    assert_eq!(world.fires(TimerKind::Ready, entered), Ok(StepResult::Later(due)));
    world.after("5min");
    assert!(world.task.rank(&world.lifecycle).is_some());
    assert_eq!(world.fires(TimerKind::Ready, entered), Err(Ignored::NothingNew));
    world.is_claimed_by("worker:w1", "working");

    let past = Some(world.now);
    world
        .finish(Finish { again_at: past, ..world.ending(Outcome::Crashed) })
        .expect("it holds the task");
    world.is_claimed_by("worker:w1", "working");
}

/// `again TRIGGER` may lead to another state with work.
#[test]
fn a_retry_in_another_state_waits_for_its_time_too() {
    let source = SOURCE
        .replace("crashed: again,", "crashed: again go_on,")
        .replace(
            "  review: {",
            "  going_on:
    kind: working
    does: { activity: agent, role: worker, outcomes: { otherwise: give_up } }
    timeouts: [{ after: 1d, to: failed, on: late }]
  review: {",
        )
        .replace(
            "  - { from: working, to: failed, on: give_up, by: [system] }",
            "  - { from: [working, going_on], to: failed, on: give_up, by: [system] }
  - { from: working, to: going_on, on: go_on, by: [system] }",
        );
    let mut world = of_source(&source);
    world.is_claimed_by("worker:w1", "working");
    let due = world.at("10min");
    let failed = Finish { again_at: Some(due), ..world.ending(Outcome::Crashed) };
    world.finish(failed).expect("it holds the task");
    assert_eq!((world.state(), world.task.not_before), ("going_on", Some(due)));
    assert!(world.claim("worker:w1").is_err(), "not yet");
    world.after("10min");
    world.is_claimed_by("worker:w1", "going_on");
}

#[test]
fn a_person_ends_the_wait_for_a_retry_and_nobody_else_does() {
    let mut world = working();
    let again_at = Some(world.at("10min"));
    world.finish(Finish { again_at, ..world.ending(Outcome::Crashed) }).expect("it holds the task");
    let (version, entered) = (world.task.version, world.task.entered);
    world.after("1min");
    let rejected = world.meet(&Event::DelaySkipped(Actor::system())).expect_err("it is no person");
    assert_eq!(complaints(&rejected), ["actor: system may not end the delay; human may"]);
    let hastened = Event::DelaySkipped(Actor::human("kim"));
    let Ok(StepResult::Step(step)) = world.meet(&hastened) else { panic!("a person may") };
    let record = step.record.expect("it is on record");
    assert_eq!((record.trigger.as_str(), record.fields.len()), (Note::DelaySkipped.as_str(), 0));
    assert_eq!((world.task.version, world.task.entered), (version + 1, entered));
    assert_eq!(
        world.meet(&hastened),
        Ok(StepResult::Ignored(Ignored::NothingNew)),
        "once is enough"
    );
    assert_eq!(world.fires(TimerKind::Ready, entered), Err(Ignored::NothingNew));
    world.is_claimed_by("worker:w1", "working");
}

#[test]
fn needs_that_are_known_are_no_news() {
    let mut world = of_source(SOURCE);
    for (left, news) in [(0, false), (-1, false), (2, true), (2, false), (-3, true), (0, false)] {
        let answer = world.meet(&Event::NeedsLeft(left)).expect("needs are no refusal");
        assert_eq!(answer != StepResult::Ignored(Ignored::NothingNew), news, "{left}");
    }
    assert_eq!(world.task.open_needs, 0);
}

#[test]
fn a_lease_is_only_ever_made_longer() {
    let mut world = working();
    let until = world.task.lease.as_ref().expect("it is claimed").expires_at;
    world.now = Instant(world.now.0 - 60_000);
    world.heartbeat(1, false).expect("it holds the task");
    assert_eq!(world.task.lease.as_ref().expect("still").expires_at, until);
}

#[test]
fn the_refusal_of_a_late_writer_is_history_and_no_progress() {
    let mut world = working();
    let before = world.task.clone();
    let answer = world.meet(&Event::StaleWrite { epoch: 7 }).expect("it is no refusal itself");
    let StepResult::Step(step) = answer else { panic!("it leaves a record: {answer:?}") };
    let record = step.record.as_ref().expect("a record");
    assert_eq!(
        (record.trigger.as_str(), record.actor.to_string()),
        (Note::StaleWrite.as_str(), "run:r1.7".to_owned())
    );
    assert_eq!(step.task.version, before.version + 1);
    assert_eq!((step.task.state, step.task.lease), (before.state, before.lease));
    assert_eq!(step.task.progress_at, before.progress_at);
}
