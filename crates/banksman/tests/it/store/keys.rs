//! Idempotency: the same request twice is done once and answered alike, whoever else is asking at
//! the same time.

use banksman::ops::OpsError;
use banksman::ops::library::Library;
use banksman::ops::tasks::{self, AddRequest, MoveRequest};
use banksman::store::{Add, Applied, HistoryEntry, StoreError};
use banksman_core::machine::{Lease, Task};
use banksman_core::time::Instant;

use super::acts::{
    DAY, HOUR, MINUTE, NOON, actor, add, added, apply, ask, at_once, claim_first, key, load,
    load_keyed, refused, session, to_asking,
};
use super::on_both;
use super::world::World;

on_both!(
    the_same_add_twice_is_one_task,
    the_same_move_twice_is_one_move,
    the_answer_shows_the_task_as_it_was,
    a_key_belongs_to_one_request,
    a_refused_request_does_not_use_its_key_up,
    adds_that_race_with_one_key_are_one_task,
    moves_that_race_with_one_key_are_one_move,
    a_key_is_not_used_for_two_tasks_at_once,
    keys_hold_through_the_use_cases,
);

/// All of an answer that the history holds. Delays, open needs and the time of a lease are not part
/// of it.
fn told(answer: &Applied) -> (Task, Option<HistoryEntry>) {
    let task = answer.stored.task.clone();
    let lease = task.lease.as_ref().map(|lease| Lease { expires_at: Instant(0), ..lease.clone() });
    let progress_at = Instant(0);
    (Task { lease, progress_at, not_before: None, open_needs: 0, ..task }, answer.entry.clone())
}

fn the_same_add_twice_is_one_task(world: &World) {
    let store = world.open();
    let mut request = load_keyed("lift", "k1");
    request.new.not_before = Some(NOON.plus(DAY));
    let first = added(&store, request.clone());
    let again = world.open().add(request, NOON.plus(HOUR)).expect("the first answer");
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(told(&again), told(&first));
    assert_eq!(again.stored.task.body, "the body of lift");
    let entry = first.entry.expect("a record");
    assert_eq!(entry.key.as_deref(), Some("k1"));
    assert_eq!(world.raw().number("SELECT count(*) FROM tasks"), 1);
}

fn the_same_move_twice_is_one_move(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let event = || ask("human:kim", "done", &[]);
    let first = store.apply(id, event(), key("k1", "done"), NOON).unwrap();
    let again = world.open().apply(id, event(), key("k1", "done"), NOON.plus(HOUR)).unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(told(&again), told(&first));
    assert_eq!(store.history(id, 0).unwrap().len(), 5);
    assert_eq!(world.raw().number("SELECT count(*) FROM outbox WHERE seq = 5"), 1);
    assert_eq!(world.raw().number("SELECT count(*) FROM notices WHERE kind = 'state'"), 1);
}

fn the_answer_shows_the_task_as_it_was(world: &World) {
    let store = world.open();
    let request = load_keyed("lift", "k1");
    let first = added(&store, request.clone());
    let id = first.stored.task.id;
    let epoch = claim_first(&store, id, NOON);
    let event = || ask("worker:w1", "checking", &[("pr_url", "https://forge/1")]);
    let moved = store.apply(id, event(), key("k2", "lifted"), NOON.plus(MINUTE)).unwrap();
    let later = NOON.plus(HOUR);
    apply(&store, id, ask("crane:c1", "lifting", &[("feedback", "higher")]), later);
    claim_first(&store, id, later);
    apply(&store, id, ask("human:kim", "held", &[("waits_for", "wind")]), later);
    apply(&store, id, ask("human:kim", "cancelled", &[("reason", "rain")]), later);
    assert_eq!(told(&store.add(request, later).unwrap()), told(&first));
    let replayed = store.apply(id, event(), key("k2", "lifted"), later).unwrap();
    assert_eq!(told(&replayed), told(&moved));
    assert_eq!((replayed.stored.task.version, replayed.stored.task.epoch), (3, epoch));
    assert_eq!(store.task(id).unwrap().task.version, 7);
}

fn taken(result: Result<Applied, StoreError>, text: &str) {
    match result {
        Err(StoreError::KeyTaken { key }) => assert_eq!(key, text),
        other => panic!("expected a key that is taken, got {other:?}"),
    }
}

fn a_key_belongs_to_one_request(world: &World) {
    let store = world.open();
    let id = added(&store, load_keyed("lift", "k1")).stored.task.id;
    let parked = store.apply(id, ask("human:kim", "parked", &[]), key("k2", "park"), NOON);
    parked.expect("the task is parked");
    let before = store.task(id).unwrap().task;
    taken(store.add(load_keyed("another", "k1"), NOON), "k1");
    taken(store.add(load_keyed("another", "k2"), NOON), "k2");
    taken(store.apply(id, ask("human:kim", "queued", &[]), key("k2", "unpark"), NOON), "k2");
    taken(store.apply(id, ask("human:kim", "queued", &[]), key("k1", "unpark"), NOON), "k1");
    assert_eq!(store.task(id).unwrap().task, before);
    assert_eq!(world.raw().number("SELECT count(*) FROM tasks"), 1);
}

