//! An agent that goes in circles is ended, and its task waits with a summary.

use std::fs;

use banksman::clock;
use banksman::store::query::PAGE;
use banksman_core::failure::FailureClass;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::Actor;

use crate::engine::harness::{Harness, state};

/// Work that is reviewed, and sent back as often as the reviewers like.
const REVIEWED: &str = r"
lifecycle: reviewed

purpose: task
about: An agent works, and reviewers send it back.
initial: queued
roles: [worker]
fields: { question: text, feedback: text, verdicts: list, concerns: list, review_summary: text }
counters: { reviews: { limit: 9, then: blocked, set: { question: it was reviewed too often } } }
states:
  queued: { kind: queued }
  working:
    kind: working
    does:
      activity: agent
      role: worker
      produces: anything
      outcomes: { succeeded: submit, nothing_to_do: submit, otherwise: ask }
    timeouts: [{ after: 1d, to: blocked, on: stalled, set: { question: it stalled } }]
  reviewing:
    kind: reviewing
    does:
      activity: panel
      role: reviewer
      outcomes: { approved: approve, otherwise: send_back }
    timeouts: [{ after: 1d, to: blocked, on: stalled, set: { question: nobody reviews it } }]
  blocked:
    kind: blocked
    does: { activity: human, asks: How shall it go on?, offers: { unblock: unblock } }
    requires: [question]
  done: { kind: done }
transitions:
  - { from: queued, to: working, on: claim, by: [worker] }
  - { from: working, to: reviewing, on: submit, by: [system] }
  - { from: working, to: blocked, on: ask, by: [system], compute: { question: detail } }
  - { from: reviewing, to: working, on: send_back, by: [system], compute: { feedback: detail }, count: [reviews] }
  - { from: reviewing, to: done, on: approve, by: [system] }
  - { from: blocked, to: working, on: unblock, by: [human], clear: [question] }
";

#[test]
fn the_same_failing_call_three_times_blocks_with_a_summary() {
    let harness = Harness::new(&[]);
    let line = |text: &str| format!("printf '%s\\n' '{text}'\n");
    let call = line(r#"{"type":"tool","name":"bash","detail":"make it","id":"1"}"#);
    let failed =
        line(r#"{"type":"tool_result","id":"1","ok":false,"detail":"no rule to make it"}"#);
    let script = format!("cat >/dev/null\n{}exec sleep 600\n", format!("{call}{failed}").repeat(3));
    fs::write(harness.path("stubborn.sh"), script).expect("written");
    let command = format!("[\"sh\", {:?}]", harness.path("stubborn.sh").display().to_string());
    harness.set(&[("workers.scripted.command", &command)]);
    let id = harness.add("make it", &[]);
    let up = harness.up();
    harness.until("it is blocked", |store| state(store, id) == "blocked");
    up.stop();
    let task = harness.json(&["show", "t1"]);
    let question = task["fields"]["question"].as_str().expect("a question");
    assert!(question.starts_with("Loop: the same call has failed 3 times."), "{question}");
    assert!(question.contains("make it") && question.contains("no rule to make it"), "{question}");
    let runs = harness.open().past_runs(id, 10).expect("runs");
    assert_eq!(
        runs.iter().map(|run| run.class).collect::<Vec<_>>(),
        [Some(FailureClass::ModelLoop)]
    );
}

/// A policy that an agent has broken meanwhile finds no loops; somebody has to know.
#[test]
fn a_policy_that_cannot_be_read_is_told_and_the_run_ends() {
    let harness = Harness::new(&[]);
    harness.script(
        "any",
        "run echo 'loops: [' >\"$YARD/repo/.banksman/policy.yaml\"\nsuccess it is written\n",
    );
    let id = harness.add("break it", &[]);
    let up = harness.up();
    harness.until("the run has ended", |store| {
        store.past_runs(id, 1).expect("runs").iter().any(|run| run.ended_at.is_some())
    });
    up.stop();
    let history = harness.ok(&["history", "t1"]);
    let why = "its policy cannot be read, so loops are not found";
    assert!(history.contains("system:collect") && history.contains(why), "{history}");
}

/// Three reviews that object, and a worker who has nothing to add: the fourth attempt is not sent
/// round again.
#[test]
fn work_that_goes_to_and_fro_without_a_commit_blocks_with_a_summary() {
    let harness = Harness::new(&[]);
    fs::write(harness.path("repo/.banksman/lifecycles/reviewed.yaml"), REVIEWED).expect("written");
    harness.script("t1", "success it is good as it is\n");
    let block =
        r#"{"verdict":"BLOCK","rationale":"still red","concerns":["red"],"suggestions":[]}"#;
    harness.script("any", &format!("answer {block}\nsuccess looked\n"));
    let id = harness.add("paint it", &["--lifecycle", "reviewed"]);
    let store = harness.open();
    // It has been around for long: more than one page of its history is of no interest.
    for number in 0..=PAGE {
        let key = format!("note-{number}");
        store
            .note(id, &Actor::human("kim"), Note::AnswerRefused, &key, clock::now())
            .expect("noted");
    }
    let up = harness.up();
    harness.until("it is blocked", |store| state(store, id) == "blocked");
    up.stop();
    let task = harness.json(&["show", "t1"]);
    let question = task["fields"]["question"].as_str().expect("a question");
    let expected = "Loop: moved back and forth between working and reviewing 3 times without new work and without a person.";
    assert!(question.starts_with(expected), "{question}");
    assert!(question.contains("send_back") && question.contains("still red"), "{question}");
    let runs = harness.open().past_runs(id, 10).expect("runs");
    let classes: Vec<Option<FailureClass>> = runs.iter().map(|run| run.class).collect();
    assert_eq!(classes, [None, None, None, Some(FailureClass::ModelLoop)]);
    assert_eq!(harness.json(&["decisions"])["decisions"][0]["task"], "t1");
}
