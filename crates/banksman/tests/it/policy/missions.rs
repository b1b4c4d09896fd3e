//! Agents do the work of specialists in `mission`: they plan, deliver, are reviewed, and their work
//! is merged. What names no activity is left to workers outside of the program.

use std::fs;

use banksman_core::ids::{DecisionId, TaskId};
use serde_json::Value;

use crate::engine::harness::{Harness, state};

const PLAN: &str = r#"answer {"bullets":["look","change","test"],"estimatedCost":0,"estimatedDuration":"1h"}
success planned
"#;
const DELIVERY: &str = r#"answer {"content":"It is painted.","artifacts":["a.txt"],"checklist":[{"item":"it is dry","checked":true}]}
success painted
"#;
/// A lifecycle for workers outside: no state names an activity.
const OUTSIDE: &str = "
lifecycle: outside
purpose: task
initial: open
roles: [builder]
states:
  open: { kind: queued }
  building:
    kind: working
    timeouts: [{ after: 1d, since: progress, to: dropped, on: stalled }]
  built: { kind: done }
  dropped: { kind: cancelled }
transitions:
  - { from: open, to: building, on: claim, by: [builder] }
  - { from: building, to: built, on: finish, by: [builder, human] }
  - { from: [open, building], to: dropped, on: drop, by: [human] }
";

fn work(text: &str) -> String {
    format!("write a.txt {text}\ncommit paint it {text}\n{DELIVERY}")
}

fn mission(harness: &Harness) -> TaskId {
    harness.script("r1.1", PLAN);
    harness.add("paint it", &["--lifecycle", "mission"])
}

fn until(harness: &Harness, id: TaskId, expected: &str) {
    harness.until(&format!("{id} is {expected}"), |store| state(store, id) == expected);
}

fn field(harness: &Harness, name: &str) -> Value {
    harness.json(&["show", "t1"])["fields"][name].clone()
}

#[test]
fn a_mission_is_planned_delivered_revised_and_merged_by_agents() {
    let harness = Harness::new(&[]);
    harness.script("r1.2", &work("green"));
    harness.script("r1.3", &work("blue"));
    let id = mission(&harness);
    let up = harness.up();
    until(&harness, id, "REVIEW");
    let plan = field(&harness, "workPlan");
    assert_eq!(plan["bullets"], serde_json::json!(["look", "change", "test"]));
    assert!(harness.file("prompts/r1.1").contains("3 to 6 texts"));
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("The work plan:\n- look\n"), "{prompt}");
    let deliverable = field(&harness, "deliverable");
    let commit = deliverable["artifacts"][1]["commit"].as_str().expect("its commit").to_owned();
    assert_eq!(deliverable["artifacts"][0], "a.txt");
    assert_eq!(field(&harness, "costSummary")["runCount"], 2);
    assert_eq!(field(&harness, "assigneeIds").as_array().map(Vec::len), Some(1));

    let card = harness.ok(&["decisions", "show", "t1"]);
    for told in ["deliverable\n", "It is painted.", "[x] it is dry", "workPlan\n", "- change"] {
        assert!(card.contains(told), "{told}: {card}");
    }
    let folder = harness.path("notes").display().to_string();
    fs::create_dir(harness.path("notes")).expect("a folder");
    harness.set(&[("daily.folder", &format!("{folder:?}"))]);
    let note = harness.json(&["daily"]);
    let note = fs::read_to_string(note["path"].as_str().expect("a path")).expect("a note");
    assert!(note.contains("deliverable: ") && note.contains("It is painted"), "{note}");

    harness.ok(&["decisions", "changes", "t1", "make it blue"]);
    harness.until("the second delivery is there", |store| {
        store.decision(DecisionId(2)).expect("readable").is_some()
    });
    assert!(harness.file("prompts/r1.3").contains("make it blue"));
    harness.ok(&["decisions", "approve", "t1", "--note", "well done"]);
    until(&harness, id, "DONE");
    harness.until("all is put away", |_| {
        harness.jobs("here").is_empty() && harness.worktrees().is_empty()
    });
    up.stop();
    assert_eq!(harness.git(&["show", "main:a.txt"]).trim(), "blue");
    assert_eq!(field(&harness, "merged"), true);
    assert!(harness.git(&["log", "--format=%H", "main"]).contains(&commit));
    harness.ok(&["audit", "verify"]);
    harness.ok(&["check"]);
}

