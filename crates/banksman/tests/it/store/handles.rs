//! Several handles on one store, as several processes have them: they see each other, and wake each
//! other.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use banksman::store::conn::Waited;
use banksman::store::{Add, Claimed, Definition, Store};
use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::machine::NewTask;

use super::acts::{
    CRANE, DAY, NOON, add, added, apply, ask, at_once, claim, claim_first, load, load_after, state,
};
use super::on_both;
use super::world::World;

on_both!(
    handles_see_what_others_wrote,
    a_lifecycle_that_one_handle_brought_is_read_by_others,
    settings_are_read_back_to_the_last_bit,
    clones_share_a_store,
    an_add_wakes_those_who_wait_for_work,
    the_end_of_a_need_wakes_those_who_wait_for_work,
    the_end_of_a_delay_wakes_those_who_wait_for_work,
    a_move_wakes_those_who_watch,
);

/// Long enough that no slow machine reaches it; a test that does reach it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn handles_see_what_others_wrote(world: &World) {
    let (first, second) = (world.open(), world.open());
    let a = add(&first, "a");
    assert_eq!(second.task(a).unwrap().task.title, "a");
    let b = add(&second, "b");
    assert!(b > a);
    apply(&second, a, ask("human:kim", "parked", &[]), NOON);
    assert_eq!(state(&first, a), "parked");
    assert_eq!(claim(&first, "worker:w1", NOON).expect("b is ready").run.task, b);
    assert!(claim(&second, "worker:w2", NOON).is_none());
    let digests = [first, second].map(|store| store.verify_history().unwrap().digest);
    assert_eq!(digests[0], digests[1]);
}

fn a_lifecycle_that_one_handle_brought_is_read_by_others(world: &World) {
    let (first, second) = (world.open(), world.open());
    let id = added(&first, Add { definition: CRANE.clone(), ..load("crane") }).stored.task.id;
    let read = second.task(id).unwrap();
    assert_eq!(read.lifecycle.version, CRANE.lifecycle.version);
    assert_eq!(read.lifecycle.id, "crane-only");
    added(&second, Add { definition: CRANE.clone(), ..load("another") });
    assert_eq!(world.raw().number("SELECT count(*) FROM lifecycles"), 1);
    let crowd = [world.open(), world.open()];
    at_once(4, |thread| added(&crowd[thread % 2], load("a new lifecycle, four times at once")));
    assert_eq!(world.raw().number("SELECT count(*) FROM lifecycles"), 2);
}

/// A version is a hash over its settings too, so a setting that came back a little different would
/// be another lifecycle.
fn settings_are_read_back_to_the_last_bit(world: &World) {
    let settings = "settings:\n  share: 0.5\n  careful: false\n  crew: day";
    let reads = "  - from: parked\n    to: queued\n    on: wake\n    by: [human]\n    guards: \
                 [{ field: weight, that: weight > share or careful or feedback == crew }]\n";
    let source = include_str!("harness.yaml").replace("settings:", settings);
    let source = source + reads;
    let numbers = [0.1 + 0.2, 1e300, -0.0, 1.0 / 3.0, 9_007_199_254_740_993.0, 5e-324];
    let store = world.open();
    for number in numbers {
        let overrides = Overrides::from([
            ("share".to_owned(), Setting::Number(number)),
            ("careful".to_owned(), Setting::Flag(true)),
            ("crew".to_owned(), Setting::Text("größe 'night'".to_owned())),
            ("hold_time".to_owned(), Setting::Time(DAY)),
        ]);
        let lifecycle = check(&source, "a test", &overrides).unwrap_or_else(|e| panic!("{e}"));
        let own = Definition { lifecycle: Arc::new(lifecycle), source: source.clone(), overrides };
        let id = added(&store, Add { definition: own.clone(), ..load("lift") }).stored.task.id;
        let read = world.open().task(id).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(read.lifecycle.version, own.lifecycle.version);
        assert_eq!(read.lifecycle.settings, own.lifecycle.settings);
    }
}

fn clones_share_a_store(world: &World) {
    let store = world.open();
    let ids = at_once(8, |thread| add(&store.clone(), &thread.to_string()));
    drop(store.clone());
    assert_eq!(ids.len(), 8);
    assert_eq!(store.overview().unwrap().ready, 8);
}

/// One handle looks until there is something, waiting in between as a worker does; the other makes
/// the change once the first has looked in vain. Whoever is not woken has failed.
fn woken_by<T: Send>(
    world: &World,
    ready: impl Fn(&Store) -> Option<T> + Sync,
    make: impl Fn(&Store) + Sync,
) {
    let (waiter, maker) = (world.open(), world.open());
    // The first wait of a handle comes back by itself; what follows rests on hints.
    assert_eq!(waiter.wait(waiter.mark(), PATIENCE), Waited::Notified);
    let looked = Barrier::new(2);
    at_once(2, |thread| {
        if thread == 1 {
            looked.wait();
            make(&maker);
            return;
        }
        let mut mark = waiter.mark();
        assert!(ready(&waiter).is_none());
        looked.wait();
        while ready(&waiter).is_none() {
            assert_eq!(
                waiter.wait(mark, PATIENCE),
                Waited::Notified,
                "nobody said that something has changed"
            );
            mark = waiter.mark();
        }
    });
}

fn work(store: &Store) -> Option<Claimed> {
    claim(store, "worker:w1", NOON)
}

fn an_add_wakes_those_who_wait_for_work(world: &World) {
    woken_by(world, work, |store| {
        add(store, "work");
    });
}

fn the_end_of_a_need_wakes_those_who_wait_for_work(world: &World) {
    let store = world.open();
    let needed = add(&store, "needed");
    claim_first(&store, needed, NOON);
    apply(&store, needed, ask("worker:w1", "checking", &[("pr_url", "x")]), NOON);
    apply(&store, needed, ask("crane:c1", "asking", &[]), NOON);
    added(&store, load_after("waiting", &[needed]));
    woken_by(world, work, |store| {
        apply(store, needed, ask("human:kim", "done", &[]), NOON);
    });
}

fn the_end_of_a_delay_wakes_those_who_wait_for_work(world: &World) {
    let store = world.open();
    let new = NewTask { not_before: Some(NOON.plus(DAY)), ..load("delayed").new };
    added(&store, Add { new, ..load("delayed") });
    woken_by(world, work, |store| {
        store.fire_due(NOON.plus(DAY), 10).unwrap();
    });
}

fn a_move_wakes_those_who_watch(world: &World) {
    let id = add(&world.open(), "lift");
    let parked = |store: &Store| (state(store, id) == "parked").then_some(());
    woken_by(world, parked, |store| {
        apply(store, id, ask("human:kim", "parked", &[]), NOON);
    });
}
