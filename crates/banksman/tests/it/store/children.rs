//! Children of a task: added together, counted, moved together, and taken back after
//! they were done.

use std::collections::BTreeMap;
use std::sync::Arc;

use banksman::store::query::Progress;
use banksman::store::{
    Add, ChildCounts, Definition, Edge, IdempotencyKey, NewChild, Store, StoreError, Stored,
};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::{Overrides, read_again};
use banksman_core::machine::{Actor, Event, NewTask, TransitionRequest};
use serde_json::json;

use super::acts::{NOON, actor, added, at_once, load};
use super::on_both;
use super::world::World;

on_both!(
    the_progress_of_children_is_that_of_their_parent,
    children_are_added_together_or_not_at_all,
    the_same_keys_add_the_same_children,
    children_are_counted_by_outcome,
    only_changed_children_are_read_again,
    what_is_taken_back_holds_up_those_after_it_again,
    several_are_moved_at_once_and_a_refusal_harms_nobody,
    a_queue_that_waits_for_no_worker_goes_on_by_itself,
    nobody_waits_for_a_child_that_is_left_out,
    a_step_of_a_former_build_keeps_its_driver,
    those_who_add_the_same_children_at_once_get_the_same_ones,
    each_of_several_has_a_batch_of_its_own,
    workflows_are_found_behind_any_number_of_other_parents,
);

const LIFECYCLE: &str = "
lifecycle: piece
purpose: task
initial: open
roles: [worker]
fields: { by_hand: { type: flag, by: anyone } }
states:
  open:
    kind: queued
    does: { activity: wait, until: by_hand == true, outcomes: { met: lay_out } }
  at_hand: { kind: waiting }
  working: { kind: working, timeouts: [{ after: 1d, to: dropped }] }
  passed: { kind: done, provisional: true, on_entry: [tell_parent] }
  kept: { kind: done }
  dropped: { kind: cancelled }
transitions:
  - { from: open, to: working, on: claim, by: [worker, system], guards: [{ field: by_hand, that: by_hand != true, message: by hand }] }
  - { from: open, to: at_hand, on: lay_out, by: [system] }
  - { from: [open, working, at_hand], to: passed, on: pass, by: [human, system] }
  - { from: passed, to: open, on: reset, by: [system] }
  - { from: passed, to: kept, on: close, by: [system] }
  - { from: [open, working, at_hand], to: dropped, on: drop, by: [human] }
";

fn child(title: &str, parent: Option<usize>, after: &[usize]) -> NewChild {
    let lifecycle = read_again(LIFECYCLE, "piece", &Overrides::new()).expect("it is sound");
    let definition = Definition {
        lifecycle: Arc::new(lifecycle),
        source: LIFECYCLE.to_owned(),
        overrides: Overrides::new(),
    };
    let new =
        NewTask { title: title.to_owned(), project: "harness".to_owned(), ..NewTask::default() };
    let actor = actor("human:kim");
    let add = Add { new, definition, needs: Vec::new(), actor, key: None, arrival: None };
    let after = after.iter().map(|at| (*at, Edge::Blocks)).collect();
    NewChild { add, parent, after, own_batch: None }
}

/// A parent, and three children in a row.
fn chain(store: &Store) -> [TaskId; 4] {
    let children = [
        child("parent", None, &[]),
        child("a", Some(0), &[]),
        child("b", Some(0), &[1]),
        child("c", Some(0), &[2]),
    ];
    let added = store.add_children(&children, NOON).expect("they are added");
    let ids: Vec<TaskId> = added.iter().map(|applied| applied.stored.task.id).collect();
    ids.try_into().expect("there are four")
}

fn asked(role: &str, trigger: &str) -> Event {
    Event::Asked(TransitionRequest {
        actor: Actor { role: role.to_owned(), name: None },
        to: None,
        trigger: Some(trigger.to_owned()),
        fields: serde_json::Map::new(),
        epoch: None,
        version: None,
    })
}

fn ask(store: &Store, id: TaskId, trigger: &str) {
    store.apply(id, asked("system", trigger), None, NOON).expect("the move is allowed");
}

fn stands(store: &Store, id: TaskId) -> (String, i64, bool) {
    let stored = store.task(id).expect("it is there");
    let state = stored.lifecycle.state(stored.task.state).name.clone();
    (state, stored.task.open_needs, stored.task.rank(&stored.lifecycle).is_some())
}

