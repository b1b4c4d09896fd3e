//! A batch of tasks that depend on each other, from the queue to the main branch.

use banksman_core::ids::TaskId;

use super::harness::{Harness, is_over, tasks};
use super::processes::rest;

/// Twelve tasks in three layers; each of a layer waits for two of the one before.
fn add_layers(harness: &Harness) -> Vec<TaskId> {
    let mut all: Vec<TaskId> = Vec::new();
    for layer in 0..3 {
        let before = all.clone();
        for place in 0..4 {
            let needs: Vec<String> = match layer {
                0 => Vec::new(),
                _ => {
                    let at = before.len() - 4;
                    let of = |at: usize| before[at].to_string();
                    vec![of(at + place), of(at + (place + 1) % 4)]
                }
            };
            let after = needs.iter().flat_map(|id| ["--after", id.as_str()]);
            all.push(harness.add(&format!("part {layer}.{place}"), &after.collect::<Vec<_>>()));
        }
    }
    all
}

/// All are done, once each, and in the main branch; those that others need came first.
fn assert_all_merged(harness: &Harness, ids: &[TaskId]) {
    for id in ids {
        assert_eq!(harness.state(*id), "done", "{id}");
        let work = harness.git(&["show", &format!("main:work-{id}")]);
        assert_eq!(work.lines().count(), 1, "{id} has worked more than once: {work}");
    }
    let mut starts = harness.starts();
    let place =
        |run: &str| harness.starts().iter().position(|start| start == run).expect("a start");
    assert!(place("r1.1") < place("r5.1") && place("r5.1") < place("r9.1"), "{starts:?}");
    starts.sort();
    starts.dedup();
    assert_eq!(starts.len(), ids.len(), "an agent was started twice");
    assert_eq!(harness.worktrees(), Vec::<String>::new());
    let branches = harness.git(&["branch", "--list", "banksman/*"]);
    assert_eq!(branches, "", "branches that are merged are left over");
    harness.assert_clean(&["here"]);
}

#[test]
fn pulses_alone_bring_a_batch_home() {
    let harness = Harness::new(&[]);
    let ids = add_layers(&harness);
    let store = harness.open();
    let is_home = || tasks(&store).iter().all(is_over) && harness.jobs("here").is_empty();
    // Each pulse does all that can be done, so their number is bounded by what can happen.
    for _ in 0..2_000 {
        harness.pulse();
        if is_home() {
            break;
        }
        rest();
    }
    assert_all_merged(&harness, &ids);
}

#[test]
fn up_brings_a_batch_home() {
    let harness = Harness::new(&[]);
    let up = harness.up();
    let ids = add_layers(&harness);
    harness.until_over(&["here"]);
    let said = up.stop();
    assert!(said.ends_with("stopped; no agent was running\n"), "{said}");
    assert_all_merged(&harness, &ids);
}

/// Whoever looks at something else meanwhile does not lead the work astray.
#[test]
fn work_goes_back_to_the_branch_that_it_began_from() {
    let harness = Harness::new(&[]);
    harness.git(&["branch", "--move", "trunk"]);
    let elsewhere = "run git -C \"$YARD/repo\" checkout -q -b experiment\n\
                     run git -C \"$YARD/repo\" branch main\n";
    let work = harness.file("scripts/any");
    harness.script("t1", &format!("{elsewhere}{work}"));
    let up = harness.up();
    let id = harness.add("part 1", &[]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    let has_work = |branch: &str| {
        harness.git(&["ls-tree", "--name-only", branch]).lines().any(|file| file == "work-t1")
    };
    assert_eq!(["trunk", "experiment", "main"].map(has_work), [true, false, false]);
    let shown = harness.ok(&["show", "t1"]);
    assert!(shown.contains("merged into `trunk`"), "{shown}");
}

#[test]
fn a_branch_of_an_earlier_store_is_left_alone() {
    let harness = Harness::new(&[]);
    harness.git(&["branch", "banksman/t1-part-1"]);
    let id = harness.add("part 1", &[]);
    let up = harness.up();
    harness.until("it is refused", |store| {
        let past = store.past_runs(id, 1).expect("readable");
        let said = past.last().and_then(|run| run.detail.clone()).unwrap_or_default();
        said.contains("`git branch -m banksman/t1-part-1 NAME`")
    });
    up.stop();
    assert_eq!(harness.starts(), Vec::<String>::new());
}
