//! The feed of changes: every reader gets everything once and in one order, whoever writes at the
//! same time and however often the reader is stopped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant as Moment};

use banksman::store::conn::Target;
use banksman::store::feed::{Change, ChangeDetail, ChangeKind, Cursor, CursorError, KEPT};
use banksman::store::notices::{NewNotice, NoticeKind};
use banksman::store::{Store, StoreError};
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Note;
use banksman_core::machine::Event;
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use super::acts::{
    DAY, HOUR, NOON, add, apply, ask, claim, claim_first, ended, finish, load, to_asking,
    to_checking,
};
use super::on_both;
use super::world::World;
use crate::crash::Seeded;

const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");
const WRITERS: u64 = 16;
const TASKS: u64 = 12;
/// How long a reader may take to reach what was committed. Another transaction on the same server
/// may hold it up.
const PATIENCE: Duration = Duration::from_secs(60);

on_both!(
    every_kind_of_change_is_told,
    what_was_undone_is_not_told,
    two_readers_that_stop_and_resume_get_the_same_list,
    reader_processes_that_are_killed_miss_nothing_and_get_nothing_twice,
    old_changes_are_removed_and_old_cursors_refused,
    a_page_of_removed_notices_is_not_the_end,
    a_reader_at_the_end_stays_there_however_long_nothing_happens,
    a_cursor_of_nothing_and_of_another_store_is_refused,
);

/// Reads until the feed has this many changes. On PostgreSQL a change may be readable a moment
/// after its commit.
fn read_to(store: &Store, count: usize) -> Vec<Change> {
    let (mut read, mut after, until) = (Vec::new(), None, Moment::now() + PATIENCE);
    while read.len() < count {
        let mark = store.mark();
        let page = store.changes(after, 1_000).expect("the feed is read");
        after = page.last().map(|last| last.cursor).or(after);
        if page.is_empty() {
            assert!(Moment::now() < until, "{} of {count} changes", read.len());
            store.wait(mark, Duration::from_millis(50));
        }
        read.extend(page);
    }
    assert_eq!(read.len(), count, "{read:?}");
    read
}

fn count(world: &World) -> usize {
    usize::try_from(world.raw().number("SELECT count(*) FROM changes")).expect("a count")
}

fn every_kind_of_change_is_told(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    apply(&store, id, ask("human:kim", "done", &[]), NOON.plus(HOUR));
    let late = to_checking(&store, "late");
    apply(&store, late, ask("crane:c1", "lifting", &[]), NOON);
    let epoch = claim_first(&store, late, NOON);
    store.end_run(late, ended(finish(epoch, Outcome::NeedsPerson)), NOON).unwrap();
    store.note(late, &"human:kim".parse().unwrap(), Note::Allow, "k", NOON).unwrap();
    let lapsed = to_asking(&store, "lapsed");
    store.fire_due(NOON.plus(Span(7 * DAY.0)), 100).unwrap();

    let all = read_to(&store, count(world));
    let of = |id: TaskId| -> Vec<&str> {
        let of_task = all.iter().filter(|change| change.task == Some(id));
        of_task.map(|change| change.kind.as_str()).collect()
    };
    let asked = [
        "created",
        "moved",
        "run_started",
        "moved",
        "run_ended",
        "moved",
        "decision_opened",
        "notice",
    ];
    let answered = ["moved", "decision_answered", "notice"];
    assert_eq!(of(id), [asked.as_slice(), &answered].concat());
    let ended =
        ["moved", "noted", "run_started", "moved", "run_ended", "notice", "run_reported", "noted"];
    assert_eq!(of(late), [&asked[..5], &ended].concat());
    let reminded = ["notice", "notice", "moved", "decision_lapsed", "notice"];
    assert_eq!(of(lapsed), [asked.as_slice(), &reminded].concat());
    assert_eq!(store.feed_end().unwrap(), all.last().map(|last| last.cursor));
    for kind in ChangeKind::ALL {
        assert!(all.iter().any(|change| change.kind == kind), "{kind:?}");
    }
    let details: Vec<String> = all.iter().map(|change| format!("{:?}", change.detail)).collect();
    assert!(details[2].contains("r1.1") || details[2].contains("epoch: 1"), "{}", details[2]);
    assert!(details[4].contains("succeeded"), "{}", details[4]);
    assert!(details[6].contains("Shall it be set down?"), "{}", details[6]);
    assert!(
        details[7].contains("kind: Reminder") || details[7].contains("kind: Decision"),
        "{}",
        details[7]
    );
    assert!(details[9].contains("human:kim"), "{}", details[9]);
}

