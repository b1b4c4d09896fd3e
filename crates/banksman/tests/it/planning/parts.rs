//! What subtasks are told and what they cost, and how their parent ends when they change nothing.

use serde_json::json;

use super::desk::{Desk, PARENT, one_subtask, plan, subtask};

const FOUND: &str = "success Redis is in use already\n";

/// Two subtasks behind a question.
fn questioned() -> serde_json::Value {
    let mut questioned = plan(&[subtask("a", 1), subtask("b", 1)], &[]);
    questioned["spikes"] = json!([{ "id": "store", "question": "Redis or memory?", "blocks": [] }]);
    questioned
}

/// As it was seen: both subtasks are cancelled, a person goes on without them, and the spike ends
/// without a commit.
#[test]
fn a_parent_that_only_found_something_out_is_done_and_not_merged() {
    let desk = Desk::new(&[questioned()]);
    desk.harness.script("t4", "sleep 400\nsuccess Redis is in use already\n");
    desk.approve();
    desk.driver.turn_until("the subtasks are there", |_| desk.children().len() == 3);
    for part in ["t5", "t6"] {
        desk.harness.ok(&["move", part, "cancelled", "--set", "reason=not wanted"]);
    }
    desk.driver.turn_until("the parent ends or asks", |_| {
        let state = desk.state(PARENT);
        if state == "blocked" {
            desk.harness.ok(&["decisions", "answer", "t1", "without"]);
        }
        state == "done"
    });
    assert_eq!(desk.state(desk.child("store")), "done");
    assert_eq!(desk.field("merged"), json!(null), "nothing was merged");
    desk.harness.ok(&["check"]);
    desk.harness.ok(&["audit", "verify"]);
}

#[test]
fn a_spike_beside_one_subtask_is_made_and_asked_for_an_answer() {
    let mut only = one_subtask();
    only["spikes"] = json!([{ "id": "store", "question": "Redis or memory?", "blocks": [] }]);
    let desk = Desk::new(&[only]);
    desk.harness.script("t4", FOUND);
    desk.until(PARENT, "waiting");
    let page = desk.harness.ok(&["decisions", "show", "t1"]);
    for shown in ["files: `src/all-0.rs`", "- [ ] all works", "tested: a unit test"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    desk.harness.ok(&["decisions", "approve", "t1", "--note", "mind the old clients"]);
    desk.until(desk_child(&desk, "store"), "done");
    let asked = desk.prompt("r4.1");
    assert!(asked.contains("Spike: Redis or memory?"), "{asked}");
    assert!(!asked.contains("Commit your work") && !asked.contains("pull request"), "{asked}");
    desk.until(desk.child("all"), "merge_ready");
    let told = desk.prompt("r5.1");
    assert!(told.contains("mind the old clients"), "{told}");
    assert!(told.contains("Redis is in use already"), "{told}");
    let subtask = desk.harness.json(&["show", "t5"]);
    assert_eq!(subtask["fields"]["estimate"], "2h");
    assert_eq!(desk.field("estimate"), "2h");
    let shown = desk.harness.ok(&["show", "t1"]);
    assert!(shown.contains(", with its children"), "{shown}");
}

fn desk_child(desk: &Desk, name: &str) -> banksman_core::ids::TaskId {
    desk.driver.turn_until("the subtasks are there", |_| desk.children().len() == 2);
    desk.child(name)
}

/// The reviewers of a plan judge a plan; those of the work judge a diff.
#[test]
fn a_review_of_a_plan_is_not_one_of_a_pull_request() {
    let desk = Desk::new(&[one_subtask()]);
    desk.approve();
    let of_plan = desk.prompt("r2.1");
    assert!(of_plan.contains("Judge the plan") && !of_plan.contains("git diff"), "{of_plan}");
    desk.until(PARENT, "merge_ready");
    let reviews = desk.driver.store.children(PARENT).expect("reviews");
    let last = reviews.last().expect("a review of the work").task.id;
    let of_work = desk.prompt(&format!("r{}.1", last.0));
    assert!(of_work.contains("Judge the work itself") && of_work.contains("git diff"), "{of_work}");
}

#[test]
fn a_plan_without_subtasks_is_refused() {
    let desk = Desk::new(&[plan(&[], &[]), one_subtask()]);
    desk.until(PARENT, "waiting");
    assert_eq!(desk.field("plan_version"), 2);
    let told = desk.prompt("r1.2");
    assert!(told.contains("there is no subtask"), "{told}");
}
