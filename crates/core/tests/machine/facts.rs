//! What the system finds out, and what a person says instead.

use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::{Actor, Event, FactOverride, Finish, RejectReason};
use serde_json::json;

use crate::walk::{complaints, fields, task_of};

fn by(actor: Actor, facts: serde_json::Value, reason: &str) -> Event {
    Event::Overridden(FactOverride { actor, fields: fields(facts), reason: reason.to_owned() })
}

#[test]
fn a_person_overrides_a_fact_by_name_and_with_a_reason() {
    let mut world = task_of("leaf", json!({ "subtask": "limiter" }));
    let nameless = Actor { role: "human".to_owned(), name: None };
    for actor in [nameless, Actor::system(), "worker:wim".parse().expect("an actor")] {
        let rejected = world.meet(&by(actor, json!({ "merged": true }), "it is")).expect_err("no");
        assert_eq!(rejected.why, RejectReason::Forbidden);
    }
    let refused = |world: &mut crate::world::World, facts, reason| {
        let rejected = world.meet(&by(Actor::human("kim"), facts, reason)).expect_err("it is bad");
        complaints(&rejected).join("; ")
    };
    assert_eq!(refused(&mut world, json!({ "merged": true }), " "), "reason: Say how you know");
    assert_eq!(
        refused(&mut world, json!({}), "so"),
        "fields: Name at least one fact, such as merged=true"
    );
    assert_eq!(
        refused(&mut world, json!({ "note": "x" }), "so"),
        "note: is no fact; give it with a move"
    );
    assert_eq!(
        refused(&mut world, json!({ "merged": "yes" }), "so"),
        "merged: must be true or false, not text"
    );
    let step = world.overrides("human:kim", json!({ "merged": true }));
    let record = step.record.expect("it is in the history");
    assert_eq!(
        (record.trigger.as_str(), record.actor),
        (Note::Override.as_str(), Actor::human("kim"))
    );
    assert_eq!(record.fields["note.detail"], "seen on the forge");
    assert_eq!(world.on_word(), ["merged"]);
    assert_eq!(world.state(), "pending");
}

/// It is no progress, and it ends no wait for a retry.
#[test]
fn a_fact_by_word_leaves_the_times_of_a_task_alone() {
    let mut world = task_of("leaf", json!({ "subtask": "limiter" }));
    world.is_claimed_by("worker:wim", "in_progress");
    let again_at = Some(world.at("10min"));
    world.finish(Finish { again_at, ..world.ending(Outcome::Crashed) }).expect("it holds the task");
    let (not_before, progress_at) = (world.task.not_before, world.task.progress_at);
    assert_eq!(not_before, again_at);
    world.after("1min");
    world.overrides("human:kim", json!({ "merged": true }));
    assert_eq!((world.task.not_before, world.task.progress_at), (not_before, progress_at));
}

/// What the system finds later needs nobody's word.
#[test]
fn a_fact_that_the_system_finds_is_proven() {
    let mut world = task_of("leaf", json!({ "subtask": "limiter" }));
    world.overrides("human:kim", json!({ "pr_url": "https://forge/pr/1", "merged": true }));
    assert_eq!(world.on_word(), ["merged", "pr_url"]);
    world.is_claimed_by("worker:wim", "in_progress");
    world.ends(
        Outcome::Succeeded,
        "",
        json!({ "pr_url": "local:t1", "pr_head": "c0ffee" }),
        "review",
    );
    assert_eq!(world.on_word(), ["merged"]);
    let verdicts = json!({ "verdicts": [{ "verdict": "APPROVE" }] });
    world.ends(Outcome::Approved, "", verdicts, "merge_ready");
    world.goes("human:kim", "on approve_merge", json!({}), "done");
    assert_eq!(world.on_word(), ["merged"], "a person said so, and nobody has seen it");
}

#[test]
fn a_panel_without_a_verdict_approves_nothing() {
    let mut world = task_of("leaf", json!({ "subtask": "limiter" }));
    world.is_claimed_by("worker:wim", "in_progress");
    world.ends(
        Outcome::Succeeded,
        "",
        json!({ "pr_url": "local:t1", "pr_head": "c0ffee" }),
        "review",
    );
    for who in ["reviewer:zed", "human:kim"] {
        let rejected = world.refused(who, "on review_consensus", json!({}));
        assert_eq!(complaints(&rejected), ["verdicts: Every reviewer must approve"]);
        let typed = json!({ "verdicts": [{ "reviewer": "custodiet", "verdict": "APPROVE" }] });
        let rejected = world.refused(who, "on review_consensus", typed);
        assert!(complaints(&rejected)[0].starts_with("verdicts: is a fact"), "{rejected:?}");
    }
    let rejected = world.refused("reviewer:zed", "on escalate", json!({}));
    assert_eq!(complaints(&rejected), ["pr_comments: Say what a person has to settle"]);
}

/// The reviewers of the plan have not seen the work.
#[test]
fn verdicts_about_a_plan_or_an_earlier_state_approve_no_pull_request() {
    let mut world = task_of("leaf", json!({ "subtask": "limiter" }));
    world.is_claimed_by("worker:wim", "in_progress");
    let filed = json!({ "pr_url": "local:t1", "pr_head": "c0ffee" });
    world.ends(Outcome::Succeeded, "", filed.clone(), "review");
    let verdicts = json!({ "verdicts": [{ "verdict": "APPROVE" }] });
    world.ends(Outcome::Blocked, "no test", verdicts, "in_progress");
    world.is_claimed_by("worker:wim", "in_progress");
    world.ends(Outcome::Succeeded, "", filed, "review");
    assert_eq!(world.task.fields.get("verdicts"), None);
}
