//! Moving: an accepted move is written with its record, a refused one changes nothing, and a
//! version has one successor.

use banksman::store::{HistoryEntry, Store};
use banksman_core::ids::TaskId;
use banksman_core::machine::{Event, RejectReason, Task, TransitionRequest};
use serde_json::json;

use super::acts::{
    DAY, HOUR, MINUTE, NOON, add, apply, ask, at_once, refused, refused_because, state, to_asking,
    to_checking,
};
use super::on_both;
use super::world::World;

on_both!(
    a_move_is_written_with_its_record,
    a_refused_move_changes_nothing,
    a_move_decided_on_an_old_version_is_refused,
    a_version_has_one_successor,
    moves_of_many_writers_are_one_history,
    a_held_task_goes_back_to_where_it_was,
    a_counter_that_is_full_leads_elsewhere,
);

fn a_move_is_written_with_its_record(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let later = NOON.plus(HOUR);
    let moved = apply(&store, id, ask("human:kim", "cancelled", &[("reason", "rain")]), later);
    let read = world.open().task(id).unwrap();
    assert_eq!(read.task, moved.stored.task);
    assert_eq!((read.task.version, read.task.entered), (2, 2));
    assert_eq!((read.task.entered_at, read.task.created_at), (later, NOON));
    assert_eq!(read.task.fields["reason"], "rain");
    let entry = moved.entry.expect("a move leaves a record");
    let history = store.history(id, 0).unwrap();
    assert_eq!(history[1], entry);
    assert_eq!(history[1].prev, history[0].hash);
    assert_eq!((entry.seq, entry.ts, entry.key), (2, later, None));
    assert_eq!(
        (entry.record.from.as_deref(), entry.record.to.as_str()),
        (Some("queued"), "cancelled")
    );
    assert_eq!(entry.record.trigger, "cancel");
    assert_eq!(json!(entry.record.fields), json!({ "reason": "rain" }));
    assert!(!moved.replayed);
}

/// All that a refusal must leave as it was.
fn picture(world: &World, store: &Store, id: TaskId) -> (Task, Vec<HistoryEntry>, Vec<i64>) {
    let mut raw = world.raw();
    let tables = ["audit", "timers", "outbox", "keys", "runs", "decisions", "artifacts"];
    let counts = tables.map(|table| raw.number(&format!("SELECT count(*) FROM {table}")));
    (store.task(id).unwrap().task, store.history(id, 0).unwrap(), counts.to_vec())
}

fn a_refused_move_changes_nothing(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let before = picture(world, &store, id);
    let later = NOON.plus(MINUTE);
    let try_it = |event: Event, why: RejectReason, field: &str| {
        let rejected = refused(store.apply(id, event, super::acts::key("k", "r"), later));
        assert_eq!((rejected.why, rejected.errors[0].field.as_str()), (why, field), "{rejected}");
        rejected.allowed
    };
    let forbidden = try_it(ask("worker:w1", "done", &[]), RejectReason::Forbidden, "actor");
    assert_eq!(forbidden, [""; 0]);
    let unmet = try_it(ask("human:kim", "lifting", &[]), RejectReason::Invalid, "feedback");
    assert_eq!(unmet, ["done", "cancelled"]);
    try_it(ask("human:kim", "cancelled", &[("reason", " ")]), RejectReason::Invalid, "reason");
    try_it(ask("human:kim", "queued", &[]), RejectReason::Invalid, "to");
    try_it(ask("human:kim", "done", &[("colour", "red")]), RejectReason::Invalid, "colour");
    assert_eq!(picture(world, &store, id), before);
    let nobody = store.apply(TaskId(4711), ask("human:kim", "done", &[]), None, later);
    let error = nobody.expect_err("there is no such task");
    assert_eq!(error.to_string(), "there is no task t4711");
}

fn at_version(version: i64, to: &str) -> Event {
    match ask("human:kim", to, &[]) {
        Event::Asked(ask) => Event::Asked(TransitionRequest { version: Some(version), ..ask }),
        other => other,
    }
}

fn a_move_decided_on_an_old_version_is_refused(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    apply(&store, id, at_version(1, "parked"), NOON);
    refused_because(
        store.apply(id, at_version(1, "queued"), None, NOON),
        RejectReason::StaleVersion,
    );
    refused_because(
        store.apply(id, at_version(3, "queued"), None, NOON),
        RejectReason::StaleVersion,
    );
    apply(&store, id, at_version(2, "queued"), NOON);
    assert_eq!(store.task(id).unwrap().task.version, 3);
}

fn a_version_has_one_successor(world: &World) {
    let handles = [world.open(), world.open()];
    let id = add(&handles[0], "lift");
    for round in 1..=40 {
        let to = if round % 2 == 1 { "parked" } else { "queued" };
        let answers =
            at_once(4, |thread| handles[thread % 2].apply(id, at_version(round, to), None, NOON));
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "round {round}");
        lost.into_iter().for_each(|answer| refused_because(answer, RejectReason::StaleVersion));
    }
    assert_eq!(handles[0].history(id, 0).unwrap().len(), 41);
}

fn moves_of_many_writers_are_one_history(world: &World) {
    let handles = [world.open(), world.open()];
    let id = add(&handles[0], "lift");
    let accepted: usize = at_once(8, |thread| {
        let store = &handles[thread % 2];
        let to = ["parked", "queued"][thread % 2];
        (0..20).filter(|_| store.apply(id, ask("human:kim", to, &[]), None, NOON).is_ok()).count()
    })
    .into_iter()
    .sum();
    let history = handles[1].history(id, 0).unwrap();
    assert_eq!(history.len(), accepted + 1);
    assert!(accepted > 0);
    for pair in history.windows(2) {
        assert_eq!(pair[1].record.from.as_ref(), Some(&pair[0].record.to));
    }
}

fn a_held_task_goes_back_to_where_it_was(world: &World) {
    let store = world.open();
    let id = to_checking(&store, "lift");
    let at = |hours: i64| NOON.plus(banksman_core::time::Span(hours * HOUR.0));
    // Nobody checks it, so the bound leads away.
    assert_eq!(store.fire_due(at(2), 10).unwrap().results.len(), 1);
    let held = store.task(id).unwrap();
    assert_eq!(state(&store, id), "held");
    assert_eq!(held.task.prior, held.lifecycle.find_state("checking"));
    apply(&store, id, ask("human:kim", "[prior]", &[]), at(3));
    let back = world.open().task(id).unwrap().task;
    assert_eq!((state(&store, id).as_str(), back.prior), ("checking", None));
    assert_eq!(back.fields.get("waits_for"), None);
}

fn a_counter_that_is_full_leads_elsewhere(world: &World) {
    let store = world.open();
    let id = to_checking(&store, "lift");
    apply(&store, id, ask("crane:c1", "lifting", &[]), NOON);
    assert_eq!(state(&store, id), "lifting");
    apply(&store, id, ask("worker:w1", "checking", &[]), NOON.plus(MINUTE));
    apply(&store, id, ask("crane:c1", "lifting", &[]), NOON.plus(MINUTE));
    assert_eq!(state(&store, id), "held");
    apply(&store, id, ask("human:kim", "checking", &[]), NOON.plus(DAY));
    let task = store.task(id).unwrap().task;
    let counts: Vec<_> = task.counters.iter().map(|count| (count.total, count.reset_at)).collect();
    assert_eq!(counts, [(1, 0), (2, 2)]);
}
