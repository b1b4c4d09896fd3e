//! Activities without a run: panels, checks, merges and waits report for the stay that started
//! them.

use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{ActivityReport, Effect, Event, Ignored, RejectReason, StepResult};
use serde_json::json;

use crate::walk::{complaints, fields, of_source};
use crate::world::World;

const SOURCE: &str = "
lifecycle: reporting
purpose: task
initial: queued
roles: [worker]
fields:
  call: { type: [up, skip], by: anyone }
states:
  queued: { kind: queued }
  waking:
    kind: working
    does: { activity: wait, until: set(call), outcomes: { met: wake } }
    timeouts: [{ after: 1h, to: failed }]
  working:
    kind: working
    does: { activity: agent, role: worker, outcomes: { otherwise: submit } }
    timeouts: [{ after: 1h, to: failed }]
  checking:
    kind: reviewing
    does: { activity: check, outcomes: { passed: accept, failed: again, exhausted: reject } }
    timeouts: [{ after: 1h, to: failed }]
  asking:
    kind: waiting
    does: { activity: human, asks: Good?, offers: { yes: accept, no: end reject } }
  done: { kind: done }
  failed: { kind: failed }
transitions:
  - { from: queued, to: waking, on: claim, by: [worker] }
  - { from: waking, to: working, on: wake, by: [worker, system], guards: [{ field: call, that: call != 'skip', message: Skip it }] }
  - { from: waking, to: checking, on: wake, by: [system] }
  - { from: working, to: checking, on: submit, by: [worker, system] }
  - { from: checking, to: asking, on: accept, by: [system], guards: [{ field: call, message: Say something }] }
  - { from: checking, to: failed, on: reject, by: [system] }
  - { from: asking, to: done, on: accept, by: [human] }
  - { from: asking, to: failed, on: reject, by: [human] }
";

fn waking() -> World {
    let mut world = of_source(SOURCE);
    world.is_claimed_by("worker:w1", "waking");
    world
}

fn checking() -> World {
    let mut world = waking();
    world.ends(Outcome::Met, "", json!({ "call": "up" }), "working");
    world.ends(Outcome::Succeeded, "", json!({}), "checking");
    world
}

#[test]
fn a_wait_that_is_over_leaves_the_run_its_lease() {
    let mut world = waking();
    let step = world.ends(Outcome::Met, "", json!({ "call": "up" }), "working");
    assert_eq!((step.effects, step.ended_run), (vec![], None));
    assert_eq!(world.task.lease.as_ref().map(|lease| lease.epoch), Some(1));
}

/// The run did not end by itself, so it is stopped, and its end does not get the name of the
/// report.
#[test]
fn a_report_that_leads_out_of_the_work_stops_the_run() {
    let mut world = waking();
    let step = world.ends(Outcome::Met, "", json!({ "call": "skip" }), "checking");
    assert_eq!(step.ended_run, Some((1, Outcome::Stopped)));
    assert_eq!(step.effects[0], Effect::Stop { epoch: 1 });
}

#[test]
fn a_report_of_an_earlier_stay_changes_nothing() {
    let mut world = checking();
    let entered = world.task.entered;
    world.ends(Outcome::Passed, "", json!({}), "asking");
    for entered in [entered, entered - 1, entered + 2] {
        let report = ActivityReport {
            entered,
            outcome: Outcome::Passed,
            detail: String::new(),
            fields: fields(json!({})),
            tokens: 0,
            cost_micros: 0,
        };
        assert_eq!(
            world.meet(&Event::Reported(report)),
            Ok(StepResult::Ignored(Ignored::Stale)),
            "{entered}"
        );
    }
}

#[test]
fn only_what_is_at_work_reports_and_only_as_it_can_end() {
    let mut world = checking();
    let rejected =
        world.report(Outcome::Captured, "", json!({})).expect_err("a check captures nothing");
    assert_eq!(
        complaints(&rejected),
        ["outcome: `check` has no outcome `captured`; known here: passed, failed"]
    );
    world.ends(Outcome::Passed, "", json!({}), "asking");
    let rejected =
        world.report(Outcome::Passed, "", json!({})).expect_err("people answer for themselves");
    assert_eq!(
        (rejected.why, complaints(&rejected)),
        (RejectReason::Invalid, vec!["outcome: nothing in asking reports an outcome".to_owned()])
    );

    let mut world = waking();
    world.ends(Outcome::Met, "", json!({ "call": "up" }), "working");
    assert!(
        world.report(Outcome::Succeeded, "", json!({})).is_err(),
        "an agent reports by its run"
    );
}

#[test]
fn what_is_tried_again_is_started_again() {
    let mut world = checking();
    let entered = world.task.entered_at;
    world.after("30min");
    let step = world.ends(Outcome::Failed, "", json!({}), "checking");
    assert!(matches!(step.effects[..], [Effect::Start { .. }]));
    assert_eq!(world.task.entered_at, entered, "it is the same stay");
    world.ends(Outcome::Exhausted, "", json!({}), "failed");
}

#[test]
fn a_report_that_leads_nowhere_raises_the_alarm() {
    let mut world = checking();
    let step =
        world.report(Outcome::Passed, "", json!({ "call": null })).expect("it is written down");
    assert_eq!((step.effects, world.state()), (vec![Effect::Alert], "checking"));
    world.times_out("1h", "failed");
}
