//! What is specific to the SQLite driver: groups, files and their permissions.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;
use crate::store::conn::Driver;
use crate::store::conn::wake::{WakeFile, WakeSignal, Watch};

fn path(world: &World) -> PathBuf {
    world.folder.path().join("store.db")
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The jobs that wait and the commits.
fn counts(db: &Db) -> (u64, u64) {
    let Driver::Sqlite(sqlite) = &*db.0 else { unreachable!("these tests are about SQLite") };
    let counts = &sqlite.writer.counts;
    (counts.waiting.load(Ordering::Relaxed), counts.commits.load(Ordering::Relaxed))
}

type Job<T> = Box<dyn FnOnce(&Db) -> T + Send>;

/// Makes the jobs share one commit: the writer is kept busy until all of them wait.
fn in_one_group<T: Send>(db: &Db, jobs: Vec<Job<T>>) -> Vec<T> {
    let (running, is_running) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let blocker = db.clone();
    thread::scope(|scope| {
        scope.spawn(move || {
            blocker
                .write(move |_| {
                    running.send(()).expect("the test listens");
                    released.recv().expect("the test releases");
                    Ok::<(), DbError>(())
                })
                .expect("the blocker commits");
        });
        is_running.recv().expect("the blocker runs");
        let mut threads = Vec::new();
        for (number, job) in jobs.into_iter().enumerate() {
            threads.push(scope.spawn(move || job(db)));
            // One after the other, so that their order in the group is known.
            while counts(db).0 <= number as u64 {
                thread::yield_now();
            }
        }
        release.send(()).expect("the blocker waits");
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.collect()
    })
}

#[test]
fn jobs_that_wait_share_one_commit() {
    let world = World::sqlite();
    let db = world.open();
    let jobs = (0..16).map(|_| -> Job<Result<(), DbError>> {
        Box::new(|db| db.write(|conn| conn.write(RAISE, &["a".into()])))
    });
    for result in in_one_group(&db, jobs.collect()) {
        result.expect("the counter is raised");
    }
    assert_eq!(raised(&db, "a"), 16);
    assert_eq!(counts(&db), (0, 2));
}

#[test]
fn a_member_that_fails_or_panics_is_undone_alone() {
    let world = World::sqlite();
    let db = world.open();
    let results = in_one_group(
        &db,
        vec![
            Box::new(|db: &Db| db.write(|conn| Ok(add(conn, "first")?))),
            Box::new(|db: &Db| {
                db.write(|conn| {
                    add(conn, "refused")?;
                    Err(StoreError::Refused)
                })
            }),
            Box::new(|db: &Db| {
                db.write(|conn| {
                    add(conn, "twice")?;
                    Ok(add(conn, "first")?)
                })
            }),
            Box::new(|db: &Db| {
                db.write(|conn| {
                    add(conn, "panicked")?;
                    assert!(no_names().len() > 1, "boo");
                    Ok(())
                })
            }),
            Box::new(|db: &Db| db.write(|conn| Ok(add(conn, "last")?))),
        ],
    );
    assert!(
        matches!(
            results.as_slice(),
            [
                Ok(()),
                Err(StoreError::Refused),
                Err(StoreError::Db(DbError::Unique { .. })),
                Err(StoreError::Db(DbError::Panicked { .. })),
                Ok(()),
            ]
        ),
        "{results:?}"
    );
    assert_eq!(names(&db), ["first", "last"]);
    assert_eq!(counts(&db), (0, 2));
}

#[test]
fn a_commit_that_fails_is_answered_to_every_member() {
    const FAMILY: Migration = Migration {
        version: 2,
        name: "family",
        sql: "CREATE TABLE children (
                  parent {int} NOT NULL REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED
              )",
    };
    let world = World::sqlite();
    let db = world.try_open(&[NOTES, FAMILY]).expect("the store opens");
    let mark = db.mark();
    let results = in_one_group(
        &db,
        vec![
            Box::new(|db: &Db| {
                db.write(|conn| {
                    conn.notify();
                    Ok(add(conn, "innocent")?)
                })
            }),
            // The database detects this only at the commit.
            Box::new(|db: &Db| {
                db.write(|conn| Ok(conn.write("INSERT INTO children (parent) VALUES (77)", &[])?))
            }),
            // A refusal may depend on what another member wrote, so it is withdrawn as well.
            Box::new(|db: &Db| db.write(|_| Err(StoreError::Refused))),
        ],
    );
    for result in &results {
        assert!(matches!(result, Err(StoreError::Db(DbError::Other { .. }))), "{result:?}");
    }
    assert_eq!(names(&db), [""; 0]);
    assert_eq!(db.mark(), mark);
    add_alone(&db, "after").expect("the handle still works");
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_half_kept() {
    let world = World::sqlite();
    let db = world.open();
    let pages = db
        .write(|conn| conn.query("PRAGMA page_count", &[])?[0].int(0))
        .expect("the pages are counted");
    let limit: &'static str = format!("PRAGMA max_page_count = {}", pages + 4).leak();
    db.write(move |conn| conn.query(limit, &[]).map(|_| ())).expect("the limit is set");
    let large = || SqlValue::from(vec![7; 64 * 1024]);
    let result = db.write(move |conn| {
        add(conn, "small")?;
        conn.write(ADD, &["large".into(), SqlValue::Null, large()])
    });
    assert!(matches!(result, Err(DbError::Full { .. })), "{result:?}");
    assert_eq!(names(&db), [""; 0]);
    add_alone(&db, "fits").expect("a small note still fits");
    assert_eq!(names(&db), ["fits"]);
}

#[test]
fn a_job_that_ends_the_transaction_itself_is_an_error() {
    let world = World::sqlite();
    let db = world.open();
    let result = db.write(|conn| {
        conn.write("ROLLBACK", &[])?;
        add(conn, "outside")
    });
    assert!(matches!(result, Err(DbError::Other { .. })), "{result:?}");
    assert_eq!(names(&db), [""; 0]);
}

#[test]
fn a_lock_held_for_too_long_is_reported() {
    let mut world = World::sqlite();
    world.options.busy_timeout = Duration::from_millis(20);
    let db = world.open();
    let other = Connection::open(path(&world)).expect("the file opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let result = add_alone(&db, "a");
    assert!(matches!(result, Err(DbError::Busy { .. })), "{result:?}");
    other.execute_batch("ROLLBACK").expect("the lock is released");
    add_alone(&db, "b").expect("the lock is free again");
    assert_eq!(names(&db), ["b"]);
}

#[test]
fn a_lock_held_for_a_while_is_waited_for() {
    let world = World::sqlite();
    let db = world.open();
    let other = Connection::open(path(&world)).expect("the file opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| add_alone(&db, "a"));
        while counts(&db).0 > 0 {
            thread::yield_now();
        }
        other.execute_batch("ROLLBACK").expect("the lock is released");
        waiter.join().expect("no panic").expect("the lock came free");
    });
    assert_eq!(names(&db), ["a"]);
}

#[test]
fn touching_the_wake_file_notifies() {
    let world = World::sqlite();
    let signal = Arc::new(WakeSignal::default());
    let here = WakeFile::open(&path(&world)).expect("the file is made");
    let there = WakeFile::open(&path(&world)).expect("the file opens");
    assert_eq!(there.watch(&signal), Watch::Began);
    assert_eq!(there.watch(&signal), Watch::Running);
    let mark = signal.mark();
    here.touch().expect("the file is written");
    assert_eq!(signal.wait(mark, PATIENCE), Waited::Notified);
}

#[test]
fn a_periodic_check_makes_up_for_a_lost_hint() {
    let world = World::sqlite();
    let db = world.open();
    assert_eq!(db.wait(db.mark(), PATIENCE), Waited::Notified);
    let mark = db.mark();
    let other = Connection::open(path(&world)).expect("the file opens");
    other.execute("INSERT INTO notes (name) VALUES ('silent')", []).expect("the note is written");
    assert_eq!(db.wait(mark, PATIENCE), Waited::Notified);
}

#[test]
fn a_missing_folder_is_made_for_its_owner_only() {
    let world = World::sqlite();
    let target = Target::Sqlite(world.folder.path().join("a/b/store.db"));
    let db = Db::open(&target, &world.options, &[NOTES]).expect("the store opens");
    add_alone(&db, "a").expect("the note is written");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| {
            let found = fs::metadata(world.folder.path().join(name)).expect("it exists");
            found.permissions().mode() & 0o777
        };
        assert_eq!((mode("a"), mode("a/b")), (0o700, 0o700));
        for name in ["store.db", "store.db-wal", "store.db-wake"] {
            assert_eq!(mode(&format!("a/b/{name}")), 0o600, "{name}");
        }
    }
    drop(db);
    assert_eq!(listed(&world.folder.path().join("a/b")), ["store.db", "store.db-wake"]);
}

