//! `banksman policy show`, `lint` and `test`, and what a project's file changes.

use std::fs;

use banksman::store::Store;
use banksman_core::ids::TaskId;
use serde_json::json;

use crate::engine::harness::{Harness, state};

fn with_file(text: &str) -> Harness {
    let harness = Harness::new(&[]);
    fs::write(harness.path("repo/.banksman/policy.yaml"), text).expect("written");
    harness
}

#[test]
fn an_action_is_classed_with_the_rule_and_its_line() {
    let harness = with_file("commands:\n  - { run: make deploy, class: RED, why: it deploys }\n");
    let tested = harness.run(&["policy", "test", "cd web && make deploy", "--json"]);
    assert_eq!(tested.status.code(), Some(1), "it has to be asked for");
    let said: serde_json::Value = serde_json::from_slice(&tested.stdout).expect("a document");
    assert_eq!(said["class"], "RED");
    assert_eq!(said["needsApproval"], true);
    assert_eq!(said["findings"][0]["what"], "make deploy");
    let place = said["findings"][0]["place"].as_str().expect("a place");
    assert!(place.ends_with(".banksman/policy.yaml:2"), "{place}");

    let green = harness.json(&["policy", "test", "make build"]);
    assert_eq!((&green["class"], &green["needsApproval"]), (&json!("GREEN"), &json!(false)));
    let yellow = harness.json(&["policy", "test", "git push"]);
    assert_eq!((&yellow["class"], &yellow["needsApproval"]), (&json!("YELLOW"), &json!(false)));
    let intern = harness.run(&["policy", "test", "--rank", "intern", "git push"]);
    assert!(
        String::from_utf8_lossy(&intern.stdout).starts_with("YELLOW  an intern must ask first\n")
    );
    assert_eq!(intern.status.code(), Some(1));
    let path = harness.run(&["policy", "test", "--write", ".github/workflows/ci.yml"]);
    assert!(String::from_utf8_lossy(&path.stdout).starts_with("RED"), "{path:?}");
    assert!(harness.ok(&["policy", "show"]).contains("make deploy"));
}

#[test]
fn a_broken_file_is_told_with_its_line_and_starts_no_agent() {
    let harness = with_file("commands:\n  - { run: make, class: BLUE }\n");
    let linted = harness.run(&["policy", "lint", "--json"]);
    assert_eq!(linted.status.code(), Some(5));
    let said: serde_json::Value = serde_json::from_slice(&linted.stdout).expect("a document");
    assert_eq!((&said["errors"][0]["line"], &said["code"]), (&2.into(), &"BM-E037".into()));
    let again = harness.run(&["init"]);
    let next = [again.stdout, again.stderr].concat();
    assert!(String::from_utf8_lossy(&next).contains("banksman policy lint"), "it points there");
    harness.add("anything", &[]);
    harness.pulse();
    assert_eq!(harness.starts(), Vec::<String>::new());
    fs::write(harness.path("repo/.banksman/policy.yaml"), "lead_may_close: true\n")
        .expect("written");
    harness.ok(&["policy", "lint"]);
}

/// One `up` all along: the policy is kept from turn to turn, but only as long as its file says the
/// same.
#[test]
fn a_file_that_changes_holds_from_the_next_turn_on() {
    let harness = with_file("commands:\n  - { run: make deploy, class: GREEN }\n");
    harness.script(
        "any",
        "tool bash make deploy\nrun echo \"$BANKSMAN_TASK\" >made.txt\ncommit work\nsuccess done\n",
    );
    let up = harness.up();
    // A turn that is under way may have read the file before it was written, so the second task
    // counts.
    let comes = |text: &str, is_so: &dyn Fn(&Store, TaskId) -> bool| {
        fs::write(harness.path("repo/.banksman/policy.yaml"), text).expect("written");
        (0..2).any(|_| {
            let id = harness.add("deploy it", &[]);
            let is_over =
                |store: &Store| ["done", "blocked", "failed"].contains(&state(store, id).as_str());
            harness.until("it is over", |store| is_over(store) || is_so(store, id));
            is_so(&harness.open(), id)
        })
    };
    let ends = |wanted: &'static str| move |store: &Store, id: TaskId| state(store, id) == wanted;
    let red = "commands:\n  - { run: make deploy, class: RED }\n";
    assert!(comes(red, &ends("blocked")), "a call that has to be asked for");
    assert!(comes("commands: []\n", &ends("done")), "a call that nothing is said about");
    let broken = "commands:\n  - { run: make deploy, class: BLUE }\n";
    let is_told = |store: &Store, id: TaskId| {
        let runs = store.past_runs(id, 10).expect("runs");
        let told = runs.first().and_then(|run| run.detail.clone());
        told.is_some_and(|detail| detail.contains("policy.yaml:2:"))
            && !harness.starts().contains(&format!("r{}.1", id.0))
    };
    assert!(comes(broken, &is_told), "no agent is started under it, and its line is told");
    up.stop();
}

/// The right comes from the policy file, and the machine checks it.
#[test]
fn a_lead_closes_a_mission_only_if_the_policy_says_so() {
    for (may_close, text) in [(false, "# nothing\n"), (true, "lead_may_close: true\n")] {
        let harness = with_file(text);
        let id = harness.add("a mission", &["--lifecycle", "mission"]).to_string();
        let go = |to: &str, who: &str, fields: &[&str]| {
            let sets = fields.iter().flat_map(|field| ["--set", field]);
            let args: Vec<&str> = ["move", &id, to, "--as", who].into_iter().chain(sets).collect();
            harness.run(&args)
        };
        assert!(go("ASSIGNED", "human:kim", &["assigneeIds=[\"ada\"]"]).status.success());
        let plan = "workPlan={\"bullets\":[\"a\",\"b\",\"c\"]}";
        assert!(go("IN_PROGRESS", "specialist:ada", &[plan]).status.success());
        let deliverable = "deliverable={\"content\":\"x\",\"artifacts\":[]}";
        let checklist = "reviewChecklist={\"type\":\"code\",\"items\":[{\"checked\":true}]}";
        assert!(go("REVIEW", "specialist:ada", &[deliverable, checklist]).status.success());
        let closed = go("DONE", "lead:lu", &["decisionNote=good"]);
        assert_eq!(closed.status.success(), may_close, "{closed:?}");
        let own = go("DONE", "intern:ian", &["decisionNote=good"]);
        assert!(!own.status.success(), "an intern never does");
    }
}
