//! A child task: it can be done provisionally, it reports to its parent, and it follows its parent.

use std::sync::Arc;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::machine::{Effect, Ending, NewTask, WaitsFor, waits_for};
use serde_json::json;

use crate::walk::{born, of_text};
use crate::world::World;

const PARENT: TaskId = TaskId(7);

const CHILD: &str = "
lifecycle: child
purpose: task
initial: open
states:
  open: { kind: waiting, on_entry: [tell_parent] }
  passed: { kind: done, provisional: true, on_entry: [tell_parent, notify] }
  checked: { kind: done, provisional: true, on_entry: [lead_children] }
  over: { kind: done }
  dropped: { kind: cancelled }
transitions:
  - { from: open, to: passed, on: pass, by: [human] }
  - { from: open, to: over, on: finish, by: [human] }
  - { from: open, to: dropped, on: drop, by: [human] }
  - { from: passed, to: checked, on: check, by: [human] }
  - { from: passed, to: passed, on: praise, by: [human] }
  - { from: [passed, checked], to: open, on: send_back, by: [human] }
  - { from: [passed, checked], to: dropped, on: drop, by: [human] }
  - { from: [passed, checked], to: over, on: close, by: [human, system] }
";

fn child_of(parent: Option<TaskId>) -> World {
    born(of_text(CHILD), NewTask { parent, ..NewTask::default() })
}

fn passed(parent: Option<TaskId>) -> World {
    let mut world = child_of(parent);
    world.goes("human:kim", "on pass", json!({}), "passed");
    world
}

#[test]
fn a_provisionally_done_child_is_done_for_tasks_that_wait_for_it() {
    let mut world = child_of(Some(PARENT));
    let step = world.goes("human:kim", "on pass", json!({}), "passed");
    assert_eq!(step.ending, Some(Ending::Done));
}

#[test]
fn a_move_between_done_states_reports_no_ending() {
    let mut world = passed(Some(PARENT));
    for (who, how, state) in [
        ("human:kim", "on praise", "passed"),
        ("human:kim", "on check", "checked"),
        ("system", "on close", "over"),
    ] {
        let step = world.goes(who, how, json!({}), state);
        assert_eq!(step.ending, None, "{how}");
    }
}

#[test]
fn a_child_that_is_no_longer_done_is_taken_back() {
    for (how, state) in [("on send_back", "open"), ("on drop", "dropped")] {
        let mut world = passed(Some(PARENT));
        let step = world.goes("human:kim", how, json!({}), state);
        assert_eq!(step.ending, Some(Ending::TakenBack), "{how}");
    }
    // It may be done again, and reports that again.
    let mut world = passed(Some(PARENT));
    world.goes("human:kim", "on send_back", json!({}), "open");
    let step = world.goes("human:kim", "on pass", json!({}), "passed");
    assert_eq!(step.ending, Some(Ending::Done));
}

#[test]
fn a_child_that_was_never_done_is_not_taken_back() {
    let mut world = child_of(Some(PARENT));
    let step = world.goes("human:kim", "on drop", json!({}), "dropped");
    assert_eq!(step.ending, Some(Ending::Otherwise));
    let mut world = child_of(Some(PARENT));
    let step = world.goes("human:kim", "on finish", json!({}), "over");
    assert_eq!(step.ending, Some(Ending::Done));
}

#[test]
fn a_parent_is_told_where_there_is_one() {
    for (parent, told) in
        [(Some(PARENT), vec![Effect::TellParent, Effect::Notify]), (None, vec![Effect::Notify])]
    {
        let mut world = child_of(parent);
        let step = world.goes("human:kim", "on pass", json!({}), "passed");
        assert_eq!(step.effects, told);
        // Staying in a state is not an entry.
        let step = world.goes("human:kim", "on praise", json!({}), "passed");
        assert_eq!(step.effects, []);
        let step = world.goes("human:kim", "on check", json!({}), "checked");
        assert_eq!(step.effects, [Effect::LeadChildren], "the store knows whether it has children");
    }
}

#[test]
fn a_provisionally_done_child_waits_for_its_parent() {
    let waits = |world: &World| waits_for(&world.lifecycle, &world.task, None);
    assert_eq!(waits(&child_of(Some(PARENT))), WaitsFor::Person);
    assert_eq!(waits(&passed(Some(PARENT))), WaitsFor::Parent(PARENT));
    assert_eq!(waits(&passed(None)), WaitsFor::Person, "without a parent, a person moves it on");
    let mut world = passed(Some(PARENT));
    world.goes("system", "on close", json!({}), "over");
    assert_eq!(waits(&world), WaitsFor::Ended);
}

const SILENT: &str = "
lifecycle: silent
purpose: task
initial: queued
fields: { ready: { type: flag, by: [human] } }
states:
  queued: { kind: queued }
  asking:
    kind: waiting
    when: ready == true
    does: { activity: human, asks: Go on?, offers: { approve: finish } }
    timeouts: [{ after: 1d, to: done, on: unanswered }]
  done: { kind: done }
transitions:
  - { from: queued, to: asking, on: ask, by: [human] }
  - { from: asking, to: done, on: finish, by: [human] }
";

#[test]
fn a_task_without_subtasks_is_bounded_while_its_state_is_silent() {
    let mut world = born(of_text(SILENT), NewTask::default());
    world.goes("human:kim", "on ask", json!({}), "asking");
    assert_eq!(world.decision, None, "nobody is asked");
    world.after("1d");
    assert_eq!(world.state(), "done");
}

/// Lint refuses such a lifecycle today; a stored one is loaded all the same.
#[test]
fn a_silent_task_without_a_bound_is_stranded() {
    let unbounded: String = SILENT
        .lines()
        .filter(|line| !line.contains("timeouts"))
        .fold(String::new(), |text, line| format!("{text}{line}\n"));
    let lifecycle = read_again(&unbounded, "test", &Overrides::new()).expect("it was sound once");
    let mut task = born(of_text(SILENT), NewTask::default());
    task.goes("human:kim", "on ask", json!({}), "asking");
    let waits = |task: &World| waits_for(&lifecycle, &task.task, None);
    assert_eq!(waits(&task), WaitsFor::Stranded, "no person is asked");
    let mut ready = born(Arc::new(lifecycle.clone()), NewTask::default());
    ready.goes("human:kim", "on ask", json!({ "ready": true }), "asking");
    assert_eq!(waits(&ready), WaitsFor::Person);
}
