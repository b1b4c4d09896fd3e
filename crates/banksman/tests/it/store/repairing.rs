//! Rows that are gone: `check` names each, `repair` makes what it can again and chooses no state.

use banksman::store::{Add, Edge, Store};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::contract::{AgentRole, Note};
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::COMMAND_WORKER;
use banksman_core::time::{Instant, Span};
use serde_json::Map;

use super::acts::{
    CRANE, DAY, HARNESS, HOUR, NOON, add, added, apply, arriving, ask, claim, definition, load,
    load_after, node, state, to_asking, to_checking, worker,
};
use super::on_both_damaging;
use super::world::{World, findings};

on_both_damaging!(
    what_the_store_lacks_is_named_and_made_again,
    a_repaired_question_is_answered_like_any_other,
    a_start_that_was_lost_is_made_again,
    what_cannot_be_made_again_is_left,
    a_task_with_another_fault_gets_no_place_in_the_queue,
    a_history_without_a_task_stops_no_repair,
    a_task_behind_a_cancelled_one_is_named,
    tasks_that_wait_for_each_other_are_named,
    a_missing_worker_is_a_warning,
);

/// A wait without a bound, which only its effect ends.
const RESTING: &str = "
lifecycle: resting
purpose: task
initial: queued
fields: { free_at: { type: time, by: anyone } }
states:
  queued: { kind: queued }
  resting:
    kind: blocked
    does: { activity: wait, until: now >= free_at, outcomes: { met: finish } }
  done: { kind: done }
transitions:
  - { from: queued, to: resting, on: rest, by: [human] }
  - { from: resting, to: done, on: finish, by: [human, system] }
";

fn found(store: &Store) -> Vec<String> {
    findings(&store.check().expect("the check runs"))
}

fn repair(store: &Store, now: Instant) -> Vec<String> {
    let done = store.repair(&Actor::human("kim"), now).expect("the repair runs");
    done.iter().map(|one| format!("{}: {}", one.task, one.what)).collect()
}

/// The states of all tasks.
fn states(store: &Store) -> Vec<String> {
    let tasks = store.tasks_from(TaskId(0)).expect("the tasks are read");
    tasks.iter().map(|(stored, _)| stored.state().name.clone()).collect()
}

/// Each damage, what `check` says of it, and what is there again after the repair.
fn what_the_store_lacks_is_named_and_made_again(world: &World) {
    let store = world.open();
    let (checking, asking) = (to_checking(&store, "checked"), to_asking(&store, "asked"));
    let queued = add(&store, "queued");
    let delay = NewTask { not_before: Some(NOON.plus(DAY)), ..load("delayed").new };
    let delayed = added(&store, Add { new: delay, ..load("") }).stored.task.id;
    let bound = "has no timer for its bound";
    let damages = [
        (
            "DELETE FROM timers WHERE kind = 'bound'",
            vec![
                format!("{checking}: {bound} `nobody_checked`"),
                format!("{asking}: {bound} `nobody_answered`"),
            ],
        ),
        (
            "DELETE FROM timers WHERE kind = 'ready'",
            vec![format!("{delayed}: is delayed without a timer, or the other way round")],
        ),
        (
            "DELETE FROM changes; DELETE FROM decisions",
            vec![format!("{asking}: asks a person, but no decision is open")],
        ),
        (
            "UPDATE decisions SET settled_at = 5, settled_by = 'nobody', settled_seq = 1",
            vec![format!("{asking}: asks a person, but no decision is open")],
        ),
        (
            "UPDATE tasks SET queue_rank = NULL",
            vec![format!("{queued}: its place in the queue is wrong")],
        ),
    ];
    let before = (states(&store), store.timers_of(checking).expect("they are read"));
    for (damage, expected) in damages {
        world.raw().run(damage);
        assert_eq!(found(&store), expected, "{damage}");
        assert_eq!(repair(&store, NOON), expected, "{damage}");
        world.assert_sound();
        let said = |line: &String| {
            let (task, what) = line.split_once(": ").expect("it names a task");
            let task: TaskId = task.parse().expect("an id");
            let last = store.history(task, 0).expect("it is read").pop().expect("a record");
            assert_eq!(last.record.trigger, Note::Repaired.as_str());
            assert_eq!(last.record.actor, Actor::human("kim"));
            assert_eq!(last.record.fields["note.detail"], what, "{damage}");
        };
        expected.iter().for_each(said);
        assert_eq!(repair(&store, NOON), [""; 0], "a second repair finds nothing: {damage}");
    }
    assert_eq!(before, (states(&store), store.timers_of(checking).expect("they are read")));
    let timer = store.timers_of(asking).expect("they are read");
    assert_eq!(timer.iter().map(|timer| timer.due).max(), Some(NOON.plus(Span(7 * DAY.0))));
    assert_eq!(claim(&store, "worker:w1", NOON).expect("it is claimed").run.task, queued);
    let fired = store.fire_due(NOON.plus(HOUR).plus(HOUR), 100).expect("timers fire").results;
    // The repaired timeout, and that of the work which was claimed.
    assert_eq!((fired.len(), state(&store, checking).as_str()), (2, "held"), "{fired:?}");
}

