//! Timers: each fires once, when it is due, and only if it still means something.

use banksman::store::batches::BatchChange;
use banksman::store::{Add, TimerResult};
use banksman_core::lifecycle::Outcome;
use banksman_core::machine::{Effect, Event, Finish, NewTask, TimerKind};
use banksman_core::time::{Instant, Span};

use super::acts::{
    DAY, HARNESS, HOUR, MINUTE, NOON, add, added, apply, ask, at_once, claim_first, fields, finish,
    heartbeat, load, pending, put_batch, state, to_asking, to_checking,
};
use super::world::World;
use super::{on_both, on_both_damaging};

on_both!(
    a_bound_moves_the_task_when_its_time_has_come,
    a_timer_fires_once_for_two_who_look,
    a_reminder_is_sent_once_by_two_who_look,
    progress_puts_a_bound_off,
    a_timer_of_an_earlier_stay_is_void,
    leaving_a_state_takes_its_timers_along,
    reminders_are_sent_once_each,
    the_oldest_timers_fire_first_and_no_more_than_asked,
    what_a_paused_batch_holds_up_keeps_its_time,
);

on_both_damaging!(
    a_damaged_task_keeps_no_batch_paused,
    a_refused_timer_is_named_and_stops_no_other
);

/// Its record is in the history already.
fn a_refused_timer_is_named_and_stops_no_other(world: &World) {
    let store = world.open();
    let [broken, healthy] = ["broken", "healthy"].map(|title| to_checking(&store, title));
    let columns = "ts, from_state, to_state, trigger_name, actor, fields, prev, hash";
    world.raw().run(&format!(
        "INSERT INTO audit (task, seq, {columns}) SELECT task, seq + 1, {columns} FROM audit
         WHERE task = {id} AND seq = (SELECT version FROM tasks WHERE id = {id})",
        id = broken.0
    ));
    let fired = store.fire_due(NOON.plus(DAY), 10).expect("the database works");
    assert_eq!(fired.results, [TimerResult::Moved(healthy)]);
    let named: Vec<_> = fired.refused.iter().map(|(task, _)| *task).collect();
    assert_eq!(named, [Some(broken)], "{:?}", fired.refused);
    let again = store.fire_due(NOON.plus(DAY), 10).unwrap();
    assert!(again.results.is_empty() && again.refused.is_empty(), "{again:?}");
    let later = store.fire_due(NOON.plus(DAY).plus(HOUR), 10).unwrap();
    assert_eq!(later.refused.len(), 1, "it is tried again");
}

fn a_damaged_task_keeps_no_batch_paused(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 9);
    let queued = |title: &str| {
        let new = NewTask { batch: Some("friday".to_owned()), ..load(title).new };
        let id = added(&store, Add { new, ..load(title) }).stored.task.id;
        let epoch = claim_first(&store, id, NOON);
        let fields = fields(&[("pr_url", "https://forge/1")]);
        let lifted = Finish { fields, ..finish(epoch, Outcome::Succeeded) };
        apply(&store, id, Event::Finished(lifted), NOON);
        id
    };
    let [damaged, healthy] = ["damaged", "healthy"].map(queued);
    let paused = BatchChange { paused: Some(true), ..BatchChange::default() };
    assert!(store.set_batch("friday", paused).unwrap());
    world.raw().run(&format!("UPDATE tasks SET fields = 'no JSON' WHERE id = {}", damaged.0));
    let later = NOON.plus(HOUR);
    assert!(store.resume_batch("friday", later).unwrap());
    assert!(!store.is_paused(Some("friday")).unwrap());
    let due = store.timers_of(healthy).unwrap()[0].due;
    assert_eq!(due, later.plus(Span(2 * HOUR.0)), "it has its whole time again");
}

fn a_bound_moves_the_task_when_its_time_has_come(world: &World) {
    let store = world.open();
    let id = to_checking(&store, "lift");
    let due = NOON.plus(Span(2 * HOUR.0));
    assert_eq!(store.overview().unwrap().next_timer, Some(due));
    assert_eq!(store.fire_due(NOON.plus(Span(2 * HOUR.0 - 1)), 10).unwrap().results, []);
    assert_eq!(store.fire_due(due, 10).unwrap().results, [TimerResult::Moved(id)]);
    let task = store.task(id).unwrap().task;
    assert_eq!((state(&store, id).as_str(), task.entered_at), ("held", due));
    assert_eq!(task.fields["waits_for"], "somebody to check");
    let last = store.history(id, 0).unwrap().pop().expect("a record");
    assert_eq!(
        (last.record.trigger.as_str(), last.record.actor.to_string().as_str()),
        ("nobody_checked", "system")
    );
    assert_eq!(store.fire_due(due.plus(DAY), 10).unwrap().results, []);
    assert_eq!(store.overview().unwrap().next_timer, None);
}

