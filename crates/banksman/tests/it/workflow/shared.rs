//! A worktree that several steps share is put away once, by the last that has worked there.

use std::fs;

use super::Bench;
use crate::engine::driver::NODE;

const SPEC: &str = "
workflow: { id: w, name: In one worktree }
steps:
  - { id: A, agent: { worktree: one/ } }
  - { id: B, needs: [A], agent: { worktree: one/ } }
  - { id: C, needs: [B], agent: { worktree: one/ }, gate: G }
  - { id: D, needs: [C], agent: { worktree: one/ } }
  - { id: E }
gates:
  - { id: G, reviewer: { level: human }, on_pass: { next_step: D }, on_fail: { next_step: ABORT } }
";

/// The clean-ups that were made for steps, by the steps.
fn cleaned_up(bench: &Bench) -> Vec<String> {
    let past = fs::read_dir(bench.harness.home(NODE).join("past")).expect("a folder");
    let names: Vec<String> = past
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let of = |step: &&str| {
        let prefix = format!("c{}.", bench.step(step).task.id.0);
        names.iter().any(|name| name.starts_with(&prefix))
    };
    ["A", "B", "C", "D", "E"]
        .iter()
        .filter(|step| of(step))
        .map(|step| (*step).to_owned())
        .collect()
}

#[test]
fn the_last_step_of_a_worktree_puts_it_away() {
    let bench = Bench::new(SPEC);
    bench.until_state("C", "gate(human)");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
    assert_eq!(cleaned_up(&bench), ["D", "E"]);
    assert_eq!(bench.harness.git(&["branch", "--list", "banksman/*"]), "");
}

#[test]
fn the_last_that_has_worked_there_does_so_where_others_never_began() {
    let bench = Bench::new(SPEC);
    bench.until_state("C", "gate(human)");
    bench.says(&["G", "fail", "--note", "not at all"]);
    bench.until_over("aborted");
    assert_eq!(cleaned_up(&bench), ["C", "E"]);
}
