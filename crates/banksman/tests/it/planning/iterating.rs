//! One iteration after the other: what the planner is told, and when it is enough.

use banksman_core::lifecycle::contract::Field;
use banksman_core::time::Span;
use serde_json::{Value, json};

use super::desk::{Desk, PARENT, answer, one_subtask, plan, rate_limits, subtask};
use crate::engine::driver::Driver;

const BLOCKS: &str = "answer {\"verdict\":\"BLOCK\",\"rationale\":\"no test\",\"concerns\":[],\"suggestions\":[]}\nsuccess looked\n";

#[test]
fn ten_iterations_are_the_most_and_the_history_tells_of_each() {
    let desk = Desk::empty();
    desk.harness.script("t1", &answer(&plan(&[subtask("everything", 15)], &[])));
    desk.until(PARENT, "failed");
    assert_eq!(desk.harness.starts().len(), 10);
    assert_eq!(desk.field("diagnostic"), "irreducible after 10 iterations");
    let body = desk.parent().task.body;
    for version in 1..=10 {
        let line = format!(
            "- v{version}: 1 subtask; everything: it touches 15 files, more than the limit of 10"
        );
        assert!(body.contains(&line), "{line} is not in\n{body}");
    }
    desk.until_quiet();
}

#[test]
fn a_planner_may_say_that_it_cannot_be_broken_down() {
    let mut hopeless = plan(&[subtask("everything", 15)], &[]);
    hopeless["irreducible"] = json!("the files form one macro");
    let desk = Desk::new(&[plan(&[subtask("everything", 15)], &[]), hopeless]);
    desk.until(PARENT, "failed");
    assert_eq!(desk.field("diagnostic"), "irreducible: the files form one macro");
    let body = desk.parent().task.body;
    assert!(
        body.contains("## Decomposition History\n\n- v1:") && body.contains("\n- v2:"),
        "{body}"
    );
}

/// Also the claim from the queue is for a planner, and what a planner commits is not the work.
#[test]
fn only_a_planner_plans_and_its_commits_are_put_aside() {
    let desk = Desk::with(&[("workers.scripted.roles", "[\"worker\", \"reviewer\"]")], &[]);
    desk.harness.add_worker("planner", "planner");
    let desk = Desk { driver: Driver::of(desk.harness.root(), Span(100)), ..desk };
    let commit = "run echo x >planned && git add -A && git commit -qm planned\nrun echo y >left\n";
    desk.harness.script("r1.1", &format!("{commit}success no plan\n"));
    desk.harness.script("r1.2", &format!("{commit}{}", answer(&one_subtask())));
    desk.until(PARENT, "waiting");
    let runs = desk.driver.store.past_runs(PARENT, 9).expect("runs");
    let by: Vec<&str> = runs.iter().map(|run| run.worker.as_str()).collect();
    assert_eq!(by, ["planner", "planner"]);
    assert_eq!((desk.field("pr_head"), desk.field("pr_url")), (Value::Null, Value::Null));
    let saved = desk.harness.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue"]);
    assert!(!saved.is_empty());

    desk.approve();
    desk.until(PARENT, "merge_ready");
    let head = desk.field("pr_head");
    let work = desk.harness.git(&["ls-tree", "--name-only", head.as_str().expect("a commit")]);
    assert!(
        work.contains("work-t1") && !work.contains("planned") && !work.contains("left"),
        "{work}"
    );
}

/// A planner that takes the objections seriously commits nothing, and does not go in circles. The
/// lifecycle says how often it is sent back before a person is asked.
#[test]
fn a_plan_that_is_changed_each_time_is_no_loop() {
    let plans: Vec<Value> =
        (1..=5).map(|files| plan(&[subtask("all", files), subtask("rest", 1)], &[])).collect();
    let desk = Desk::new(&plans);
    for panel in 1..=5 {
        desk.harness.script(&format!("t{}", 2 * panel + 1), BLOCKS);
    }
    desk.until(PARENT, "waiting");
    assert_eq!(
        (desk.field("plan_version"), desk.field("approval_type")),
        (json!(5), json!("escalated"))
    );
}

#[test]
fn the_same_plan_again_and_again_is_a_loop() {
    let desk = Desk::empty();
    desk.harness.script("t1", &answer(&rate_limits()));
    // The first plan is new; after it there are three times with nothing new.
    for panel in 1..=4 {
        desk.harness.script(&format!("t{}", 2 * panel + 1), BLOCKS);
    }
    desk.until(PARENT, "blocked");
    let told = desk.field("unblock_condition");
    let told = told.as_str().expect("a text");
    let expected = "Loop: moved back and forth between decomposing and consensus 3 times without new work and without a person.\n\
                    Last moves:\n- decomposing by system (block) critic says BLOCK: no test\n";
    assert!(told.starts_with(expected), "{told}");
    assert!(!told.contains("Decomposition Proposal"), "the work itself is no message: {told}");
}