fn a_refused_request_does_not_use_its_key_up(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    refused(store.apply(id, ask("human:kim", "cancelled", &[]), key("k1", "cancel"), NOON));
    refused(store.add(Add { key: key("k2", ""), ..load("") }, NOON));
    assert_eq!(world.raw().number("SELECT count(*) FROM keys"), 0);
    let event = ask("human:kim", "cancelled", &[("reason", "rain")]);
    let cancelled = store.apply(id, event, key("k1", "cancel, and say why"), NOON).unwrap();
    assert!(!cancelled.replayed);
}

fn adds_that_race_with_one_key_are_one_task(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..25 {
        let text = format!("k{round}");
        let answers = at_once(4, |thread| {
            let answer = handles[thread % 2].add(load_keyed("lift", &text), NOON);
            answer.unwrap_or_else(|error| panic!("round {round}: {error:?}"))
        });
        let fresh = answers.iter().filter(|answer| !answer.replayed).count();
        assert_eq!(fresh, 1, "round {round}");
        assert!(answers.iter().all(|answer| told(answer) == told(&answers[0])), "{answers:#?}");
    }
    assert_eq!(world.raw().number("SELECT count(*) FROM tasks"), 25);
}

fn moves_that_race_with_one_key_are_one_move(world: &World) {
    let handles = [world.open(), world.open()];
    let id = add(&handles[0], "lift");
    for round in 0..40 {
        let text = format!("k{round}");
        let to = if round % 2 == 0 { "parked" } else { "queued" };
        let answers = at_once(4, |thread| {
            let event = ask("human:kim", to, &[]);
            let answer = handles[thread % 2].apply(id, event, key(&text, to), NOON);
            answer.unwrap_or_else(|error| panic!("round {round}: {error:?}"))
        });
        let fresh = answers.iter().filter(|answer| !answer.replayed).count();
        assert_eq!(fresh, 1, "round {round}");
        assert!(answers.iter().all(|answer| told(answer) == told(&answers[0])), "{answers:#?}");
        assert_eq!(answers[0].stored.task.version, round + 2);
    }
}

fn a_key_is_not_used_for_two_tasks_at_once(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..25 {
        let text = format!("k{round}");
        let ids = [add(&handles[0], "a"), add(&handles[0], "b")];
        let answers = at_once(2, |thread| {
            let request = key(&text, &ids[thread].to_string());
            handles[thread].apply(ids[thread], ask("human:kim", "done", &[]), request, NOON)
        });
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 1), "round {round}");
        lost.into_iter().for_each(|answer| taken(answer, &text));
        let done = ids.iter().filter(|id| super::acts::state(&handles[0], **id) == "done").count();
        assert_eq!(done, 1, "round {round}");
    }
}

fn keys_hold_through_the_use_cases(world: &World) {
    let store = world.open();
    let library = Library::default();
    let kim = actor("human:kim");
    let asked = |title: &str, text: &str| AddRequest {
        new: banksman_core::machine::NewTask {
            title: title.to_owned(),
            project: "site".to_owned(),
            ..Default::default()
        },
        lifecycle: "autonomous".to_owned(),
        key: Some(text.to_owned()),
        ..AddRequest::default()
    };
    let new = |title: &str, text: &str| {
        tasks::add(&session(&store, &kim), &library, &asked(title, text), NOON)
            .map(|applied| applied.stored.task.id)
    };
    let (a, b) = (new("a", "k1").unwrap(), new("b", "k2").unwrap());
    assert_eq!(new("a", "k1").unwrap(), a);
    let cancel = |reason: &str| MoveRequest {
        to: Some("cancelled".to_owned()),
        fields: super::acts::fields(&[("reason", reason)]),
        key: Some("k3".to_owned()),
        ..MoveRequest::default()
    };
    let moved =
        |id, reason: &str| tasks::move_task(&session(&store, &kim), id, &cancel(reason), NOON);
    assert!(!moved(a, "rain").unwrap().replayed);
    assert!(moved(a, "rain").unwrap().replayed);
    for (id, reason) in [(b, "rain"), (a, "snow")] {
        let error = moved(id, reason).expect_err("the key is taken");
        assert!(matches!(error, OpsError::Store(StoreError::KeyTaken { .. })), "{error:?}");
    }
    assert_eq!(super::acts::state(&store, b), "pending");
}
