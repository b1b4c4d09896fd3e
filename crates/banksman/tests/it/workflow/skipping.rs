//! A step that is skipped: the workflow goes on without its work, whatever the step had committed,
//! and says so.

use super::stage::{Stage, WORK};

const BLOCK: &str = "answer {\"verdict\":\"BLOCK\",\"rationale\":\"no\",\"concerns\":[\"wrong\"],\"suggestions\":[]}\nsuccess looked at it\n";

fn spec(desk: &str) -> String {
    format!(
        "
workflow: {{ id: w, name: Without B }}
steps:
  - {{ id: A{desk} }}
  - {{ id: B, needs: [A], gate: G{desk} }}
  - {{ id: C, needs: [B]{desk} }}
gates:
  - {{ id: G, reviewer: {{ level: auto }}, on_pass: {{ next_step: C }}, max_retries: 1 }}
"
    )
}

fn skip_what_was_rejected(desk: &str) {
    let stage = Stage::new();
    stage.gate("G", BLOCK);
    stage.step("C", &format!("run test -s made/A && test ! -e made/B\n{WORK}"));
    let spec = stage.spec("w", &spec(desk));
    stage.announce(&[&spec]);
    stage.pulse_until("a person decides", || stage.step_is("w", "B", "gate(human)"));
    stage.ok(&["workflow", "report", "B", "abort", "--note", "not like this"]);
    stage.pulse_until("it waits", || stage.stands("w") == "waiting");
    stage.ok(&["workflow", "report", "B", "skip"]);
    assert!(stage.step_is("w", "B", "skipped"), "{:?}", stage.states("w"));
    let status = stage.ok(&["workflow", "status"]);
    assert!(status.contains("skipped"), "{status}");
    stage.pulse_until("it is over", || stage.stands("w") == "complete");
    let made: Vec<String> =
        stage.main_files().into_iter().filter(|path| path.starts_with("made/")).collect();
    assert_eq!(made, ["made/A", "made/C"]);
    let log = stage.git(&["log", "--format=%s", "main"]);
    assert!(!log.contains("work of B"), "the rejected commit is in main: {log}");
    assert!(stage.step_is("w", "B", "skipped(for_good)"), "{:?}", stage.states("w"));
    let status = stage.json(&["workflow", "status"]);
    let state = status["steps"].as_array().and_then(|steps| {
        steps.iter().find(|step| step["step"] == "B" || step["id"] == "B").cloned()
    });
    assert!(state.expect("B is listed")["state"].as_str().unwrap_or_default().contains("skipped"));
    // Nothing is lost: the rejected work stays under a rescue ref.
    stage.pulse_until("worktrees are put away", || stage.worktrees().is_empty());
    let rescued = stage.git(&["log", "--format=%s", "--glob=refs/banksman/rescue"]);
    assert!(rescued.contains("work of B"), "{rescued}");
}

#[test]
fn what_was_rejected_and_skipped_is_not_merged() {
    skip_what_was_rejected("");
}

#[test]
fn nor_is_it_where_the_steps_share_a_worktree() {
    skip_what_was_rejected(", agent: { worktree: desk/ }");
}

#[test]
fn a_workflow_whose_last_step_is_skipped_merges_the_rest() {
    for desk in ["", ", agent: { worktree: desk/ }"] {
        let stage = Stage::new();
        let text = format!(
            "workflow: {{ id: w }}\nsteps:\n  - {{ id: A{desk} }}\n  - {{ id: B, needs: [A], gate: G{desk} }}\ngates:\n  - {{ id: G, reviewer: {{ level: human }}, on_pass: {{ next_step: DONE }} }}\n"
        );
        let spec = stage.spec("w", &text);
        stage.announce(&[&spec]);
        stage.pulse_until("a person decides", || stage.step_is("w", "B", "gate(human)"));
        stage.ok(&["workflow", "report", "B", "abort", "--note", "no"]);
        stage.pulse_until("it waits", || stage.stands("w") == "waiting");
        stage.ok(&["workflow", "report", "B", "skip"]);
        stage.pulse_until("it is over", || stage.stands("w") == "complete");
        let log = stage.git(&["log", "--format=%s", "main"]);
        assert!(log.contains("work of A") && !log.contains("work of B"), "{log}");
    }
}

#[test]
fn a_workflow_without_any_work_left_is_complete() {
    let stage = Stage::new();
    let text = "workflow: { id: w }\nsteps:\n  - { id: A, gate: G }\ngates:\n  - { id: G, reviewer: { level: human }, on_pass: { next_step: DONE } }\n";
    let spec = stage.spec("w", text);
    stage.announce(&[&spec]);
    stage.pulse_until("a person decides", || stage.step_is("w", "A", "gate(human)"));
    stage.ok(&["workflow", "report", "A", "abort", "--note", "no"]);
    stage.pulse_until("it waits", || stage.stands("w") == "waiting");
    let before = stage.git(&["rev-parse", "main"]);
    stage.ok(&["workflow", "report", "A", "skip"]);
    stage.pulse_until("it is over", || stage.stands("w") == "complete");
    assert_eq!(stage.git(&["rev-parse", "main"]), before);
}
