//! Notices: each is there exactly when what it tells is, and is delivered at least once, by one
//! node.

use banksman::store::notices::{Channel, NewNotice, Notice, NoticeKind};
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::time::Span;

use super::acts::{NOON, add, apply, ask, at_once, refused, to_asking};
use super::on_both;
use super::world::World;

const TERMINAL: Channel = Channel::Terminal;
/// Longer than a node has for a delivery that it has taken.
const HELD: Span = Span(60_000);

on_both!(
    a_notice_comes_with_its_transition,
    a_delivered_notice_does_not_come_again,
    a_notice_that_was_taken_by_somebody_who_died_comes_again,
    a_notice_is_taken_by_one_of_many,
    a_delivery_that_always_fails_is_given_up,
    a_notice_with_a_key_is_written_once,
    a_new_channel_is_a_row,
);

fn a_notice_comes_with_its_transition(world: &World) {
    let store = world.open();
    let asked = to_asking(&store, "ask me");
    let other = add(&store, "lift");
    refused(store.apply(other, ask("human:kim", "cancelled", &[]), None, NOON));
    let text = format!("{asked} is asking: ask me");
    let (kind, task, decision) = (NoticeKind::Decision, Some(asked), Some(DecisionId(1)));
    let expected = Notice { id: 1, kind, task, decision, urgent: false, text };
    assert_eq!(store.take_notices(TERMINAL, NOON).unwrap(), [expected]);
}

fn a_delivered_notice_does_not_come_again(world: &World) {
    let store = world.open();
    to_asking(&store, "lift");
    let notices = store.take_notices(TERMINAL, NOON).unwrap();
    assert_eq!(notices.len(), 1);
    store.notices_sent(TERMINAL, &notices, Ok(()), NOON).unwrap();
    assert_eq!(world.open().take_notices(TERMINAL, NOON.plus(HELD)).unwrap(), []);
    let row = "SELECT state || attempts || coalesce(last_error, '') FROM notice_deliveries";
    assert_eq!(world.raw().value(row).as_deref(), Some("delivered1"));
}

fn a_notice_that_was_taken_by_somebody_who_died_comes_again(world: &World) {
    let store = world.open();
    to_asking(&store, "lift");
    let taken = store.take_notices(TERMINAL, NOON).unwrap();
    drop(store);
    let next = world.open();
    assert_eq!(next.take_notices(TERMINAL, NOON).unwrap(), [], "it may still be at it");
    assert_eq!(next.take_notices(TERMINAL, NOON.plus(HELD)).unwrap(), taken);
}

fn a_notice_is_taken_by_one_of_many(world: &World) {
    let store = world.open();
    for number in 0..10 {
        to_asking(&store, &number.to_string());
    }
    let handles = [world.open(), world.open()];
    let taken = at_once(6, |thread| handles[thread % 2].take_notices(TERMINAL, NOON).unwrap());
    let mut ids: Vec<i64> = taken.iter().flatten().map(|notice| notice.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=10).collect::<Vec<i64>>());
}

fn a_delivery_that_always_fails_is_given_up(world: &World) {
    let store = world.open();
    to_asking(&store, "lift");
    let mut tries = 0;
    loop {
        let notices = store.take_notices(TERMINAL, NOON).unwrap();
        if notices.is_empty() {
            break;
        }
        tries += 1;
        store.notices_sent(TERMINAL, &notices, Err("nobody reads".to_owned()), NOON).unwrap();
    }
    assert_eq!(tries, 10);
    let row = "SELECT state || ': ' || last_error FROM notice_deliveries";
    assert_eq!(world.raw().value(row).as_deref(), Some("failed: nobody reads"));
}

fn a_notice_with_a_key_is_written_once(world: &World) {
    let store = world.open();
    let notice = |text: &str| NewNotice::alert(NoticeKind::Fault, Some(TaskId(7)), text.to_owned());
    for text in ["first", "second"] {
        store.notice(notice(text).once("k".to_owned()), NOON).unwrap();
        store.notice(notice("each time"), NOON).unwrap();
    }
    let taken = store.take_notices(TERMINAL, NOON).unwrap();
    let texts: Vec<&str> = taken.iter().map(|notice| notice.text.as_str()).collect();
    assert_eq!(texts, ["first", "each time", "each time"]);
    assert!(taken.iter().all(|notice| notice.urgent && notice.task == Some(TaskId(7))));
}

fn a_new_channel_is_a_row(world: &World) {
    let store = world.open();
    world.raw().run("INSERT INTO channels (name, added_at) VALUES ('desktop', 0)");
    let id = to_asking(&store, "lift");
    apply(&store, id, ask("human:kim", "done", &[]), NOON);
    let of = |channel: &str| {
        let pending = "SELECT count(*) FROM notice_deliveries WHERE state = 'pending'";
        world.raw().number(&format!("{pending} AND channel = '{channel}'"))
    };
    let notices = store.take_notices(TERMINAL, NOON).unwrap();
    store.notices_sent(TERMINAL, &notices, Ok(()), NOON).unwrap();
    assert_eq!([of("terminal"), of("desktop")], [0, 2]);
}
