//! Whatever is cut off, and wherever, a workflow ends as if nothing had been: the same states,
//! runs, feedback and log.

use std::collections::BTreeMap;

use super::{Bench, WAIT, runs, verdict};
use crate::engine::cutting::cut_every_turn_off;
use crate::engine::harness::Harness;
use crate::engine::machines::Database;
use crate::engine::processes::wait_until;

/// A gate that fails once, a branch beside it, and both together, which are merged.
const SPEC: &str = "workflow: { id: w, name: Cut off }
steps:
  - { id: A, name: Judged, gate: G }
  - { id: B, name: Beside }
  - { id: C, name: Both, needs: [A, B], gate: H }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: C } }
  - { id: H, reviewer: { level: auto }, on_pass: { next_step: DONE }, on_fail: { next_step: B } }
";

fn bench(spec: &str) -> Bench {
    bench_in(Harness::new(&[]), spec)
}

fn bench_in(harness: Harness, spec: &str) -> Bench {
    // Time is passed in leaps here, and nobody renews a lease meanwhile.
    let bench = Bench::in_harness(harness, &[("limits.lease", "\"1d\"")], spec);
    bench.fails("G.1", "once more, please");
    bench.fails("H.1", "the other side, please");
    bench
}

/// The same with two reviewers at the first gate. First one of them blocks while the other one
/// reads, then one has a concern, which it gives up in a debate.
fn panel_in(harness: Harness) -> Bench {
    let spec = SPEC.replace("{ id: G, reviewer: { level: auto }", PANEL);
    let bench = bench_in(harness, &spec);
    let both_read = "run until grep -q '^G-critic.1 ' \"$YARD/starts\"; do sleep 0.02; done\n";
    let reply = r#"answer {"response":"WITHDRAW","rationale":"it was meant"}"#;
    bench.script("G-critic.1", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.script("G-security.1", &format!("{both_read}{}", verdict("BLOCK", "the lock is open")));
    bench.script("G-critic.2", &verdict("CONCERN", "it is red"));
    bench.script("G-critic.3", &format!("{reply}\nsuccess looked\n"));
    bench
}

const PANEL: &str = "{ id: G, reviewer: { level: auto, agent_type: [critic, security] }";

/// All that a workflow leaves behind, without times and in an order that does not depend on who was
/// faster.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    states: Vec<String>,
    runs: Vec<i64>,
    starts: Vec<String>,
    assignments: Vec<String>,
    feedback: BTreeMap<String, String>,
    log: Vec<String>,
    /// Subjects of the base branch's commits.
    merged: Vec<String>,
    /// What is in it.
    tree: String,
}

impl Left {
    fn of(bench: &Bench) -> Self {
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        let ids = ["A", "B", "C"].map(|step| bench.step(step).task.id);
        let subjects = bench.harness.git(&["log", "--format=%s", "main"]);
        let tree = bench.harness.git(&["ls-tree", "-r", "main"]);
        Self {
            states: bench.states(),
            runs: ids.iter().map(|id| runs(&bench.driver.store, *id)).collect(),
            starts: sorted(bench.starts()),
            assignments: bench.assignments(),
            feedback: bench.feedback(),
            log: sorted(bench.log()),
            merged: sorted(subjects.lines().map(str::to_owned).collect()),
            tree,
        }
    }
}

/// What is left where nobody disturbs anything.
fn undisturbed(spec: &str, end: &str) -> Left {
    let bench = bench(spec);
    bench.until_over(end);
    Left::of(&bench)
}

fn completed() -> Left {
    let left = undisturbed(SPEC, "complete");
    assert_eq!(left.states, ["A complete", "B complete", "C complete"]);
    assert_eq!(left.runs, [2, 2, 2]);
    let starts = ["A.1", "A.2", "B.1", "B.2", "C.1", "C.2", "G.1", "G.2", "H.1", "H.2"];
    assert_eq!(left.starts, starts);
    left
}

fn cut_off(bench: &Bench, end: &str) -> Left {
    let is_over = || bench.workflow_state() == end && bench.is_put_away();
    let cuts = cut_every_turn_off(&bench.driver, &bench.harness, is_over);
    bench.assert_clean();
    assert!(cuts > 30, "it was cut off {cuts} times only");
    Left::of(bench)
}

#[test]
fn a_workflow_whose_every_turn_is_cut_off_ends_the_same() {
    let expected = completed();
    assert_eq!(cut_off(&bench(SPEC), "complete"), expected);
}

#[test]
fn a_workflow_that_is_given_up_in_turns_that_are_cut_off_ends_the_same() {
    let spec = SPEC.replace("on_fail: { next_step: B }", "on_fail: { next_step: ABORT }");
    let expected = undisturbed(&spec, "aborted");
    assert_eq!(expected.states, ["A complete", "B complete", "C aborted"]);
    assert_eq!(cut_off(&bench(&spec), "aborted"), expected);
}

fn panel_ends_the_same(harness: Harness) {
    let undisturbed = panel_in(Harness::new(&[]));
    undisturbed.until_over("complete");
    let expected = Left::of(&undisturbed);
    let all = ["withdrawn", "answered", "answered", "answered", "answered", "answered", "answered"];
    assert_eq!(expected.assignments, all, "two panels, a debate, and one reviewer twice");
    assert!(expected.starts.contains(&"G-critic.3".to_owned()), "{:?}", expected.starts);
    assert_eq!(cut_off(&panel_in(harness), "complete"), expected);
}

#[test]
fn a_panel_whose_every_turn_is_cut_off_ends_the_same_and_has_no_review_twice() {
    panel_ends_the_same(Harness::new(&[]));
}

/// The real thing, at moments that matter: an agent at work, a review asked for, feedback written,
/// a merge begun.
#[test]
fn a_workflow_whose_up_is_killed_again_and_again_ends_the_same() {
    let expected = completed();
    let bench = bench(SPEC);
    let moments: [&dyn Fn() -> bool; 7] = [
        &|| bench.has_started("A.1"),
        &|| !bench.assignments().is_empty(),
        &|| bench.has_started("G.1"),
        &|| !bench.feedback().is_empty(),
        &|| bench.has_started("A.2"),
        &|| bench.has_started("H.1"),
        &|| bench.workflow_state() == "merging",
    ];
    for moment in moments {
        let up = bench.up();
        wait_until("the moment has come", moment);
        up.kill();
    }
    let up = bench.up();
    wait_until("it is over", || bench.workflow_state() == "complete" && bench.is_put_away());
    // What a killed `up` was about to tell is left alone until its hold is over, and the workflow
    // does not wait for that.
    wait_until("every line is told", || bench.log().len() >= expected.log.len());
    up.stop();
    bench.assert_clean();
    assert_eq!(Left::of(&bench), expected);
}

mod needs_postgres {
    use super::*;

    #[test]
    fn a_panel_whose_every_turn_is_cut_off_ends_the_same_on_postgresql() {
        let database = Database::new("panel");
        panel_ends_the_same(Harness::on_postgres(&database.url, &[]));
    }
}