fn the_progress_of_children_is_that_of_their_parent(world: &World) {
    let store = world.open();
    let [parent, a, b, _] = chain(&store);
    let [other, ..] = chain(&store);
    let alone = store.add_children(&[child("alone", None, &[])], NOON).expect("it is added");
    let alone = alone[0].stored.task.id;
    assert_eq!(store.open_parents(10).unwrap(), [other, parent], "the latest first");
    assert_eq!(store.open_parents(1).unwrap(), [other]);
    ask(&store, a, "pass");
    let total = |done| Progress { total: 3, done, ..Progress::default() };
    let both = BTreeMap::from([(parent, total(1)), (other, total(0))]);
    assert_eq!(store.progress(&[parent, b, other, alone]).unwrap(), both);
    assert_eq!(store.progress(&[parent, other, TaskId(900)]).unwrap(), both, "far apart");
    assert_eq!(store.progress(&[parent, alone]).unwrap(), BTreeMap::from([(parent, total(1))]));
    assert_eq!(store.progress(&[]).unwrap(), BTreeMap::new());
}

fn children_are_added_together_or_not_at_all(world: &World) {
    let store = world.open();
    let [parent, a, b, _] = chain(&store);
    assert_eq!(store.task(a).unwrap().task.parent, Some(parent));
    assert_eq!(stands(&store, b), ("open".to_owned(), 1, false));
    let mut unsound = child("", Some(0), &[]);
    unsound.add.needs.push((TaskId(9_999), Edge::Blocks));
    let refused = store.add_children(&[child("another", None, &[]), unsound], NOON);
    assert!(matches!(refused, Err(StoreError::NoTask(TaskId(9_999)))), "{refused:?}");
    let (all, _) = store.list(&banksman::store::query::Filter::default(), None, 100).unwrap();
    assert_eq!(all.len(), 4, "something of what was refused is there");
}

fn the_same_keys_add_the_same_children(world: &World) {
    let store = world.open();
    let keyed = |name: &str, parent, after: &[usize]| {
        let mut child = child(name, parent, after);
        child.add.key = Some(IdempotencyKey::new(&format!("run-1-{name}"), name));
        child
    };
    let children =
        [keyed("parent", None, &[]), keyed("a", Some(0), &[]), keyed("b", Some(0), &[1])];
    let ids = |store: &Store| -> Vec<TaskId> {
        let added = store.add_children(&children, NOON).expect("they are added");
        added.iter().map(|applied| applied.stored.task.id).collect()
    };
    let first = ids(&store);
    ask(&store, first[1], "pass");
    assert_eq!(ids(&world.open()), first);
    assert_eq!(store.count_children(first[0]).unwrap().all, 2);
}

fn nobody_waits_for_a_child_that_is_left_out(world: &World) {
    let store = world.open();
    let stranger = child("somebody else's", None, &[1]);
    let children =
        [child("parent", None, &[]), child("a", Some(0), &[]), child("b", Some(0), &[1]), stranger];
    let added = store.add_children(&children, NOON).expect("they are added");
    let [_, a, b, stranger] = [0, 1, 2, 3].map(|at| added[at].stored.task.id);
    let open = |id: TaskId| store.task(id).expect("it is there").task.open_needs;
    store.apply(a, asked("human", "drop"), None, NOON).expect("people drop");
    assert_eq!((open(b), open(stranger)), (1, 1), "what is dropped is not done");
    assert_eq!(store.leave_out(a, NOON).unwrap(), 1);
    assert_eq!(store.leave_out(a, NOON).unwrap(), 0, "the second time there is nothing to do");
    assert_eq!((open(b), open(stranger)), (0, 1), "nobody has decided about the other task");
    assert_eq!(store.needs(b).unwrap()[0].edge, Edge::Informs);
}

fn children_are_counted_by_outcome(world: &World) {
    let store = world.open();
    let [parent, a, b, c] = chain(&store);
    let counts = || store.count_children(parent).unwrap();
    assert_eq!(counts(), ChildCounts { all: 3, done: 0, given_up: 0, cost_micros: 0 });
    ask(&store, a, "pass");
    store.apply(c, asked("human", "drop"), None, NOON).unwrap();
    assert_eq!((counts().done, counts().given_up, counts().open()), (1, 1, 1));
    let ids: Vec<TaskId> =
        store.children(parent).unwrap().iter().map(|child| child.task.id).collect();
    assert_eq!(ids, [a, b, c]);
    let needs = store.needs_of_children(parent).unwrap();
    assert_eq!(
        (needs.get(&b), needs.get(&c), needs.get(&a)),
        (Some(&vec![a]), Some(&vec![b]), None)
    );
}

