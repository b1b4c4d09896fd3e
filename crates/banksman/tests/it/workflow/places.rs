//! Two runs of one workflow file at the same time: each exchanges its files in a place of its own.

use std::collections::BTreeSet;

use banksman_core::lifecycle::contract::Field;
use banksman_core::workflow::Step;

use super::stage::Stage;

const SPEC: &str = "
workflow: { id: w, merge: false }
steps:
  - { id: A, agent: { launch: interactive }, signal: { type: sentinel_file }, gate: G }
gates:
  - { id: G, reviewer: { level: human }, on_pass: { next_step: DONE } }
";

#[test]
fn two_runs_of_one_file_share_no_signal() {
    let stage = Stage::new();
    let spec = stage.spec("w", SPEC);
    stage.announce(&[&spec]);
    let first = stage.head("w");
    stage.announce(&[&spec]);
    let second = stage.head("w");
    assert_ne!(first, second);
    let state = |head: &str, pulses: bool| {
        if pulses {
            stage.ok(&["pulse", "--quiet"]);
        }
        let status = stage.json(&["workflow", "status", head]);
        status["steps"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    let (first, second) = (first.to_string(), second.to_string());
    stage.pulse_until("both are somebody's", || {
        [&first, &second].iter().all(|head| state(head, false) == "interactive")
    });
    assert_eq!(stage.listed("steps"), ["A.md", "w-2"], "each has an assignment");
    stage.signal("w-2/A-done.json", "{}");
    stage.pulse_until("the second is done", || state(&second, false) == "gate(human)");
    assert_eq!(state(&first, true), "interactive", "the first was not meant");
    stage.signal("A-done.json", "{}");
    stage.pulse_until("the first is done", || state(&first, false) == "gate(human)");
    stage.answer("w-2/G-fail.md", "not like this");
    stage.pulse_until("the second goes back", || state(&second, false) == "interactive");
    assert_eq!(state(&first, true), "gate(human)");
    assert_eq!(stage.listed("retry-context/w-2"), ["G-attempt-1.md"]);
    stage.answer("G-pass", "");
    stage.pulse_until("the first is over", || state(&first, false) == "complete");
    // The place of the first is free again.
    stage.announce(&[&spec]);
    stage.pulse_until("the third is somebody's", || stage.step_is("w", "A", "interactive"));
    stage.signal("A-done.json", "{}");
    stage.pulse_until("the third is done", || stage.step_is("w", "A", "gate(human)"));
    assert_eq!(state(&second, true), "interactive");
}

#[test]
fn runs_that_start_at_the_same_moment_have_places_of_their_own() {
    const RUNS: usize = 6;
    let stage = Stage::new();
    let spec = stage.spec("w", SPEC);
    let start = || stage.command(&["workflow", "run", &spec, "--detach"]).spawn();
    let started: Vec<_> = (0..RUNS).map(|_| start().expect("the program starts")).collect();
    for mut run in started {
        assert!(run.wait().expect("it ends").success());
    }
    let store = stage.open();
    let workflows = store.workflows(None, 100).expect("workflows");
    let place = |id| {
        let steps = store.children(id).expect("steps");
        steps[0].data::<Step>(Field::Spec).expect("it reads").expect("a step").place
    };
    let places: BTreeSet<_> = workflows.iter().map(|stored| place(stored.task.id)).collect();
    assert_eq!((workflows.len(), places.len()), (RUNS, RUNS), "{places:?}");
}

/// A signal is for one workflow, whatever other files call their steps and gates.
#[test]
fn two_files_with_steps_of_one_name_share_no_signal() {
    let stage = Stage::new();
    let first = stage.spec("w", SPEC);
    let second = stage.spec("v", &SPEC.replace("id: w,", "id: v,"));
    let apart = SPEC.replace("id: w,", "id: u,").replace("id: A", "id: B").replace("G", "H");
    let apart = stage.spec("u", &apart);
    for spec in [&first, &second, &apart] {
        stage.announce(&[spec]);
    }
    stage.pulse_until("all are somebody's", || {
        ["w", "v"].iter().all(|flow| stage.step_is(flow, "A", "interactive"))
            && stage.step_is("u", "B", "interactive")
    });
    assert_eq!(stage.listed("steps"), ["A.md", "B.md", "v-2"]);
    stage.signal("A-done.json", "{}");
    stage.pulse_until("the first is done", || stage.step_is("w", "A", "gate(human)"));
    assert!(stage.step_is("v", "A", "interactive"), "it was not meant");
}
