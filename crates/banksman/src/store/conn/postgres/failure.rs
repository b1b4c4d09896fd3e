//! Maps PostgreSQL's error codes to our errors.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio_postgres::error::SqlState;

use crate::store::conn::error::DbError;

pub(super) fn classify(
    target: &str,
    operation: impl FnOnce() -> String,
    error: tokio_postgres::Error,
) -> DbError {
    let Some(code) = error.code().cloned() else {
        return without_code(operation(), error);
    };
    if is_end_of_session(&code) {
        return disconnected(operation(), error);
    }
    if code == SqlState::T_R_SERIALIZATION_FAILURE || code == SqlState::T_R_DEADLOCK_DETECTED {
        DbError::Conflict
    } else if code == SqlState::UNIQUE_VIOLATION {
        DbError::Unique {
            constraint: error
                .as_db_error()
                .and_then(|error| error.constraint())
                .unwrap_or_default()
                .to_owned(),
        }
    } else if code == SqlState::LOCK_NOT_AVAILABLE {
        DbError::Busy { what: "a lock that another transaction holds" }
    } else if code == SqlState::QUERY_CANCELED {
        DbError::Timeout { operation: operation() }
    } else if code == SqlState::DISK_FULL {
        DbError::Full { operation: operation() }
    } else if code == SqlState::READ_ONLY_SQL_TRANSACTION {
        DbError::WriteInRead
    } else if code == SqlState::DATA_CORRUPTED || code == SqlState::INDEX_CORRUPTED {
        DbError::Corrupt { target: target.to_owned() }
    } else {
        DbError::other(operation(), error)
    }
}

/// The server ends the session with one of these, or refuses a new one for now.
fn is_end_of_session(code: &SqlState) -> bool {
    const CONNECTION_EXCEPTIONS: &str = "08";
    [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ]
    .contains(code)
        || code.code().starts_with(CONNECTION_EXCEPTIONS)
}

/// An error that the server did not send: the connection is broken, or a message could not be
/// written or read.
fn without_code(operation: String, error: tokio_postgres::Error) -> DbError {
    let is_link = error.is_closed() || error.source().is_some_and(<dyn Error>::is::<io::Error>);
    if is_link { disconnected(operation, error) } else { DbError::other(operation, error) }
}

pub(super) fn disconnected(
    operation: String,
    source: impl Error + Send + Sync + 'static,
) -> DbError {
    DbError::Disconnected { operation, source: Arc::new(source) }
}
