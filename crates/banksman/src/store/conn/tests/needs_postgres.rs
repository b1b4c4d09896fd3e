//! What is specific to the PostgreSQL driver: buffered writes, broken connections, retries.

use super::*;

const SESSION: &str = "SELECT pg_backend_pid()";
const END_SESSION: &str = "SELECT pg_terminate_backend($1)";

fn session(conn: &mut dyn Conn) -> Result<i64, DbError> {
    conn.query(SESSION, &[])?[0].int(0)
}

/// Ends a session and waits until the server has done so.
fn end_session(db: &Db, session: i64) {
    db.read(|conn| conn.query(END_SESSION, &[session.into()]).map(|_| ()))
        .expect("the session is ended");
    let is_there = || {
        db.read(|conn| {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
            conn.query(sql, &[session.into()])?[0].int(0)
        })
        .map_err(|error: DbError| error)
        .expect("the sessions are counted")
            > 0
    };
    while is_there() {
        thread::yield_now();
    }
}

#[test]
fn an_error_of_a_buffered_write_comes_from_the_next_query() {
    let world = World::postgres();
    let db = world.open();
    add_alone(&db, "taken").expect("the note is written");
    let result = db.write(|conn| {
        add(conn, "taken").expect("it is held back");
        add(conn, "more").expect("it is held back");
        let rows = conn.query(COUNT, &[]);
        assert!(
            matches!(&rows, Err(DbError::Unique { constraint }) if constraint == "notes_name_key"),
            "{rows:?}"
        );
        rows.map(|_| ())
    });
    assert!(matches!(result, Err(DbError::Unique { .. })), "{result:?}");
    assert_eq!(names(&db), ["taken"]);
}

#[test]
fn an_error_of_a_buffered_write_comes_from_the_commit() {
    let world = World::postgres();
    let db = world.open();
    add_alone(&db, "taken").expect("the note is written");
    let result = db.write(|conn| {
        add(conn, "before")?;
        add(conn, "taken")?;
        add(conn, "after")
    });
    assert!(
        matches!(&result, Err(DbError::Unique { constraint }) if constraint == "notes_name_key"),
        "{result:?}"
    );
    assert_eq!(names(&db), ["taken"]);
    add_alone(&db, "later").expect("the link is clean");
}

#[test]
fn many_buffered_writes_are_all_kept() {
    let world = World::postgres();
    let db = world.open();
    db.write(|conn| {
        for _ in 0..300 {
            conn.write(RAISE, &["a".into()])?;
        }
        let body = SqlValue::from(vec![1; 700 * 1024]);
        conn.write(ADD, &["one".into(), SqlValue::Null, body.clone()])?;
        conn.write(ADD, &["two".into(), SqlValue::Null, body])
    })
    .map_err(|error: DbError| error)
    .expect("the counter is raised");
    assert_eq!(raised(&db, "a"), 300);
    assert_eq!(names(&db), ["one", "two"]);
}

#[test]
fn a_session_that_ended_while_idle_is_replaced() {
    let world = World::postgres();
    let (db, other) = (world.open(), world.open());
    let idle = db.read(session).expect("the session's number");
    end_session(&other, idle);
    // All in one message, including COMMIT: it must not be sent over a dead connection.
    add_alone(&db, "a").expect("a new session is made");
    assert_eq!(names(&db), ["a"]);
}

#[test]
fn a_job_is_retried_if_its_session_ends_before_commit() {
    let world = World::postgres();
    let (db, other) = (world.open(), world.open());
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let killer = other.clone();
    db.write(move |conn| {
        add(conn, "a")?;
        let session = session(conn)?;
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            let killer = &killer;
            thread::scope(|scope| scope.spawn(|| end_session(killer, session)).join())
                .expect("no panic");
        }
        conn.query(COUNT, &[])?;
        add(conn, "b")
    })
    .expect("the job is run again");
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(names(&db), ["a", "b"]);
}

