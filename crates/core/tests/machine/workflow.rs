//! The rules of the task that holds the steps of a workflow.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Outcome};
use banksman_core::machine::{Actor, Effect, Ending, NewTask, check, create};
use serde_json::{Value, json};

use crate::walk::{builtin_with, complaints, task_of};
use crate::world::{START, World};

fn running(merges: bool) -> World {
    task_of("workflow", json!({ "workflow": "search", "merges": merges }))
}

/// The engine counts the steps and says so with the end of the wait.
fn counted(
    world: &mut World,
    open: i64,
    given_up: i64,
    state: &str,
) -> banksman_core::machine::TaskUpdate {
    let counts = json!({ "children_open": open, "children_given_up": given_up });
    world.ends(Outcome::Met, "", counts, state)
}

fn merging() -> World {
    let mut world = running(true);
    counted(&mut world, 0, 0, "merging");
    world
}

#[test]
fn a_new_workflow_leads_its_steps_and_waits_for_them_at_once() {
    let lifecycle = builtin_with("workflow", &[]);
    let new = NewTask { title: "search".to_owned(), ..NewTask::default() };
    let born = create(&lifecycle, &new, &Actor::human("kim"), TaskId(1), START)
        .expect("a title is enough");
    assert_eq!(born.effects, [Effect::Start { activity: Activity::Wait }, Effect::LeadChildren]);
}

#[test]
fn it_is_complete_when_every_step_has_passed() {
    let mut world = running(false);
    let rejected = world.refused("system", "to complete", json!({ "children_open": 2 }));
    assert_eq!(complaints(&rejected), ["children_open: Not every step has passed"]);
    let step = counted(&mut world, 0, 0, "complete");
    assert_eq!(step.ending, Some(Ending::Done));
    assert_eq!(step.effects, [Effect::Notify, Effect::LeadChildren, Effect::CleanUp]);
}

#[test]
fn its_work_is_merged_first_where_it_is_to_be() {
    let mut world = merging();
    let step = world.ends(Outcome::Merged, "", json!({}), "complete");
    assert_eq!((step.ending, world.field("merged")), (Some(Ending::Done), &json!(true)));
    let mut world = merging();
    world.ends(Outcome::Rejected, "src/lib.rs differs", json!({}), "waiting");
    assert_eq!(world.field("problem"), "src/lib.rs differs");
    world.goes("human:kim", "on accept", json!({}), "complete(unmerged)");
    assert_eq!(world.field("merged"), &Value::Null, "it is done as it stands");
}

/// A conflict is an agent's to resolve, a few times; then a person is asked.
#[test]
fn branches_that_conflict_are_joined_and_merged() {
    let mut world = merging();
    for _ in 0..3 {
        world.ends(Outcome::Conflict, "it conflicts in src/lib.rs", json!({}), "conflicted");
        assert_eq!(world.field("problem"), "it conflicts in src/lib.rs");
        world.is_claimed_by("worker:ann", "joining");
        world.ends(Outcome::Succeeded, "", json!({}), "merging");
    }
    world.ends(Outcome::Conflict, "it conflicts in src/lib.rs", json!({}), "waiting");
    let mut world = merging();
    world.ends(Outcome::Conflict, "it conflicts in src/lib.rs", json!({}), "conflicted");
    world.is_claimed_by("worker:ann", "joining");
    world.ends(Outcome::Exhausted, "it gave up", json!({}), "waiting");
    assert_eq!(world.field("problem"), "it gave up");
    let mut world = merging();
    world.ends(Outcome::Conflict, "it conflicts in src/lib.rs", json!({}), "conflicted");
    world.times_out("1d", "waiting");
    let problem = "nobody has joined the branches: it conflicts in src/lib.rs";
    assert_eq!(world.field("problem"), problem);
    let mut world = merging();
    world.times_out("1d", "waiting");
    world.goes("human:kim", "on resume", json!({}), "running");
    counted(&mut world, 0, 0, "merging");
}

/// A veto during the merge is not lost at the end of the workflow.
#[test]
fn a_step_that_is_sent_back_during_the_merge_is_a_persons() {
    let mut world = merging();
    world.ends(Outcome::Merged, "", json!({ "children_open": 1 }), "waiting");
    assert_eq!(world.field("problem"), "merged (children_open: A step was sent back meanwhile)");
    world.goes("human:kim", "on resume", json!({}), "running");
}

#[test]
fn a_step_that_was_given_up_is_a_persons_to_accept() {
    let mut world = running(true);
    counted(&mut world, 1, 1, "waiting");
    assert_eq!(world.field("problem"), "a step was given up");
    let rejected = world.refused("human:kim", "on accept", json!({}));
    assert_eq!(complaints(&rejected), ["children_open: Not every step has passed"]);
    let rejected = world.refused("human:kim", "on accept", json!({ "children_open": 0 }));
    assert!(complaints(&rejected).contains(&"children_open: may be set only by system".to_owned()));
    let step = world.goes("human:kim", "on resume", json!({}), "running");
    assert_eq!(step.effects, [Effect::Start { activity: Activity::Wait }, Effect::LeadChildren]);
    for counted in ["problem", "children_open", "children_given_up"] {
        assert_eq!(world.field(counted), &Value::Null, "{counted} is of the time before");
    }
    // The other steps have passed: the workflow may be done without this one.
    counted(&mut world, 0, 1, "waiting");
    world.goes("human:kim", "on accept", json!({}), "complete(unmerged)");
}

#[test]
fn too_much_time_and_a_breaker_wake_a_person() {
    let mut world = running(true);
    let step = world.times_out("14d", "waiting");
    assert_eq!(step.effects, [Effect::Notify, Effect::LeadChildren]);
    assert_eq!(world.field("problem"), "the time limit is reached");
    let mut world = running(true);
    let rejected = world.refused("system", "to waiting on trip", json!({}));
    assert!(
        complaints(&rejected).contains(&"problem: Say what the person has to decide".to_owned())
    );
    world.goes("system", "on trip", json!({ "problem": "four failures alike" }), "waiting");
}

#[test]
fn it_can_be_given_up_from_everywhere() {
    let mut waiting = running(true);
    counted(&mut waiting, 1, 1, "waiting");
    for mut world in [running(true), merging(), waiting] {
        let rejected = world.refused("human:kim", "on abort", json!({}));
        assert_eq!(complaints(&rejected), ["reason: Say why it is aborted"]);
        let why = json!({ "reason": "no longer needed" });
        let step = world.goes("human:kim", "on abort", why, "aborted");
        assert_eq!(step.effects, [Effect::LeadChildren, Effect::CleanUp]);
        assert_eq!(step.ending, Some(Ending::Otherwise));
    }
}

/// The engine counts with whole numbers, so a half is refused where it comes in, and reads as
/// damage where it is stored.
#[test]
fn half_a_step_is_not_counted() {
    let mut world = running(true);
    let half = json!({ "children_open": 0.5, "children_given_up": 0 });
    let rejected = world.report(Outcome::Met, "", half).expect_err("it is half a step");
    assert_eq!(complaints(&rejected), ["children_open: must be a whole number"]);
    world.task.fields.insert("children_open".to_owned(), json!(0.5));
    let broken = check(&world.lifecycle, &world.task).expect_err("it is half a step");
    assert_eq!(broken.to_string(), "its field children_open: must be a whole number");
}
