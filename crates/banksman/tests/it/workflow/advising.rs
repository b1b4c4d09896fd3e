//! What the reviewers of a gate suggest although they let the work pass reaches the steps behind
//! it.

use banksman_core::fence::fence;
use serde_json::json;

use super::Bench;

const SPEC: &str = "
workflow: { id: w, name: Three steps, merge: false }
steps:
  - { id: A, name: Write, gate: G }
  - { id: B, name: Use it }
  - { id: C, name: Something else, needs: [] }
gates:
  - { id: G, reviewer: { level: auto, agent_type: critic }, on_pass: { next_step: B } }
";

#[test]
fn the_next_step_is_told_what_the_reviewers_of_the_gate_before_it_suggest() {
    let bench = Bench::new(SPEC);
    let answer = json!({
        "verdict": "APPROVE", "rationale": "fine", "concerns": [], "suggestions": ["name the limit"],
    });
    bench.script("G", &format!("answer {answer}\nsuccess looked\n"));
    bench.until_over("complete");
    let told = bench.prompt("B.1");
    let said = fence("Reviewers of A said:\ncritic suggests: name the limit\n");
    assert!(
        told.contains(&format!("What reviewers said about the steps before it:\n\n{said}")),
        "{told}"
    );
    for attempt in ["A.1", "C.1"] {
        assert!(!bench.prompt(attempt).contains("name the limit"), "{attempt}");
    }
}