#[test]
fn a_session_that_ends_in_commit_leaves_the_outcome_open() {
    const SUICIDE: Migration = Migration {
        version: 2,
        name: "suicide",
        sql: "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$
              BEGIN
                  PERFORM pg_terminate_backend(pg_backend_pid());
                  PERFORM pg_sleep(60);
                  RETURN NULL;
              END $$
              --;
              CREATE CONSTRAINT TRIGGER end_session AFTER INSERT ON notes
              DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session()",
    };
    let world = World::postgres();
    let db = world.try_open(&[NOTES, SUICIDE]).expect("the store opens");
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let result = db.write(move |conn| {
        counted.fetch_add(1, Ordering::Relaxed);
        add(conn, "a")
    });
    assert!(matches!(result, Err(DbError::CommitUnknown { .. })), "{result:?}");
    assert_eq!(runs.load(Ordering::Relaxed), 1, "it may have been committed");
    assert_eq!(names(&db), [""; 0]);
}

#[test]
fn deadlocked_jobs_both_succeed() {
    const TAKE: &str = "SELECT n FROM counters WHERE name = $1 FOR UPDATE";
    let world = World::postgres();
    let db = world.open();
    let both_hold_one = Arc::new(Barrier::new(2));
    let runs = Arc::new(AtomicU32::new(0));
    thread::scope(|scope| {
        for (first, second) in [("a", "b"), ("b", "a")] {
            let (barrier, runs) = (Arc::clone(&both_hold_one), Arc::clone(&runs));
            let db = &db;
            scope.spawn(move || {
                let mut is_first_run = true;
                db.write(move |conn| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    conn.query(TAKE, &[first.into()])?;
                    if std::mem::take(&mut is_first_run) {
                        barrier.wait();
                    }
                    conn.query(TAKE, &[second.into()])?;
                    conn.write(RAISE, &[first.into()])?;
                    conn.write(RAISE, &[second.into()])
                })
                .expect("the server ends the deadlock and the job runs again");
            });
        }
    });
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!((raised(&db, "a"), raised(&db, "b")), (2, 2));
}

#[test]
fn a_slow_statement_is_ended() {
    let mut world = World::postgres();
    drop(world.open());
    world.options.statement_timeout = Duration::from_millis(50);
    let db = world.open();
    let result = db.write(|conn| conn.query("SELECT 1 FROM pg_sleep(60)", &[]).map(|_| ()));
    assert!(matches!(result, Err(DbError::Timeout { .. })), "{result:?}");
    add_alone(&db, "a").expect("the link is clean");
}

#[test]
fn a_lock_held_for_too_long_is_reported() {
    let mut world = World::postgres();
    let holder = world.open();
    world.options.busy_timeout = Duration::from_millis(50);
    let db = world.open();
    let result = holder.write(move |conn| {
        conn.write(RAISE, &["a".into()])?;
        conn.query(COUNT, &[])?;
        let other = &db;
        let raise = || other.write(|conn| conn.write(RAISE, &["a".into()]));
        let result = thread::scope(|scope| scope.spawn(raise).join()).expect("no panic");
        Ok::<_, DbError>(result)
    });
    let result = result.expect("the holder commits");
    assert!(matches!(result, Err(DbError::Busy { .. })), "{result:?}");
    assert_eq!(raised(&holder, "a"), 1);
}

#[test]
fn no_statement_can_change_anything_without_its_begin() {
    let world = World::postgres();
    let db = world.open();
    // A job that ends its own transaction simulates a BEGIN that the server rejected.
    let result = db.write(|conn| {
        conn.query("ROLLBACK", &[])?;
        add(conn, "stray")
    });
    assert!(result.is_err(), "{result:?}");
    assert_eq!(names(&db), [""; 0]);
}

#[test]
fn connections_are_bounded() {
    let mut world = World::postgres();
    // The server creates schemas one after the other, which may take longer than this test waits.
    drop(world.open());
    world.options.connections = 1;
    world.options.busy_timeout = Duration::from_millis(50);
    let db = world.open();
    let second = db.clone();
    let result = db
        .write(move |conn| {
            conn.query(COUNT, &[])?;
            let second = &second;
            let read = || second.read(|conn| conn.query(COUNT, &[]).map(|_| ()));
            let result = thread::scope(|scope| scope.spawn(read).join()).expect("no panic");
            Ok::<_, DbError>(result)
        })
        .expect("the first commits");
    assert!(matches!(result, Err(DbError::Busy { .. })), "{result:?}");
}