fn what_was_undone_is_not_told(world: &World) {
    let store = world.open();
    let id = add(&store, "lift");
    let before = count(world);
    assert!(store.apply(id, ask("human:kim", "cancelled", &[]), None, NOON).is_err());
    let events =
        [(id, ask("human:kim", "parked", &[])), (TaskId(999), ask("human:kim", "done", &[]))];
    assert!(store.apply_each(&events, None, NOON).is_err());
    assert_eq!(count(world), before);
}

/// Moves tasks about at random; what is refused is refused.
fn write(store: &Store, seed: u64, steps: u64) {
    let mut chance = Seeded(seed);
    for _ in 0..steps {
        let id = TaskId(1 + i64::try_from(chance.below(TASKS)).expect("few"));
        let event = match chance.below(6) {
            0 => ask("human:kim", "parked", &[]),
            1 => ask("human:kim", "queued", &[]),
            2 => ask("human:kim", "[prior]", &[]),
            3 => {
                if let Some(claimed) = claim(store, "worker:w1", NOON) {
                    let end = finish(claimed.run.epoch, Outcome::NeedsPerson);
                    moved(store, claimed.run.task, Event::Finished(end));
                }
                continue;
            }
            4 => {
                // Its transaction has a number before it gets the lock of the last task.
                let other = TaskId(1 + i64::try_from(chance.below(TASKS)).expect("few"));
                let state = if chance.below(2) == 0 { "parked" } else { "queued" };
                let events = [id, other].map(|id| (id, ask("human:kim", state, &[])));
                store.apply_each(&events, None, NOON).expect("answers");
                continue;
            }
            _ => {
                store.add(load("more"), NOON).expect("it is added");
                continue;
            }
        };
        moved(store, id, event);
    }
}

fn moved(store: &Store, id: TaskId, event: Event) {
    match store.apply(id, event, None, NOON) {
        Ok(_) | Err(StoreError::Rejected(_)) => {}
        Err(error) => panic!("{error:?}"),
    }
}

/// Sixteen writers at work while `read` reads; it is told how many of them have ended.
fn amid_writers<T: Send>(world: &World, read: impl Fn(u64, &AtomicUsize) -> T + Sync) -> Vec<T> {
    let store = world.open();
    for number in 0..TASKS {
        add(&store, &number.to_string());
    }
    let handles: Vec<Store> = (0..4).map(|_| world.open()).collect();
    let ended = AtomicUsize::new(0);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (handle, ended) = (&handles[(writer % 4) as usize], &ended);
            scope.spawn(move || {
                write(handle, writer, 25);
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let (read, ended) = (&read, &ended);
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || read(seed, ended))).collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
    })
}

fn are_over(ended: &AtomicUsize) -> bool {
    ended.load(Ordering::SeqCst) == WRITERS as usize
}

/// The history, record for record: each is told once, those of a task in their order.
fn assert_is_history(world: &World, records: &[(TaskId, i64)]) {
    let mut told: BTreeMap<TaskId, Vec<i64>> = BTreeMap::new();
    for (task, seq) in records {
        told.entry(*task).or_default().push(*seq);
    }
    let store = world.open();
    let mut count = 0;
    for (task, told) in &told {
        let history = store.history(*task, 0).unwrap();
        let seqs: Vec<i64> = history.iter().map(|entry| entry.seq).collect();
        assert_eq!(*told, seqs, "{task}");
        count += seqs.len();
    }
    let all = world.raw().number("SELECT count(*) FROM audit");
    assert_eq!(count, usize::try_from(all).expect("a count"));
}

