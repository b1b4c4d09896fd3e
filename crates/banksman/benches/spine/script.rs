//! What the store writes for one move, as bare statements, so that the database alone can be made
//! to write the same.
//!
//! The rows are taken from a store that made the moves, so they have the same columns and values of
//! the same size. Only the task's id and version differ from one use to the next.

use banksman::store::Store;
use banksman::store::conn::SqlValue;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use tempfile::TempDir;

use crate::frame::Fault;
use crate::sample;

/// A value of a statement, or what stands for it.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Fixed(SqlValue),
    Task,
    /// The version that the move leads to.
    Version,
    /// The version that it was decided on.
    Before,
}

impl Slot {
    pub(crate) fn fill(&self, task: i64, version: i64) -> SqlValue {
        match self {
            Self::Fixed(value) => value.clone(),
            Self::Task => SqlValue::Int(task),
            Self::Version => SqlValue::Int(version),
            Self::Before => SqlValue::Int(version - 1),
        }
    }
}

/// One statement, with `$1` to `$n` in the order of its slots.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) sql: String,
    pub(crate) slots: Vec<Slot>,
}

impl Line {
    /// Refuses a statement that wrote nothing: it would be fast for the wrong reason. Only a
    /// removal may find nothing.
    pub(crate) fn check(sql: &str, rows: u64) -> Result<(), Fault> {
        if rows == 0 && !sql.starts_with("DELETE") {
            return Err(format!("a bare statement wrote nothing: {sql}").into());
        }
        Ok(())
    }
}

/// What each move writes.
pub(crate) struct Scripts {
    pub(crate) add: Vec<Line>,
    pub(crate) claim: Vec<Line>,
    pub(crate) finish: Vec<Line>,
    pub(crate) to_left: Vec<Line>,
    pub(crate) to_right: Vec<Line>,
}

/// All columns of a task; the id is the first.
const TASK: &str = "id, project, batch, lifecycle, title, tags, priority, parent, state, kind, state_group, prior, \
    version, entered, fields, counters, open_needs, not_before, queue_rank, epoch, lease_worker, lease_expires_at, \
    spent_runs, spent_tokens, spent_cost_micros, created_at, updated_at, entered_at, progress_at, head";

/// The columns that a move may change.
const MOVED: &str = "state, kind, state_group, prior, version, entered, fields, counters, open_needs, not_before, \
    queue_rank, epoch, lease_worker, lease_expires_at, spent_runs, spent_tokens, spent_cost_micros, updated_at, \
    entered_at, progress_at, head";

const AUDIT: &str =
    "task, seq, ts, from_state, to_state, trigger_name, actor, idempotency_key, fields, prev, hash";
const CHANGE: &str = "at, kind, task, number";
const TIMER: &str = "task, kind, number, entered, due_at";
const RUN: &str = "task, epoch, worker, activity, started_at";

/// The two tasks that the rows are taken from: one goes through a whole cycle, one to and fro.
const CYCLED: i64 = 1;
const SWUNG: i64 = 2;

impl Scripts {
    pub(crate) fn record() -> Result<Self, Fault> {
        let folder = sample::folder()?;
        let store = sample::sqlite_store(&folder, "sample.db")?;
        let definition = sample::definition()?;
        let rows = Rows::open(&folder)?;
        store.add(sample::new_task(&definition, 1), banksman::clock::now())?;
        let add = vec![
            rows.insert("tasks", TASK, CYCLED)?,
            rows.insert("audit", AUDIT, CYCLED)?,
            rows.insert("changes", CHANGE, CYCLED)?,
        ];
        let claimed = sample::claim(&store)?.ok_or("the sample cannot be claimed")?;
        let claim = vec![
            rows.update(CYCLED)?,
            rows.insert("audit", AUDIT, CYCLED)?,
            rows.insert("changes", CHANGE, CYCLED)?,
            delete_timers(),
            rows.insert("timers", TIMER, CYCLED)?,
            rows.insert("runs", RUN, CYCLED)?,
        ];
        sample::finish(&store, &claimed)?;
        let finish = vec![
            rows.update(CYCLED)?,
            rows.insert("audit", AUDIT, CYCLED)?,
            rows.insert("changes", CHANGE, CYCLED)?,
            delete_timers(),
            rows.end_run()?,
        ];
        let (to_left, to_right) = swing(&store, &rows)?;
        Ok(Self { add, claim, finish, to_left, to_right })
    }
}

