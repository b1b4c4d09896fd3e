//! The grace period of answers: until it is over, an answer can be taken back, whatever it is;
//! then it is applied once, or it has lapsed on record.

use banksman::ops::OpsError;
use banksman::ops::decisions::{
    AnswerRequest, DecisionError, DecisionRef, UNDO_WINDOW, answer, undo,
};
use banksman::store::{Store, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};

use super::acts::{DAY, MINUTE, NOON, actor, apply, ask, fields, key, session, state, to_asking};
use super::world::World;
use super::{on_both, on_both_damaging};

on_both!(
    every_answer_can_be_taken_back_until_it_takes_effect,
    a_second_answer_is_refused_meanwhile,
    an_answer_lapses_on_record_if_the_task_moves_on,
    a_waiting_answer_keeps_its_key,
);

on_both_damaging!(
    an_answer_whose_key_was_used_lapses_on_record,
    an_answer_that_cannot_be_read_is_put_off,
);

const GRACE: Span = Span(10_000);

fn later(word: &str, task: TaskId) -> AnswerRequest {
    AnswerRequest {
        which: DecisionRef::Task(task),
        word: word.to_owned(),
        note: (word == "no").then(|| "higher".to_owned()),
        fields: fields(&[]),
        seen: None,
        key: Some(format!("{word}-{task}")),
        grace: GRACE,
    }
}

fn give(store: &Store, who: &Actor, given: &AnswerRequest, at: Instant) -> Option<Instant> {
    answer(&session(store, who), given, at).expect("it is taken").takes_effect
}

/// One turn's part in it; returns how many were due.
fn turn(store: &Store, at: Instant) -> usize {
    let due = store.due_answers(at, 10).unwrap();
    due.iter().for_each(|(id, task)| store.take_effect(*id, *task, at).unwrap());
    due.len()
}

fn notes(store: &Store, task: TaskId, note: Note) -> usize {
    let entries = store.history(task, 0).unwrap();
    entries.iter().filter(|entry| entry.record.trigger == note.as_str()).count()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, OpsError>) -> DecisionError {
    match result {
        Err(OpsError::Decision(error)) => error,
        other => panic!("expected a refusal of the inbox, got {other:?}"),
    }
}

/// On a store whose clock the test can set.
#[test]
fn an_answer_takes_effect_when_its_grace_period_is_over() {
    let world = World::sqlite();
    let (id, due) = {
        let store = world.open();
        let id = to_asking(&store, "lift");
        let given = later("yes", id);
        let due = give(&store, &actor("human:kim"), &given, NOON).expect("later");
        assert_eq!(due, NOON.plus(GRACE));
        assert_eq!(give(&store, &actor("human:kim"), &given, NOON), Some(due), "the same key");
        assert_eq!((turn(&store, NOON), state(&store, id).as_str()), (0, "asking"));
        (id, due)
    };
    // Whoever is there at that time applies it, and nobody twice.
    let store = world.open();
    assert_eq!((turn(&store, due), turn(&store, due)), (1, 0));
    assert_eq!(state(&store, id), "done");
    let last = store.history(id, 0).unwrap().pop().expect("a record");
    assert_eq!((last.record.actor, last.key), (actor("human:kim"), Some(format!("yes-{id}"))));
    assert_eq!(store.last_decision(id).unwrap().expect("one").answer, None);
}

fn every_answer_can_be_taken_back_until_it_takes_effect(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let kim = actor("human:kim");
    for word in ["yes", "no", "yes"] {
        give(&store, &kim, &later(word, id), NOON);
        let by_robin = undo(&session(&store, &actor("human:robin")), None, UNDO_WINDOW, NOON);
        assert!(matches!(refusal(by_robin), DecisionError::NothingToUndo { .. }));
        undo(&session(&store, &kim), None, UNDO_WINDOW, NOON).unwrap();
        assert_eq!(turn(&store, NOON.plus(MINUTE)), 0, "{word}");
        assert_eq!(state(&store, id), "asking", "{word}");
        assert_eq!(store.last_decision(id).unwrap().expect("one").answer, None);
    }
    assert_eq!(notes(&store, id, Note::AnswerTakenBack), 3);
}

fn a_second_answer_is_refused_meanwhile(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let due = give(&store, &actor("human:kim"), &later("yes", id), NOON).expect("later");
    let robin = actor("human:robin");
    let second = refusal(answer(&session(&store, &robin), &later("no", id), NOON));
    assert!(matches!(second, DecisionError::Answered { .. }), "{second}");
    let at_once = AnswerRequest { grace: Span(0), ..later("no", id) };
    let second = refusal(answer(&session(&store, &robin), &at_once, NOON));
    assert!(matches!(second, DecisionError::Answered { .. }), "{second}");
    turn(&store, due);
    assert_eq!(state(&store, id), "done");
}

