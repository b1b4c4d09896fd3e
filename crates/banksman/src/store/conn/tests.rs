//! The guarantees of both drivers, tested on both; `sqlite` and `needs_postgres` test what is
//! specific to one.
//!
//! The PostgreSQL half runs on the server that BANKSMAN_TEST_PG names, each test in its own schema.

mod needs_postgres;
mod sqlite;

use std::env;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::{Conn, Db, DbError, Migration, Options, SqlValue, Target, Waited};

/// Longer than any slow machine needs; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const NOTES: Migration = Migration {
    version: 1,
    name: "notes",
    sql: "
        CREATE TABLE notes (
            id {serial_pk},
            name TEXT NOT NULL UNIQUE,
            size {int},
            body {blob}
        )
        --;
        CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, n {int} NOT NULL)
        --;
        INSERT INTO counters (name, n) VALUES ('a', 0), ('b', 0)
    ",
};

const COLOURS: Migration =
    Migration { version: 2, name: "colours", sql: "ALTER TABLE notes ADD COLUMN colour TEXT" };

const ADD: &str = "INSERT INTO notes (name, size, body) VALUES ($1, $2, $3)";
const COUNT: &str = "SELECT count(*) AS notes FROM notes";
const NAMES: &str = "SELECT name FROM notes ORDER BY name";
const RAISE: &str = "UPDATE counters SET n = n + 1 WHERE name = $1";
const RAISED: &str = "SELECT n FROM counters WHERE name = $1";

/// The server for tests.
pub(in crate::store) fn test_server() -> String {
    env::var("BANKSMAN_TEST_PG").ok().filter(|url| url != "skip").expect(
        "BANKSMAN_TEST_PG names no server: run scripts/test, or this command by scripts/pg-server run",
    )
}

/// A store for one test, removed at its end.
struct World {
    target: Target,
    options: Options,
    folder: TempDir,
}

impl World {
    fn sqlite() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self {
            target: Target::Sqlite(folder.path().join("store.db")),
            options: Options::default(),
            folder,
        }
    }

    fn postgres() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = test_server();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            target: url.parse().expect("BANKSMAN_TEST_PG is a URL"),
            options: Options {
                schema: Some(format!("conn_{}_{number}", process::id())),
                ..Options::default()
            },
            folder: TempDir::new().expect("a temporary folder"),
        }
    }

    fn try_open(&self, migrations: &[Migration]) -> Result<Db, DbError> {
        Db::open(&self.target, &self.options, migrations)
    }

    fn open(&self) -> Db {
        self.try_open(&[NOTES]).expect("the store opens")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let Some(schema) = &self.options.schema else {
            return;
        };
        let drop_schema: &'static str = format!("DROP SCHEMA IF EXISTS {schema} CASCADE").leak();
        let dropped = Db::open(&self.target, &Options::default(), &[])
            .and_then(|db| db.write(move |conn| conn.write(drop_schema, &[])));
        if !thread::panicking() {
            dropped.expect("the schema is dropped");
        }
    }
}

/// Makes two tests of each function, one for each engine.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        $(mod $test {
            #[test]
            fn sqlite() {
                super::$test(&super::World::sqlite());
            }

            #[test]
            fn needs_postgres() {
                super::$test(&super::World::postgres());
            }
        })*
    };
}

on_both! {
    values_come_back_as_they_went_in,
    parameters_go_by_their_number_and_quoted_ones_are_text,
    a_column_of_the_wrong_kind_is_named,
    an_unsupported_column_type_is_an_error,
    a_wrong_number_of_parameters_is_an_error,
    a_refused_job_leaves_nothing,
    an_error_loses_the_transaction_even_if_the_job_goes_on,
    a_conflict_that_the_statement_expects_is_no_error,
    a_panic_is_answered_and_leaves_nothing,
    a_read_cannot_change_anything,
    a_read_sees_one_moment,
    a_write_is_seen_by_later_statements_of_its_job,
    a_job_cannot_start_another,
    many_threads_and_handles_lose_no_write,
    a_commit_wakes_waiters_of_other_handles,
    a_commit_wakes_waiters_of_its_own_handle,
    a_job_that_was_undone_wakes_nobody,
    waiting_ends,
    concurrent_opens_apply_each_migration_once,
    an_older_store_is_migrated,
    a_newer_store_is_refused,
    a_failed_migration_leaves_nothing,
}