fn two_readers_that_stop_and_resume_get_the_same_list(world: &World) {
    let lists = amid_writers(world, |seed, ended| {
        let (mut chance, mut store) = (Seeded(seed + 100), world.open());
        let (mut list, mut after, until): (Vec<Change>, _, _) =
            (Vec::new(), None, Moment::now() + PATIENCE);
        loop {
            if chance.below(4) == 0 {
                // It is stopped, forgets what it knew but its cursor, and resumes.
                after = after.map(|cursor: Cursor| cursor.to_string().parse().expect("a cursor"));
                store = world.open();
            }
            let (is_last, mark) = (are_over(ended), store.mark());
            let page = store.changes(after, 1 + chance.below(40) as i64).expect("it is read");
            after = page.last().map(|last| last.cursor).or(after);
            let is_empty = page.is_empty();
            list.extend(page);
            if is_last && is_empty && list.len() == count(world) {
                return list;
            }
            if is_empty {
                assert!(Moment::now() < until, "{} of {} changes", list.len(), count(world));
                store.wait(mark, Duration::from_millis(20));
            }
        }
    });
    assert_eq!(lists[0], lists[1]);
    let record = |change: &Change| match &change.detail {
        ChangeDetail::Record { seq, .. } => change.task.map(|task| (task, *seq)),
        ChangeDetail::Run { .. } | ChangeDetail::Decision { .. } | ChangeDetail::Notice(_) => None,
    };
    let records: Vec<_> = lists[0].iter().filter_map(record).collect();
    assert_is_history(world, &records);
}

/// A process that follows the feed.
struct Reader {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Reader {
    fn start(world: &World, after: Option<&str>) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["--store", &world.address(), "changes", "--json", "--follow"]);
        command.args(after.map(|cursor| ["--after", cursor]).into_iter().flatten());
        command.current_dir(world.folder()).env("HOME", world.folder());
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, lines }
    }

    /// The next complete line; none if the process was killed within it.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("its output is text");
        line.ends_with('\n').then(|| serde_json::from_str(&line).expect("a document"))
    }

    /// Kills it, and answers with the complete lines that it had written by then.
    fn kill(mut self) -> Vec<Value> {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it is gone");
        std::iter::from_fn(|| self.line()).collect()
    }
}

fn reader_processes_that_are_killed_miss_nothing_and_get_nothing_twice(world: &World) {
    let lists = amid_writers(world, |seed, ended| {
        let mut chance = Seeded(seed + 200);
        let mut list: Vec<Value> = Vec::new();
        while !(are_over(ended) && list.len() == count(world)) {
            let after = list.last().map(|last| last["cursor"].as_str().expect("text").to_owned());
            let mut reader = Reader::start(world, after.as_deref());
            let left = || count(world) - list.len();
            // There are that many lines, so reading them waits for nothing but the reader.
            let lines = (1 + chance.below(60) as usize).min(left());
            let read: Vec<Value> = (0..lines).filter_map(|_| reader.line()).collect();
            assert_eq!(read.len(), lines);
            list.extend(read);
            list.extend(reader.kill());
        }
        list
    });
    assert_eq!(lists[0], lists[1]);
    let record = |change: &Value| {
        let seq = change["record"]["seq"].as_i64()?;
        Some((change["task"].as_str()?.parse().expect("a task"), seq))
    };
    let records: Vec<_> = lists[0].iter().filter_map(record).collect();
    assert_is_history(world, &records);
}

