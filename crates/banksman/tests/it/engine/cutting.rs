//! Cuts the engine off between any two of its writes, or kills it in the middle of one.

use std::time::Duration;

use banksman::store::Store;
use banksman::store::conn::Target;
use banksman_core::time::Span;
use rusqlite::Connection;

use super::driver::Driver;
use super::harness::{Harness, Up, tasks};
use super::processes::wait_until;
use crate::store::raw::Raw;

/// What the engine has taken in a turn that was cut off is left alone for ten seconds.
const HELD: Span = Span(11_000);
/// Far more than there are writes in anything that a test does.
const MOST_CUTS: usize = 2_000;
/// Whoever writes for so many looks in a row does not write any more but sits in our trap.
const LOOKS: usize = 30;
/// A counter that nobody waits for.
const ENDLESS: &str =
    "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up) SELECT count(*) FROM up";
/// A table of SQLite that takes no further row: an insert fails as it does on a full disk, which is
/// a failure of the database and ends a turn.
pub(crate) const FULL: &str = "CREATE TABLE no_space (id INTEGER PRIMARY KEY AUTOINCREMENT);
    INSERT INTO no_space VALUES (9223372036854775807);";
/// What is written on the way: effects that are settled, tasks that move or are born, budgets of
/// batches.
const WRITES: [(&str, &str, &str); 4] = [
    ("cut_effects", "UPDATE OF state", "outbox"),
    ("cut_moves", "UPDATE OF version", "tasks"),
    ("cut_births", "INSERT", "tasks"),
    ("cut_budgets", "UPDATE OF budget_runs", "batches"),
];

/// Turns until it is over. Each is cut off after its first write; only what belongs together, and
/// so gets nowhere, is given one write more. So between any two writes somebody was cut off once.
/// Answers how often that was. Nobody else is cut off, so `is_over` may let people act.
pub(crate) fn cut_every_turn_off(
    driver: &Driver,
    harness: &Harness,
    mut is_over: impl FnMut() -> bool,
) -> usize {
    let mut scissors = Scissors::new(harness.store());
    let (mut writes, mut cuts) = (1, 0);
    let mut before = scissors.progress(driver);
    wait_until(&format!("it is over\n{}", harness.root().display()), || {
        scissors.let_pass(writes);
        let is_cut = driver.try_turn().is_err();
        scissors.let_pass(-1);
        let now = scissors.progress(driver);
        writes = if is_cut && now == before { writes + 1 } else { 1 };
        before = now;
        if is_cut {
            cuts += 1;
            scissors.pass(driver, HELD);
        }
        assert!(cuts < MOST_CUTS, "it gets nowhere");
        is_over()
    });
    scissors.put_away();
    cuts
}

/// Lets a number of writes pass, and refuses the next.
struct Scissors(Raw);

impl Scissors {
    fn new(address: &str) -> Self {
        let target: Target = address.parse().expect("an address");
        let mut raw = Raw::open(&target, None);
        raw.run(
            "CREATE TABLE scissors (passing INTEGER NOT NULL); INSERT INTO scissors VALUES (-1);",
        );
        let cut = match &target {
            Target::Sqlite(_) => {
                raw.run(FULL);
                "BEGIN
                   INSERT INTO no_space SELECT NULL FROM scissors WHERE passing = 0;
                   UPDATE scissors SET passing = passing - 1 WHERE passing > 0;
                 END"
            }
            Target::Postgres(_) => {
                raw.run(
                    "CREATE FUNCTION cut_off() RETURNS trigger AS $$ BEGIN
                       IF (SELECT passing FROM scissors) = 0 THEN RAISE disk_full; END IF;
                       UPDATE scissors SET passing = passing - 1 WHERE passing > 0;
                       RETURN NEW;
                     END $$ LANGUAGE plpgsql;",
                );
                "FOR EACH ROW EXECUTE FUNCTION cut_off()"
            }
        };
        for (name, write, table) in WRITES {
            raw.run(&format!("CREATE TRIGGER {name} BEFORE {write} ON {table} {cut}"));
        }
        Self(raw)
    }

    /// With a negative number all of them.
    fn let_pass(&mut self, writes: i64) {
        self.0.run(&format!("UPDATE scissors SET passing = {writes}"));
    }

    /// What has been taken comes due again. A server has a clock of its own, which nobody can move.
    fn pass(&mut self, driver: &Driver, time: Span) {
        match &self.0 {
            Raw::Sqlite(_) => driver.pass(time),
            Raw::Postgres { .. } => self.0.run(&format!(
                "UPDATE outbox SET due_at = due_at - {} WHERE state = 'pending'",
                time.0
            )),
        }
    }

    /// How far everything has got: moves that are on record, and effects that are settled.
    fn progress(&mut self, driver: &Driver) -> (i64, i64) {
        let settled = "SELECT count(*) FROM outbox WHERE state <> 'pending'";
        (moves(&driver.store), self.0.number(settled))
    }

    fn put_away(mut self) {
        for (name, _, table) in WRITES {
            let on = match &self.0 {
                Raw::Sqlite(_) => String::new(),
                Raw::Postgres { .. } => format!(" ON {table}"),
            };
            self.0.run(&format!("DROP TRIGGER {name}{on}"));
        }
        self.0.run("DROP TABLE scissors");
    }
}

fn moves(store: &Store) -> i64 {
    tasks(store).iter().map(|stored| stored.task.version).sum()
}

pub(crate) fn kill_when(up: Up, is_so: impl FnMut() -> bool) {
    wait_until("the moment has come", is_so);
    up.kill();
}

/// Kills a process in the middle of a transaction on SQLite, right after it has written this.
pub(crate) fn kill_amid(harness: &Harness, store: &Store, write: &str, start: impl FnOnce() -> Up) {
    let raw = Connection::open(harness.path("store.db")).expect("the file opens");
    raw.execute_batch(&format!("CREATE TRIGGER trap AFTER {write} BEGIN {ENDLESS}; END"))
        .expect("a trap");
    raw.busy_timeout(Duration::ZERO).expect("it can be set");
    let (mut looks, mut before) = (0, 0);
    kill_when(start(), || {
        let is_free = raw.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        looks = if is_free { 0 } else { looks + 1 };
        before = moves(store);
        looks == LOOKS
    });
    assert_eq!(moves(store), before, "what was not written to its end was not written: {write}");
    raw.busy_timeout(Duration::from_secs(10)).expect("it can be set");
    // What it had taken is left alone for a while, which nobody has to wait for here.
    raw.execute_batch(&format!(
        "DROP TRIGGER trap; UPDATE outbox SET due_at = due_at - {} WHERE state = 'pending'",
        HELD.0
    ))
    .expect("the trap is gone");
}
