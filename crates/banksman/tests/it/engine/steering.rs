//! What people do while agents are at work: pausing, cancelling, answering; and the limits that
//! they set.

use std::fs;

use serde_json::json;

use super::driver::{Driver, NODE};
use super::harness::{Harness, is_over, state, tasks};
use super::processes::{Process, wait_until};
use banksman_core::time::Span;

const PATIENCE: Span = Span(200);
/// At work until the test gives a word.
const WAITING: &str = r#"run touch "$YARD/busy-$BANKSMAN_TASK"
run while [ ! -f "$YARD/go" ]; do sleep 0.05; done
run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
commit work
success it is written
"#;

fn at_work(harness: &Harness) -> usize {
    harness.agents().len()
}

#[test]
fn a_pause_lets_agents_end_and_starts_none() {
    let harness = Harness::new(&[("limits.agents", "2")]);
    harness.script("any", WAITING);
    for number in 0..4 {
        harness.add(&format!("part {number}"), &[]);
    }
    let up = harness.up();
    wait_until("two are at work", || at_work(&harness) == 2);
    let said = harness.json(&["pause"]);
    assert_eq!(said, json!({ "paused": true, "running": 2 }));
    fs::write(harness.path("go"), "").expect("written");
    harness.until("those at work end", |store| {
        tasks(store).iter().filter(|task| is_over(task)).count() == 2
    });
    assert_eq!(harness.starts().len(), 2, "something was started during the pause");
    harness.ok(&["resume"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.starts().len(), 4);
    harness.assert_clean(&["here"]);
}

#[test]
fn a_paused_batch_does_not_hold_up_another() {
    let harness = Harness::new(&[]);
    harness.ok(&["batch", "create", "spring"]);
    harness.ok(&["batch", "create", "autumn"]);
    harness.ok(&["batch", "pause", "spring"]);
    let spring = harness.add("in spring", &["--batch", "spring"]);
    let autumn = harness.add("in autumn", &["--batch", "autumn"]);
    let up = harness.up();
    harness.until("the other batch is done", |store| state(store, autumn) == "done");
    assert_eq!(harness.state(spring), "queued");
    harness.ok(&["batch", "resume", "spring"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(spring), "done");
    harness.assert_clean(&["here"]);
}

/// The agents themselves write down how many of them are there.
#[test]
fn no_more_agents_are_at_work_than_the_limits_allow() {
    let harness = Harness::new(&[("limits.agents", "3")]);
    harness.ok(&["batch", "create", "narrow", "--concurrency", "1"]);
    harness.script(
        "any",
        r#"run mkdir -p "$YARD/now/$BANKSMAN_TASK" && ls "$YARD/now" | wc -l >>"$YARD/most" && ls "$YARD/now" | grep -c '^t[123]$' >>"$YARD/most-narrow" || true
sleep 100
run rmdir "$YARD/now/$BANKSMAN_TASK"
run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
commit work
success it is written
"#,
    );
    for number in 0..3 {
        harness.add(&format!("narrow {number}"), &["--batch", "narrow"]);
    }
    for number in 0..7 {
        harness.add(&format!("wide {number}"), &[]);
    }
    let up = harness.up();
    harness.until_over(&["here"]);
    up.stop();
    let largest = |file: &str| -> u32 {
        let counts = harness.file(file);
        counts.lines().map(|line| line.trim().parse().expect("a count")).max().expect("counts")
    };
    assert_eq!(largest("most"), 3);
    assert_eq!(largest("most-narrow"), 1);
    harness.assert_clean(&["here"]);
}

#[test]
fn a_cancelled_task_loses_its_agent_and_no_work() {
    let harness = Harness::new(&[]);
    harness.script(
        "any",
        "write half.txt half of it\nrun touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n",
    );
    let id = harness.add("not wanted", &[]);
    let up = harness.up();
    wait_until("the agent is at work", || harness.path("busy-t1").exists());
    let agents = harness.agents();
    harness.ok(&["cancel", "t1", "no longer needed"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "cancelled");
    assert!(!agents.iter().any(Process::is_alive), "the agent goes on");
    let rescued = harness.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    assert_eq!(rescued.lines().count(), 1, "{rescued}");
    let kept = harness.git(&["show", &format!("{}:half.txt", rescued.trim())]);
    assert_eq!(kept, "half of it\n");
    assert_eq!(harness.git(&["log", "--format=%s", "main"]), "the beginning\n");
    harness.assert_clean(&["here"]);
}

#[test]
fn a_question_waits_for_a_person_and_the_answer_leads_on() {
    let harness = Harness::new(&[]);
    harness.script("r1.1", "needs-person MIT or Apache?\nsuccess I have asked\n");
    let id = harness.add("choose a licence", &[]);
    let up = harness.up();
    harness.until("it is blocked", |store| state(store, id) == "blocked");
    let why = harness.json(&["why", "t1"]);
    assert!(why["next"].as_str().expect("a sentence").starts_with("a person answers"), "{why}");
    let task = harness.json(&["show", "t1"]);
    assert_eq!(task["fields"]["question"], "MIT or Apache?");
    harness.ok(&["unblock", "t1"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    assert_eq!(harness.starts(), ["r1.1", "r1.2"]);
    harness.assert_clean(&["here"]);
}

/// An agent that cannot be ended by asking is ended all the same, and nothing of it stays.
#[test]
fn a_cancelled_agent_that_does_not_listen_is_killed() {
    let harness = Harness::new(&[("limits.grace", "\"200ms\"")]);
    harness.script("any", "ignore-term\nrun touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n");
    harness.add("deaf", &[]);
    let driver = Driver::of(harness.root(), PATIENCE);
    driver.turn_until("the agent is at work", |_| harness.path("busy-t1").exists());
    let agents = harness.agents();
    harness.ok(&["cancel", "t1", "no longer needed"]);
    driver.turn_until("all is put away", |_| {
        harness.jobs(NODE).is_empty() && harness.worktrees().is_empty()
    });
    assert!(!agents.iter().any(Process::is_alive), "the agent goes on");
    harness.assert_clean(&["here"]);
}