fn only_changed_children_are_read_again(world: &World) {
    let store = world.open();
    let [parent, a, b, c] = chain(&store);
    let mut known = BTreeMap::new();
    store.refresh_children(parent, &mut known).unwrap();
    assert_eq!(known.keys().copied().collect::<Vec<_>>(), [a, b, c]);
    for child in known.values_mut() {
        child.task.title = "as it was read before".to_owned();
    }
    // One that only comes a place nearer is not moved, and counts as changed all the same.
    ask(&store, a, "pass");
    store.refresh_children(parent, &mut known).unwrap();
    let now = |id: TaskId| (known[&id].task.title.as_str(), known[&id].task.open_needs);
    assert_eq!(now(a), ("a", 0));
    assert_eq!(now(b), ("b", 0));
    assert_eq!(now(c), ("as it was read before", 1));
}

fn what_is_taken_back_holds_up_those_after_it_again(world: &World) {
    let store = world.open();
    let [_, a, b, c] = chain(&store);
    ask(&store, a, "pass");
    assert_eq!(stands(&store, b), ("open".to_owned(), 0, true));
    ask(&store, b, "pass");
    ask(&store, b, "reset");
    ask(&store, a, "reset");
    assert_eq!(stands(&store, a), ("open".to_owned(), 0, true));
    assert_eq!(stands(&store, b), ("open".to_owned(), 1, false));
    assert_eq!(stands(&store, c), ("open".to_owned(), 1, false));
    ask(&store, a, "pass");
    ask(&store, b, "pass");
    assert_eq!(stands(&store, c), ("open".to_owned(), 0, true));
    // Done for good is not done twice.
    ask(&store, b, "close");
    assert_eq!(stands(&store, c), ("open".to_owned(), 0, true));
}

fn several_are_moved_at_once_and_a_refusal_harms_nobody(world: &World) {
    let store = world.open();
    let [_, a, b, c] = chain(&store);
    let events =
        [(c, asked("system", "reset")), (b, asked("system", "pass")), (a, asked("system", "pass"))];
    let answers = store.apply_each(&events, None, NOON).unwrap();
    let taken: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, true, false], "they are answered in the order of their tasks");
    assert_eq!(stands(&store, c), ("open".to_owned(), 0, true));
    let missing = [(a, asked("system", "reset")), (TaskId(9_999), asked("system", "pass"))];
    assert!(store.apply_each(&missing, None, NOON).is_err());
    assert_eq!(stands(&store, a).0, "passed", "half of what could not be done was done");
}

fn a_queue_that_waits_for_no_worker_goes_on_by_itself(world: &World) {
    let store = world.open();
    let mut by_hand = child("by hand", Some(0), &[1]);
    by_hand.add.new.fields.insert("by_hand".to_owned(), true.into());
    let children = [child("parent", None, &[]), child("a", Some(0), &[]), by_hand];
    let added = store.add_children(&children, NOON).unwrap();
    let (a, by_hand) = (added[1].stored.task.id, added[2].stored.task.id);
    assert_eq!(stands(&store, by_hand), ("open".to_owned(), 1, false));
    ask(&store, a, "pass");
    assert_eq!(stands(&store, by_hand), ("at_hand".to_owned(), 0, false));
    let last = store.history(by_hand, 1).unwrap();
    assert_eq!(last.last().map(|entry| entry.record.trigger.as_str()), Some("lay_out"));
}

/// Such a build called the person who drives a workflow `hand`.
fn a_step_of_a_former_build_keeps_its_driver(world: &World) {
    let store = world.open();
    let source = include_str!("../../../../core/tests/legacy/step.yaml");
    let lifecycle = read_again(source, "step", &Overrides::new()).expect("it reads");
    let definition = Definition {
        lifecycle: Arc::new(lifecycle),
        source: source.to_owned(),
        overrides: Overrides::new(),
    };
    for (driver, is_driven_by_person) in [("hand", true), ("engine", false)] {
        let mut add = Add { definition: definition.clone(), ..load(driver) };
        let spec = json!({ "id": "a", "name": "A" });
        let fields = json!({ "workflow": "w", "step": "a", "spec": spec, "driver": driver });
        add.new.fields = serde_json::from_value(fields).expect("an object");
        let id = added(&store, add).stored.task.id;
        let stored = store.task(id).expect("readable");
        assert_eq!(stored.is_driven_by_person(), is_driven_by_person, "{driver}");
    }
}

