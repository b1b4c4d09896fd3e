//! What a note is made of: days that begin where the reader is, tasks that do not get on, answers
//! from several hands. On both engines where the engine matters.

use banksman::ops::daily::{LocalDay, refresh};
use banksman::store::Store;
use banksman_core::daily::EntryOutcome;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::StateKind;
use banksman_core::time::{Instant, Span};
use jiff::tz::{self, TimeZone};

use super::desk::ticked;
use crate::store::acts::{DAY, HOUR, NOON, actor, add, apply, ask, at_once, claim_first, state};
use crate::store::acts::{session, to_asking, to_checking};
use crate::store::decisions::moves;
use crate::store::on_both;
use crate::store::world::World;

on_both!(
    what_ended_in_a_stretch_of_time_is_found,
    what_has_not_got_on_is_found,
    the_same_answer_from_several_hands_is_given_once,
    one_of_several_answers_counts,
);

fn ids(found: Vec<banksman::store::Stored>) -> Vec<TaskId> {
    found.into_iter().map(|stored| stored.task.id).collect()
}

fn what_ended_in_a_stretch_of_time_is_found(world: &World) {
    let store = world.open();
    let later = |hours: i64| NOON.plus(Span(hours * HOUR.0));
    let done: Vec<TaskId> = (0..4)
        .map(|hour| {
            let id = add(&store, "wall");
            apply(&store, id, ask("human:kim", "done", &[]), later(hour));
            id
        })
        .collect();
    add(&store, "roof");
    let found =
        |from, until, most| ids(store.ended_between(StateKind::Done, from, until, most).unwrap());
    assert_eq!(found(later(1), later(3), 10), [done[2], done[1]]);
    assert_eq!(found(later(0), later(4), 2), [done[3], done[2]]);
    assert_eq!(ids(store.ended_between(StateKind::Failed, NOON, later(9), 9).unwrap()), []);
}

fn what_has_not_got_on_is_found(world: &World) {
    let store = world.open();
    let checking = to_checking(&store, "wall");
    to_asking(&store, "it waits for a person");
    let lifting = add(&store, "roof");
    let later = NOON.plus(HOUR);
    claim_first(&store, lifting, later);
    add(&store, "it waits for a worker");
    let silent = |since, most| ids(store.silent_since(since, most).unwrap());
    assert_eq!(silent(NOON, 10), []);
    assert_eq!(silent(later, 10), [checking]);
    assert_eq!(silent(later.plus(Span(1)), 10), [checking, lifting]);
    assert_eq!(silent(later.plus(Span(1)), 1), [checking]);
}

fn note(store: &Store, text: &str, now: Instant) -> (String, Vec<EntryOutcome>) {
    let day = LocalDay::at(NOON, &TimeZone::UTC).unwrap();
    let refreshed = refresh(&session(store, &actor("human:kim")), &day, text, now).unwrap();
    (refreshed.text, refreshed.reports.into_values().collect())
}

fn the_same_answer_from_several_hands_is_given_once(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "wall");
    let text = ticked(&note(&store, "", NOON).0, "Yes");
    let reports = at_once(4, |_| note(&world.open(), &text, NOON).1);
    let done = EntryOutcome::Answered("yes by human:kim".to_owned());
    assert!(reports.iter().all(|reports| *reports == [done.clone()]), "{reports:?}");
    assert_eq!((state(&store, id), store.task(id).unwrap().task.version), ("done".to_owned(), 5));
}

fn one_of_several_answers_counts(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "wall");
    let fresh = note(&store, "", NOON).0;
    let texts = [ticked(&fresh, "Yes"), ticked(&fresh, "No").replace("**Note**:", "**Note**: up")];
    let reports = at_once(4, |number| note(&world.open(), &texts[number % 2], NOON).1);
    let answered = |report: &&EntryOutcome| matches!(report, EntryOutcome::Answered(_));
    let words: Vec<&EntryOutcome> = reports.iter().flatten().filter(answered).collect();
    assert!(!words.is_empty() && words.iter().all(|word| *word == words[0]), "{reports:?}");
    assert_eq!(reports.iter().flatten().count(), 4);
    assert_eq!(moves(&store, id), 5);
}

#[test]
fn a_day_begins_where_the_reader_is() {
    let world = World::sqlite();
    let store = world.open();
    let late = NOON.plus(Span(11 * HOUR.0 + HOUR.0 / 2));
    let id = add(&store, "wall");
    apply(&store, id, ask("human:kim", "done", &[]), late);
    let east = TimeZone::fixed(tz::offset(1));
    let shows = |zone: &TimeZone, days: i64| {
        let day = LocalDay::at(NOON.plus(Span(days * DAY.0)), zone).unwrap();
        let note = refresh(&session(&store, &actor("human:kim")), &day, "", late).unwrap();
        note.text.lines().find(|line| line.starts_with("- **Done**")).map(str::to_owned)
    };
    assert_eq!(shows(&TimeZone::UTC, 0).as_deref(), Some("- **Done**: at 23:30"));
    assert_eq!(shows(&TimeZone::UTC, 1), None);
    assert_eq!(shows(&east, 0), None);
    assert_eq!(shows(&east, 1).as_deref(), Some("- **Done**: at 00:30"));
}

#[test]
fn what_is_stuck_gets_worse_with_time() {
    let world = World::sqlite();
    let store = world.open();
    to_checking(&store, "wall");
    let alerts = |hours: i64| -> Vec<String> {
        let text = note(&store, "", NOON.plus(Span(hours * HOUR.0))).0;
        let rows = text.lines().filter(|line| line.starts_with("| Task stuck"));
        rows.map(str::to_owned).collect()
    };
    assert_eq!(alerts(23), [] as [&str; 0]);
    assert_eq!(alerts(25), ["| Task stuck > 24h | Warning  | [[t1]] | wall   |"]);
    assert_eq!(alerts(73), ["| Task stuck > 72h | Error    | [[t1]] | wall   |"]);
}

#[test]
fn no_more_is_shown_than_people_can_answer() {
    let world = World::sqlite();
    let store = world.open();
    for number in 0..53 {
        to_asking(&store, &format!("wall {number}"));
    }
    let (text, _) = note(&store, "", NOON);
    assert_eq!(text.matches("\n#### d").count(), 50);
    assert!(text.contains("## Pending Decisions (53)\n"), "{text}");
    assert!(text.contains("\n_And 3 more decisions are open._\n"), "{text}");
}
