//! The store: tasks, their history and everything that belongs to them, in SQLite or PostgreSQL.
//! One store serves many repositories.
//!
//! Writers call [`Store::add`], [`Store::add_children`], [`Store::apply`], [`Store::apply_each`],
//! [`Store::claim`], [`Store::dispatch`], [`Store::end_run`], [`Store::renew`] and
//! [`Store::fire_due`], which all end in `apply.rs`: load, decide (`banksman_core::machine`), write
//! everything in one transaction. `query` reads. `sql` holds every statement, `conn` the two
//! drivers; nothing outside this folder contains SQL. Logs, worktrees and prompts are files and
//! never come here.

pub mod accounts;
pub mod answers;
mod apply;
mod audit;
pub mod batches;
mod budgets;
mod children;
mod claim;
#[cfg(test)]
mod conformance;
pub mod conn;
mod damage;
mod days;
mod decisions;
mod definitions;
pub mod dispatch;
pub mod feed;
mod follow;
mod grants;
pub mod health;
mod invariant;
pub mod nodes;
pub mod notices;
pub mod outbox;
mod projects;
pub mod query;
mod row;
pub mod runs;
mod sleep;
mod spent;
mod sql;
mod switches;
mod timers;
mod tx;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::problem::Problems;
use banksman_core::machine::{Broken, Damaged, Rejected};

pub use accounts::PauseRequest;
pub use apply::{Add, Applied, Edge, IdempotencyKey};
pub use audit::{HistoryEntry, hex};
pub use children::{ChildCounts, NewChild};
pub use claim::{ClaimRequest, Claimed};
pub use damage::Damage;
pub use definitions::Definition;
pub use dispatch::{Dispatch, Dispatched, OverBudget, roles_of};
pub use nodes::Node;
pub use row::{Stored, local_pull_request};
pub use runs::{NodeTime, OpenRun, PastRun, RunEnd};
pub use spent::scope_name;
pub use timers::{FiredTimers, TimerResult};

use conn::{Db, DbError, Migration, Options, Row, SqlValue, Target, Waited, WakeMark};
use damage::DamageLog;
use definitions::Definitions;
use tx::Tx;

/// Lists migrations by version and name, which are also the name of the file.
macro_rules! migrations {
    ($($version:literal $digits:literal $name:literal,)*) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("migrations/", $digits, "-", $name, ".sql")),
        }),*]
    };
}

/// The versions of the schema, without a gap. A released migration is never edited.
const MIGRATIONS: &[Migration] = migrations! {
    1 "0001" "spine",
    2 "0002" "agents",
    3 "0003" "parts",
    4 "0004" "purposes-and-budget-requests",
    5 "0005" "changes-and-notices",
    6 "0006" "workflows-and-former-notices",
    7 "0007" "task-budget-requests",
    8 "0008" "awake-nodes",
    9 "0009" "questions-and-answers",
    10 "0010" "uncounted-time-and-id",
};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Db(#[from] DbError),
    #[error(transparent)]
    Rejected(#[from] Rejected),
    #[error(transparent)]
    Cursor(#[from] feed::CursorError),
    #[error("there is no task {0}")]
    NoTask(TaskId),
    #[error("the key `{key}` was used for another request")]
    KeyTaken { key: String },
    #[error("task {task} is damaged in the store: {what}")]
    Corrupt { task: TaskId, what: String },
    #[error("refused to write task {task}: {broken}")]
    Bug { task: TaskId, broken: Broken },
    #[error("the lifecycle {version} of the store cannot be read")]
    Definition {
        version: String,
        #[source]
        source: Box<Problems>,
    },
    #[error("the lifecycle {0} is not in the store")]
    NoDefinition(String),
    #[error("the project {0} is already known at {1}")]
    ProjectTaken(String, String),
}

impl StoreError {
    /// Whether the database itself failed; see [`DbError::is_of_database`].
    pub fn is_of_database(&self) -> bool {
        matches!(self, Self::Db(error) if error.is_of_database())
    }
}

impl From<Damaged> for StoreError {
    fn from(damage: Damaged) -> Self {
        Self::Corrupt { task: damage.task, what: damage.to_string() }
    }
}

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A handle to a store. Clones share its connections.
#[derive(Clone)]
pub struct Store {
    db: Db,
    definitions: Arc<Definitions>,
    damaged: Arc<DamageLog>,
}

impl Store {
    /// Opens a store, creates it if it is new, and applies the migrations that it lacks.
    pub fn open(target: &Target, options: &Options) -> Result<Self> {
        let db = Db::open(target, options, MIGRATIONS)?;
        let store = Self { db, definitions: Arc::default(), damaged: Arc::default() };
        store.adopt_restored()?;
        Ok(store)
    }

    /// What this handle and its clones have left out of their answers since the last call, because
    /// it is damaged.
    pub fn take_damaged(&self) -> BTreeSet<Damage> {
        self.damaged.take()
    }

    /// A mark to take before reading, for [`Store::wait`].
    pub fn mark(&self) -> WakeMark {
        self.db.mark()
    }

    /// Waits until something has changed since the mark, or the time is over. A hint: read again.
    pub fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        self.db.wait(mark, at_most)
    }

    fn write<T: Send + 'static>(
        &self,
        mut job: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (definitions, damaged) = (Arc::clone(&self.definitions), Arc::clone(&self.damaged));
        self.db
            .write(move |conn| job(&mut Tx { conn, definitions: &definitions, damaged: &damaged }))
    }

    /// Writes again after a unique violation. Two writers with one key may both find it free; the
    /// loser then finds the winner's row.
    fn write_keyed<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Tx<'_>) -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        match self.write(job.clone()) {
            Err(StoreError::Db(DbError::Unique { .. })) => self.write(job),
            other => other,
        }
    }

    fn read<T>(&self, mut job: impl FnMut(&mut Tx<'_>) -> Result<T>) -> Result<T> {
        let (definitions, damaged) = (&self.definitions, &self.damaged);
        self.db.read(|conn| job(&mut Tx { conn, definitions, damaged }))
    }

    /// The rows of one query; see [`Tx::all`].
    fn rows<T, E: Into<StoreError>>(
        &self,
        statement: &'static str,
        params: &[SqlValue],
        read: impl Fn(&Row) -> Result<T, E>,
    ) -> Result<Vec<T>> {
        self.read(|tx| tx.all(statement, params, &read))
    }

    /// Reads the first row of one query.
    fn row<T, E: Into<StoreError>>(
        &self,
        statement: &'static str,
        params: &[SqlValue],
        read: impl Fn(&Row) -> Result<T, E>,
    ) -> Result<Option<T>> {
        self.read(|tx| tx.first(statement, params, &read))
    }
}