/// Checks that a refused file is unchanged and that no other file appears.
#[track_caller]
fn refused_untouched(content: &[u8]) -> DbError {
    let world = World::sqlite();
    fs::write(path(&world), content).expect("the file is written");
    let error = world.try_open(&[NOTES]).err().expect("it is refused");
    assert_eq!(fs::read(path(&world)).expect("it is there"), content);
    assert_eq!(listed(world.folder.path()), ["store.db"]);
    error
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let error = refused_untouched(b"Dear diary,\n");
    assert!(matches!(error, DbError::NotADatabase { .. }), "{error:?}");
    let error = refused_untouched(&[0; 4096]);
    assert!(matches!(error, DbError::NotADatabase { .. }), "{error:?}");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let world = World::sqlite();
    let other = Connection::open(path(&world)).expect("the file opens");
    other
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE x (y); PRAGMA application_id = 7")
        .expect("the table is made");
    drop(other);
    let error = refused_untouched(&fs::read(path(&world)).expect("it is there"));
    assert!(matches!(error, DbError::Foreign { application_id: 7, .. }), "{error:?}");
}

#[test]
fn a_truncated_store_is_refused() {
    let world = World::sqlite();
    add_alone(&world.open(), "a").expect("the note is written");
    let whole = fs::read(path(&world)).expect("it is there");
    let error = refused_untouched(&whole[..60]);
    assert!(matches!(error, DbError::Corrupt { .. }), "{error:?}");
    fs::write(path(&world), &whole[..4096]).expect("the file is cut");
    let error = world.try_open(&[NOTES]).err().expect("it is refused");
    assert!(matches!(error, DbError::Corrupt { .. }), "{error:?}");
}