/// An error type like that of the layer above: its own refusals and the database's errors.
#[derive(Debug)]
enum StoreError {
    Refused,
    Db(DbError),
}

impl From<DbError> for StoreError {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

fn add(conn: &mut dyn Conn, name: &str) -> Result<(), DbError> {
    conn.write(ADD, &[name.into(), SqlValue::Null, SqlValue::Null])
}

fn add_alone(db: &Db, name: &'static str) -> Result<(), DbError> {
    db.write(move |conn| add(conn, name))
}

fn names(db: &Db) -> Vec<String> {
    db.read(|conn| {
        let rows = conn.query(NAMES, &[])?;
        rows.iter().map(|row| Ok(row.text(0)?.to_owned())).collect()
    })
    .map_err(|error: DbError| error)
    .expect("the names can be read")
}

fn raised(db: &Db, name: &'static str) -> i64 {
    db.read(|conn| conn.query(RAISED, &[name.into()])?[0].int(0)).expect("the counter can be read")
}

fn values_come_back_as_they_went_in(world: &World) {
    let db = world.open();
    let given: Vec<(String, Option<i64>, Option<Vec<u8>>)> = vec![
        ("empty".to_owned(), None, None),
        ("größte ≤ 'quoted' $1 ?2 \u{1F6A7}".to_owned(), Some(i64::MAX), Some(vec![0, 255, 10])),
        (String::new(), Some(i64::MIN), Some(Vec::new())),
        ("a\u{FFFD}b".to_owned(), None, Some(vec![0])),
    ];
    let mut rows = given.clone();
    // PostgreSQL holds no NUL.
    rows[3].0 = "a\0b".to_owned();
    db.write(move |conn| {
        for (name, size, body) in &rows {
            conn.write(ADD, &[name.clone().into(), (*size).into(), body.clone().into()])?;
        }
        Ok::<(), DbError>(())
    })
    .expect("the rows are written");
    let found: Vec<(String, Option<i64>, Option<Vec<u8>>)> = db
        .read(|conn| {
            conn.query("SELECT name, size, body FROM notes ORDER BY id", &[])?
                .iter()
                .map(|row| {
                    Ok((
                        row.text(0)?.to_owned(),
                        row.get::<Option<i64>>(1)?,
                        row.get::<Option<Vec<u8>>>(2)?,
                    ))
                })
                .collect::<Result<_, DbError>>()
        })
        .expect("the rows are read");
    assert_eq!(found, given);
}

fn parameters_go_by_their_number_and_quoted_ones_are_text(world: &World) {
    let db = world.open();
    let row = db
        .read(|conn| {
            let sql =
                "SELECT CAST($2 AS TEXT), '$1' AS \"$2\", CAST($1 AS TEXT), CAST($2 AS TEXT) -- $3";
            Ok::<_, DbError>(conn.query(sql, &["one".into(), "two".into()])?.remove(0))
        })
        .expect("the row is read");
    let texts: Vec<&str> = (0..4).map(|at| row.text(at).expect("text")).collect();
    assert_eq!(texts, ["two", "$1", "one", "two"]);
}

fn a_column_of_the_wrong_kind_is_named(world: &World) {
    let db = world.open();
    let row = db
        .read(|conn| Ok::<_, DbError>(conn.query(COUNT, &[])?.remove(0)))
        .expect("the row is read");
    let error = row.text(0).expect_err("a number is not text");
    assert_eq!(error.to_string(), "column `notes` holds a number where text was expected");
    let error = row.get::<&[u8]>(7).expect_err("there is no such column");
    assert_eq!(
        error.to_string(),
        "column `number 7` holds no such column where bytes was expected"
    );
}

fn an_unsupported_column_type_is_an_error(world: &World) {
    let db = world.open();
    let error = db
        .read(|conn| conn.query("SELECT 1.5 AS half", &[]).and_then(|rows| rows[0].int(0)))
        .expect_err("fractions are not known");
    assert!(matches!(&error, DbError::Column { column, .. } if column == "half"), "{error:?}");
}

fn a_wrong_number_of_parameters_is_an_error(world: &World) {
    let db = world.open();
    let error = db.write(|conn| conn.write(ADD, &["one".into()])).expect_err("two are missing");
    assert!(matches!(error, DbError::Other { .. }), "{error:?}");
    assert_eq!(names(&db), [""; 0]);
}

fn a_refused_job_leaves_nothing(world: &World) {
    let db = world.open();
    let refused = db.write(|conn| {
        add(conn, "a")?;
        conn.query(COUNT, &[])?;
        add(conn, "b")?;
        Err::<(), _>(StoreError::Refused)
    });
    assert!(matches!(refused, Err(StoreError::Refused)), "{refused:?}");
    assert_eq!(names(&db), [""; 0]);
    add_alone(&db, "c").expect("the handle still works");
    assert_eq!(names(&db), ["c"]);
}

fn an_error_loses_the_transaction_even_if_the_job_goes_on(world: &World) {
    let db = world.open();
    add_alone(&db, "taken").expect("the first is written");
    let result = db.write(|conn| {
        add(conn, "before")?;
        let refused =
            conn.query("INSERT INTO notes (name) VALUES ($1) RETURNING id", &["taken".into()]);
        assert!(matches!(refused, Err(DbError::Unique { .. })), "{refused:?}");
        let later = add(conn, "after");
        assert!(matches!(later, Err(DbError::Unique { .. })), "{later:?}");
        Ok::<(), DbError>(())
    });
    assert!(matches!(result, Err(DbError::Unique { .. })), "{result:?}");
    assert_eq!(names(&db), ["taken"]);
}

fn a_conflict_that_the_statement_expects_is_no_error(world: &World) {
    let db = world.open();
    add_alone(&db, "taken").expect("the first is written");
    let rows = db
        .write(|conn| {
            conn.query(
                "INSERT INTO notes (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING id",
                &["taken".into()],
            )
        })
        .expect("the conflict is expected");
    assert!(rows.is_empty());
}

fn a_panic_is_answered_and_leaves_nothing(world: &World) {
    let db = world.open();
    let result = db.write(|conn| {
        add(conn, "a")?;
        conn.query(COUNT, &[])?;
        if no_names().is_empty() {
            panic!("out of cheese");
        }
        Ok::<(), DbError>(())
    });
    assert!(
        matches!(&result, Err(DbError::Panicked { message }) if message == "out of cheese"),
        "{result:?}"
    );
    add_alone(&db, "b").expect("the handle still works");
    assert_eq!(names(&db), ["b"]);
}

fn no_names() -> Vec<String> {
    Vec::new()
}

fn a_read_cannot_change_anything(world: &World) {
    let db = world.open();
    let result = db.read(|conn| add(conn, "a"));
    assert!(matches!(result, Err(DbError::WriteInRead)), "{result:?}");
    let result = db.read(|conn| {
        conn.query("INSERT INTO notes (name) VALUES ('b') RETURNING id", &[]).map(|_| ())
    });
    assert!(matches!(result, Err(DbError::WriteInRead)), "{result:?}");
    assert_eq!(names(&db), [""; 0]);
}

fn a_read_sees_one_moment(world: &World) {
    let db = world.open();
    let other = world.open();
    let (before, after) = db
        .read(|conn| {
            let before = conn.query(COUNT, &[])?[0].int(0)?;
            thread::scope(|scope| scope.spawn(|| add_alone(&other, "late")).join())
                .expect("no panic")?;
            Ok::<_, DbError>((before, conn.query(COUNT, &[])?[0].int(0)?))
        })
        .expect("the counts are read");
    assert_eq!((before, after), (0, 0));
    assert_eq!(names(&db), ["late"]);
}

fn a_write_is_seen_by_later_statements_of_its_job(world: &World) {
    let db = world.open();
    let seen = db
        .write(|conn| {
            add(conn, "a")?;
            add(conn, "b")?;
            conn.query(COUNT, &[])?[0].int(0)
        })
        .expect("the job succeeds");
    assert_eq!(seen, 2);
}

fn a_job_cannot_start_another(world: &World) {
    let db = world.open();
    let inner = db.clone();
    let result = db.write(move |_| inner.read(|conn| conn.query(COUNT, &[]).map(|_| ())));
    assert!(matches!(result, Err(DbError::Nested)), "{result:?}");
}

fn many_threads_and_handles_lose_no_write(world: &World) {
    const THREADS: usize = 8;
    const JOBS: usize = 25;
    let handles = [world.open(), world.open()];
    thread::scope(|scope| {
        for number in 0..THREADS {
            let db = &handles[number % handles.len()];
            scope.spawn(move || {
                for _ in 0..JOBS {
                    db.write(|conn| {
                        let before = conn.query(RAISED, &["a".into()])?[0].int(0)?;
                        conn.write(RAISE, &["a".into()])?;
                        conn.write(RAISE, &["b".into()])?;
                        Ok::<i64, DbError>(before)
                    })
                    .expect("the counters are raised");
                }
            });
        }
    });
    let all = i64::try_from(THREADS * JOBS).expect("a small number");
    assert_eq!(raised(&handles[0], "a"), all);
    assert_eq!(raised(&handles[1], "b"), all);
}

fn a_commit_wakes_waiters_of_other_handles(world: &World) {
    let (here, there) = (world.open(), world.open());
    // The first wait returns at once and shows that listening has begun.
    assert_eq!(there.wait(there.mark(), PATIENCE), Waited::Notified);
    let mark = there.mark();
    here.write(|conn| {
        conn.notify();
        add(conn, "a")
    })
    .expect("the note is written");
    assert_eq!(there.wait(mark, PATIENCE), Waited::Notified);
    assert_eq!(names(&there), ["a"]);
}

fn a_commit_wakes_waiters_of_its_own_handle(world: &World) {
    let db = world.open();
    let mark = db.mark();
    db.write(|conn| {
        conn.notify();
        add(conn, "a")
    })
    .expect("the note is written");
    assert_ne!(db.mark(), mark);
    assert_eq!(db.wait(mark, PATIENCE), Waited::Notified);
}

fn a_job_that_was_undone_wakes_nobody(world: &World) {
    let db = world.open();
    let mark = db.mark();
    let refused = db.write(|conn| {
        conn.notify();
        Err::<(), _>(StoreError::Refused)
    });
    assert!(matches!(refused, Err(StoreError::Refused)));
    add_alone(&db, "quiet").expect("the note is written");
    assert_eq!(db.mark(), mark);
}

fn waiting_ends(world: &World) {
    let db = world.open();
    assert_eq!(db.wait(db.mark(), PATIENCE), Waited::Notified);
    assert_eq!(db.wait(db.mark(), Duration::ZERO), Waited::TimedOut);
}

fn concurrent_opens_apply_each_migration_once(world: &World) {
    const THREADS: usize = 6;
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                world.try_open(&[NOTES, COLOURS]).expect("the store opens")
            });
        }
    });
    let db = world.try_open(&[NOTES, COLOURS]).expect("the store opens");
    let taken = db
        .read(|conn| {
            conn.query("SELECT version, name FROM schema_versions ORDER BY version", &[])?
                .iter()
                .map(|row| Ok((row.int(0)?, row.text(1)?.to_owned())))
                .collect::<Result<Vec<_>, DbError>>()
        })
        .expect("the steps are read");
    assert_eq!(taken, [(1, "notes".to_owned()), (2, "colours".to_owned())]);
}

