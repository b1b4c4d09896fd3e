//! What people are told while a gate's reviewer fails and is asked again.

use banksman_core::time::Span;
use serde_json::json;

use super::stage::{PASS, Stage};
use super::{Bench, verdict};

const SPEC: &str = "workflow: { id: w, name: One step }
steps:
  - { id: A, name: Write, gate: G }
gates:
  - { id: G, reviewer: { level: auto, agent_type: critic }, on_pass: { next_step: DONE } }
";

#[test]
fn status_says_what_the_reviewers_do() {
    let bench = Bench::new(SPEC);
    bench.script("G", "success I like it\n");
    bench.until("the reviewer rests", |bench| {
        bench.harness.json(&["workflow", "status"])["steps"][0]["reviews"][0]["doing"]
            == "waiting_to_retry"
    });
    let review = bench.harness.json(&["workflow", "status"])["steps"][0]["reviews"][0].clone();
    assert_eq!((&review["reviewer"], &review["run"]), (&json!("critic"), &json!(null)), "{review}");
    let missed = review["missed"].as_str().expect("why it is asked again");
    let status = bench.harness.ok(&["workflow", "status"]);
    let row = status.lines().find(|line| line.contains("gate(auto)")).expect("the step");
    assert!(row.contains("critic will be asked again "), "{status}");
    assert!(row.contains(&missed[..20]), "{status}");
    bench.script("G", &verdict("APPROVE", ""));
    bench.driver.pass(Span(60_000));
    bench.until_over("complete");
}

#[test]
fn a_run_has_a_line_for_each_answer_that_did_not_count() {
    let stage = Stage::with(&[("panel.first_retry", "\"1s\""), ("panel.second_retry", "\"1s\"")]);
    stage.gate("G", &format!("attempt 1: success I like it\nattempt 2: crash\n{PASS}"));
    let spec = stage.spec("one.yaml", SPEC);
    let output = stage.banksman(&["workflow", "run", &spec]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("A Write: critic ") && line.contains(" will be asked again: "))
        .collect();
    assert_eq!(told.len(), 2, "{said}");
    let place = |words: &str| said.find(words).unwrap_or_else(|| panic!("{words}: {said}"));
    assert!(
        place("gate(auto)") < place("will be asked again")
            && place("will be asked again") < place("passed"),
        "{said}"
    );
}