/// In the shape of the schema, and yet no plan: it counts as an iteration, and the next one is
/// told.
#[test]
fn a_plan_in_a_circle_is_sent_back() {
    let mut circle = rate_limits();
    circle["edges"] = json!([
        { "from": "limiter", "to": "routes", "kind": "blocks" },
        { "from": "routes", "to": "limiter", "kind": "blocks" },
    ]);
    let desk = Desk::new(&[circle, rate_limits()]);
    desk.until(PARENT, "waiting");
    let told = desk.prompt("r1.2");
    assert!(
        told.contains("these items depend on each other in a cycle, or depend on one that does: limiter, routes"),
        "{told}"
    );
    assert_eq!(desk.field("plan_version"), json!(2));
}

/// The keeper asks once more, the policy begins anew, and then it is given up.
#[test]
fn nonsense_is_no_plan_however_often_it_is_said() {
    let desk = Desk::empty();
    desk.harness.script("t1", "answer {\"pr_sized\": true}\nsuccess all is small\n");
    desk.until(PARENT, "failed");
    assert_eq!(desk.field("plan"), json!(null));
    assert_eq!(desk.children(), []);
}

#[test]
fn changes_that_a_person_asks_for_lead_to_a_new_proposal() {
    let other = plan(&[subtask("limiter", 2), subtask("dashboard", 1)], &[]);
    let desk = Desk::new(&[rate_limits(), other]);
    desk.until(PARENT, "waiting");
    desk.harness.ok(&["decisions", "changes", "t1", "no docs, but a dashboard"]);
    desk.until(PARENT, "decomposing");
    desk.until(PARENT, "waiting");
    let told = desk.prompt("r1.2");
    assert!(told.contains("no docs, but a dashboard") && told.contains("| routes  |"), "{told}");
    let body = desk.parent().task.body;
    assert!(
        body.contains("Proposal v2") && body.contains("dashboard") && !body.contains("routes"),
        "{body}"
    );
    desk.harness.ok(&["decisions", "approve", "t1"]);
    desk.driver.turn();
    let names: Vec<String> = desk.children().into_iter().map(|(name, _, _)| name).collect();
    assert_eq!(names, ["limiter", "dashboard"]);
}

/// Two hours in all: then a person is asked, and may give it two more.
#[test]
fn a_breakdown_that_takes_too_long_comes_to_a_person() {
    let desk = Desk::empty();
    desk.harness.script("t1", "silent\n");
    desk.driver.turn_until("the planner is at work", |_| !desk.harness.starts().is_empty());
    // Signs of life keep the single iteration going; the parent has its own timeout.
    for _ in 0..13 {
        desk.driver.pass(Span(9 * 60_000 + 30_000));
        let task = desk.parent().task;
        if let Some(run) = task.run() {
            desk.driver
                .store
                .renew(run, Span(86_400_000), true, desk.driver.now())
                .expect("it holds");
        }
        desk.driver.turn();
    }
    assert_eq!(desk.state(PARENT), "blocked");
    let decisions = desk.harness.json(&["decisions"]);
    assert_eq!(decisions["decisions"][0]["offers"], json!(["resume", "cancel"]), "{decisions}");
    desk.harness.ok(&["decisions", "answer", "t1", "resume"]);
    assert_eq!(desk.state(PARENT), "decomposing");
}

/// A run that brings more than its task can hold has ended like any other: the engine goes on with
/// all the rest.
#[test]
fn a_plan_that_its_task_has_no_room_for_is_told_and_holds_nobody_up() {
    let desk = Desk::new(&[rate_limits()]);
    let full = ["note", "reason"].map(|field| format!("{field}={}", "x".repeat(119_000)));
    let more = ["--lifecycle", "autonomous", "--set", &full[0], "--set", &full[1]];
    let id = desk.harness.add("Do everything", &more);
    let subtasks = (0..20).map(|at| {
        let mut one = subtask(&format!("part-{at}"), 1);
        one["description"] = json!("d".repeat(1_900));
        one
    });
    desk.harness.script("t2", &answer(&plan(&subtasks.collect::<Vec<_>>(), &[])));
    desk.until(id, "failed");
    let failed = desk.driver.store.task(id).expect("the task");
    let why = failed.text(Field::Diagnostic).expect("why");
    assert!(why.starts_with("the task cannot take its results: "), "{why}");
    desk.until(PARENT, "waiting");
}