fn refused(result: Result<Vec<Change>, StoreError>) -> CursorError {
    match result {
        Err(StoreError::Cursor(error)) => error,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn old_changes_are_removed_and_old_cursors_refused(world: &World) {
    let store = world.open();
    let id = to_asking(&store, "lift");
    let old = read_to(&store, count(world));
    let later = NOON.plus(KEPT);
    store.apply(id, ask("human:kim", "done", &[]), None, later).unwrap();
    read_to(&store, count(world));
    store.prune(later).unwrap();
    assert_eq!(store.changes(None, 1_000).unwrap()[..old.len()], old, "nothing is old enough");
    assert_eq!(world.raw().number("SELECT count(*) FROM notices"), 2);

    store.prune(later.plus(HOUR)).unwrap();
    let kept = store.changes(None, 1_000).unwrap();
    assert_eq!(world.raw().number("SELECT count(*) FROM notices"), 1);
    assert_eq!(world.raw().number("SELECT count(*) FROM notice_deliveries"), 1);
    let first = old[0].cursor;
    assert_eq!(refused(store.changes(Some(first), 10)), CursorError::TooOld(first));
    let last = old.last().expect("a change").cursor;
    assert_eq!(store.changes(Some(last), 1_000).unwrap(), kept, "it has missed nothing");

    // The id of a removed notice is not given again, or an old change would tell a new notice.
    let newest = world.raw().number("SELECT max(id) FROM notices");
    store.prune(later.plus(KEPT).plus(HOUR)).unwrap();
    let fault = NewNotice::new(NoticeKind::Fault, None, "fault".to_owned());
    store.notice(fault, later.plus(KEPT)).unwrap();
    assert!(world.raw().number("SELECT max(id) FROM notices") > newest);
}

fn a_page_of_removed_notices_is_not_the_end(world: &World) {
    let store = world.open();
    for number in 0..3 {
        let text = format!("fault {number}");
        store.notice(NewNotice::new(NoticeKind::Fault, None, text), NOON).unwrap();
    }
    let id = add(&store, "lift");
    let told = read_to(&store, count(world));
    world.raw().run("DELETE FROM notices");
    let page = store.changes(Some(told[0].cursor), 1).unwrap();
    assert_eq!(page.iter().map(|change| change.task).collect::<Vec<_>>(), [Some(id)]);
}

fn a_reader_at_the_end_stays_there_however_long_nothing_happens(world: &World) {
    let store = world.open();
    assert_eq!(store.feed_end().unwrap(), None);
    assert_eq!(store.changes(None, 10).unwrap(), []);
    let id = add(&store, "lift");
    let end = read_to(&store, 1)[0].cursor;
    let later = Instant(NOON.0 + 10 * KEPT.0);
    store.prune(later).unwrap();
    assert_eq!(store.changes(Some(end), 10).unwrap(), []);
    apply(&store, id, ask("human:kim", "parked", &[]), later);
    store.prune(later).unwrap();
    read_to(&store, 2);
    assert_eq!(store.changes(Some(end), 10).unwrap().len(), 1);
}

fn a_cursor_of_nothing_and_of_another_store_is_refused(world: &World) {
    for text in [
        "",
        "nonsense",
        "1",
        "1-2",
        "1-2-",
        "1-2-zz",
        "1-2-0000000g",
        "-1-2-00000000",
        "1-2-3",
        "1-2-00000000-4",
    ] {
        let error = text.parse::<Cursor>().expect_err(text);
        assert_eq!(error, CursorError::NotACursor(text.to_owned()));
    }
    let store = world.open();
    let stranger = world.another();
    for title in ["one", "two"] {
        add(&store, title);
        add(&stranger.open(), &format!("another {title}"));
    }
    let own = read_to(&store, 2)[1].cursor;
    let foreign = read_to(&stranger.open(), 2)[1].cursor;
    // The numbers of this store with the wrong hash, and numbers that come much later.
    let (numbers, _) =
        own.to_string().rsplit_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let damaged: Cursor = format!("{numbers}-00000000").parse().unwrap();
    let ahead: Cursor = "999999999999-5-00000000".parse().unwrap();
    let mut wrong = vec![damaged, ahead];
    if let Target::Postgres(_) = world.target {
        wrong.push(foreign);
    } else {
        assert_eq!(store.changes(Some(own), 10).unwrap(), []);
    }
    for cursor in wrong {
        assert_eq!(refused(store.changes(Some(cursor), 10)), CursorError::Foreign(cursor));
    }
}

/// What only several writers at once can do.
mod needs_postgres {
    use super::*;

    /// What a reader without the bound would miss: the older transaction commits last.
    #[test]
    fn a_change_waits_for_older_transactions_that_are_open() {
        let world = World::postgres();
        let store = world.open();
        let id = add(&store, "lift");
        let first = read_to(&store, 1)[0].cursor;
        let mut raw = world.raw();
        raw.run("BEGIN");
        raw.run("INSERT INTO changes (at, kind, task, number) VALUES (5, 'created', 1, 1)");
        apply(&store, id, ask("human:kim", "parked", &[]), NOON);
        assert_eq!(store.changes(Some(first), 10).unwrap(), [], "an older transaction is open");
        assert_eq!(store.feed_end().unwrap(), Some(first));
        raw.run("COMMIT");
        read_to(&store, 3);
        let kinds: Vec<_> =
            store.changes(Some(first), 10).unwrap().iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::Created, ChangeKind::Moved]);
    }

    /// A transaction that waited for a task has a lower number than the one that it waited for.
    #[test]
    fn the_records_of_a_task_keep_their_order_when_the_older_transaction_comes_second() {
        let world = World::postgres();
        let store = world.open();
        let [first, held, last] = ["first", "held", "last"].map(|title| add(&store, title));
        let mut raw = world.raw();
        raw.run(&format!("BEGIN; SELECT id FROM tasks WHERE id = {} FOR UPDATE", held.0));
        thread::scope(|scope| {
            let to = [(first, "parked"), (held, "parked"), (last, "queued")];
            let events = to.map(|(id, to)| (id, ask("human:kim", to, &[])));
            let other = world.open();
            let older = scope.spawn(move || other.apply_each(&events, None, NOON));
            while raw.is_waited_for() != Some(true) {
                thread::yield_now();
            }
            apply(&store, last, ask("human:kim", "parked", &[]), NOON);
            raw.run("COMMIT");
            let answers = older.join().expect("it ends").expect("it is answered");
            assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        });
        let changes = read_to(&store, 7);
        let of_last: Vec<_> = changes.iter().filter(|change| change.task == Some(last)).collect();
        let to = |change: &&Change| match &change.detail {
            ChangeDetail::Record { seq, to, .. } => (*seq, to.clone()),
            ChangeDetail::Run { .. } | ChangeDetail::Decision { .. } | ChangeDetail::Notice(_) => {
                panic!("{change:?}")
            }
        };
        let order: Vec<(i64, String)> = of_last.iter().map(to).collect();
        assert_eq!(
            order,
            [(1, "queued"), (2, "parked"), (3, "queued")].map(|(n, to)| (n, to.to_owned()))
        );
    }

    /// A server that has had fewer transactions than the one that the dump is from.
    #[test]
    fn a_restored_dump_is_read_from_its_beginning_and_former_cursors_are_refused() {
        let world = World::postgres();
        let store = world.open();
        let id = to_asking(&store, "lift");
        let before = read_to(&store, count(&world));
        // This server has had as many transactions as the first half of the dump.
        world.raw().run("UPDATE changes SET xid = xid + 1000000000 WHERE seq > 3");
        world.raw().run("UPDATE tasks SET fed = fed + 1000000000");
        drop(store);
        // Whoever opens it first puts that right, before anybody writes or reads: a position that
        // this server reaches later must not hide what was written until then.
        let store = world.open();
        let numbers = "SELECT (SELECT max(xid) FROM changes) + (SELECT max(fed) FROM tasks)";
        assert_eq!(world.raw().number(numbers), 0);
        apply(&store, id, ask("human:kim", "done", &[]), NOON);
        let after = read_to(&store, count(&world));
        let kinds = |changes: &[Change]| -> Vec<ChangeKind> {
            changes.iter().map(|change| change.kind).collect()
        };
        assert_eq!(kinds(&after[..before.len()]), kinds(&before));
        assert_eq!(after[before.len()].kind, ChangeKind::Moved);
        let former = before[2].cursor;
        assert_eq!(refused(store.changes(Some(former), 10)), CursorError::Foreign(former));
        let new = after[2].cursor;
        assert_eq!(store.changes(Some(new), 1_000).unwrap(), after[3..]);
    }
}