fn a_repaired_question_is_answered_like_any_other(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "asked");
    world.raw().run("DELETE FROM changes; DELETE FROM decisions");
    assert_eq!(store.inbox().expect("it is read").len(), 0);
    assert_eq!(repair(&store, NOON).len(), 1);
    let open = store.inbox().expect("it is read").pop().expect("it asks again");
    assert_eq!(open.asks, "Shall it be set down?");
    assert_eq!(open.deadline, Some(NOON.plus(Span(7 * DAY.0))));
    apply(&store, id, ask("human:kim", "done", &[]), NOON);
    assert_eq!(store.inbox().expect("it is read").len(), 0);
    world.assert_sound();
}

fn a_start_that_was_lost_is_made_again(world: &World) {
    let store = world.open();
    let own = definition(RESTING);
    let held = arriving(&own, "resting", None);
    let id = added(&store, held).stored.task.id;
    world.assert_sound();
    world.raw().run("UPDATE outbox SET state = 'done'");
    let lost = [format!("{id}: its activity `wait` is not to be started")];
    assert_eq!(found(&store), lost);
    assert_eq!(repair(&store, NOON), lost);
    world.assert_sound();
}

/// A split task whose subtasks are gone can only be named.
fn what_cannot_be_made_again_is_left(world: &World) {
    let store = world.open();
    let own = definition(builtin::source("autonomous").expect("it is built in"));
    let mut split = arriving(&own, "in_progress", None);
    split.new.fields =
        Map::from_iter([("split".to_owned(), true.into()), ("worker_id".to_owned(), "w".into())]);
    let id = added(&store, split).stored.task.id;
    let child = NewTask { parent: Some(id), ..load("part").new };
    let child = added(&store, Add { new: child, ..load("") }).stored.task.id;
    world.raw().run("UPDATE outbox SET state = 'done'");
    assert_eq!(found(&store), [""; 0], "a part is open");
    apply(&store, child, ask("human:kim", "cancelled", &[("reason", "x")]), NOON);
    world.raw().run("UPDATE outbox SET state = 'done'");
    let stranded = [format!("{id}: is stranded in in_progress: nothing will move it on")];
    assert_eq!(found(&store), stranded, "every part has ended, and nobody is told");
    assert_eq!(repair(&store, NOON), [""; 0]);
    assert_eq!(found(&store), stranded);
}