#[test]
fn an_empty_file_becomes_a_store() {
    let world = World::sqlite();
    fs::write(path(&world), b"").expect("the file is written");
    add_alone(&world.open(), "a").expect("the note is written");
    assert_eq!(names(&world.open()), ["a"]);
}

#[test]
fn a_folder_is_refused() {
    let world = World::sqlite();
    let target = Target::Sqlite(world.folder.path().to_owned());
    let error = Db::open(&target, &world.options, &[NOTES]).err().expect("a folder");
    assert!(matches!(error, DbError::NotADatabase { .. }), "{error:?}");
}

#[test]
fn a_new_store_that_cannot_be_finished_is_not_left_behind() {
    const WRONG: Migration = Migration { version: 1, name: "wrong", sql: "CREATE NONSENSE" };
    let world = World::sqlite();
    let error = world.try_open(&[WRONG]).err().expect("nonsense");
    assert!(matches!(error, DbError::Migration { .. }), "{error:?}");
    assert_eq!(listed(world.folder.path()), [""; 0]);
}

/// A folder in which not even root can create a file.
#[cfg(target_os = "linux")]
fn read_only_folder(world: &World) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = world.folder.path().join("locked");
    fs::create_dir(&folder).expect("the folder is made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("it is locked");
    match fs::write(folder.join("probe"), b"") {
        Err(_) => folder,
        Ok(()) => PathBuf::from("/sys/kernel"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_folder_is_reported() {
    let world = World::sqlite();
    let target = Target::Sqlite(read_only_folder(&world).join("store.db"));
    let error = Db::open(&target, &world.options, &[NOTES]).err().expect("it is locked");
    assert!(matches!(error, DbError::ReadOnly { .. }), "{error:?}");
}

#[test]
fn durability_settings_are_on() {
    let world = World::sqlite();
    let db = world.open();
    let settings = db
        .write(|conn| {
            let mut all = vec![conn.query("PRAGMA journal_mode", &[])?[0].text(0)?.to_owned()];
            for sql in ["PRAGMA synchronous", "PRAGMA foreign_keys", "PRAGMA trusted_schema"] {
                all.push(conn.query(sql, &[])?[0].int(0)?.to_string());
            }
            Ok::<_, DbError>(all)
        })
        .expect("the settings are read");
    assert_eq!(settings, ["wal", "2", "1", "0"]);
}