fn an_answer_lapses_on_record_if_the_task_moves_on(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let due = give(&store, &actor("human:kim"), &later("yes", id), NOON).expect("later");
    let cancel = ask("human:robin", "cancelled", &[("reason", "not today")]);
    apply(&store, id, cancel, NOON.plus(Span(1_000)));
    assert_eq!((turn(&store, due), turn(&store, due)), (1, 0));
    assert_eq!(
        (state(&store, id).as_str(), notes(&store, id, Note::AnswerLapsed)),
        ("cancelled", 1)
    );
}

/// On a store whose clock the test can set.
#[test]
fn an_answer_that_is_given_in_time_is_not_overtaken_by_the_deadline() {
    let world = World::sqlite();
    let store = world.open();
    let id = to_asking(&store, "lift");
    let deadline = NOON.plus(Span(7 * DAY.0));
    let due = give(&store, &actor("human:kim"), &later("yes", id), Instant(deadline.0 - 3));
    assert!(due.is_some_and(|due| due < deadline), "{due:?}");
    turn(&store, deadline);
    assert_eq!(state(&store, id), "done");
}

fn is_taken<T: std::fmt::Debug>(result: Result<T, OpsError>) -> bool {
    match result {
        Err(OpsError::Store(StoreError::KeyTaken { key })) => key == "k1",
        other => panic!("expected a refusal of the key, got {other:?}"),
    }
}

fn a_waiting_answer_keeps_its_key(world: &World) {
    let store = world.open();
    let kim = actor("human:kim");
    let keyed = |task| AnswerRequest { key: Some("k1".to_owned()), ..later("yes", task) };
    let [first, second] = ["first", "second"].map(|title| to_asking(&store, title));
    let due = give(&store, &kim, &keyed(first), NOON).expect("later");
    assert!(is_taken(answer(&session(&store, &kim), &keyed(second), NOON)));
    let moved = store.apply(second, ask("human:kim", "done", &[]), key("k1", "done"), NOON);
    assert!(is_taken(moved.map_err(OpsError::from)));
    // Who takes the answer back has the key again.
    undo(&session(&store, &kim), None, UNDO_WINDOW, NOON).unwrap();
    let due = give(&store, &kim, &keyed(second), NOON).expect("later").max(due);
    assert_eq!(turn(&store, due), 1);
    assert_eq!([state(&store, first), state(&store, second)], ["asking", "done"]);
    let again = answer(&session(&store, &kim), &keyed(second), due).expect("the same request");
    assert!(again.applied.replayed);
    assert!(is_taken(answer(&session(&store, &kim), &keyed(first), due)));
}

/// A former release did not keep it.
fn an_answer_whose_key_was_used_lapses_on_record(world: &World) {
    let store = world.open();
    let [asked, other] = ["asked", "other"].map(|title| to_asking(&store, title));
    let given = later("yes", asked);
    let due = give(&store, &actor("human:kim"), &given, NOON).expect("later");
    world.raw().run("DELETE FROM keys");
    let used = key(given.key.as_deref().expect("it has one"), "another request");
    store.apply(other, ask("human:kim", "done", &[]), used, NOON).unwrap();
    assert_eq!((turn(&store, due), turn(&store, due)), (1, 0));
    assert_eq!(
        (state(&store, asked).as_str(), notes(&store, asked, Note::AnswerLapsed)),
        ("asking", 1)
    );
    let anew = AnswerRequest { key: None, ..given };
    let due = give(&store, &actor("human:kim"), &anew, due).expect("it is open");
    turn(&store, due);
    assert_eq!(state(&store, asked), "done");
}

fn an_answer_that_cannot_be_read_is_put_off(world: &World) {
    let store = world.open();
    let [strange, nameless] = ["strange", "nameless"].map(|title| to_asking(&store, title));
    let dues = [strange, nameless]
        .map(|task| give(&store, &actor("human:kim"), &later("yes", task), NOON).expect("later"));
    let at = dues[1];
    world.raw().run(&format!("UPDATE decisions SET answer = '{{}}' WHERE task = {}", strange.0));
    world.raw().run(&format!(
        "UPDATE decisions SET answer = replace(answer, 'human:kim', ':') WHERE task = {}",
        nameless.0
    ));
    let due = store.due_answers(at, 10).unwrap();
    assert_eq!(due.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [strange, nameless]);
    for (id, task) in due {
        let error = store.take_effect(id, task, at).expect_err("it cannot be read");
        assert!(matches!(error, StoreError::Corrupt { task: of, .. } if of == task), "{error}");
        store.put_answer_off(id, at).unwrap();
    }
    assert_eq!(store.due_answers(at, 10).unwrap(), []);
    assert_eq!([state(&store, strange), state(&store, nameless)], ["asking", "asking"]);
}