#[test]
fn a_mission_without_commits_is_done_when_it_is_approved() {
    let harness = Harness::new(&[]);
    harness.script("r1.2", DELIVERY);
    let id = mission(&harness);
    let up = harness.up();
    until(&harness, id, "REVIEW");
    harness.ok(&["decisions", "approve", "t1", "--note", "so be it"]);
    until(&harness, id, "DONE");
    up.stop();
    assert_eq!(field(&harness, "merged"), Value::Null);
}

/// Three equal failures of a tool block it. A person says in words what to do differently, and the
/// next run reads that.
#[test]
fn a_loop_blocks_a_mission_until_a_person_has_clarified_it() {
    let harness = Harness::new(&[]);
    let line = |text: &str| format!("printf '%s\\n' '{text}'\n");
    let call = line(r#"{"type":"tool","name":"bash","detail":"make it","id":"1"}"#);
    let failed =
        line(r#"{"type":"tool_result","id":"1","ok":false,"detail":"no rule to make it"}"#);
    let agent = fs::read_to_string(harness.path("agent.sh")).expect("a script");
    let loops = format!("{}exec sleep 600\n", [call, failed].concat().repeat(3));
    fs::write(harness.path("loops.sh"), &loops).expect("written");
    fs::write(
        harness.path("agent.sh"),
        agent.replacen("for name in", "[ \"$run\" != r1.2 ] || . \"$2/loops.sh\"\nfor name in", 1),
    )
    .expect("written");
    harness.script("r1.3", DELIVERY);
    let id = mission(&harness);
    let up = harness.up();
    until(&harness, id, "BLOCKED");
    let why = field(&harness, "blockReason");
    assert!(why.as_str().is_some_and(|why| why.contains("no rule to make it")), "{why}");
    let refused = harness.run(&["decisions", "answer", "t1", "unblock"]);
    assert!(!refused.status.success(), "words are needed: {refused:?}");
    harness.ok(&["decisions", "answer", "t1", "unblock", "--note", "use ninja"]);
    until(&harness, id, "REVIEW");
    up.stop();
    assert!(harness.file("prompts/r1.3").contains("use ninja"));
}

/// What a person allows goes on where it was.
#[test]
fn a_red_action_of_a_mission_asks_and_goes_back_to_where_it_came_from() {
    let harness = Harness::new(&[]);
    harness.script("r1.1", "tool bash git push --force origin main\nsilent\n");
    harness.script("r1.2", PLAN);
    harness.script("r1.3", DELIVERY);
    let id = harness.add("paint it", &["--lifecycle", "mission"]);
    let up = harness.up();
    until(&harness, id, "NEEDS_APPROVAL");
    harness.ok(&["decisions", "approve", "t1"]);
    until(&harness, id, "REVIEW");
    up.stop();
    let history = harness.json(&["history", "t1"]);
    let states: Vec<&str> =
        history.as_array().expect("records").iter().filter_map(|one| one["to"].as_str()).collect();
    let back = states.iter().position(|to| *to == "NEEDS_APPROVAL").expect("it was asked");
    assert_eq!(states[back + 1..].iter().find(|to| **to != "NEEDS_APPROVAL"), Some(&"ASSIGNED"));
}

/// A task for outside workers never holds up the program's own.
#[test]
fn a_state_without_an_activity_is_left_to_outside_workers() {
    let harness = Harness::new(&[("limits.agents", "1")]);
    fs::write(harness.path("repo/.banksman/lifecycles/outside.yaml"), OUTSIDE).expect("written");
    let outside: Vec<TaskId> =
        (0..3).map(|_| harness.add("build it", &["--lifecycle", "outside"])).collect();
    let own = harness.add("do it", &[]);
    let up = harness.up();
    until(&harness, own, "done");
    for id in &outside {
        assert_eq!(harness.state(*id), "open", "nobody here works on it");
    }
    let why = harness.json(&["why", "t1"]);
    let kinds: Vec<&str> = why["waitingFor"]
        .as_array()
        .expect("reasons")
        .iter()
        .filter_map(|reason| reason["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"no_activity"), "{why}");
    up.stop();
    assert!(harness.starts().iter().all(|run| run.starts_with("r4.")), "{:?}", harness.starts());
    harness.ok(&["move", "t1", "building", "--as", "builder:bob"]);
}
