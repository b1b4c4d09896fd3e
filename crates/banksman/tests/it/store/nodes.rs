//! Nodes: what each says about itself.

use std::collections::BTreeSet;

use banksman::ops::library::Library;
use banksman::ops::tasks::{self, AddRequest, MoveRequest};
use banksman::store::Node;
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::Event;
use banksman_core::schedule::Worker;
use banksman_core::time::{AwakeTime, Instant, Span};

use super::acts::{
    DAY, HOUR, MINUTE, NOON, TTL, actor, add, apply, dispatch, fields, finish, node, session,
    state, worker,
};
use super::on_both;
use super::world::World;

on_both!(
    a_node_is_what_it_last_said,
    people_write_by_the_clock_of_the_store,
    time_in_which_a_machine_slept_is_given_back_to_its_work,
    time_that_was_given_back_is_not_taken_again,
    what_was_said_lately_is_not_written_again
);

fn a_node_is_what_it_last_said(world: &World) {
    let store = world.open();
    let capable = Worker {
        capabilities: BTreeSet::from(["größe".to_owned(), "docs".to_owned()]),
        roles: BTreeSet::from(["worker".to_owned()]),
        ..worker("ada")
    };
    store.put_node(&node("n2", &[])).unwrap();
    store.put_node(&node("n1", &[])).unwrap();
    let last = Node { capacity: 7, seen_at: NOON.plus(MINUTE), ..node("n1", &[capable]) };
    store.put_node(&last).unwrap();
    assert_eq!(world.open().nodes().unwrap(), [last, node("n2", &[])]);
}

/// The bounds and delays that begin with a person's word are kept by the store's clock, so they
/// have to begin by it.
fn people_write_by_the_clock_of_the_store(world: &World) {
    let store = world.open();
    // On PostgreSQL this clock is years behind; on SQLite it is the only one.
    let request = AddRequest {
        new: banksman_core::machine::NewTask {
            title: "lift".to_owned(),
            project: "site".to_owned(),
            ..Default::default()
        },
        lifecycle: "autonomous".to_owned(),
        ..AddRequest::default()
    };
    let before = store.now(NOON).unwrap();
    let kim = actor("human:kim");
    let added = tasks::add(&session(&store, &kim), &Library::default(), &request, NOON).unwrap();
    let cancel = MoveRequest {
        to: Some("cancelled".to_owned()),
        fields: fields(&[("reason", "rain")]),
        ..MoveRequest::default()
    };
    let id = added.stored.task.id;
    let moved = tasks::move_task(&session(&store, &kim), id, &cancel, NOON).unwrap();
    let after = store.now(NOON).unwrap();
    let times = [added.stored.task.created_at, moved.stored.task.entered_at];
    assert!(times.iter().all(|at| (before..=after).contains(at)), "{before} {times:?} {after}");
}

fn what_was_said_lately_is_not_written_again(world: &World) {
    let store = world.open();
    let said = |after: i64, capacity: u32| {
        let node = Node { capacity, seen_at: NOON.plus(Span(after)), ..node("n1", &[]) };
        store.put_node(&node).unwrap();
        store.nodes().unwrap()[0].seen_at.since(NOON)
    };
    assert_eq!(said(0, 1), Span(0));
    assert_eq!(said(19_999, 1), Span(0));
    assert_eq!(said(20_000, 1), Span(20_000));
    assert_eq!(said(20_001, 2), Span(20_001), "it has changed");
    assert_eq!(said(5_000, 2), Span(5_000), "its clock was put back");
}

fn time_in_which_a_machine_slept_is_given_back_to_its_work(world: &World) {
    let store = world.open();
    let awake = |boot: &str, millis| Some(AwakeTime { boot: boot.to_owned(), time: Span(millis) });
    let says = |name: &str, seen_at: Instant, awake| {
        let said = Node { seen_at, awake, ..node(name, &[worker("ada")]) };
        store.put_node(&said).unwrap();
        said
    };
    let [sleeper, other] = ["n1", "n2"].map(|name| says(name, NOON, awake("b1", 0)));
    let [slept, went_on] = [&sleeper, &other].map(|node| {
        add(&store, &node.name);
        dispatch(&store, node, NOON).claimed.expect("it is ready").run.task
    });
    let times = |id| {
        let lease = store.task(id).unwrap().task.lease.expect("it is at work");
        let timeouts = store.timers_of(id).unwrap();
        (lease.expires_at.since(NOON), timeouts.first().expect("work has a limit").due.since(NOON))
    };
    let (lease, timeout) = times(slept);
    assert_eq!(lease, TTL);
    // Of two hours and a minute, the first machine was awake for the minute.
    let later = NOON.plus(HOUR).plus(HOUR).plus(MINUTE);
    says("n1", later, awake("b1", MINUTE.0));
    says("n2", later, awake("b1", later.since(NOON).0));
    let two_hours = |span: Span| Span(span.0 + 2 * HOUR.0);
    assert_eq!(times(slept), (two_hours(lease), two_hours(timeout)));
    assert_eq!(times(went_on), (lease, timeout));
    assert_eq!(state(&store, slept), state(&store, went_on));
    assert_eq!(store.check().unwrap().findings, []);
    // What was started again has no gap, and neither has one that says the same again.
    says("n1", later.plus(HOUR), awake("b2", 0));
    says("n1", later.plus(HOUR), awake("b2", 0));
    assert_eq!(times(slept), (two_hours(lease), two_hours(timeout)));
}

fn time_that_was_given_back_is_not_taken_again(world: &World) {
    let store = world.open();
    let says = |seen_at: Instant, awake: Span| {
        let awake = Some(AwakeTime { boot: "b1".to_owned(), time: awake });
        let said = Node { seen_at, awake, ..node("n1", &[worker("ada")]) };
        store.put_node(&said).unwrap();
        said
    };
    let sleeper = says(NOON, Span(0));
    let work = |title: &str, at: Instant| {
        add(&store, title);
        dispatch(&store, &sleeper, at).claimed.expect("it is ready").run
    };
    let dues = |id| -> BTreeSet<Span> {
        store.timers_of(id).unwrap().iter().map(|timer| timer.due.since(NOON)).collect()
    };
    let (slept, after) = (work("slept", NOON), NOON.plus(DAY));
    let begun_since = work("begun since", after).task;
    let as_begun = dues(begun_since);
    says(after, MINUTE);
    assert_eq!(dues(begun_since), as_begun, "it began after the machine woke");
    // A run that fails plans the timers of the same stay anew.
    let crashed = Event::Finished(finish(slept.epoch, Outcome::Crashed));
    apply(&store, slept.task, crashed, after);
    assert_eq!(dues(slept.task), BTreeSet::from([Span(2 * DAY.0 - MINUTE.0)]));
    assert_eq!(store.fire_due(after.plus(MINUTE), 10).unwrap().results, []);
    // Somebody puts the clock back.
    let again = dispatch(&store, &sleeper, after).claimed.expect("it goes again").run;
    assert_eq!(again.task, slept.task);
    says(NOON.plus(HOUR), Span(2 * MINUTE.0));
    let back = Span(DAY.0 - HOUR.0 + MINUTE.0);
    assert!(dues(slept.task).contains(&Span(2 * DAY.0 - MINUTE.0 - back.0)));
}
