//! The level `notify`: an agent decides, people are told and may say no, for a while before the
//! next step and until that one has ended.

use banksman_core::time::Span;

use super::{Bench, assert_refused};
use crate::engine::processes::wait_until;

fn spec(window: &str) -> String {
    format!(
        "workflow: {{ id: w, name: In a row }}
steps:
  - {{ id: A, name: First, gate: G }}
  - {{ id: B, name: Second }}
  - {{ id: C, name: Third, needs: [B] }}
gates:
  - id: G
    reviewer: {{ level: notify, veto_window: {window} }}
    on_pass: {{ next_step: B }}
"
    )
}

const HOUR: Span = Span(3_600_000);

#[test]
fn without_a_word_it_goes_on_after_the_window() {
    let bench = Bench::new(&spec("1h"));
    let told = bench.until_state("A", "gate(veto)");
    assert!(told.notices.iter().any(|text| text.contains("gate(veto)")), "{told:?}");
    bench.settle();
    bench.driver.pass(Span(HOUR.0 - 120_000));
    bench.settle();
    assert_eq!(bench.state("A"), "gate(veto)", "the window is not over");
    assert_eq!(bench.starts(), ["A.1", "G.1"]);
    let status = bench.harness.ok(&["workflow", "status"]);
    assert!(
        status.contains("continues at ") && status.contains(" unless you veto it\n"),
        "{status}"
    );
    let next = bench.harness.ok(&["workflow", "next"]);
    assert!(next.contains("a person may say no until "), "{next}");
    bench.driver.pass(Span(180_000));
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1", "B.1", "C.1"]);
    assert_eq!(bench.logged("gate(veto) -> passed on unopposed by system"), 1);
}

#[test]
fn up_wakes_when_the_window_is_over() {
    let bench = Bench::new(&spec("1s"));
    let up = bench.up();
    wait_until("it is complete", || bench.workflow_state() == "complete" && bench.is_put_away());
    up.stop();
    bench.assert_clean();
    assert_eq!(bench.logged("gate(veto) -> passed on unopposed by system"), 1);
}

#[test]
fn a_veto_in_the_window_sends_it_back() {
    let bench = Bench::new(&spec("1h"));
    bench.until_state("A", "gate(veto)");
    bench.settle();
    assert_refused(&bench, &["G", "veto", "--note", "no", "--as", "reviewer"], "human may");
    assert_refused(&bench, &["G", "veto"], "Say what has to change");
    bench.says(&["G", "veto", "--note", "not like this"]);
    bench.until_state("A", "gate(veto)");
    assert_eq!(bench.starts(), ["A.1", "G.1", "A.2", "G.2"]);
    assert!(bench.prompt("A.2").contains("not like this"));
    assert!(bench.feedback()["G-attempt-1.md"].contains("not like this"));
    // A person who is content need not wait.
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
    assert_eq!(bench.starts()[4..], ["B.1", "C.1"]);
}

/// A file that says fail is a veto where an agent has let it pass.
#[test]
fn a_fail_file_in_the_window_is_a_veto() {
    let bench = Bench::new(&spec("1h"));
    bench.until_state("A", "gate(veto)");
    bench.answers("G-fail.md", "not like this\n");
    bench.until_started("A.2");
    assert!(bench.prompt("A.2").contains("not like this"));
    bench.until_state("A", "gate(veto)");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn a_veto_after_the_fact_takes_back_the_next_step_that_is_at_work() {
    let bench = Bench::new(&spec("1h"));
    bench.holds("B.1");
    bench.until_state("A", "gate(veto)");
    bench.driver.pass(Span(HOUR.0 + 1_000));
    bench.until_started("B.1");
    bench.says(&["G", "veto", "--note", "I was at lunch"]);
    bench.until("the next step's agent is ended", |bench| !bench.is_at_work("B.1"));
    bench.until_state("A", "gate(veto)");
    bench.settle();
    assert_eq!(bench.states(), ["A gate(veto)", "B pending", "C pending"]);
    assert!(bench.prompt("A.2").contains("I was at lunch"));
    bench.driver.pass(Span(HOUR.0 + 1_000));
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1", "B.1", "A.2", "G.2", "B.2", "C.1"]);
    assert_eq!(bench.logged("passed -> sent_back on veto by human"), 1);
}

#[test]
fn after_the_next_step_has_passed_it_is_too_late_for_a_veto() {
    let bench = Bench::new(&spec("1h"));
    bench.holds("C.1");
    bench.until_state("A", "gate(veto)");
    bench.says(&["G", "pass"]);
    bench.until_started("C.1");
    assert_refused(&bench, &["G", "veto", "--note", "too late"], "until a later step has ended");
    assert!(bench.is_at_work("C.1"));
    bench.go("C.1");
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1", "B.1", "C.1"]);
}

#[test]
fn nobody_vetoes_what_an_agent_decides_alone() {
    let bench = Bench::new(&spec("1h").replace("level: notify, veto_window: 1h", "level: auto"));
    bench.holds("B.1");
    bench.until_started("B.1");
    assert_refused(&bench, &["G", "veto", "--note", "no"], "Only a step that people were told of");
    bench.go("B.1");
    bench.until_over("complete");
}
