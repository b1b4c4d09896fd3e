//! What people do while agents are at work: pausing, cancelling, answering; and the limits that they set.

use std::fs;

use serde_json::json;

use super::driver::{Driver, NODE};
use super::processes::{Process, wait_until};
use super::yard::{Yard, is_over, state, tasks};
use banksman_core::time::Span;

const PATIENCE: Span = Span(200);
/// At work until the test gives a word.
const WAITING: &str = r#"run touch "$YARD/busy-$BANKSMAN_TASK"
run while [ ! -f "$YARD/go" ]; do sleep 0.05; done
run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
commit work
success it is written
"#;

fn at_work(yard: &Yard) -> usize {
    yard.agents().len()
}

#[test]
fn a_pause_lets_agents_end_and_starts_none() {
    let yard = Yard::new(&[("limits.agents", "2")]);
    yard.script("any", WAITING);
    for number in 0..4 {
        yard.add(&format!("part {number}"), &[]);
    }
    let up = yard.up();
    wait_until("two are at work", || at_work(&yard) == 2);
    let said = yard.json(&["pause"]);
    assert_eq!(said, json!({ "paused": true, "atWork": 2 }));
    fs::write(yard.path("go"), "").expect("written");
    yard.until("those at work end", |store| {
        tasks(store).iter().filter(|task| is_over(task)).count() == 2
    });
    assert_eq!(yard.starts().len(), 2, "something was started during the pause");
    yard.ok(&["resume"]);
    yard.until_over(&["here"]);
    up.stop();
    assert_eq!(yard.starts().len(), 4);
    yard.assert_clean(&["here"]);
}

#[test]
fn a_paused_batch_does_not_hold_up_another() {
    let yard = Yard::new(&[]);
    yard.ok(&["batch", "create", "spring"]);
    yard.ok(&["batch", "create", "autumn"]);
    yard.ok(&["batch", "pause", "spring"]);
    let spring = yard.add("in spring", &["--batch", "spring"]);
    let autumn = yard.add("in autumn", &["--batch", "autumn"]);
    let up = yard.up();
    yard.until("the other batch is done", |store| state(store, autumn) == "done");
    assert_eq!(yard.state(spring), "queued");
    yard.ok(&["batch", "resume", "spring"]);
    yard.until_over(&["here"]);
    up.stop();
    assert_eq!(yard.state(spring), "done");
    yard.assert_clean(&["here"]);
}

/// The agents themselves write down how many of them are there.
#[test]
fn no_more_agents_are_at_work_than_the_limits_allow() {
    let yard = Yard::new(&[("limits.agents", "3")]);
    yard.ok(&["batch", "create", "narrow", "--concurrency", "1"]);
    yard.script(
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
        yard.add(&format!("narrow {number}"), &["--batch", "narrow"]);
    }
    for number in 0..7 {
        yard.add(&format!("wide {number}"), &[]);
    }
    let up = yard.up();
    yard.until_over(&["here"]);
    up.stop();
    let largest = |file: &str| -> u32 {
        let counts = yard.file(file);
        counts.lines().map(|line| line.trim().parse().expect("a count")).max().expect("counts")
    };
    assert_eq!(largest("most"), 3);
    assert_eq!(largest("most-narrow"), 1);
    yard.assert_clean(&["here"]);
}

#[test]
fn a_cancelled_task_loses_its_agent_and_no_work() {
    let yard = Yard::new(&[]);
    yard.script(
        "any",
        "write half.txt half of it\nrun touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n",
    );
    let id = yard.add("not wanted", &[]);
    let up = yard.up();
    wait_until("the agent is at work", || yard.path("busy-t1").exists());
    let agents = yard.agents();
    yard.ok(&["cancel", "t1", "not needed any more"]);
    yard.until_over(&["here"]);
    up.stop();
    assert_eq!(yard.state(id), "cancelled");
    assert!(!agents.iter().any(Process::is_alive), "the agent goes on");
    let rescued = yard.git(&["for-each-ref", "--format=%(refname)", "refs/banksman/rescue/"]);
    assert_eq!(rescued.lines().count(), 1, "{rescued}");
    let kept = yard.git(&["show", &format!("{}:half.txt", rescued.trim())]);
    assert_eq!(kept, "half of it\n");
    assert_eq!(yard.git(&["log", "--format=%s", "main"]), "the beginning\n");
    yard.assert_clean(&["here"]);
}

#[test]
fn a_question_waits_for_a_person_and_the_answer_leads_on() {
    let yard = Yard::new(&[]);
    yard.script("r1.1", "needs-person MIT or Apache?\nsuccess I have asked\n");
    let id = yard.add("choose a licence", &[]);
    let up = yard.up();
    yard.until("it is blocked", |store| state(store, id) == "blocked");
    let why = yard.json(&["why", "t1"]);
    assert!(why["next"].as_str().expect("a sentence").starts_with("a person answers"), "{why}");
    let task = yard.json(&["show", "t1"]);
    assert_eq!(task["fields"]["question"], "MIT or Apache?");
    yard.ok(&["unblock", "t1"]);
    yard.until_over(&["here"]);
    up.stop();
    assert_eq!(yard.state(id), "done");
    assert_eq!(yard.starts(), ["r1.1", "r1.2"]);
    yard.assert_clean(&["here"]);
}

/// An agent that cannot be ended by asking is ended all the same, and nothing of it stays.
#[test]
fn a_cancelled_agent_that_does_not_listen_is_killed() {
    let yard = Yard::new(&[("limits.grace", "\"200ms\"")]);
    yard.script("any", "ignore-term\nrun touch \"$YARD/busy-$BANKSMAN_TASK\"\nsilent\n");
    yard.add("deaf", &[]);
    let driver = Driver::of(yard.root(), PATIENCE);
    driver.turn_until("the agent is at work", |_| yard.path("busy-t1").exists());
    let agents = yard.agents();
    yard.ok(&["cancel", "t1", "not needed any more"]);
    driver.turn_until("all is put away", |_| {
        yard.jobs(NODE).is_empty() && yard.worktrees().is_empty()
    });
    assert!(!agents.iter().any(Process::is_alive), "the agent goes on");
    yard.assert_clean(&["here"]);
}
