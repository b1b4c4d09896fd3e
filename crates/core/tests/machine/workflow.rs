//! The rules of the task that holds the steps of a workflow.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{Actor, Effect, Ending, create};
use serde_json::json;

use crate::walk::{builtin_with, complaints, task_of};
use crate::world::{START, World};

fn running(open: i64, aborted: i64) -> World {
    let mut world = task_of("workflow", json!({ "steps_open": open, "steps_aborted": aborted }));
    world.ends(Outcome::Met, "", json!({}), "running");
    world
}

#[test]
fn a_new_workflow_begins_to_wait_for_its_steps_at_once() {
    let lifecycle = builtin_with("workflow", &[]);
    let new = banksman_core::machine::NewTask { title: "search".to_owned(), ..Default::default() };
    let born = create(&lifecycle, &new, &Actor::human("kim"), TaskId(1), START)
        .expect("a title is enough");
    assert_eq!(born.effects, [Effect::Start { activity: Activity::Wait }]);
}

#[test]
fn it_is_complete_when_every_step_is() {
    let mut world = running(2, 0);
    let rejected = world.refused("system", "to complete", json!({}));
    assert_eq!(complaints(&rejected), ["steps_open: Not every step is complete"]);
    let step = world.goes("system", "on finish", json!({ "steps_open": 0 }), "complete");
    assert_eq!(step.ending, Some(Ending::Done));
}

#[test]
fn an_aborted_step_is_a_persons_to_accept() {
    let mut world = running(1, 0);
    world.goes("system", "on finish", json!({ "steps_aborted": 1 }), "waiting");
    assert_eq!(world.field("problem"), "a step was aborted");
    world.goes("human:kim", "on resume", json!({}), "running");
    assert_eq!(world.field("steps_aborted"), 0);
    assert_eq!(
        complaints(&world.refused("human:kim", "on abort", json!({}))),
        ["reason: Say why it is aborted"]
    );
    world.goes("human:kim", "on abort", json!({ "reason": "no longer needed" }), "aborted");
}

#[test]
fn standstill_and_a_breaker_wake_a_person() {
    let mut world = running(1, 0);
    world.times_out("14d", "waiting");
    assert_eq!(world.field("problem"), "no step has moved for too long");
    let mut world = running(1, 0);
    world.goes("system", "on trip", json!({ "problem": "four failures alike" }), "waiting");
}
