//! The rules of the mission lifecycle: who may do what, what is required, and when it is complete.

use banksman_core::lifecycle::{Outcome, Setting};
use banksman_core::machine::{Artifact, Effect, Finish, RejectReason};
use serde_json::{Value, json};

use crate::walk::{builtin_with, complaints, of_lifecycle, task_of};
use crate::world::World;

fn plan() -> Value {
    json!({ "bullets": ["look", "change", "test"] })
}

fn submission() -> Value {
    json!({
        "deliverable": { "content": "a patch", "artifacts": [] },
        "reviewChecklist": { "type": "code", "items": [{ "name": "tests", "completed": true }] },
    })
}

/// A task that ada, a specialist, works on and that rob may review.
fn in_progress() -> World {
    let mut world = task_of("mission", json!({ "reviewerIds": ["rob"] }));
    world.goes("lead:lea", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    world.goes("specialist:ada", "to IN_PROGRESS", json!({ "workPlan": plan() }), "IN_PROGRESS");
    world
}

fn in_review() -> World {
    let mut world = in_progress();
    world.goes("specialist:ada", "to REVIEW", submission(), "REVIEW");
    world
}

/// The document's example, word for word.
#[test]
fn what_is_missing_is_said_field_by_field() {
    let mut world = task_of("mission", json!({}));
    world.goes("human:kim", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    let rejected = world.refused("human:kim", "to IN_PROGRESS", json!({ "assigneeIds": [] }));
    assert_eq!(rejected.why, RejectReason::Invalid);
    let errors: Vec<Value> = rejected
        .errors
        .iter()
        .map(|error| json!({ "field": error.field, "message": error.message }))
        .collect();
    assert_eq!(
        json!(errors),
        json!([
            { "field": "workPlan", "message": "Work plan required for IN_PROGRESS" },
            { "field": "assigneeIds", "message": "Must have at least one assignee" },
        ])
    );
    assert_eq!(rejected.allowed, ["INBOX", "CANCELED"]);
}

#[test]
fn every_artifact_is_asked_for() {
    let plan_of = |bullets: &[&str]| json!({ "workPlan": { "bullets": bullets } });
    let mut assigned = task_of("mission", json!({}));
    assigned.goes("human:kim", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    for bullets in [&["a", "b"][..], &["a"; 7], &[]] {
        let rejected = assigned.refused("specialist:ada", "to IN_PROGRESS", plan_of(bullets));
        assert_eq!(
            complaints(&rejected),
            ["workPlan: Work plan must have 3 to 6 bullets"],
            "{bullets:?}"
        );
    }
    for bullets in [3, 6] {
        let mut world = task_of("mission", json!({}));
        world.goes("human:kim", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
        world.goes(
            "specialist:ada",
            "to IN_PROGRESS",
            plan_of(&vec!["do"; bullets]),
            "IN_PROGRESS",
        );
    }

    let mut working = in_progress();
    let rejected = working.refused("specialist:ada", "to REVIEW", json!({}));
    assert_eq!(
        complaints(&rejected),
        [
            "deliverable: Deliverable required for REVIEW",
            "reviewChecklist: Review checklist required for REVIEW"
        ]
    );
    let mut half = submission();
    half["reviewChecklist"]["items"] =
        json!([{ "name": "tests", "completed": true }, { "name": "docs", "completed": false }]);
    let rejected = working.refused("specialist:ada", "to REVIEW", half);
    assert_eq!(
        complaints(&rejected),
        ["reviewChecklist: Every item of the review checklist must be completed"]
    );

    let mut reviewed = in_review();
    let rejected = reviewed.refused("human:kim", "to IN_PROGRESS", json!({}));
    assert_eq!(complaints(&rejected), ["feedback: Revision feedback required"]);
    let rejected = reviewed.refused("human:kim", "to DONE", json!({}));
    assert_eq!(complaints(&rejected), ["decisionNote: Decision note required for DONE"]);
    let rejected = reviewed.refused("human:kim", "to BLOCKED", json!({}));
    assert_eq!(complaints(&rejected), ["blockReason: Block reason required for BLOCKED"]);
    let rejected = reviewed.refused("human:kim", "to NEEDS_APPROVAL", json!({}));
    assert_eq!(
        complaints(&rejected),
        ["approvalRequest: Approval request required for NEEDS_APPROVAL"]
    );
}

/// What each role may do with a task whose assignee it is (`ada`) or is not (`eve`).
#[test]
fn a_role_is_offered_what_it_may_do() {
    let all = [
        "ASSIGNED",
        "BLOCKED",
        "CANCELED",
        "DONE",
        "INBOX",
        "IN_PROGRESS",
        "NEEDS_APPROVAL",
        "REVIEW",
    ];
    let but = |left_out: &[&str]| {
        all.iter().copied().filter(|name| !left_out.contains(name)).collect::<Vec<_>>()
    };
    let inbox = || task_of("mission", json!({}));
    let assigned = || {
        let mut world = inbox();
        world.goes("human:kim", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
        world
    };
    let table: [(World, &str, Vec<&str>); 18] = [
        (inbox(), "intern:ada", vec![]),
        (inbox(), "specialist:ada", vec!["ASSIGNED"]),
        (inbox(), "lead:lea", vec!["ASSIGNED"]),
        (inbox(), "human:kim", vec!["ASSIGNED", "CANCELED"]),
        (inbox(), "system", vec!["NEEDS_APPROVAL"]),
        (assigned(), "intern:ada", vec!["IN_PROGRESS"]),
        (assigned(), "intern:eve", vec![]),
        (assigned(), "lead:eve", vec![]),
        (assigned(), "human:kim", vec!["CANCELED", "INBOX", "IN_PROGRESS"]),
        (in_progress(), "intern:ada", vec!["REVIEW"]),
        (in_progress(), "specialist:ada", vec!["BLOCKED", "NEEDS_APPROVAL", "REVIEW"]),
        (in_progress(), "specialist:eve", vec![]),
        (in_progress(), "system", vec!["BLOCKED", "IN_PROGRESS", "NEEDS_APPROVAL", "REVIEW"]),
        (in_review(), "intern:rob", vec![]),
        (in_review(), "specialist:rob", vec!["IN_PROGRESS"]),
        (in_review(), "lead:lea", vec![]),
        (
            in_review(),
            "human:kim",
            but(&["INBOX", "ASSIGNED", "REVIEW"]).into_iter().chain(["merging"]).collect(),
        ),
        (in_review(), "lead:ada", vec![]),
    ];
    for (world, who, offered) in table {
        assert_eq!(world.allowed(who), offered, "{who} in {}", world.state());
    }
}

#[test]
fn only_an_assignee_works_and_nobody_becomes_one_on_the_way() {
    let mut world = task_of("mission", json!({}));
    world.goes("lead:lea", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    let own_idea = json!({ "workPlan": plan(), "assigneeIds": ["ada", "eve"] });
    let rejected = world.refused("specialist:eve", "to IN_PROGRESS", own_idea);
    assert_eq!(
        complaints(&rejected),
        [
            "assigneeIds: may be set only by lead, human, system",
            "assigneeIds: Only an assignee may do this"
        ]
    );

    let mut reviewed = in_review();
    let rejected = reviewed.refused(
        "specialist:eve",
        "to IN_PROGRESS",
        json!({ "feedback": "no", "reviewerIds": ["eve"] }),
    );
    assert_eq!(
        complaints(&rejected),
        [
            "reviewerIds: may be set only by lead, human, system",
            "reviewerIds: Only a reviewer of this task may do this"
        ]
    );
}

#[test]
fn a_specialist_claims_and_keeps_the_lease_into_the_work() {
    let mut world = task_of("mission", json!({}));
    world.is_claimed_by("specialist:ada", "ASSIGNED");
    assert_eq!(world.field("assigneeIds"), &json!(["ada"]));
    let step = world.goes(
        "specialist:ada",
        "to IN_PROGRESS",
        json!({ "workPlan": plan() }),
        "IN_PROGRESS",
    );
    assert_eq!(
        (step.effects, world.task.lease.as_ref().map(|lease| lease.epoch)),
        (vec![], Some(1))
    );
    let step = world.goes("specialist:ada", "to REVIEW", submission(), "REVIEW");
    assert_eq!(step.effects, [Effect::Stop { epoch: 1 }, Effect::Notify]);
    let rejected =
        task_of("mission", json!({})).claim("intern:ida").expect_err("interns are assigned");
    assert_eq!(rejected.why, RejectReason::Forbidden);
}

#[test]
fn a_lead_approves_only_where_the_policy_says_so() {
    let note = json!({ "decisionNote": "good" });
    let rejected = in_review().refused("lead:lea", "to DONE", note.clone());
    assert_eq!(complaints(&rejected), ["approvedBy: Only a person may approve here"]);

    let lifecycle = builtin_with("mission", &[("lead_may_approve", Setting::Flag(true))]);
    let mut world = of_lifecycle(lifecycle, json!({}));
    world.goes("lead:lea", "to ASSIGNED", json!({ "assigneeIds": ["ada"] }), "ASSIGNED");
    world.goes("specialist:ada", "to IN_PROGRESS", json!({ "workPlan": plan() }), "IN_PROGRESS");
    world.goes("specialist:ada", "to REVIEW", submission(), "REVIEW");
    let rejected = world.refused("specialist:rob", "to DONE", note.clone());
    assert_eq!(rejected.why, RejectReason::Forbidden);
    world.goes("lead:lea", "to DONE", note, "DONE");
    assert_eq!(world.field("approvedBy"), "lea");
}

#[test]
fn an_approval_is_recorded_and_kept() {
    let mut world = in_review();
    let when = world.now.to_string();
    let step = world.goes(
        "human:kim",
        "to DONE",
        json!({ "decisionNote": "good", "approvedBy": "somebody else" }),
        "DONE",
    );
    let kept = |name: &str, value: &str| Artifact { name: name.to_owned(), value: json!(value) };
    assert_eq!(
        step.artifacts,
        [kept("approvedBy", "kim"), kept("approvedAt", &when), kept("decisionNote", "good")]
    );
    assert_eq!(step.effects, [Effect::Notify, Effect::CleanUp]);
}

#[test]
fn nobody_gives_the_name_that_an_approval_could_not_record() {
    let forged = json!({ "decisionNote": "good", "approvedBy": "alice" });
    let rejected = in_review().refused("human", "to DONE", forged);
    assert!(
        complaints(&rejected).contains(&"approvedBy: may be set only by system".to_owned()),
        "{rejected:?}"
    );
}

#[test]
fn the_cost_is_summed_up_from_the_runs() {
    let mut world = task_of("mission", json!({}));
    world.is_claimed_by("specialist:ada", "ASSIGNED");
    world.goes("specialist:ada", "to IN_PROGRESS", json!({ "workPlan": plan() }), "IN_PROGRESS");
    let paid = Finish { tokens: 1_500, cost_micros: 250_000, ..world.ending(Outcome::Succeeded) };
    world.finish(paid).expect("the run has ended");
    let mut wishful = submission();
    wishful["costSummary"] = json!({ "totalCost": 0.0, "runCount": 0, "tokenCount": 0 });
    let step = world.goes("specialist:ada", "to REVIEW", wishful, "REVIEW");
    assert_eq!(
        world.field("costSummary"),
        &json!({ "totalCost": 0.25, "runCount": 1, "tokenCount": 1_500 })
    );
    let kept: Vec<&str> = step.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(kept, ["deliverable", "reviewChecklist", "costSummary"]);
}

#[test]
fn the_third_review_cycle_blocks_and_only_a_person_unblocks() {
    let mut world = in_review();
    for cycle in 1..=2 {
        world.goes(
            "specialist:rob",
            "to IN_PROGRESS",
            json!({ "feedback": "not yet" }),
            "IN_PROGRESS",
        );
        assert_eq!(world.count("reviewCycles"), cycle);
        world.goes("specialist:ada", "to REVIEW", submission(), "REVIEW");
    }
    world.goes("human:kim", "to IN_PROGRESS", json!({ "feedback": "still not" }), "BLOCKED");
    assert_eq!(world.field("blockReason"), "the review went round too often");
    assert_eq!(
        world.field("loopSummary"),
        "1. rob: not yet; 2. rob: not yet; 3. kim: still not; ",
        "every cycle is in it"
    );

    for who in ["intern:ada", "specialist:ada", "lead:lea", "system"] {
        let rejected = world.refused(who, "to IN_PROGRESS", json!({}));
        assert_eq!(rejected.why, RejectReason::Forbidden, "{who}");
    }
    // A detour through an approval does not renew the limit.
    world.goes(
        "human:kim",
        "to NEEDS_APPROVAL",
        json!({ "approvalRequest": "go on?" }),
        "NEEDS_APPROVAL",
    );
    world.goes("human:kim", "to REVIEW", submission(), "REVIEW");
    world.goes("human:kim", "to IN_PROGRESS", json!({ "feedback": "no" }), "BLOCKED");
    assert_eq!(world.count("reviewCycles"), 3);

    let rejected = world.refused("human:kim", "to IN_PROGRESS", json!({}));
    assert_eq!(complaints(&rejected), ["clarification: Say what has to be done differently"]);
    let clear = json!({ "clarification": "only the parser" });
    world.goes("human:kim", "on unblock", clear, "IN_PROGRESS");
    assert_eq!(world.field("clarification"), "only the parser", "the next run reads it");
    assert_eq!((world.count("reviewCycles"), world.field("blockReason")), (0, &Value::Null));
    world.goes("specialist:ada", "to REVIEW", submission(), "REVIEW");
    world.goes("specialist:rob", "to IN_PROGRESS", json!({ "feedback": "again" }), "IN_PROGRESS");
}

#[test]
fn silence_blocks_and_progress_counts() {
    let mut world = in_progress();
    world.times_out("24h", "BLOCKED");
    assert_eq!(world.field("blockReason"), "no progress for too long");

    let mut world = task_of("mission", json!({}));
    world.is_claimed_by("specialist:ada", "ASSIGNED");
    world.goes("specialist:ada", "to IN_PROGRESS", json!({ "workPlan": plan() }), "IN_PROGRESS");
    world.after("23h");
    world.heartbeat(1, true).expect("it holds the task");
    world.times_out("24h", "BLOCKED");
}