/// One that waits for others, one that a person is asked about, one that somebody works on.
fn what_a_paused_batch_holds_up_keeps_its_time(world: &World) {
    let store = world.open();
    put_batch(&store, "friday", 9);
    let pause = || {
        let change = BatchChange { paused: Some(true), ..BatchChange::default() };
        assert!(store.set_batch("friday", change).unwrap());
    };
    let begun = |title: &str| {
        let new = NewTask { batch: Some("friday".to_owned()), ..load(title).new };
        let id = added(&store, Add { new, ..load(title) }).stored.task.id;
        (id, claim_first(&store, id, NOON))
    };
    let checked = |title: &str| {
        let (id, epoch) = begun(title);
        let fields = fields(&[("pr_url", "https://forge/1")]);
        let lifted = Finish { fields, ..finish(epoch, Outcome::Succeeded) };
        apply(&store, id, Event::Finished(lifted), NOON);
        id
    };
    let (waits, asks) = (checked("waits"), checked("asks"));
    apply(&store, asks, ask("crane:c1", "asking", &[]), NOON);
    let (works, _) = begun("works");
    pause();
    let after = |hours: i64| NOON.plus(Span(hours * HOUR.0));
    assert_eq!(
        store.fire_due(after(2), 10).unwrap().results,
        [TimerResult::Moved(works), TimerResult::Later(waits)]
    );
    assert_eq!(store.fire_due(after(3), 10).unwrap().results, []);
    // It has its whole time from the moment at which the batch goes on.
    assert!(store.resume_batch("friday", after(3)).unwrap());
    // Who says it again gives it no more.
    assert!(store.resume_batch("friday", after(4)).unwrap());
    assert_eq!(store.fire_due(Instant(after(5).0 - 1), 10).unwrap().results, []);
    assert_eq!(store.fire_due(after(5), 10).unwrap().results, [TimerResult::Moved(waits)]);
    pause();
    store.fire_due(after(7 * 24), 10).unwrap();
    assert_eq!([state(&store, waits), state(&store, asks)], ["held", "failed"]);
}

fn a_timer_fires_once_for_two_who_look(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 0..15 {
        let ids: Vec<_> =
            (0..3).map(|n| to_checking(&handles[0], &format!("{round}.{n}"))).collect();
        let fired = at_once(4, |thread| {
            handles[thread % 2].fire_due(NOON.plus(DAY), 100).expect("firing works").results
        });
        for id in &ids {
            let moved =
                fired.iter().flatten().filter(|fired| **fired == TimerResult::Moved(*id)).count();
            assert_eq!(moved, 1, "round {round}");
            let others =
                fired.iter().flatten().filter(|fired| !matches!(fired, TimerResult::Moved(_)));
            assert!(others.clone().all(|fired| matches!(fired, TimerResult::Void(_))), "{fired:?}");
        }
        let last = handles[0].history(ids[0], 0).unwrap();
        assert_eq!(last.len(), 4, "round {round}");
    }
    let held = world.raw().number("SELECT count(*) FROM notices WHERE kind <> 'reminder'");
    assert_eq!(held, 45);
}

fn a_reminder_is_sent_once_by_two_who_look(world: &World) {
    let handles = [world.open(), world.open()];
    for round in 1..=15 {
        to_asking(&handles[0], &format!("lift {round}"));
        at_once(4, |thread| {
            handles[thread % 2].fire_due(NOON.plus(DAY), 100).expect("firing works").results
        });
        let sent = world.raw().number("SELECT count(*) FROM notices WHERE kind = 'reminder'");
        assert_eq!(sent, round);
    }
}

fn progress_puts_a_bound_off(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    let beaten = NOON.plus(Span(50 * MINUTE.0));
    apply(&store, id, heartbeat(epoch, beaten.plus(HOUR)), beaten);
    assert_eq!(store.fire_due(NOON.plus(HOUR), 10).unwrap().results, [TimerResult::Later(id)]);
    let due = beaten.plus(HOUR);
    assert_eq!(store.overview().unwrap().next_timer, Some(due));
    assert_eq!(state(&store, id), "lifting");
    assert_eq!(store.fire_due(Instant(due.0 - 1), 10).unwrap().results, []);
    assert_eq!(store.fire_due(due, 10).unwrap().results, [TimerResult::Moved(id)]);
    assert_eq!(state(&store, id), "failed");
    let stop = pending(&store, due);
    assert_eq!(stop[0].effect, Effect::Stop { epoch });
}

