//! The errors of a database or its connection, as one closed list that callers match on.
//!
//! An error never contains a password, and no caller needs to parse a message.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The cause of an error. It is shared because every job of a group gets the error of a failed
/// commit.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A failure of the database or the connection.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DbError {
    /// `constraint` is the engine's own text: a name in PostgreSQL, a list of columns in SQLite.
    #[error("a row with this key already exists ({constraint})")]
    Unique { constraint: String },
    /// The configured wait is over.
    #[error("timed out waiting for {what}")]
    Busy { what: &'static str },
    /// The server undid the transaction in favour of another one.
    #[error("timed out waiting for conflicting transactions")]
    Conflict,
    /// The connection broke before COMMIT was sent, so nothing changed.
    #[error("lost the connection to the database while trying to {operation}")]
    Disconnected {
        operation: String,
        #[source]
        source: Cause,
    },
    /// The connection broke during COMMIT: only a query can tell whether the change was made.
    #[error("lost the connection while the transaction was being committed")]
    CommitUnknown {
        #[source]
        source: Cause,
    },
    #[error("no space left while trying to {operation}")]
    Full { operation: String },
    #[error("cannot write to `{}`", path.display())]
    ReadOnly { path: PathBuf },
    /// `target` is a file, or the name of a PostgreSQL database.
    #[error("the database `{target}` is damaged")]
    Corrupt { target: String },
    #[error("`{}` is not a database", path.display())]
    NotADatabase { path: PathBuf },
    #[error("`{}` is a database of another program (application id {application_id})", path.display())]
    Foreign { path: PathBuf, application_id: i64 },
    #[error("the store has schema version {found}, and this program knows versions up to {known}")]
    NewerSchema { found: i64, known: i64 },
    #[error("failed to open the database `{target}`")]
    Open {
        target: String,
        #[source]
        source: Cause,
    },
    /// The text names no database that we can open. It is not repeated, because it may contain a
    /// password.
    #[error("cannot use this database: {reason}")]
    Target { reason: &'static str },
    /// The database cancelled a statement that took too long.
    #[error("timed out while trying to {operation}")]
    Timeout { operation: String },
    #[error("column `{column}` holds {found} where {wanted} was expected")]
    Column { column: String, wanted: &'static str, found: &'static str },
    /// A read job tried to change something.
    #[error("a read tried to change the database")]
    WriteInRead,
    /// A job called `Db::write` or `Db::read`, which would deadlock.
    #[error("a job may not start another transaction")]
    Nested,
    #[error("a job panicked: {message}")]
    Panicked { message: String },
    /// The writer of this handle has ended.
    #[error("the database is closed")]
    Closed,
    #[error("failed to migrate the store to schema version {version} ({name})")]
    Migration {
        version: i64,
        name: &'static str,
        #[source]
        source: Box<DbError>,
    },
    #[error("failed to {operation}")]
    Other {
        operation: String,
        #[source]
        source: Cause,
    },
}

impl DbError {
    /// Whether the database itself failed, so that nothing else can be done either. Any other error
    /// belongs to what one transaction did.
    pub fn is_of_database(&self) -> bool {
        match self {
            Self::Migration { source, .. } => source.is_of_database(),
            Self::Busy { .. }
            | Self::Conflict
            | Self::Disconnected { .. }
            | Self::CommitUnknown { .. }
            | Self::Full { .. }
            | Self::ReadOnly { .. }
            | Self::Corrupt { .. }
            | Self::NotADatabase { .. }
            | Self::Foreign { .. }
            | Self::NewerSchema { .. }
            | Self::Open { .. }
            | Self::Target { .. }
            | Self::Timeout { .. }
            | Self::Closed => true,
            Self::Unique { .. }
            | Self::Column { .. }
            | Self::WriteInRead
            | Self::Nested
            | Self::Panicked { .. }
            | Self::Other { .. } => false,
        }
    }
    /// Whether the same transaction may succeed if it runs again.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Disconnected { .. })
    }

    pub(super) fn other(
        operation: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self::Other { operation: operation.into(), source: Arc::new(source) }
    }
}
