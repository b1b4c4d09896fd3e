//! What a transition does to counters, fields and dates, rule by rule.

use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Effect, TimerKind};
use serde_json::{Value, json};

use crate::walk::{complaints, of_source};
use crate::world::World;

/// A lifecycle in which a person can use every feature of the language.
const SOURCE: &str = "
lifecycle: desk
purpose: task
initial: desk
roles: [worker]
fields:
  note: { type: text, by: anyone }
  mark: { type: text, by: anyone }
  left: { type: text, by: anyone }
  stamp: { type: time, by: anyone }
counters:
  tries: { limit: 3, then: shelf, set: { mark: full }, compute: { left: \"'after ' + tries + ' tries'\" } }
  strict: { limit: 2 }
  free: {}
states:
  desk:
    kind: waiting
    remind: { after: [1d, 2d] }
    timeouts: [{ after: 30d, to: bin }]
  shelf: { kind: waiting }
  pause: { kind: parked }
  sleep: { kind: parked }
  work:
    kind: working
    does: { activity: agent, role: worker, outcomes: { otherwise: stop } }
    remind: { after: [1h] }
    timeouts: [{ after: 1d, to: bin }]
  bin: { kind: cancelled }
transitions:
  - { from: desk, to: desk, on: knock, by: [human] }
  - { from: [desk, shelf], to: desk, on: try, by: [human], count: [tries], set: { mark: tried } }
  - { from: desk, to: desk, on: strictly, by: [human], count: [strict, free] }
  - { from: shelf, to: desk, on: renew, by: [human], reset: [tries, strict] }
  - { from: desk, to: desk, on: renew_and_count, by: [human], reset: [tries], count: [tries] }
  - { from: desk, to: shelf, on: file, by: [human], clear: [note], keeps: [note, left] }
  - { from: shelf, to: desk, on: fetch, by: [human], compute: { note: detail, stamp: now } }
  - { from: desk, to: desk, on: wipe, by: [human], set: { mark: null } }
  - { from: desk, to: pause, on: pause, by: [human] }
  - { from: pause, to: sleep, on: sleep, by: [human] }
  - { from: [pause, sleep], to: [prior], on: back, by: [human] }
  - { from: desk, to: work, on: begin, by: [human] }
  - { from: work, to: work, on: again, by: [worker, human] }
  - { from: work, to: desk, on: stop, by: [human, system] }
  - { from: any, to: bin, on: drop, by: [human] }
";

fn desk() -> World {
    of_source(SOURCE)
}

fn tried(world: &mut World, state: &str) {
    world.goes("human:kim", "on try", json!({}), state);
}

#[test]
fn the_move_that_reaches_the_limit_is_diverted_and_so_is_every_one_after_it() {
    let mut world = desk();
    tried(&mut world, "desk");
    tried(&mut world, "desk");
    assert_eq!(world.field("mark"), "tried");
    tried(&mut world, "shelf");
    assert_eq!((world.count("tries"), world.field("mark")), (3, &json!("full")));
    assert_eq!(world.field("left"), "after 3 tries");
    world.goes("human:kim", "on fetch", json!({}), "desk");
    tried(&mut world, "shelf");
    let counter = world.task.counters[0];
    assert_eq!((counter.total, counter.reset_at), (3, 0), "beyond the limit nothing is counted");
    // A transition that is diverted to its own start stays in place.
    let entered = world.task.entered;
    tried(&mut world, "shelf");
    assert_eq!(world.task.entered, entered);
}

#[test]
fn renewing_forgives_and_does_not_forget() {
    let mut world = desk();
    for state in ["desk", "desk", "shelf"] {
        tried(&mut world, state);
    }
    world.goes("human:kim", "on renew", json!({}), "desk");
    let counter = world.task.counters[0];
    assert_eq!((counter.total, counter.reset_at, counter.used()), (3, 3, 0));
    for state in ["desk", "desk", "shelf"] {
        tried(&mut world, state);
    }
    assert_eq!(world.task.counters[0].total, 6);
    world.goes("human:kim", "on fetch", json!({}), "desk");
    world.goes("human:kim", "on renew_and_count", json!({}), "desk");
    assert_eq!(world.count("tries"), 1, "first renewed, then counted");
}

/// The third claim finds nothing to work on.
#[test]
fn a_claim_that_is_diverted_gives_no_lease() {
    let source = "
lifecycle: thrice
purpose: task
initial: queued
roles: [worker]
counters: { claims: { limit: 3, then: failed } }
states:
  queued: { kind: queued }
  working:
    kind: working
    does: { activity: agent, role: worker, outcomes: { otherwise: release } }
    timeouts: [{ after: 1h, to: failed }]
  failed: { kind: failed }
transitions:
  - { from: queued, to: working, on: claim, by: [worker], count: [claims] }
  - { from: working, to: queued, on: release, by: [system] }
";
    let mut world = of_source(source);
    for _ in 0..2 {
        world.is_claimed_by("worker:w1", "working");
        world.ends(Outcome::Crashed, "", json!({}), "queued");
    }
    let step = world.is_claimed_by("worker:w1", "failed");
    assert_eq!((step.task.lease, step.task.epoch, step.task.spent.runs), (None, 2, 2));
}

#[test]
fn a_counter_without_a_way_out_refuses() {
    let mut world = desk();
    for _ in 0..2 {
        world.goes("human:kim", "on strictly", json!({}), "desk");
    }
    let rejected = world.refused("human:kim", "on strictly", json!({}));
    assert_eq!(complaints(&rejected), ["strict: has reached its limit of 2"]);
    assert_eq!(
        (world.count("strict"), world.count("free")),
        (2, 2),
        "a refused move counts nothing"
    );
    world.goes("human:kim", "on file", json!({}), "shelf");
    world.goes("human:kim", "on renew", json!({}), "desk");
    world.goes("human:kim", "on strictly", json!({}), "desk");
    assert_eq!((world.count("strict"), world.count("free")), (1, 3));
}

#[test]
fn what_is_given_with_the_move_is_not_cleared() {
    let mut world = desk();
    world.goes("human:kim", "on knock", json!({ "note": "old" }), "desk");
    world.goes("human:kim", "on file", json!({}), "shelf");
    assert_eq!(world.field("note"), &Value::Null);
    world.goes("human:kim", "on fetch", json!({ "note": "old" }), "desk");
    let step = world.goes("human:kim", "on file", json!({ "note": "new" }), "shelf");
    assert_eq!(world.field("note"), "new");
    let kept: Vec<(&str, &Value)> =
        step.artifacts.iter().map(|kept| (kept.name.as_str(), &kept.value)).collect();
    assert_eq!(kept, [("note", &json!("new"))], "what is not there is not kept");
}

#[test]
fn a_value_that_cannot_be_computed_leaves_the_field() {
    let mut world = desk();
    world.goes("human:kim", "on knock", json!({ "note": "mine" }), "desk");
    world.goes("human:kim", "on file", json!({ "note": "mine" }), "shelf");
    let step = world.goes("human:kim", "on fetch", json!({}), "desk");
    assert_eq!(
        (world.field("note"), world.field("stamp")),
        (&json!("mine"), &json!(world.now.to_string()))
    );
    let changed: Vec<String> = step.record.expect("it moved").fields.keys().cloned().collect();
    assert_eq!(changed, ["stamp"]);
}

#[test]
fn what_the_row_sets_wins_over_what_is_given() {
    let mut world = desk();
    world.goes("human:kim", "on try", json!({ "mark": "mine" }), "desk");
    assert_eq!(world.field("mark"), "tried");
    for (how, given) in
        [("on knock", json!({ "mark": null })), ("on wipe", json!({ "mark": "mine" }))]
    {
        world.goes("human:kim", how, given, "desk");
        assert!(!world.task.fields.contains_key("mark"), "{how}: null takes a field away");
    }
}

#[test]
fn a_loop_keeps_the_entry_and_counts_as_progress() {
    let mut world = desk();
    let born = world.task.clone();
    world.after("3h");
    let step = world.goes("human:kim", "on knock", json!({}), "desk");
    assert_eq!((world.task.entered, world.task.entered_at), (born.entered, born.entered_at));
    assert_eq!((world.task.progress_at, world.task.version), (world.now, 2));
    assert_eq!(step.effects, [], "nothing was entered");
    assert_eq!(step.ended_run, None);

    let mut world = desk();
    world.goes("human:kim", "on begin", json!({}), "work");
    world.is_claimed_by("worker:w1", "work");
    world.goes("human:kim", "on again", json!({}), "work");
    assert!(world.task.lease.is_some(), "a run goes on through a loop of its state");
}

#[test]
fn a_reminder_is_sent_once_in_a_stay() {
    let reminders = |world: &World| {
        world.armed.iter().filter(|armed| matches!(armed.kind, TimerKind::Remind(_))).count()
    };
    let mut world = desk();
    assert_eq!(reminders(&world), 2);
    let steps = world.after("25h");
    assert_eq!(steps[0].effects, [Effect::Remind { age_days: 1 }]);
    world.goes("human:kim", "on knock", json!({}), "desk");
    assert_eq!(reminders(&world), 1, "the second one is still to come");
    world.goes("human:kim", "on file", json!({}), "shelf");
    world.goes("human:kim", "on fetch", json!({}), "desk");
    assert_eq!(reminders(&world), 2, "another stay has its own");

    let mut world = desk();
    world.goes("human:kim", "on begin", json!({}), "work");
    world.after("2h");
    world.is_claimed_by("worker:w1", "work");
    assert_eq!(reminders(&world), 0, "a claim in place does not repeat it");
}

#[test]
fn the_way_back_is_kept_through_a_second_pause() {
    let mut world = desk();
    world.goes("human:kim", "on pause", json!({}), "pause");
    world.goes("human:kim", "on sleep", json!({}), "sleep");
    assert_eq!(world.allowed("human:kim"), ["bin", "desk"]);
    world.goes("human:kim", "on back", json!({}), "desk");
    assert_eq!(world.task.prior, None);
    let rejected = world.refused("human:kim", "to [prior]", json!({}));
    assert_eq!(complaints(&rejected), ["to: no transition from desk to [prior]"]);
}

/// The transition of an outcome may be refused; then the run ends like any other, with the reason.
#[test]
fn a_run_whose_way_is_barred_takes_the_other_one() {
    let source = "
lifecycle: barred
purpose: task
initial: work
roles: [worker]
fields:
  evidence: { type: text, by: anyone }
  diagnostic: { type: text, by: anyone }
states:
  work:
    kind: working
    does: { activity: agent, role: worker, outcomes: { succeeded: submit, otherwise: fail } }
    timeouts: [{ after: 1h, to: failed, set: { diagnostic: late } }]
  done: { kind: done }
  failed: { kind: failed, requires: [diagnostic] }
transitions:
  - { from: work, to: done, on: submit, by: [worker, system], guards: [{ field: evidence, message: Show it }] }
  - { from: work, to: failed, on: fail, by: [system], compute: { diagnostic: detail } }
";
    for (detail, said) in
        [("all good", "all good (evidence: Show it)"), ("", "succeeded (evidence: Show it)")]
    {
        let mut world = of_source(source);
        world.is_claimed_by("worker:w1", "work");
        let step = world.ends(Outcome::Succeeded, detail, json!({}), "failed");
        assert_eq!(world.field("diagnostic"), said);
        assert_eq!(step.ended_run, Some((1, Outcome::Succeeded)));
    }
    let mut world = of_source(source);
    world.is_claimed_by("worker:w1", "work");
    world.ends(Outcome::Succeeded, "all good", json!({ "evidence": "here" }), "done");
}

#[test]
fn a_run_that_ends_where_nothing_fits_raises_the_alarm() {
    let source = SOURCE.replace(
        "on: stop, by: [human, system] }",
        "on: stop, by: [human, system], guards: [stamp] }",
    );
    let mut world = of_source(&source);
    world.goes("human:kim", "on begin", json!({}), "work");
    world.is_claimed_by("worker:w1", "work");
    let step = world.ends(Outcome::Crashed, "", json!({}), "work");
    assert_eq!((step.effects, world.task.lease.is_none()), (vec![Effect::Alert], true));
    let record = step.record.expect("it is told");
    assert_eq!(
        (record.from.as_deref(), record.to.as_str(), record.trigger.as_str()),
        (Some("work"), "work", "crashed")
    );
}
