//! Which tasks have a place in the queue: guards of a claim, and a queue that waits for
//! dependencies instead of workers.

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Activity, Outcome, StateId, StateKind, builtin};
use banksman_core::machine::{
    Effect, Event, Ignored, NewTask, StepResult, WaitStatus, WaitsFor, waits, waits_for,
};
use serde_json::{Value, json};

use crate::walk::{born, complaints, fields, of_lifecycle, of_text};
use crate::world::World;

/// A queue whose claim has a guard.
fn guarded(that: &str, given: Value) -> World {
    let settings = if that.contains("most") { "settings: { most: 2 }" } else { "" };
    let source = format!(
        "
lifecycle: guarded
purpose: task
initial: queued
roles: [worker]
{settings}
fields:
  by_hand: {{ type: flag, by: anyone }}
  owner: {{ type: text, by: anyone }}
  due: {{ type: time, by: anyone }}
  notes: {{ type: text, by: anyone }}
states:
  queued: {{ kind: queued }}
  working: {{ kind: working, timeouts: [{{ after: 1d, to: done }}] }}
  done: {{ kind: done }}
transitions:
  - from: queued
    to: working
    on: claim
    by: [worker, system]
    guards: [{{ field: notes, that: \"{that}\", message: Not now }}]
  - {{ from: queued, to: done, on: finish, by: [human] }}
  - {{ from: working, to: done, on: finish, by: [worker] }}
"
    );
    of_lifecycle(of_text(&source), given)
}

/// A guard over the task's own fields keeps it out of the queue, so that no worker looks at it in
/// vain.
#[test]
fn a_guard_over_the_task_keeps_it_out_of_the_queue() {
    for (that, given, open) in [
        ("by_hand != true", json!({}), true),
        ("by_hand != true", json!({ "by_hand": true }), false),
        ("set(owner)", json!({}), false),
        ("set(owner)", json!({ "owner": "kim" }), true),
        ("priority > 0", json!({}), false),
        ("count(title) > 3 and most == 2", json!({}), true),
        ("spent.runCount < 1", json!({}), true),
        ("'urgent' in tags", json!({}), false),
    ] {
        let mut world = guarded(that, given.clone());
        let place = world.task.rank(&world.lifecycle);
        assert_eq!(place.is_some(), open, "{that} with {given}");
        assert_eq!(world.task.is_claimable(&world.lifecycle), open, "{that} with {given}");
        let held = waits_for(&world.lifecycle, &world.task, None);
        assert_eq!(
            held,
            if open { WaitsFor::Queue } else { WaitsFor::Person },
            "{that} with {given}"
        );
        assert_eq!(world.claim("worker:al").is_ok(), open, "{that} with {given}");
    }
}

/// A guard that depends on the claimer is evaluated at the claim, and the task waits for a claimer
/// that may take it.
#[test]
fn a_guard_over_the_claim_itself_does_not() {
    for (that, given, refused, taken) in [
        ("actor.name == owner", json!({ "owner": "al" }), "worker:bo", "worker:al"),
        ("actor.role == 'system' or set(outcome)", json!({}), "worker:bo", "system"),
    ] {
        let mut world = guarded(that, given);
        assert!(world.task.rank(&world.lifecycle).is_some(), "{that}");
        let rejected = world.claim(refused).expect_err("it is not for this one");
        assert_eq!(complaints(&rejected), ["notes: Not now"], "{that}");
        world.is_claimed_by(taken, "working");
    }
    let mut world = guarded("now >= due", json!({ "due": "2999-01-01T00:00:00Z" }));
    assert!(world.task.rank(&world.lifecycle).is_some(), "a place cannot depend on the clock");
    world.claim("worker:al").expect_err("its time has not come");
}

const BY_HAND: &str = "
lifecycle: by_hand
purpose: task
initial: queued
roles: [worker]
fields:
  by_hand: { type: flag, by: anyone }
  blocker: { type: text, by: anyone }
states:
  queued:
    kind: queued
    does: { activity: wait, until: by_hand == true, outcomes: { met: open } }
  open: { kind: waiting, on_entry: [notify] }
  working: { kind: working, timeouts: [{ after: 1d, to: done }] }
  done: { kind: done }
transitions:
  - from: queued
    to: working
    on: claim
    by: [worker]
    guards: [{ field: by_hand, that: by_hand != true, message: It is done by hand }]
  - from: queued
    to: open
    on: open
    by: [system]
    guards: [{ field: blocker, that: not set(blocker), message: Something is in the way }]
  - { from: open, to: queued, on: again, by: [human] }
  - { from: [queued, open], to: done, on: finish, by: [human] }
  - { from: working, to: done, on: finish, by: [worker] }
";

fn by_hand(given: Value, open_needs: i64) -> World {
    born(of_text(BY_HAND), NewTask { fields: fields(given), open_needs, ..NewTask::default() })
}

fn needs(world: &mut World, left: i64) -> StepResult {
    world.meet(&Event::NeedsLeft(left)).expect("needs are no refusal")
}

#[test]
fn the_last_of_what_comes_first_leads_it_on() {
    let mut world = by_hand(json!({ "by_hand": true }), 2);
    assert_eq!(waits_for(&world.lifecycle, &world.task, None), WaitsFor::Needs(2));
    let StepResult::Step(step) = needs(&mut world, 1) else { panic!("one less") };
    assert!(step.record.is_none() && step.effects.is_empty(), "one is still in the way");
    assert_eq!(world.state(), "queued");
    let StepResult::Step(step) = needs(&mut world, 0) else { panic!("none is left") };
    assert_eq!(world.state(), "open");
    assert_eq!(step.effects, [Effect::Notify]);
    let record = step.record.expect("a move is on record");
    assert_eq!(
        (record.from.as_deref(), record.to.as_str(), record.trigger.as_str()),
        (Some("queued"), "open", "open")
    );
    assert_eq!(record.actor.to_string(), "system");
    assert_eq!((world.task.open_needs, world.task.version), (0, 2));
    assert_eq!(needs(&mut world, 0), StepResult::Ignored(Ignored::NothingNew));
}

#[test]
fn what_waits_for_a_worker_only_gets_its_place() {
    let mut world = by_hand(json!({}), 1);
    assert_eq!(world.task.rank(&world.lifecycle), None);
    let StepResult::Step(step) = needs(&mut world, 0) else { panic!("none is left") };
    assert!(step.record.is_none(), "no move, no record");
    assert!(world.task.rank(&world.lifecycle).is_some());
    world.is_claimed_by("worker:al", "working");
}

/// The task whose end releases this one must not fail because of it.
#[test]
fn what_cannot_go_on_stays_with_an_alarm() {
    let mut world = by_hand(json!({ "by_hand": true, "blocker": "the lift" }), 1);
    let StepResult::Step(step) = needs(&mut world, 0) else { panic!("none is left") };
    assert_eq!((world.state(), world.task.open_needs), ("queued", 0));
    assert_eq!(step.effects, [Effect::Alert]);
    assert_eq!(step.record.expect("it is on record").trigger, Outcome::Met.as_str());
}

#[test]
fn a_wait_in_a_queue_begins_when_nothing_comes_first() {
    let start = Effect::Start { activity: Activity::Wait };
    let given = json!({ "by_hand": true });
    let mut world = by_hand(given.clone(), 0);
    assert_eq!(waits(&world.lifecycle, &world.task, world.now), WaitStatus::Met);
    world.ends(Outcome::Met, "", json!({}), "open");
    let step = world.goes("human:kim", "on again", json!({}), "queued");
    assert_eq!(step.effects, std::slice::from_ref(&start), "nothing comes first");

    world.ends(Outcome::Met, "", json!({}), "open");
    needs(&mut world, 1);
    assert_eq!(world.state(), "open", "what has begun is not taken back by that alone");
    let step = world.goes("human:kim", "on again", json!({}), "queued");
    assert_eq!(step.effects, [], "the last of them starts it");
    assert_eq!(waits(&world.lifecycle, &world.task, world.now), WaitStatus::Until(None));
    needs(&mut world, 0);
    assert_eq!(world.state(), "open");

    let new = NewTask { title: "x".to_owned(), fields: fields(given), ..NewTask::default() };
    let lifecycle = of_text(BY_HAND);
    for (open_needs, effects) in [(0, vec![start]), (1, vec![])] {
        let new = NewTask { open_needs, ..new.clone() };
        let kim = banksman_core::machine::Actor::human("kim");
        let id = banksman_core::ids::TaskId(1);
        let born = banksman_core::machine::create(&lifecycle, &new, &kim, id, world.now);
        assert_eq!(born.expect("it needs no more").effects, effects, "with {open_needs} needs");
    }
}

/// Only a transition can satisfy this guard, so nobody looks at the task until there is one.
#[test]
fn a_wait_that_only_a_move_can_end_needs_no_look() {
    let only = "by_hand: { type: flag, by: [human] }";
    let text = BY_HAND.replace("by_hand: { type: flag, by: anyone }", only).replace(
        "  - { from: open, to: queued",
        "  - { from: queued, to: queued, on: give, by: [human] }\n  - { from: open, to: queued",
    );
    let start = Effect::Start { activity: Activity::Wait };
    let kim = banksman_core::machine::Actor::human("kim");
    let id = banksman_core::ids::TaskId(1);
    let lifecycle = of_text(&text);
    for (given, open_needs, effects) in [
        (json!({}), 0, vec![]),
        (json!({ "by_hand": false }), 0, vec![]),
        (json!({ "by_hand": true }), 0, vec![start.clone()]),
        (json!({ "by_hand": true }), 1, vec![]),
    ] {
        let new = NewTask {
            title: "x".to_owned(),
            fields: fields(given),
            open_needs,
            ..NewTask::default()
        };
        let born = banksman_core::machine::create(
            &lifecycle,
            &new,
            &kim,
            id,
            banksman_core::time::Instant(0),
        );
        assert_eq!(born.expect("it needs no more").effects, effects, "{new:?}");
    }
    let mut world = born(of_text(&text), NewTask::default());
    let step = world.goes("human:kim", "on give", json!({ "blocker": "none of it" }), "queued");
    assert_eq!(step.effects, [], "it is not what it waits for");
    let step = world.goes("human:kim", "on give", json!({ "by_hand": true }), "queued");
    assert_eq!(step.effects, [start], "the move has brought it");
    let step = world.goes("human:kim", "on give", json!({ "blocker": "again" }), "queued");
    assert_eq!(step.effects, [], "it was started before");
}

/// A reviewer whose budget is used up has no verdict, and its panel asks a person.
const SILENT: [&str; 2] = ["review pending", "review reviewing"];

/// Where a task can wait for an agent, in a queue or before its next run, a budget that is used up
/// is asked about.
#[test]
fn wherever_a_task_waits_for_an_agent_its_budget_can_be_asked_for() {
    let mut silent = Vec::new();
    for (name, _) in builtin::SOURCES {
        let lifecycle = builtin::get(name, &Overrides::new()).unwrap().unwrap();
        for (id, state) in (0_u16..).map(StateId).zip(&lifecycle.states) {
            let waits =
                state.kind == StateKind::Queued || state.activity() == Some(Activity::Agent);
            if waits && lifecycle.budget_question(id).is_none() {
                silent.push(format!("{name} {}", state.name));
            }
        }
    }
    assert_eq!(silent, SILENT);
}
