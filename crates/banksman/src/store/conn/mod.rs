//! One small interface to both databases: transactions of plain statements, and wake-ups after a
//! change.
//!
//! Everything above writes its SQL once and passes it to a [`Conn`]. This module knows nothing of
//! tasks, leases or any other domain term, and must never learn one. Read next: `sqlite` for group
//! commit, `postgres` for pipelining, `wake` for how a commit in one process wakes another.

mod error;
mod migrate;
mod pool;
mod postgres;
mod sqlite;
mod target;
mod value;
mod wake;

#[cfg(test)]
pub(super) mod tests;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use error::{Cause, DbError};
pub use migrate::Migration;
pub use target::Target;
pub(super) use value::storable;
pub use value::{FromValue, Row, SqlValue};
pub use wake::{Waited, WakeMark};

type Result<T, E = DbError> = std::result::Result<T, E>;

/// The engine; only for the few statements that must differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// Whether a transaction may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Read,
}

/// One open transaction.
///
/// Statements are written once, with `$1` to `$n`, in the SQL that both engines understand. After
/// an error the transaction is lost on either engine: each later statement returns the same error,
/// and nothing is kept even if the job returns `Ok`. An expected conflict therefore belongs into
/// the statement (`ON CONFLICT`).
///
/// A constraint must be checked by its statement, not deferred to the commit: in SQLite several
/// jobs share a commit, and all of them would fail. In PostgreSQL a job sees what others commit
/// while it runs, so it locks (`FOR UPDATE`) or guards (`WHERE version = …`) what it decides on.
pub trait Conn {
    /// Runs a statement and returns its rows. It sees earlier writes of the same transaction.
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>>;

    /// Runs a statement without returning rows. The driver may delay it until the next query or the
    /// commit, so its error may come from there.
    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()>;

    /// Wakes waiters after the transaction is committed, never before.
    fn notify(&mut self);

    fn dialect(&self) -> Dialect;
}

/// Timeouts and the number of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// For another writer's lock, or for a free connection.
    pub busy_timeout: Duration,
    /// PostgreSQL: how long one statement may run.
    pub statement_timeout: Duration,
    /// The most connections: readers of an SQLite file, all transactions of a PostgreSQL database.
    pub connections: usize,
    /// PostgreSQL: the schema to use, created if missing. Without it the server's search path
    /// decides.
    pub schema: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            connections: 8,
            schema: None,
        }
    }
}

/// A handle to a database. Clones share one set of connections.
#[derive(Clone)]
pub struct Db(Arc<Driver>);

enum Driver {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Db {
    /// Opens the database, creates it if it is a new SQLite file or an empty schema, and applies
    /// migrations.
    pub fn open(target: &Target, options: &Options, migrations: &[Migration]) -> Result<Self> {
        let driver = match target {
            Target::Sqlite(path) => {
                Driver::Sqlite(sqlite::Sqlite::open(path, options, migrations)?)
            }
            Target::Postgres(url) => {
                Driver::Postgres(postgres::Postgres::open(url, options, migrations)?)
            }
        };
        Ok(Self(Arc::new(driver)))
    }

