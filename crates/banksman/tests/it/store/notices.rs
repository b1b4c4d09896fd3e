//! Notices: each is there exactly when what it tells is, and is delivered at least once, by one
//! node.

use banksman::store::notices::{Channel, NewNotice, Notice, NoticeKind};
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::time::{Instant, Span};

use super::acts::{NOON, add, apply, ask, at_once, refused, to_asking};
use super::world::World;
use super::{on_both, on_both_damaging};

const TERMINAL: Channel = Channel::Terminal;
/// Longer than a node has for a delivery that it has taken.
const HELD: Span = Span(60_000);

on_both!(
    a_notice_comes_with_its_transition,
    a_delivered_notice_does_not_come_again,
    a_notice_whose_cause_is_over_is_not_delivered,
    a_notice_that_was_taken_by_somebody_who_died_comes_again,
    a_notice_is_taken_by_one_of_many,
    a_delivery_that_always_fails_is_given_up,
    a_notice_with_a_key_is_written_once,
    a_new_channel_is_a_row,
);

on_both_damaging!(an_unreadable_notice_is_given_up);

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
    store.notices_sent(TERMINAL, &notices, Ok(())).unwrap();
    assert_eq!(world.open().take_notices(TERMINAL, NOON.plus(HELD)).unwrap(), []);
    let row = "SELECT state || attempts || coalesce(last_error, '') FROM notice_deliveries";
    assert_eq!(world.raw().value(row).as_deref(), Some("delivered1"));
}

/// Whoever has answered, or has ended a pause, is not told about it any more.
fn a_notice_whose_cause_is_over_is_not_delivered(world: &World) {
    let store = world.open();
    let asked = to_asking(&store, "lift");
    let text = "account spring is paused until then: no login".to_owned();
    let paused = NewNotice::alert(NoticeKind::AccountPaused, Some(asked), text);
    store.notice(paused, NOON).unwrap();
    let later = NOON.plus(Span(1_000));
    let reason = [("reason", "no longer")];
    let cancel = ask("human:kim", "cancelled", &reason);
    store.apply(asked, cancel, None, later).unwrap();
    let left = store.take_notices(TERMINAL, later).unwrap();
    let is_over = |kind| matches!(kind, NoticeKind::Decision | NoticeKind::AccountPaused);
    assert!(!left.iter().any(|notice| is_over(notice.kind)), "{left:?}");
    let row = "SELECT state FROM notice_deliveries WHERE notice = 1";
    assert_eq!(world.raw().value(row).as_deref(), Some("delivered"));
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
    let (mut tries, mut now, mut waits) = (0, NOON, Vec::new());
    loop {
        let notices = store.take_notices(TERMINAL, now).unwrap();
        if notices.is_empty() {
            break;
        }
        tries += 1;
        let next = world.raw().number("SELECT at FROM notice_deliveries");
        waits.push((next - now.0) / 1_000);
        assert_eq!(store.take_notices(TERMINAL, Instant(next - 1)).unwrap(), []);
        now = Instant(next);
        store.notices_sent(TERMINAL, &notices, Err("nobody reads".to_owned())).unwrap();
    }
    assert_eq!(tries, 10);
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600]);
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

/// Of a newer build, perhaps, which gets its turns.
fn an_unreadable_notice_is_given_up(world: &World) {
    let store = world.open();
    let [odd, sound] =
        ["odd", "sound"].map(|text| NewNotice::new(NoticeKind::Fault, None, text.to_owned()));
    store.notice(odd, NOON).unwrap();
    world.raw().run("UPDATE notices SET kind = 'telepathy'");
    store.notice(sound, NOON).unwrap();
    let taken = store.take_notices(TERMINAL, NOON).unwrap();
    assert_eq!(taken.iter().map(|notice| notice.text.as_str()).collect::<Vec<_>>(), ["sound"]);
    store.notices_sent(TERMINAL, &taken, Ok(())).unwrap();
    let pending = "SELECT count(*) FROM notice_deliveries WHERE state = 'pending'";
    for attempt in 1..=10 {
        assert_eq!(world.raw().number(pending), 1, "{attempt}");
        let later = NOON.plus(Span(attempt * 3_600_000));
        assert_eq!(store.take_notices(TERMINAL, later).unwrap(), []);
    }
    assert_eq!(world.raw().number(pending), 0);
    let why = world.raw().value("SELECT last_error FROM notice_deliveries WHERE state = 'failed'");
    assert!(why.is_some_and(|why| why.starts_with("it could not be read")));
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
    store.notices_sent(TERMINAL, &notices, Ok(())).unwrap();
    assert_eq!([of("terminal"), of("desktop")], [0, 2]);
}
