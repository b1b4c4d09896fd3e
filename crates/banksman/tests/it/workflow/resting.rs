//! While a workflow waits for a person, the bounds of what it holds up stand still: nobody is
//! blamed for a slow answer.

use banksman_core::time::Span;

use super::{Bench, DONE, WAIT, WORK, verdict};

const SPEC: &str = "
workflow: { id: w, name: Resting, merge: false }
steps:
  - { id: A, gate: G }
  - { id: B, agent: { launch: interactive } }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE } }
";
const MINUTE: Span = Span(60_000);

fn minutes(count: i64) -> Span {
    Span(count * MINUTE.0)
}

/// A is at its gate, and the workflow waits for an answer about B.
fn at_rest() -> Bench {
    // Time is passed in leaps here, and nobody renews a lease meanwhile.
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], SPEC);
    bench.script("A", &format!("{WORK}{WAIT}{DONE}"));
    bench.script("G", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.until_started("A.1");
    bench.until_state("B", "interactive");
    bench.says(&["B", "abort", "--note", "not now"]);
    bench.until("it waits for a person", |bench| bench.workflow_state() == "waiting");
    bench.go("A.1");
    bench.until_state("A", "gate(auto)");
    bench.settle();
    bench
}

/// Nobody is at work on a step that rests before its next try, and it says until when.
#[test]
fn a_step_that_is_tried_again_says_when() {
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], SPEC);
    bench.script("A.1", "exit 3\n");
    bench.until_started("A.1");
    // The agent is gone before its keeper has left a receipt and a turn has read it.
    let next = |bench: &Bench| bench.harness.ok(&["workflow", "next"]);
    bench.until("it rests", |bench| next(bench).contains("A: it is tried again at "));
    assert!(next(&bench).contains("or now\n  banksman retry t2\n"), "{}", next(&bench));
    assert!(bench.harness.ok(&["workflow", "status"]).contains("  retry at "));
}

fn goes_on(bench: &Bench) {
    bench.says(&["B", "skip"]);
    bench.until_started("G.1");
}

#[test]
fn a_gate_does_not_lose_its_time_while_a_person_thinks() {
    let bench = at_rest();
    // Longer than a gate may take, and than a reviewer is waited for.
    for _ in 0..3 {
        bench.driver.pass(minutes(150));
        bench.settle();
        assert_eq!(
            (bench.state("A"), bench.assignments()),
            ("gate(auto)".to_owned(), vec!["pending".to_owned()])
        );
    }
    bench.harness.ok(&["check"]);
    goes_on(&bench);
    bench.go("G.1");
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1"]);
}

#[test]
fn a_bound_begins_anew_when_the_workflow_goes_on_and_ends_as_ever() {
    let bench = at_rest();
    // Not yet due when the answer comes.
    bench.driver.pass(minutes(29));
    bench.settle();
    goes_on(&bench);
    bench.driver.pass(minutes(5));
    bench.settle_but_running();
    assert_eq!(bench.state("A"), "gate(auto)", "the reviewer has had five minutes");
    // Nobody waits for a verdict for ever.
    bench.driver.pass(minutes(31));
    bench.until_state("A", "gate(human)");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn a_bound_begins_anew_when_a_person_lets_the_batch_go_on() {
    let bench = at_rest();
    let due =
        || bench.driver.store.overview().expect("timers").next_timer.expect("the gate has one");
    let before = due();
    bench.harness.ok(&["batch", "resume", "w"]);
    let after = due();
    assert!(after > before, "the gate is as far on as if nothing had held it up");
    bench.harness.ok(&["batch", "resume", "w"]);
    assert_eq!(due(), after, "whoever says it twice gives it more than its time");
}

/// Nobody answers at the gate, and later somebody does.
#[test]
fn a_gate_that_nobody_answers_is_given_up_and_asked_about_again_without_new_work() {
    let spec = SPEC.replace("level: auto", "level: human");
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], &spec);
    bench.until_state("A", "gate(human)");
    bench.until_state("B", "interactive");
    let inbox = bench.harness.ok(&["decisions", "--json"]);
    assert_eq!(inbox.matches("\"deadline\": null").count(), 0, "{inbox}");
    bench.driver.pass(minutes(7 * 24 * 60 + 1));
    bench.until("it waits for a person", |bench| bench.workflow_state() == "waiting");
    assert_eq!((bench.state("A").as_str(), bench.state("B").as_str()), ("given_up", "given_up"));
    bench.parent_says("resume", &[]);
    bench.until_state("A", "gate(human)");
    bench.until_state("B", "interactive");
    bench.says(&["G", "pass"]);
    bench.says(&["B", "done"]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1"]);
}

#[test]
fn a_workflow_that_nobody_answers_for_is_aborted_with_its_problem() {
    let bench = at_rest();
    bench.driver.pass(minutes(7 * 24 * 60 + 1));
    bench.until_over("aborted");
    assert_eq!(bench.logged("is aborted: nobody has answered: a step was given up"), 1);
    let status = bench.harness.ok(&["workflow", "status", "t1"]);
    assert!(status.contains("aborted: nobody has answered: a step was given up"), "{status}");
}