    /// Runs the job in one transaction and commits it if the job returns `Ok`.
    ///
    /// The job may run again after a serialization failure or a lost connection, so it must act on
    /// nothing but the [`Conn`]. A panic in it becomes [`DbError::Panicked`], and nothing is kept.
    pub fn write<T, E>(
        &self,
        job: impl FnMut(&mut dyn Conn) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
    {
        refuse_nesting()?;
        match &*self.0 {
            Driver::Sqlite(sqlite) => sqlite.writer.write(job),
            Driver::Postgres(postgres) => postgres.transact(Access::Write, job),
        }
    }

    /// Runs the job on one consistent snapshot, which it cannot change.
    pub fn read<T, E>(&self, job: impl FnMut(&mut dyn Conn) -> Result<T, E>) -> Result<T, E>
    where
        E: From<DbError>,
    {
        refuse_nesting()?;
        match &*self.0 {
            Driver::Sqlite(sqlite) => sqlite.read(job),
            Driver::Postgres(postgres) => postgres.transact(Access::Read, job),
        }
    }

    /// A mark of the present: take it before a query, and pass it to [`Db::wait`] if the query
    /// found nothing to do.
    pub fn mark(&self) -> WakeMark {
        match &*self.0 {
            Driver::Sqlite(sqlite) => sqlite.signal.mark(),
            Driver::Postgres(postgres) => postgres.signal.mark(),
        }
    }

    /// Blocks until this or another process notifies after the mark was taken, or until the time is
    /// over.
    ///
    /// It is only a hint: spurious wake-ups happen (the first wait of a handle always returns at
    /// once, because it cannot know what it missed), so callers query again.
    pub fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        match &*self.0 {
            Driver::Sqlite(sqlite) => sqlite.wait(mark, at_most),
            Driver::Postgres(postgres) => postgres.wait(mark, at_most),
        }
    }
}

thread_local! {
    static IN_JOB: Cell<bool> = const { Cell::new(false) };
}

fn refuse_nesting() -> Result<()> {
    if IN_JOB.get() {
        return Err(DbError::Nested);
    }
    Ok(())
}

/// A driver's transaction, from which [`run_job`] makes a [`Conn`].
trait Statements {
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>>;
    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()>;
    fn dialect(&self) -> Dialect;
}

/// What one run of a job led to. Unless it is a result without a failure, the transaction must be
/// rolled back.
struct Ran<T, E> {
    result: Result<T, E>,
    /// The first error of the database, whatever the job made of it.
    failure: Option<DbError>,
    notifies: bool,
}

impl<T, E: From<DbError>> Ran<T, E> {
    /// The job's own result, unless it says nothing of the failure.
    fn unless_lost(self) -> Result<T, E> {
        match self.failure {
            Some(error) if self.result.is_ok() => Err(E::from(error)),
            Some(_) | None => self.result,
        }
    }
}

/// Runs a job once and turns a panic into an error.
fn run_job<T, E: From<DbError>>(
    job: &mut impl FnMut(&mut dyn Conn) -> Result<T, E>,
    statements: &mut dyn Statements,
) -> Ran<T, E> {
    let mut conn = JobConn { statements, failure: None, notifies: false };
    IN_JOB.set(true);
    // A panicking job leaves nothing unfinished: its transaction is rolled back, and what it
    // captured is dropped or was the caller's to protect.
    let result = catch_unwind(AssertUnwindSafe(|| job(&mut conn)));
    IN_JOB.set(false);
    let result = result.unwrap_or_else(|panic| {
        Err(E::from(DbError::Panicked { message: panic_message(&*panic) }))
    });
    Ran { result, failure: conn.failure, notifies: conn.notifies }
}

struct JobConn<'a> {
    statements: &'a mut dyn Statements,
    failure: Option<DbError>,
    notifies: bool,
}

impl JobConn<'_> {
    /// Runs a statement, unless the transaction is lost.
    fn run<T>(&mut self, statement: impl FnOnce(&mut dyn Statements) -> Result<T>) -> Result<T> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        statement(self.statements).inspect_err(|error| self.failure = Some(error.clone()))
    }
}

impl Conn for JobConn<'_> {
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.run(|statements| statements.query(sql, params))
    }

    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()> {
        self.run(|statements| statements.write(sql, params))
    }

    fn notify(&mut self) {
        self.notifies = true;
    }

    fn dialect(&self) -> Dialect {
        self.statements.dialect()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Locks a mutex whose data stays valid even if a holder panicked: every holder in this module
/// changes it in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of a statement in a cache. Statements are constants of the program, so their address
/// identifies them without hashing their text, and their number is bounded.
fn statement_key(sql: &'static str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}

/// Names a statement in an error: enough of it to find it in the source.
fn run_operation(sql: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let flat = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(SHOWN_CHARS) {
        None => format!("run `{flat}`"),
        Some((end, _)) => format!("run `{}…`", &flat[..end]),
    }
}
