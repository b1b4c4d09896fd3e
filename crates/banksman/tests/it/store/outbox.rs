//! The outbox: an effect is there exactly when the move that decided it is.

use banksman::store::outbox::{EffectFailure, PendingEffect};
use banksman_core::lifecycle::Activity;
use banksman_core::machine::Effect;
use banksman_core::time::{Instant, Span};

use super::acts::{
    HOUR, MINUTE, NOON, add, apply, ask, at_once, claim_first, heartbeat, pending, refused,
    to_asking, to_checking,
};
use super::on_both;
use super::world::World;

on_both!(
    effects_come_with_the_move_that_decided_them,
    nothing_else_leaves_an_effect,
    an_effect_is_done_once,
    several_are_done_at_once_and_no_others,
    a_failed_effect_comes_back_when_it_is_due,
    a_dead_effect_is_counted_and_not_tried,
    effects_are_told_apart_for_ever,
    an_effect_is_taken_by_one_until_its_time_is_over,
    an_unreadable_effect_stands_in_nobodys_way,
    an_effect_of_nobody_is_kept_by_one_node,
    an_effect_is_due_by_how_often_it_was_tried,
);

fn effects_come_with_the_move_that_decided_them(world: &World) {
    let store = world.open();
    let id = to_checking(&store, "lift");
    let start = PendingEffect {
        task: id,
        seq: 3,
        number: 0,
        effect: Effect::Start { activity: Activity::Panel },
        attempts: 0,
    };
    assert_eq!(pending(&store, NOON), [start]);
    apply(&store, id, ask("crane:c1", "asking", &[]), NOON);
    apply(&store, id, ask("human:kim", "done", &[]), NOON.plus(MINUTE));
    let keys = |pending: &[PendingEffect]| -> Vec<(String, Effect)> {
        pending.iter().map(|pending| (pending.key(), pending.effect.clone())).collect()
    };
    let prefix = |rest: &str| format!("{id}-{rest}");
    let before = (prefix("3-0"), Effect::Start { activity: Activity::Panel });
    let left = (prefix("4-0"), Effect::CloseReviews);
    assert_eq!(keys(&pending(&store, NOON)), [before.clone(), left.clone()]);
    let all = [before, left, (prefix("5-0"), Effect::CleanUp)];
    assert_eq!(keys(&pending(&world.open(), NOON.plus(MINUTE))), all);
    let few = store.take_effects("any", NOON.plus(MINUTE), Span(0), 1).unwrap();
    assert_eq!(few.len(), 1);
}

fn nothing_else_leaves_an_effect(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let epoch = claim_first(&store, id, NOON);
    apply(&store, id, heartbeat(epoch, NOON.plus(HOUR)), NOON);
    refused(store.apply(id, ask("human:kim", "done", &[]), None, NOON));
    refused(store.apply(id, ask("human:kim", "cancelled", &[]), None, NOON));
    refused(store.apply(id, heartbeat(epoch + 1, NOON.plus(HOUR)), None, NOON));
    assert_eq!(pending(&store, NOON.plus(HOUR)), []);
    assert_eq!(world.raw().number("SELECT count(*) FROM outbox"), 0);
}

fn an_effect_is_done_once(world: &World) {
    let store = world.open();
    to_checking(&store, "lift");
    let effect = pending(&store, NOON).remove(0);
    let handles = [world.open(), world.open()];
    at_once(4, |thread| handles[thread % 2].effects_done(&[&effect]).expect("it is noted"));
    assert_eq!(pending(&store, NOON.plus(HOUR)), []);
    // Who comes too late does not bring it back.
    store.effect_failed(&effect, "too late", EffectFailure::Again(NOON), NOON).unwrap();
    store.effect_failed(&effect, "too late", EffectFailure::Dead, NOON).unwrap();
    assert_eq!(pending(&store, NOON.plus(HOUR)), []);
    let row = world.raw().rows("SELECT state, attempts, error FROM outbox");
    assert_eq!(row, [[Some("done".to_owned()), Some("0".to_owned()), None]]);
    let overview = store.overview().unwrap();
    assert_eq!((overview.pending_effects, overview.dead_effects), (0, 0));
}

fn several_are_done_at_once_and_no_others(world: &World) {
    let store = world.open();
    for title in ["lift", "lower", "turn"] {
        to_checking(&store, title);
    }
    let effects = pending(&store, NOON);
    assert_eq!(effects.len(), 3);
    store.effects_done(&[]).unwrap();
    assert_eq!(pending(&store, NOON), effects);
    store.effects_done(&[&effects[0], &effects[2]]).unwrap();
    assert_eq!(pending(&store, NOON), effects[1..2]);
}

fn a_failed_effect_comes_back_when_it_is_due(world: &World) {
    let store = world.open();
    to_checking(&store, "lift");
    let first = pending(&store, NOON).remove(0);
    let later = NOON.plus(MINUTE);
    store.effect_failed(&first, &"ö".repeat(5_000), EffectFailure::Again(later), NOON).unwrap();
    assert_eq!(pending(&store, NOON), []);
    let again = pending(&store, later);
    assert_eq!(again, [PendingEffect { attempts: 1, ..first.clone() }]);
    assert_eq!(again[0].key(), first.key());
    assert_eq!(world.raw().number("SELECT length(error) FROM outbox"), 2_000);
    store.effects_done(&[&again[0]]).unwrap();
    assert_eq!(world.raw().value("SELECT error FROM outbox"), None);
}

