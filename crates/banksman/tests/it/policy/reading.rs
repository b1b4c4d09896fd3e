//! `banksman policy show`, `lint` and `test`, and what a project's file changes.

use std::fs;

use banksman::store::PastRun;
use serde_json::json;

use crate::engine::yard::{Yard, state};

fn with_file(text: &str) -> Yard {
    let yard = Yard::new(&[]);
    fs::write(yard.path("repo/.banksman/policy.yaml"), text).expect("written");
    yard
}

#[test]
fn an_action_is_classed_with_the_rule_and_its_line() {
    let yard = with_file("commands:\n  - { run: make deploy, class: RED, why: it deploys }\n");
    let tested = yard.run(&["policy", "test", "cd web && make deploy", "--json"]);
    assert_eq!(tested.status.code(), Some(1), "it has to be asked for");
    let said: serde_json::Value = serde_json::from_slice(&tested.stdout).expect("a document");
    assert_eq!(said["class"], "RED");
    assert_eq!(said["needsApproval"], true);
    assert_eq!(said["findings"][0]["what"], "make deploy");
    let place = said["findings"][0]["place"].as_str().expect("a place");
    assert!(place.ends_with(".banksman/policy.yaml:2"), "{place}");

    let green = yard.json(&["policy", "test", "make build"]);
    assert_eq!((&green["class"], &green["needsApproval"]), (&json!("GREEN"), &json!(false)));
    let yellow = yard.json(&["policy", "test", "git push"]);
    assert_eq!((&yellow["class"], &yellow["needsApproval"]), (&json!("YELLOW"), &json!(false)));
    let intern = yard.run(&["policy", "test", "--rank", "intern", "git push"]);
    assert_eq!(intern.status.code(), Some(1));
    let path = yard.run(&["policy", "test", "--write", ".github/workflows/ci.yml"]);
    assert!(String::from_utf8_lossy(&path.stdout).starts_with("RED"), "{path:?}");
    assert!(yard.ok(&["policy", "show"]).contains("make deploy"));
}

#[test]
fn a_broken_file_is_told_with_its_line_and_starts_no_agent() {
    let yard = with_file("commands:\n  - { run: make, class: BLUE }\n");
    let linted = yard.run(&["policy", "lint", "--json"]);
    assert_eq!(linted.status.code(), Some(5));
    let said: serde_json::Value = serde_json::from_slice(&linted.stdout).expect("a document");
    assert_eq!(said["problems"][0]["line"], 2);
    let again = yard.run(&["init"]);
    let next = [again.stdout, again.stderr].concat();
    assert!(String::from_utf8_lossy(&next).contains("banksman policy lint"), "it points there");
    yard.add("anything", &[]);
    yard.pulse();
    assert_eq!(yard.starts(), Vec::<String>::new());
    fs::write(yard.path("repo/.banksman/policy.yaml"), "lead_may_close: true\n").expect("written");
    yard.ok(&["policy", "lint"]);
}

/// One `up` all along: the policy is kept from turn to turn, but only as long as its file says the same.
#[test]
fn a_file_that_changes_holds_for_the_next_run() {
    let yard = with_file("commands:\n  - { run: make deploy, class: GREEN }\n");
    for task in ["any", "t4"] {
        let script =
            format!("tool bash make deploy\nwrite {task}.txt x\ncommit work\nsuccess done\n");
        yard.script(task, &script);
    }
    let up = yard.up();
    let ends = |text: Option<&str>, state_wanted: &str| {
        if let Some(text) = text {
            fs::write(yard.path("repo/.banksman/policy.yaml"), text).expect("written");
        }
        let id = yard.add("deploy it", &[]);
        yard.until(state_wanted, |store| state(store, id) == state_wanted);
        yard.open().past_runs(id, 10).expect("runs")
    };
    let class = |runs: Vec<PastRun>| runs.into_iter().map(|run| run.class).collect::<Vec<_>>();
    assert_eq!(class(ends(None, "done")), [None]);
    let red = "commands:\n  - { run: make deploy, class: RED }\n";
    for text in [Some(red), None] {
        assert_eq!(class(ends(text, "blocked")), [Some("policy".to_owned())]);
    }
    assert_eq!(class(ends(Some("commands: []\n"), "done")), [None]);

    let broken = "commands:\n  - { run: make deploy, class: BLUE }\n";
    fs::write(yard.path("repo/.banksman/policy.yaml"), broken).expect("written");
    let id = yard.add("deploy it", &[]);
    yard.until("it was tried", |store| !store.past_runs(id, 10).expect("runs").is_empty());
    yard.until("it is told", |store| {
        let runs = store.past_runs(id, 10).expect("runs");
        runs[0].detail.as_deref().is_some_and(|detail| detail.contains("policy.yaml:2:"))
    });
    assert!(!yard.starts().contains(&format!("r{}.1", id.0)), "no agent was started");
    up.stop();
}

/// The right comes from the policy file, and the machine checks it.
#[test]
fn a_lead_closes_a_mission_only_if_the_policy_says_so() {
    for (may_close, text) in [(false, "# nothing\n"), (true, "lead_may_close: true\n")] {
        let yard = with_file(text);
        let id = yard.add("a mission", &["--lifecycle", "mission"]).to_string();
        let go = |to: &str, who: &str, fields: &[&str]| {
            let sets = fields.iter().flat_map(|field| ["--set", field]);
            let args: Vec<&str> = ["move", &id, to, "--as", who].into_iter().chain(sets).collect();
            yard.run(&args)
        };
        assert!(go("ASSIGNED", "human:kim", &["assigneeIds=[\"ada\"]"]).status.success());
        let plan = "workPlan={\"bullets\":[\"a\",\"b\",\"c\"]}";
        assert!(go("IN_PROGRESS", "specialist:ada", &[plan]).status.success());
        let deliverable = "deliverable={\"content\":\"x\",\"artifacts\":[]}";
        let checklist = "reviewChecklist={\"type\":\"code\",\"items\":[]}";
        assert!(go("REVIEW", "specialist:ada", &[deliverable, checklist]).status.success());
        let closed = go("DONE", "lead:lu", &["decisionNote=good"]);
        assert_eq!(closed.status.success(), may_close, "{closed:?}");
        let own = go("DONE", "intern:ian", &["decisionNote=good"]);
        assert!(!own.status.success(), "an intern never does");
    }
}