fn swing(store: &Store, rows: &Rows) -> Result<(Vec<Line>, Vec<Line>), Fault> {
    let definition = sample::definition()?;
    let added = store.add(sample::new_task(&definition, 2), banksman::clock::now())?;
    let id = added.stored.task.id;
    sample::move_to(store, id, "left")?;
    sample::move_to(store, id, "right")?;
    let to_right = rows.swung()?;
    sample::move_to(store, id, "left")?;
    let to_left = rows.swung()?;
    Ok((to_left, to_right))
}

fn delete_timers() -> Line {
    Line { sql: "DELETE FROM timers WHERE task = $1".to_owned(), slots: vec![Slot::Task] }
}

/// Reads what the store wrote.
struct Rows(Connection);

impl Rows {
    fn open(folder: &TempDir) -> Result<Self, Fault> {
        Ok(Self(Connection::open(folder.path().join("sample.db"))?))
    }

    /// The newest row of a table that belongs to the task.
    fn values(&self, table: &str, columns: &str, task: i64) -> Result<Vec<Slot>, Fault> {
        let (owner, order) = match table {
            "tasks" => ("id", "id"),
            "audit" | "changes" => ("task", "seq"),
            _ => ("task", "task"),
        };
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE {owner} = ?1 ORDER BY {order} DESC LIMIT 1"
        );
        let row = self.0.query_row(&sql, [task], |row| {
            let count = row.as_ref().column_count();
            (0..count).map(|index| plain(row.get_ref(index)?, index)).collect::<Result<Vec<_>, _>>()
        })?;
        let names = columns.split(',').map(str::trim);
        Ok(names.zip(row).map(|(name, value)| slot(table, name, value)).collect())
    }

    fn insert(&self, table: &str, columns: &str, task: i64) -> Result<Line, Fault> {
        let slots = self.values(table, columns, task)?;
        let marks: Vec<String> = (1..=slots.len()).map(|number| format!("${number}")).collect();
        let sql = format!("INSERT INTO {table} ({columns}) VALUES ({})", marks.join(", "));
        Ok(Line { sql, slots })
    }

    fn update(&self, task: i64) -> Result<Line, Fault> {
        let mut slots = self.values("tasks", MOVED, task)?;
        let names = MOVED.split(',').map(str::trim).zip(1..);
        let sets: Vec<String> = names.map(|(name, number)| format!("{name} = ${number}")).collect();
        let (id, before) = (slots.len() + 1, slots.len() + 2);
        let sql = format!(
            "UPDATE tasks SET {} WHERE id = ${id} AND version = ${before}",
            sets.join(", ")
        );
        slots.extend([Slot::Task, Slot::Before]);
        Ok(Line { sql, slots })
    }

    /// The last move of the task that goes to and fro.
    fn swung(&self) -> Result<Vec<Line>, Fault> {
        let record = self.insert("audit", AUDIT, SWUNG)?;
        Ok(vec![self.update(SWUNG)?, record, self.insert("changes", CHANGE, SWUNG)?])
    }

    fn end_run(&self) -> Result<Line, Fault> {
        let mut slots = vec![Slot::Task];
        slots.extend(self.values("runs", "epoch, ended_at, outcome", CYCLED)?);
        let sql = "UPDATE runs SET ended_at = $3, outcome = $4 WHERE task = $1 AND epoch = $2 AND ended_at IS NULL";
        Ok(Line { sql: sql.to_owned(), slots })
    }
}

fn slot(table: &str, column: &str, value: SqlValue) -> Slot {
    match (table, column) {
        ("tasks", "id") | (_, "task") => Slot::Task,
        ("tasks", "version" | "entered")
        | ("audit", "seq")
        | ("changes", "number")
        | ("timers", "entered") => Slot::Version,
        _ => Slot::Fixed(value),
    }
}

fn plain(value: ValueRef<'_>, index: usize) -> rusqlite::Result<SqlValue> {
    match value {
        ValueRef::Null => Ok(SqlValue::Null),
        ValueRef::Integer(number) => Ok(SqlValue::Int(number)),
        ValueRef::Text(_) => Ok(SqlValue::Text(value.as_str()?.to_owned())),
        ValueRef::Blob(bytes) => Ok(SqlValue::Blob(bytes.to_vec())),
        ValueRef::Real(_) => {
            let kind = value.data_type();
            Err(rusqlite::Error::InvalidColumnType(index, "a row of the sample".to_owned(), kind))
        }
    }
}