fn a_dead_effect_is_counted_and_not_tried(world: &World) {
    let store = world.open();
    to_checking(&store, "lift");
    to_checking(&store, "another");
    let effects = pending(&store, NOON);
    store.effect_failed(&effects[0], "the server is gone", EffectFailure::Dead, NOON).unwrap();
    let notice = "SELECT text FROM notices WHERE kind = 'dead_effect' AND urgent = 1";
    assert_eq!(world.raw().value(notice).as_deref(), Some("the server is gone"));
    assert_eq!(pending(&store, Instant(i64::MAX)), effects[1..]);
    store.effects_done(&[&effects[0]]).unwrap();
    let overview = store.overview().unwrap();
    assert_eq!((overview.pending_effects, overview.dead_effects), (1, 1));
}

fn effects_are_told_apart_for_ever(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    for _ in 0..2 {
        apply(&store, id, ask("human:kim", "lifting", &[("feedback", "higher")]), NOON);
        apply(&store, id, ask("worker:w1", "checking", &[]), NOON);
        apply(&store, id, ask("crane:c1", "asking", &[]), NOON);
    }
    let mut keys: Vec<String> = pending(&store, NOON).iter().map(PendingEffect::key).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!((all, keys.len()), (6, 6));
}

fn an_effect_is_taken_by_one_until_its_time_is_over(world: &World) {
    let store = world.open();
    for number in 0..20 {
        to_checking(&store, &number.to_string());
    }
    let handles = [world.open(), world.open()];
    let taken = at_once(8, |thread| {
        let node = format!("n{thread}");
        let mut mine: Vec<String> = Vec::new();
        // On PostgreSQL a look passes over what another one is just taking, so nothing is not yet
        // the end.
        for _ in 0..40 {
            let taken = handles[thread % 2].take_effects(&node, NOON, MINUTE, 3).unwrap();
            mine.extend(taken.iter().map(PendingEffect::key));
        }
        mine
    });
    let mut keys = taken.concat();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), taken.concat().len()), (20, 20), "each to one");
    let early = Instant(NOON.plus(MINUTE).0 - 1);
    assert_eq!(store.take_effects("n1", early, MINUTE, 100).unwrap(), []);
    let again = store.take_effects("n1", NOON.plus(MINUTE), MINUTE, 100).unwrap();
    assert_eq!(again.len(), 20, "whoever took them did not say how it went");
    store.effects_done(&[&again[0]]).unwrap();
    let rest = store.take_effects("n1", NOON.plus(HOUR), MINUTE, 100).unwrap();
    assert_eq!(rest.len(), 19);
}

fn an_unreadable_effect_stands_in_nobodys_way(world: &World) {
    let store = world.open();
    let odd = to_checking(&store, "odd");
    to_checking(&store, "sound");
    world.raw().run(&format!("UPDATE outbox SET effect = '{{}}' WHERE task = {}", odd.0));
    assert_eq!(pending(&store, NOON).len(), 1);
    assert_eq!(store.overview().unwrap().dead_effects, 1);
}

/// The node that has begun a job for it may be cut off before it can say so.
fn an_effect_of_nobody_is_kept_by_one_node(world: &World) {
    let store = world.open();
    to_checking(&store, "lift");
    let effect = store.take_effects("n1", NOON, MINUTE, 1).unwrap().remove(0);
    assert!(store.keep_effect(&effect, "n1").unwrap());
    assert!(store.keep_effect(&effect, "n1").unwrap(), "it is still its own");
    assert!(!store.keep_effect(&effect, "n2").unwrap());
    assert_eq!(store.take_effects("n2", NOON.plus(HOUR), MINUTE, 1).unwrap(), []);
    assert_eq!(
        store.take_effects("n1", NOON.plus(HOUR), MINUTE, 1).unwrap(),
        std::slice::from_ref(&effect)
    );
    // A person says that the node is gone for good.
    store.remove_node("n1").unwrap();
    assert!(store.keep_effect(&effect, "n2").unwrap());
    store.effects_done(&[&effect]).unwrap();
    assert!(!store.keep_effect(&effect, "n2").unwrap(), "what is done is nobody's");
}

fn an_effect_is_due_by_how_often_it_was_tried(world: &World) {
    let store = world.open();
    to_checking(&store, "lift");
    let mut effect = store.take_effects("n1", NOON, HOUR, 1).unwrap().remove(0);
    store.keep_effect(&effect, "n1").unwrap();
    store.effect_failed(&effect, "not yet", EffectFailure::Again(NOON.plus(HOUR)), NOON).unwrap();
    effect.attempts = 1;
    let record = (effect.task, effect.seq);
    let later = |minutes: i64| move |attempts| NOON.plus(Span(MINUTE.0 * (minutes + attempts)));
    store.effects_due(record, "n2", later(0)).unwrap();
    assert_eq!(store.next_work("n1", NOON).unwrap(), Some(NOON.plus(HOUR)), "not another's");
    store.effects_due(record, "n1", later(9)).unwrap();
    assert_eq!(store.next_work("n1", NOON).unwrap(), Some(NOON.plus(Span(10 * MINUTE.0))));
    store.effects_due(record, "n1", later(-1)).unwrap();
    assert_eq!(store.take_effects("n1", NOON, HOUR, 1).unwrap(), [effect]);
}