/// Two nodes that continue one panel or one plan.
fn those_who_add_the_same_children_at_once_get_the_same_ones(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..10 {
        let keyed = |name: &str, parent| {
            let mut child = child(name, parent, &[]);
            child.add.key = Some(IdempotencyKey::new(&format!("{round}-{name}"), name));
            child
        };
        let children = [keyed("parent", None), keyed("a", Some(0)), keyed("b", Some(0))];
        let added = at_once(4, |thread| {
            let added = handles[thread % 2].add_children(&children, NOON).expect("they are added");
            added.iter().map(|applied| applied.stored.task.id).collect::<Vec<_>>()
        });
        assert!(added.iter().all(|ids| *ids == added[0]), "round {round}: {added:?}");
    }
}

fn each_of_several_has_a_batch_of_its_own(world: &World) {
    let flow = |name: &str, key: &str| {
        let mut head = child(name, None, &[]);
        head.add.new.batch = Some(name.to_owned());
        head.add.key = Some(IdempotencyKey::new(key, key));
        head.own_batch = Some(3);
        vec![head, child("a step", Some(0), &[])]
    };
    let start = |store: &Store, children: &[NewChild]| {
        let added = store.add_children(children, NOON).expect("they are added");
        let batches: Vec<String> =
            added.iter().map(|applied| applied.stored.task.batch.clone().expect("one")).collect();
        assert_eq!(batches[0], batches[1], "a step is in the batch of its workflow");
        batches[0].clone()
    };
    let handles = [world.open(), world.open()];
    let mut names =
        at_once(4, |thread| start(&handles[thread % 2], &flow("lift", &format!("k{thread}"))));
    names.sort();
    assert_eq!(names, ["lift", "lift-2", "lift-3", "lift-4"]);
    let [store, _] = handles;
    assert_eq!(
        store.batch("lift-4").unwrap().map(|batch| (batch.concurrency, batch.tasks)),
        Some((3, 2))
    );
    // Started together, where the number of one is the name of the other.
    let mut both = flow("lift", "one");
    both.truncate(1);
    let mut other = flow("lift-5", "other");
    other.truncate(1);
    both.extend(other);
    let added = store.add_children(&both, NOON).unwrap();
    let batches: Vec<_> =
        added.iter().map(|applied| applied.stored.task.batch.as_deref()).collect();
    assert_eq!(batches, [Some("lift-5"), Some("lift-5-2")]);
    let count = store.batches().unwrap().len();
    assert!(store.add_children(&both, NOON).unwrap().iter().all(|applied| applied.replayed));
    assert_eq!(store.batches().unwrap().len(), count, "the same request makes no other batch");
}

fn workflows_are_found_behind_any_number_of_other_parents(world: &World) {
    let store = world.open();
    let of = |purpose: &str, project: &str, parent| {
        let mut child = child(purpose, parent, &[]);
        let source = LIFECYCLE.replace("purpose: task", &format!("purpose: {purpose}"));
        let lifecycle = read_again(&source, purpose, &Overrides::new()).expect("it reads");
        child.add.definition =
            Definition { lifecycle: Arc::new(lifecycle), source, overrides: Overrides::new() };
        child.add.new.project = project.to_owned();
        child
    };
    let start = |parent: &str, project: &str, child: &str| {
        let both = [of(parent, project, None), of(child, project, Some(0))];
        let added = store.add_children(&both, NOON).expect("they are added");
        [0, 1].map(|at: usize| added[at].stored.task.id)
    };
    let (own, elsewhere) = (start("workflow", "site", "step"), start("workflow", "dock", "step"));
    let ended = start("workflow", "site", "step");
    let others: Vec<_> = (0..3).map(|_| start("task", "site", "review")).collect();
    for [_, child] in others.iter().chain([&own]) {
        ask(&store, *child, "lay_out");
    }
    store.apply(ended[0], asked("human", "drop"), None, NOON).expect("it is dropped");
    let ids =
        |found: Vec<Stored>| -> Vec<TaskId> { found.iter().map(|stored| stored.task.id).collect() };
    let of = |project, at_most| ids(store.workflows(project, at_most).expect("they are read"));
    assert_eq!(of(Some("site"), 1), [own[0]], "those under way come first");
    assert_eq!(of(Some("site"), 9), [own[0], ended[0]]);
    assert_eq!(of(None, 9), [elsewhere[0], own[0], ended[0]]);
    assert_eq!(ids(store.waiting_steps(1).expect("they are read")), [own[1]]);
}
