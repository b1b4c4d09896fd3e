//! The statements of one SQLite transaction, and the mapping of SQLite's result codes to our
//! errors.
//!
//! It runs statements inside a transaction that its caller begins and ends, and must never run one
//! outside.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Statement, ffi};

use crate::store::conn::error::DbError;
use crate::store::conn::value::{Row, SqlValue};
use crate::store::conn::{Access, Dialect, Result, Statements, run_operation, statement_key};

/// A connection and what it knows about each statement.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    access: Access,
    /// By [`statement_key`].
    statements: HashMap<(usize, usize), Known>,
    /// A statement has run that may change something.
    pub(super) wrote: bool,
}

struct Known {
    /// The number after the `$` of each parameter, in SQLite's own order of parameters.
    numbers: Vec<usize>,
    columns: Arc<[String]>,
    is_readonly: bool,
}

impl Link {
    pub(super) fn new(connection: Connection, path: PathBuf, access: Access) -> Self {
        Self { connection, path, access, statements: HashMap::new(), wrote: false }
    }

    /// Runs one of the driver's own statements, which begin and end transactions and savepoints.
    pub(super) fn control(&self, sql: &'static str) -> Result<()> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.raw_execute())
            .map(drop)
            .map_err(|error| self.error(sql, error))
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn error(&self, sql: &str, error: rusqlite::Error) -> DbError {
        if self.access == Access::Read && error.sqlite_error_code() == Some(ErrorCode::ReadOnly) {
            return DbError::WriteInRead;
        }
        classify(&self.path, &run_operation(sql), error)
    }

    fn run(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, rusqlite::Error> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let known = self.statements.entry(statement_key(sql)).or_insert_with(|| learn(&statement));
        self.wrote |= !known.is_readonly;
        bind(&mut statement, &known.numbers, params)?;
        let mut found = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let values = (0..known.columns.len()).map(|index| row.get_ref(index).map(value));
            found.push(Row::new(values.collect::<Result<_, _>>()?, Arc::clone(&known.columns)));
        }
        Ok(found)
    }
}

impl Statements for Link {
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>> {
        // SQLite itself rolls back on some errors (a full disk, for example), and a statement after
        // that would be committed on its own.
        if !self.is_in_transaction() {
            let ended = io::Error::other("the transaction has ended");
            return Err(DbError::other("run a statement", ended));
        }
        self.run(sql, params).map_err(|error| self.error(sql, error))
    }

    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()> {
        self.query(sql, params).map(drop)
    }

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }
}

fn learn(statement: &Statement<'_>) -> Known {
    // SQLite takes `$1` for a name and numbers names by their first appearance.
    let number = |index| {
        let name = statement.parameter_name(index).and_then(|name| name.strip_prefix('$'));
        name.and_then(|number| number.parse().ok()).unwrap_or(index)
    };
    Known {
        numbers: (1..=statement.parameter_count()).map(number).collect(),
        columns: statement.column_names().map(str::to_owned).collect(),
        is_readonly: statement.readonly(),
    }
}

fn bind(
    statement: &mut Statement<'_>,
    numbers: &[usize],
    params: &[SqlValue],
) -> Result<(), rusqlite::Error> {
    let wanted = numbers.iter().max().map_or(0, |number| *number);
    if wanted != params.len() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), wanted));
    }
    for (index, number) in numbers.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, &params[number - 1])?;
    }
    Ok(())
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Reads a column. What [`SqlValue`] cannot represent (invalid UTF-8, a fraction) becomes bytes,
/// which a reader of text or a number refuses by the column's name: one damaged row must not make
/// its whole table unreadable.
fn value(from: ValueRef<'_>) -> SqlValue {
    match from {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => SqlValue::Blob(text.to_vec()),
        },
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
        ValueRef::Real(number) => SqlValue::Blob(number.to_be_bytes().to_vec()),
    }
}

/// Maps SQLite's errors to ours.
pub(super) fn classify(path: &Path, operation: &str, error: rusqlite::Error) -> DbError {
    let rusqlite::Error::SqliteFailure(failure, message) = &error else {
        return DbError::other(operation, error);
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            DbError::Busy { what: "another writer of the store" }
        }
        ErrorCode::DiskFull => DbError::Full { operation: operation.to_owned() },
        ErrorCode::ReadOnly => DbError::ReadOnly { path: path.to_owned() },
        ErrorCode::DatabaseCorrupt => DbError::Corrupt { target: path.display().to_string() },
        ErrorCode::NotADatabase => DbError::NotADatabase { path: path.to_owned() },
        ErrorCode::OperationInterrupted => DbError::Timeout { operation: operation.to_owned() },
        ErrorCode::ConstraintViolation
            if matches!(
                failure.extended_code,
                ffi::SQLITE_CONSTRAINT_UNIQUE
                    | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
                    | ffi::SQLITE_CONSTRAINT_ROWID
            ) =>
        {
            DbError::Unique {
                constraint: message
                    .as_deref()
                    .and_then(|message| message.split_once(": "))
                    .map_or_else(String::new, |(_, columns)| columns.to_owned()),
            }
        }
        _ => DbError::other(operation, error),
    }
}
