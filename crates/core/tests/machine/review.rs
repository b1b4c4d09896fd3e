//! The rules of a review: one answer, three chances, and never an answer that nobody gave.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Outcome, Setting};
use banksman_core::machine::{Effect, NewTask};
use serde_json::json;

use crate::walk::{born, builtin_with};
use crate::world::World;

/// One reviewer of a task's panel.
fn review(settings: &[(&str, Setting)]) -> World {
    let new = NewTask { parent: Some(TaskId(9)), ..NewTask::default() };
    born(builtin_with("review", settings), new)
}

fn reviewing(world: &mut World) {
    world.is_claimed_by("reviewer:ada", "reviewing");
}

/// Nothing is left to wait for except the delay of the second attempt.
fn rests_longer(world: &mut World) {
    world.report(Outcome::Met, "", json!({})).expect("it has missed twice");
    assert_eq!(world.state(), "resting(twice)");
}

#[test]
fn three_misses_with_a_rest_of_30_and_of_60_seconds_are_silence() {
    let mut world = review(&[]);
    reviewing(&mut world);
    world.times_out("10min", "resting(once)");
    world.times_out("30s", "pending");
    reviewing(&mut world);
    world.ends(Outcome::Crashed, "exit code 1", json!({}), "resting(once)");
    rests_longer(&mut world);
    world.times_out("60s", "pending");
    reviewing(&mut world);
    let step = world.ends(Outcome::NothingToDo, "why ask me", json!({}), "silent");
    assert_eq!(step.effects, [Effect::TellParent, Effect::CleanUp]);
    assert_eq!(world.field("diagnostic"), "why ask me");
}

#[test]
fn with_one_chance_only_the_first_miss_is_silence() {
    let mut world = review(&[("max_misses", Setting::Number(1.0))]);
    reviewing(&mut world);
    let step = world.times_out("10min", "silent");
    assert_eq!(step.effects, [Effect::Stop { epoch: 1 }, Effect::TellParent, Effect::CleanUp]);
    assert_eq!(world.field("diagnostic"), "the time limit is reached");
}

#[test]
fn nobody_is_free_and_there_is_no_answer() {
    review(&[]).times_out("30min", "silent");
}

#[test]
fn an_answer_comes_from_the_run_and_from_nobody_else() {
    let mut world = review(&[]);
    reviewing(&mut world);
    world.refused("human:kim", "on answered", json!({ "answer": { "verdict": "APPROVE" } }));
    world.refused("reviewer:ada", "to answered", json!({ "answer": { "verdict": "APPROVE" } }));
    let answer = json!({ "answer": { "verdict": "APPROVE" } });
    world.ends(Outcome::Succeeded, "", answer, "answered");
    world.refused("human:kim", "on close", json!({}));
}

#[test]
fn a_success_without_an_answer_is_none() {
    let mut world = review(&[]);
    reviewing(&mut world);
    world.ends(Outcome::Succeeded, "I approve", json!({}), "resting(once)");
}