fn a_timer_of_an_earlier_stay_is_void(world: &World) {
    let store = world.open();
    let id = to_checking(&store, "lift");
    let before = store.task(id).unwrap().task;
    // Such a timer can be there only if a write was lost, so it is put there past the store.
    let old = before.entered - 1;
    let bound = HARNESS.lifecycle.transitions.iter().position(|row| row.trigger == "stalled");
    let number = bound.expect("a bound of the lifting");
    world.raw().run(&format!(
        "INSERT INTO timers (task, kind, number, entered, due_at) VALUES
         ({id}, 'bound', {number}, {old}, {due}), ({id}, 'remind', 7, {old}, {due})",
        id = id.0,
        due = NOON.0,
    ));
    assert_eq!(
        store.fire_due(NOON, 10).unwrap().results,
        [TimerResult::Void(id), TimerResult::Void(id)]
    );
    assert_eq!(store.task(id).unwrap().task, before);
    assert_eq!(store.fire_due(NOON, 10).unwrap().results, []);
}

fn leaving_a_state_takes_its_timers_along(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let days = |timers: Vec<banksman_core::machine::Timer>| -> Vec<i64> {
        timers.iter().map(|timer| timer.due.since(NOON).0 / DAY.0).collect()
    };
    assert_eq!(days(store.detail(id).unwrap().timers), [1, 3, 7]);
    assert_eq!(days(store.timers_of(id).unwrap()), [1, 3, 7]);
    apply(&store, id, ask("human:kim", "done", &[]), NOON);
    assert_eq!(days(store.detail(id).unwrap().timers), [0_i64; 0]);
    assert_eq!(world.raw().number("SELECT count(*) FROM timers"), 0);
    let new = NewTask { not_before: Some(NOON.plus(DAY)), ..load("delayed").new };
    let delayed = added(&store, Add { new, ..load("delayed") }).stored.task.id;
    apply(&store, delayed, ask("human:kim", "parked", &[]), NOON);
    assert_eq!(store.task(delayed).unwrap().task.not_before, None);
    assert_eq!(store.overview().unwrap().next_timer, None);
}

fn reminders_are_sent_once_each(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let reminders = || -> Vec<String> {
        let texts = "SELECT text FROM notices WHERE kind = 'reminder' ORDER BY id";
        world.raw().rows(texts).into_iter().flatten().flatten().collect()
    };
    let days = |days: i64| format!("{id} is asking, for {days} days now: lift");
    assert_eq!(store.fire_due(NOON.plus(DAY), 10).unwrap().results, [TimerResult::Moved(id)]);
    assert_eq!(store.fire_due(NOON.plus(DAY), 10).unwrap().results, []);
    assert_eq!(reminders(), [days(1)]);
    let timers = store.detail(id).unwrap().timers;
    assert_eq!(timers[0].kind, TimerKind::Remind(1));
    let other = world.open();
    assert_eq!(
        other.fire_due(NOON.plus(Span(3 * DAY.0)), 10).unwrap().results,
        [TimerResult::Moved(id)]
    );
    assert_eq!(reminders(), [days(1), days(3)]);
    assert_eq!(store.history(id, 0).unwrap().len(), 4);
    assert_eq!(
        store.fire_due(NOON.plus(Span(7 * DAY.0)), 10).unwrap().results,
        [TimerResult::Moved(id)]
    );
    assert_eq!(state(&store, id), "failed");
}

fn the_oldest_timers_fire_first_and_no_more_than_asked(world: &World) {
    let store = world.open();
    let delayed = |title: &str, minutes: i64| {
        let not_before = Some(NOON.plus(Span(minutes * MINUTE.0)));
        let new = NewTask { not_before, ..load(title).new };
        added(&store, Add { new, ..load(title) }).stored.task.id
    };
    let (third, first, second) = (delayed("c", 30), delayed("a", 10), delayed("b", 20));
    let late = NOON.plus(HOUR);
    assert_eq!(
        store.fire_due(late, 2).unwrap().results,
        [TimerResult::Moved(first), TimerResult::Moved(second)]
    );
    assert_eq!(store.fire_due(late, 2).unwrap().results, [TimerResult::Moved(third)]);
}