/// The place would start a task before what it needs, or a second time.
fn a_task_with_another_fault_gets_no_place_in_the_queue(world: &World) {
    let store = world.open();
    let first = add(&store, "first");
    let second = added(&store, load_after("second", &[first])).stored.task.id;
    let run = claim(&store, "worker:w1", NOON).expect("it is claimed").run;
    assert_eq!(run.task, first);
    let place = "its place in the queue is wrong";
    for (damage, fault) in [
        (
            format!("UPDATE tasks SET open_needs = 0 WHERE id = {}", second.0),
            format!("{second}: waits for 0 tasks, but 1 are open"),
        ),
        (
            format!(
                "UPDATE tasks SET lease_worker = NULL, lease_expires_at = NULL WHERE id = {}",
                first.0
            ),
            format!("{first}: its run {} is under way without a lease", run.epoch),
        ),
    ] {
        world.raw().run(&damage);
        let named = found(&store);
        assert!(
            named.contains(&fault) && named.iter().any(|one| one.ends_with(place)),
            "{named:?}"
        );
        assert_eq!(repair(&store, NOON), [""; 0], "{damage}");
        assert_eq!(found(&store), named);
        assert!(claim(&store, "worker:w2", NOON).is_none(), "{damage}");
    }
}

fn a_history_without_a_task_stops_no_repair(world: &World) {
    let store = world.open();
    let gone = add(&store, "gone");
    let queued = add(&store, "queued");
    let mut raw = world.raw();
    raw.lift_constraints();
    raw.run(&format!(
        "DELETE FROM tasks WHERE id = {}; UPDATE tasks SET queue_rank = NULL",
        gone.0
    ));
    assert_eq!(repair(&store, NOON), [format!("{queued}: its place in the queue is wrong")]);
    let left = [format!("{gone}: has a history but is not there")];
    assert_eq!(found(&store), left);
}

fn a_task_behind_a_cancelled_one_is_named(world: &World) {
    let store = world.open();
    let first = add(&store, "first");
    let second = added(&store, load_after("second", &[first])).stored.task.id;
    assert_eq!(found(&store), [""; 0]);
    apply(&store, first, ask("human:kim", "cancelled", &[("reason", "x")]), NOON);
    let vain = store.waiting_in_vain().expect("it is read");
    let text = format!("waits for {first}, which has ended in cancelled");
    assert_eq!((vain.len(), vain[0].task, vain[0].what.as_str()), (1, second, text.as_str()));
    assert_eq!(repair(&store, NOON), [""; 0], "only a person knows what then");
}

fn tasks_that_wait_for_each_other_are_named(world: &World) {
    let store = world.open();
    let first = add(&store, "first");
    let second = added(&store, load_after("second", &[first])).stored.task.id;
    let behind = Add { needs: vec![(second, Edge::Blocks)], ..load("behind") };
    let behind = added(&store, behind).stored.task.id;
    let mut raw = world.raw();
    raw.run(&format!(
        "INSERT INTO edges (task, needs, kind) VALUES ({}, {}, 'blocks'); \
         UPDATE tasks SET open_needs = 1, queue_rank = NULL WHERE id = {}",
        first.0, second.0, first.0
    ));
    let expected = [
        format!("{first}: waits for {second}, which waits for it in turn"),
        format!("{second}: waits for {first}, which waits for it in turn"),
    ];
    assert_eq!(found(&store), expected, "{behind} only waits for the circle");
}

fn a_missing_worker_is_a_warning(world: &World) {
    let store = world.open();
    let crane = added(&store, Add { definition: CRANE.clone(), ..load("lift") }).stored.task.id;
    add(&store, "carry");
    // Every node has the worker that runs the commands of steps.
    let source = HARNESS.source.replace("worker", AgentRole::Command.as_str());
    let mut command = Add { definition: definition(&source), ..load("run") };
    command.new.tags = vec![format!("needs:{COMMAND_WORKER}")];
    added(&store, command);
    assert_eq!(store.unserved(NOON).expect("it is read"), [], "nobody knows the workers");
    let mut ada = worker("ada");
    ada.roles.insert("worker".to_owned());
    store.put_node(&node("here", &[ada])).expect("it is known");
    let warned = store.unserved(NOON).expect("it is read");
    let text = "no worker can take it: it is for crane, with the tags []";
    assert_eq!(warned.len(), 1);
    assert_eq!((warned[0].task, warned[0].what.as_str()), (crane, text));
    assert_eq!(found(&store), [""; 0]);
    let anybody = worker("bob");
    store.put_node(&node("there", &[anybody])).expect("it is known");
    assert_eq!(store.unserved(NOON).expect("it is read"), []);
}
