//! What reviewers have left to say reaches whoever works next, also where they let the work pass.

use banksman_core::fence::fence;
use banksman_core::ids::TaskId;
use serde_json::{Value, json};

use super::desk::{Desk, PARENT, one_subtask, plan, rate_limits, subtask};
use crate::engine::harness::state;

fn suggests(verdict: &str, concerns: &[&str], suggestions: &[&str]) -> String {
    let answer = json!({
        "verdict": verdict, "rationale": "so", "concerns": concerns, "suggestions": suggestions,
    });
    format!("answer {answer}\nsuccess looked\n")
}

fn detail(desk: &Desk, task: &str, run: usize) -> Value {
    desk.harness.json(&["show", task])["runs"][run]["detail"].clone()
}

/// One worker does everything here.
const ALONE: &str = "(judged its own work, because no other worker could)";

#[test]
fn a_worker_is_told_what_the_reviewers_of_the_plan_suggest() {
    let desk = Desk::new(&[one_subtask()]);
    desk.harness.script("t2", &suggests("APPROVE", &[], &["mind the clock", "log the limit"]));
    desk.until(PARENT, "waiting");
    assert_eq!(detail(&desk, "t1", 0), "a plan of 1 subtask");
    let page = desk.harness.ok(&["decisions", "show", "t1"]);
    let verdict = format!(
        "custodiet APPROVE: so {ALONE}\n      suggests: mind the clock\n      suggests: log the limit\n"
    );
    assert!(page.contains(&verdict), "{page}");
    let page = desk.harness.json(&["decisions", "show", "t1"]);
    assert_eq!(page["verdicts"][0]["suggestions"], json!(["mind the clock", "log the limit"]));
    assert_eq!(page["diff"], json!(null), "who plans changes nothing");

    desk.harness.ok(&["decisions", "approve", "t1", "--note", "go, but log the limit"]);
    desk.until(PARENT, "merge_ready");
    let told = desk.prompt("r1.2");
    assert!(told.contains(&fence("custodiet suggests: mind the clock\n")), "{told}");
    assert_eq!(told.matches("log the limit").count(), 1, "a person has said it: {told}");
    let page = desk.harness.json(&["decisions", "show", "t1"]);
    assert!(page["diff"].as_str().is_some_and(|diff| diff.starts_with("git -C ")), "{page}");
}

#[test]
fn a_worker_is_told_what_reviewers_are_concerned_about_although_a_person_has_approved() {
    let desk = Desk::new(&[one_subtask()]);
    desk.harness.script("t3", &suggests("CONCERN", &["no spike for Redis"], &[]));
    let maintains = json!({ "response": "MAINTAIN", "rationale": "it is open" });
    for round in ["t4", "t5"] {
        desk.harness.script(round, &format!("answer {maintains}\nsuccess looked\n"));
    }
    desk.until(PARENT, "waiting");
    let page = desk.harness.ok(&["decisions", "show", "t1"]);
    assert!(page.contains(&format!(" critic CONCERN: so {ALONE}\n")), "{page}");
    assert!(page.contains(" critic: no spike for Redis (response: it is open)\n"), "{page}");
    // The summary keeps its lines, and `why` says who is not content.
    let summary = "## Unresolved Review Concerns\n\n                ### Critic says:\n\n                no spike for Redis\n";
    assert!(page.contains(summary), "{page}");
    let why = desk.harness.json(&["why", "t1"]);
    let list = why["waitingFor"].as_array().expect("a list").iter();
    let reasons = list
        .filter(|one| one["kind"] == "reason")
        .map(|one| one["detail"].as_str().expect("a text"));
    let expected = [
        "approval_type: escalated",
        "critic CONCERN: so (judged its own work, because no other worker could)",
        "critic: no spike for Redis (response: it is open)",
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
    desk.harness.ok(&["decisions", "approve", "t1"]);
    desk.until(PARENT, "review");
    let told = desk.prompt("r1.2");
    assert!(told.contains(&fence("critic is concerned: no spike for Redis\n")), "{told}");
}

#[test]
fn the_planner_is_told_once_what_all_reviewers_said() {
    let desk = Desk::new(&[rate_limits(), rate_limits()]);
    desk.harness.script("t2", &suggests("APPROVE", &[], &["one file less"]));
    desk.harness.script(
        "t3",
        &format!(
            "run until [ -f \"$YARD/go\" ]; do sleep 0.05; done\n{}",
            suggests("BLOCK", &["no test"], &["a table"])
        ),
    );
    desk.driver.turn_until("one has answered", |store| {
        store.task(TaskId(2)).is_ok() && state(store, TaskId(2)) == "answered"
    });
    std::fs::write(desk.harness.path("go"), "").expect("written");
    desk.driver
        .turn_until("it plans again", |_| desk.harness.starts().iter().any(|run| run == "r1.2"));
    let told = desk.prompt("r1.2");
    let all = "critic says BLOCK: so\n- no test\n- suggestion: a table\ncustodiet says APPROVE: so\n- suggestion: one file less\n";
    assert!(told.contains(&fence(all.trim_end())), "{told}");
    assert_eq!(told.matches("one file less").count(), 1, "{told}");
}

#[test]
fn subtasks_are_told_what_the_reviewers_of_their_parent_suggest() {
    let desk =
        Desk::new(&[plan(&[subtask("everything", 15), subtask("rest", 1)], &[]), rate_limits()]);
    desk.harness.script("t3", &suggests("APPROVE", &[], &["count by key"]));
    desk.approve();
    assert_eq!(detail(&desk, "t1", 0), "needs another pass: 1 subtask is too large");
    assert_eq!(detail(&desk, "t1", 1), "a plan of 3 subtasks");
    desk.driver.turn_until("its subtasks are there", |_| !desk.children().is_empty());
    let id = desk.child("limiter");
    desk.until(id, "merge_ready");
    let told = desk.prompt(&format!("r{}.1", id.0));
    assert!(told.contains("Reviewers of t1 said:\ncritic suggests: count by key\n"), "{told}");
}