fn an_older_store_is_migrated(world: &World) {
    add_alone(&world.open(), "old").expect("the note is written");
    let db = world.try_open(&[NOTES, COLOURS]).expect("the store opens");
    db.write(|conn| conn.write("UPDATE notes SET colour = 'red'", &[]))
        .expect("the new column is there");
    assert_eq!(names(&db), ["old"]);
}

fn a_newer_store_is_refused(world: &World) {
    drop(world.try_open(&[NOTES, COLOURS]).expect("the store opens"));
    let error = world.try_open(&[NOTES]).err().expect("it is too new");
    assert!(matches!(error, DbError::NewerSchema { found: 2, known: 1 }), "{error:?}");
}

fn a_failed_migration_leaves_nothing(world: &World) {
    const WRONG: Migration = Migration {
        version: 2,
        name: "wrong",
        sql: "CREATE TABLE half (id {int})\n--;\nCREATE NONSENSE",
    };
    drop(world.open());
    let error = world.try_open(&[NOTES, WRONG]).err().expect("nonsense");
    assert!(matches!(error, DbError::Migration { version: 2, name: "wrong", .. }), "{error:?}");
    let db = world.try_open(&[NOTES, COLOURS]).expect("the store opens");
    let half = db.read(|conn| conn.query("SELECT id FROM half", &[]).map(|_| ()));
    assert!(half.is_err(), "the first half of the step was kept");
}

