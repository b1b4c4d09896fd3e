//! The rules of a workflow's step: the levels of its gate, and the way to a person when it fails too often.

use banksman_core::lifecycle::{Activity, Outcome, Setting};
use banksman_core::machine::{Effect, Ending, Why};
use serde_json::{Value, json};

use crate::walk::{builtin_with, complaints, of_lifecycle, task_of};
use crate::world::World;

fn at_gate(level: &str, gate: &str) -> World {
    let mut world = task_of("step", json!({ "level": level }));
    signals(&mut world, gate);
    world
}

fn signals(world: &mut World, gate: &str) {
    world.is_claimed_by("agent:writer", "running");
    world.ends(Outcome::Succeeded, "", json!({}), gate);
}

#[test]
fn the_level_of_the_gate_says_who_reviews() {
    let panel = Effect::Start { activity: Activity::Panel };
    for (level, gate, effect) in [
        (json!("auto"), "gate(auto)", panel.clone()),
        (json!("notify"), "gate(notify)", panel),
        (json!("human"), "gate(human)", Effect::Notify),
        (Value::Null, "gate(human)", Effect::Notify),
    ] {
        let mut world = task_of("step", json!({ "level": level }));
        world.is_claimed_by("agent:writer", "running");
        let step = world.ends(Outcome::Succeeded, "", json!({}), gate);
        assert_eq!(step.effects, [effect], "{gate}");
        assert_eq!(world.decision.is_some(), gate == "gate(human)", "{gate}");
    }
}

#[test]
fn an_automatic_gate_needs_nobody() {
    let mut world = at_gate("auto", "gate(auto)");
    let step = world.ends(Outcome::Approved, "", json!({}), "complete");
    assert_eq!((step.effects, step.ending), (vec![], Some(Ending::Done)));
}

#[test]
fn a_notifying_gate_goes_on_unless_a_person_objects() {
    let mut world = at_gate("notify", "gate(notify)");
    let step = world.ends(Outcome::Approved, "", json!({}), "gate(veto)");
    assert_eq!(step.effects, [Effect::Notify]);
    world.times_out("15min", "complete");

    let mut world = at_gate("notify", "gate(notify)");
    world.ends(Outcome::Approved, "", json!({}), "gate(veto)");
    let rejected = world.refused("human:kim", "on veto", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);
    let step = world.goes("human:kim", "on veto", json!({ "feedback": "no" }), "pending");
    assert_eq!(step.artifacts[0].value, "no");
}

#[test]
fn a_human_gate_waits_for_a_person() {
    let mut world = at_gate("human", "gate(human)");
    assert!(world.after("365d").is_empty(), "as long as it takes");
    for who in ["reviewer:rob", "agent:writer", "system"] {
        assert_eq!(world.refused(who, "on pass", json!({})).why, Why::Forbidden, "{who}");
    }
    world.goes("human:kim", "on pass", json!({}), "complete");
}

/// What fails goes back with the feedback; at the limit a person decides, whatever the level.
#[test]
fn too_many_failures_lead_to_a_person() {
    for (level, gate) in [("auto", "gate(auto)"), ("notify", "gate(notify)")] {
        for max_retries in [1_u32, 2, 3] {
            let lifecycle =
                builtin_with("step", &[("max_retries", Setting::Number(f64::from(max_retries)))]);
            let mut world = of_lifecycle(lifecycle, json!({ "level": level }));
            for failure in 1..=max_retries {
                signals(&mut world, gate);
                let to = if failure == max_retries { "gate(human)" } else { "pending" };
                world.ends(Outcome::Blocked, &format!("failure {failure}"), json!({}), to);
                assert_eq!(world.field("feedback"), &json!(format!("failure {failure}")));
                assert_eq!(world.count("failures"), failure);
            }
            assert!(world.decision.is_some());
            // The person sends it back once more, with a full allowance.
            world.goes("human:kim", "on fail", json!({ "feedback": "like this" }), "pending");
            assert_eq!(world.count("failures"), 0);
        }
    }
}

#[test]
fn a_reviewer_says_why() {
    let rejected = at_gate("auto", "gate(auto)").refused("reviewer:rob", "on fail", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Say what has to change"]);
}

#[test]
fn silence_and_doubt_go_to_a_person() {
    let running = || {
        let mut world = task_of("step", json!({ "level": "auto" }));
        world.is_claimed_by("agent:writer", "running");
        world
    };
    let mut world = running();
    world.times_out("24h", "gate(human)");
    for outcome in [Outcome::Auth, Outcome::NeedsPerson, Outcome::OverBudget, Outcome::Exhausted] {
        let mut world = running();
        world.ends(outcome, "what it said", json!({}), "gate(human)");
        assert_eq!(world.field("diagnostic"), "what it said", "{outcome}");
    }
    let mut world = at_gate("auto", "gate(auto)");
    world.times_out("30min", "gate(human)");
    for outcome in [Outcome::Escalated, Outcome::Unresolved, Outcome::Unavailable] {
        let mut world = at_gate("notify", "gate(notify)");
        world.ends(outcome, "", json!({}), "gate(human)");
    }
}

#[test]
fn a_step_waits_for_the_steps_before_it() {
    let mut world = task_of("step", json!({}));
    world.meet(&banksman_core::machine::Event::NeedsLeft(2)).expect("needs are no refusal");
    assert_eq!(
        complaints(&world.claim("agent:writer").expect_err("too soon")),
        ["task: t1 cannot be claimed now"]
    );
    world.meet(&banksman_core::machine::Event::NeedsLeft(0)).expect("needs are no refusal");
    world.is_claimed_by("agent:writer", "running");
}
