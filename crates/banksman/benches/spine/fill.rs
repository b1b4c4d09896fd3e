//! Stores with very many tasks, made by cloning one real task in the database: adding them one by
//! one would take hours.
//!
//! A clone has what a task has (its row, its history, its timer, its edge), each valid for the
//! store. Only the hashes of its history are those of the original, which no part of the benchmark
//! looks at.

use std::path::{Path, PathBuf};

use banksman::clock;
use banksman::store::Store;
use banksman::store::conn::{Options, Target};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::bare_postgres::{Bare, Schema};
use crate::frame::Fault;
use crate::sample;

/// What most of the tasks wait for. One in ten is ready in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    AllReady,
    MostDelayed,
    MostWaiting,
}

impl Queue {
    pub(crate) const ALL: [Self; 3] = [Self::AllReady, Self::MostDelayed, Self::MostWaiting];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReady => "all ready",
            Self::MostDelayed => "90 % delayed",
            Self::MostWaiting => "90 % waiting for another",
        }
    }

    /// The part of the clones that wait, as a condition over the number `n.i`.
    fn waits(self) -> &'static str {
        match self {
            Self::AllReady => "1 = 0",
            Self::MostDelayed | Self::MostWaiting => "n.i % 10 <> 0",
        }
    }
}

/// Columns of a task that a clone takes over as they are.
const KEPT: &str = "project, batch, lifecycle, title, tags, priority, parent, state, kind, state_group, prior, version, \
    entered, fields, counters, epoch, lease_worker, lease_expires_at, spent_runs, spent_tokens, spent_cost_micros, \
    updated_at, entered_at, progress_at, head";

const A_YEAR_MILLIS: i64 = 365 * 86_400_000;

/// The statements that make tasks 2 to `tasks` out of task 1. Both engines understand them.
fn statements(tasks: usize, queue: Queue) -> Vec<String> {
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT CAST(2 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < {tasks})"
    );
    let waits = queue.waits();
    let (open_needs, not_before) = match queue {
        Queue::AllReady => ("0".to_owned(), "NULL".to_owned()),
        Queue::MostDelayed => {
            ("0".to_owned(), format!("CASE WHEN {waits} THEN t.created_at + {A_YEAR_MILLIS} END"))
        }
        Queue::MostWaiting => (format!("CASE WHEN {waits} THEN 1 ELSE 0 END"), "NULL".to_owned()),
    };
    let kept: Vec<String> = KEPT.split(',').map(|name| format!("t.{}", name.trim())).collect();
    let mut all = vec![
        format!(
            "INSERT INTO tasks (id, {KEPT}, open_needs, not_before, queue_rank, created_at) {numbers} \
             SELECT n.i, {}, {open_needs}, CAST({not_before} AS BIGINT), \
             CASE WHEN {waits} THEN NULL ELSE t.queue_rank + n.i END, t.created_at + n.i FROM n, tasks t WHERE t.id = 1",
            kept.join(", "),
        ),
        format!(
            "INSERT INTO audit (task, seq, ts, from_state, to_state, trigger_name, actor, idempotency_key, fields, prev, hash) \
             {numbers} SELECT n.i, a.seq, a.ts, a.from_state, a.to_state, a.trigger_name, a.actor, a.idempotency_key, \
             a.fields, a.prev, a.hash FROM n, audit a WHERE a.task = 1"
        ),
    ];
    match queue {
        Queue::AllReady => {}
        Queue::MostDelayed => all.push(format!(
            "INSERT INTO timers (task, kind, number, entered, due_at) {numbers} \
             SELECT n.i, 'ready', 0, 1, t.created_at + {A_YEAR_MILLIS} FROM n, tasks t WHERE t.id = 1 AND {waits}"
        )),
        Queue::MostWaiting => all.push(format!(
            "INSERT INTO edges (task, needs, kind) {numbers} SELECT n.i, 1, 'blocks' FROM n WHERE {waits}"
        )),
    }
    all
}

/// A store in a file, and the file.
pub(crate) fn sqlite(
    folder: &TempDir,
    tasks: usize,
    queue: Queue,
) -> Result<(Store, PathBuf), Fault> {
    let path = folder.path().join(format!("{tasks}-{queue:?}.db"));
    let store = open(&path)?;
    store.add(sample::new_task(&sample::definition()?, 1), clock::now())?;
    drop(store);
    let connection = Connection::open(&path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -200_000)?;
    connection.execute_batch("BEGIN")?;
    for statement in statements(tasks, queue) {
        connection.execute_batch(&statement)?;
    }
    connection.execute_batch("COMMIT")?;
    // What was not flushed along the way must not be flushed by those who are measured.
    drop(connection);
    std::fs::File::open(&path)?.sync_all()?;
    Ok((open(&path)?, path))
}

fn open(path: &Path) -> Result<Store, Fault> {
    Ok(Store::open(&Target::Sqlite(path.to_owned()), &Options::default())?)
}

/// A schema of the server, with a store that may use so many connections.
pub(crate) fn postgres(
    url: &str,
    tasks: usize,
    queue: Queue,
    connections: usize,
) -> Result<(Schema, Store), Fault> {
    let (schema, store) = Schema::with_store(url, connections)?;
    store.add(sample::new_task(&sample::definition()?, 1), clock::now())?;
    let bare = Bare::connect(&schema)?;
    // The order of commits does not matter for a fill, and a flush for each step of it would only
    // take time.
    bare.batch("SET synchronous_commit = off")?;
    for statement in statements(tasks, queue) {
        bare.batch(&statement)?;
    }
    bare.batch(&format!("SELECT setval(pg_get_serial_sequence('tasks', 'id'), {tasks})"))?;
    // What the server would do by itself within minutes, or in the middle of a measurement.
    bare.batch("VACUUM ANALYZE")?;
    bare.batch("CHECKPOINT")?;
    Ok((schema, store))
}