#[test]
fn targets_are_read_and_shown_without_secrets() {
    let shown = |text: &str| text.parse::<Target>().map(|target| target.to_string());
    assert_eq!(shown("a/b.db").expect("a path"), "a/b.db");
    assert_eq!(shown("sqlite:a/b.db").expect("a path"), "a/b.db");
    assert_eq!(shown("sqlite:///a/b.db").expect("a path"), "/a/b.db");
    assert_eq!(
        shown("postgres://me:secret@localhost:5433/plans").expect("a URL"),
        "postgres://me@localhost:5433/plans"
    );
    let target: Target = "postgresql://me:secret@127.0.0.1/plans".parse().expect("a URL");
    assert!(!format!("{target:?} {target}").contains("secret"));
    for refused in [
        "",
        ":memory:",
        "mysql://localhost/x",
        "postgres://me:se@cret@localhost/x",
        "postgres://me:secret@localhost:port/x",
        "postgres:///x",
        "postgres://me:secret@db.example.org/x",
        "postgres://me:secret@localhost/x?sslmode=require",
    ] {
        let error = shown(refused).expect_err(refused);
        assert!(matches!(error, DbError::Target { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("cret"), "{error:?}");
    }
    shown("postgres://me@db.example.org/x?sslmode=disable").expect("the user has asked for it");
}

#[test]
fn a_server_that_is_not_there_is_reported_without_the_password() {
    let target = Target::Postgres("postgres://me:secret@127.0.0.1:1/x".to_owned());
    let error = Db::open(&target, &Options::default(), &[]).err().expect("no server");
    assert!(matches!(error, DbError::Open { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"));
}

#[test]
fn strange_schema_names_are_refused() {
    for name in ["", "Upper", "semi;colon", "1st", "with space", "quote\"d"] {
        let options = Options { schema: Some(name.to_owned()), ..Options::default() };
        let target = Target::Postgres("postgres://me@127.0.0.1:1/x".to_owned());
        let error = Db::open(&target, &options, &[]).err().expect(name);
        assert!(matches!(error, DbError::Target { .. }), "{error:?}");
    }
}
