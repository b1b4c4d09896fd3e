//! A subtask that fails or is cancelled is not finished: a person decides.

use super::desk::{Desk, PARENT, rate_limits};

/// A desk whose limiter fails, because its agent crashes again and again.
fn with_a_failure() -> Desk {
    let desk = Desk::new(&[rate_limits()]);
    desk.harness.script("t4", "crash 3\n");
    desk.approve();
    desk.until(PARENT, "blocked");
    desk
}

#[test]
fn a_failed_subtask_comes_back_as_a_decision_and_is_begun_again() {
    let desk = with_a_failure();
    let question = desk.harness.json(&["decisions", "show", "t1"]);
    let condition = desk.field("unblock_condition");
    let condition = condition.as_str().expect("a text");
    assert!(condition.contains("limiter (t4) Do limiter: failed"), "{condition}");
    assert_eq!(question["offers"].as_array().map(Vec::len), Some(3), "{question}");
    desk.harness.script("t4", "write work-t4 done\ncommit work\nsuccess it is written\n");
    desk.harness.ok(&["decisions", "answer", "t1", "resume"]);
    desk.merge("limiter");
    desk.merge("docs");
    desk.merge("routes");
    desk.until(PARENT, "done");
    assert_eq!(desk.children().len(), 3, "the same subtask was begun again");
    desk.harness.ok(&["check"]);
}

#[test]
fn a_person_who_takes_up_the_subtask_itself_has_answered() {
    let desk = with_a_failure();
    desk.harness.script("t4", "write work-t4 done\ncommit work\nsuccess it is written\n");
    desk.harness.ok(&["retry", "t4"]);
    desk.driver.turn_until("the parent goes on", |_| desk.state(PARENT) == "in_progress");
    assert_eq!(desk.driver.store.detail(PARENT).expect("it is there").decision, None);
}

#[test]
fn a_person_may_go_on_without_it() {
    let desk = with_a_failure();
    assert_eq!(desk.state(desk.child("routes")), "pending");
    desk.harness.ok(&["decisions", "answer", "t1", "without"]);
    desk.merge("docs");
    desk.merge("routes");
    desk.until(PARENT, "done");
    assert_eq!(desk.state(desk.child("limiter")), "failed", "it is not called finished");
    assert_eq!(desk.field("left_out"), serde_json::json!(["t4"]));
}

#[test]
fn a_cancelled_subtask_is_not_finished_either() {
    let desk = Desk::new(&[rate_limits()]);
    desk.approve();
    desk.driver.turn();
    let id = desk.child("routes").to_string();
    desk.harness.ok(&["cancel", &id, "nobody wants it"]);
    desk.until(PARENT, "blocked");
    let condition = desk.field("unblock_condition");
    assert!(
        condition.as_str().is_some_and(|text| text.contains("cannot start again")),
        "{condition}"
    );
    // To resume leads back to the same question, so that it is not offered.
    let question = desk.harness.json(&["decisions", "show", "t1"]);
    assert_eq!(question["offers"], serde_json::json!(["without", "cancel"]), "{question}");
    let page = desk.harness.ok(&["decisions", "show", "t1"]);
    assert!(page.contains("not possible now: Cancelled subtasks cannot start again"), "{page}");
    let refused = desk.harness.run(&["decisions", "answer", "t1", "resume"]);
    assert_eq!(refused.status.code(), Some(1));
    let refused = desk.harness.run(&["unblock", "t1"]);
    assert_eq!(refused.status.code(), Some(1));
    // The verdicts were about the plan.
    assert_eq!(question["verdicts"], serde_json::json!([]), "{question}");
    desk.harness.ok(&["decisions", "answer", "t1", "without"]);
    desk.merge("limiter");
    desk.merge("docs");
    desk.until(PARENT, "done");
}

/// A subtask that is cancelled with its work filed is not in the base, and no page calls it merged.
#[test]
fn a_parent_names_only_the_branches_that_are_merged() {
    let desk = Desk::new(&[rate_limits()]);
    desk.approve();
    desk.driver.turn();
    let limiter = desk.child("limiter");
    desk.until(limiter, "merge_ready");
    desk.harness.ok(&["cancel", &limiter.to_string(), "nobody wants it"]);
    desk.until(PARENT, "blocked");
    let question = desk.harness.json(&["decisions", "show", "t1"]);
    assert_eq!(question["verdicts"], serde_json::json!([]), "{question}");
    desk.harness.ok(&["decisions", "answer", "t1", "without"]);
    desk.merge("docs");
    desk.merge("routes");
    desk.until(PARENT, "done");
    let merged = desk.field("pr_url");
    let merged: Vec<&str> = merged.as_str().expect("branches").split(' ').collect();
    assert_eq!(merged.len(), 2, "{merged:?}");
    assert!(!merged.iter().any(|branch| branch.contains("limiter")), "{merged:?}");
}
