//! The statements of one PostgreSQL transaction, with as few round trips as its queries need.
//!
//! BEGIN and writes are buffered and go out with the next query or with COMMIT. That is safe
//! because each session is read-only unless a transaction says otherwise: if BEGIN fails, nothing
//! after it in the same message can change anything.

use std::io;
use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::failure::classify;
use super::link::{Link, Params, Prepared, Reply, Request};
use crate::store::conn::error::DbError;
use crate::store::conn::value::{Row, SqlValue};
use crate::store::conn::{Access, Dialect, Result, Statements, run_operation};

const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The most writes that are buffered, in number and bytes. Beyond that they are sent early.
const MAX_BUFFERED_WRITES: usize = 64;
const MAX_BUFFERED_BYTES: usize = 1024 * 1024;

pub(super) struct Transaction<'a> {
    link: &'a mut Link,
    access: Access,
    is_begun: bool,
    buffered: Vec<BufferedWrite>,
    buffered_bytes: usize,
}

struct BufferedWrite {
    sql: &'static str,
    prepared: Prepared,
    params: Params,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(link: &'a mut Link, access: Access) -> Self {
        Self { link, access, is_begun: false, buffered: Vec::new(), buffered_bytes: 0 }
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        match self.send_commit() {
            // A read has nothing to lose.
            Err(DbError::CommitUnknown { .. }) if self.access == Access::Read => Ok(()),
            ended => ended,
        }
    }

    /// Sends buffered writes together with COMMIT.
    fn send_commit(&mut self) -> Result<()> {
        if !self.is_begun && self.buffered.is_empty() {
            return Ok(());
        }
        // If the server did not answer, COMMIT had already been sent.
        let answers = self.send(Request::Control("COMMIT"), "COMMIT").map_err(commit_unknown)?;
        let before_commit = answers.len() - 1;
        for (index, (sql, answer)) in answers.into_iter().enumerate() {
            let Err(error) = answer else { continue };
            // A server error on an earlier request means that COMMIT was not reached, or that it
            // ended an aborted transaction.
            let is_certain = error.as_db_error().is_some() && index < before_commit;
            let error = self.classify(sql, error);
            return Err(if is_certain { error } else { commit_unknown(error) });
        }
        Ok(())
    }

    /// Ends the transaction without keeping anything. Buffered writes are dropped.
    pub(super) fn roll_back(&mut self) {
        if self.is_begun && !self.link.is_broken() {
            // If this fails, the connection is broken and the transaction is gone with it.
            drop(self.link.control("ROLLBACK"));
        }
    }

    fn prepared(&mut self, sql: &'static str) -> Result<Prepared> {
        if let Some(prepared) = self.link.prepared(sql) {
            return Ok(prepared.clone());
        }
        match self.ask(Request::Prepare(sql), sql)? {
            Reply::Prepared(statement) => Ok(self.link.keep_prepared(sql, statement)),
            Reply::Control(_) | Reply::Rows(_) => Err(unexpected_reply(sql)),
        }
    }

    /// Sends buffered writes and one more request, and returns the answer to that request.
    fn ask(&mut self, request: Request<'_>, sql: &'static str) -> Result<Reply> {
        let mut reply = None;
        // The first error is the cause; the server answers each later request with "the transaction
        // is aborted".
        for (sql, answer) in self.send(request, sql)? {
            reply = Some(answer.map_err(|error| self.classify(sql, error))?);
        }
        reply.ok_or_else(|| unexpected_reply(sql))
    }

    fn send(&mut self, request: Request<'_>, sql: &'static str) -> Result<Answers> {
        let buffered = std::mem::take(&mut self.buffered);
        self.buffered_bytes = 0;
        let begin = match self.access {
            Access::Write => BEGIN_WRITE,
            Access::Read => BEGIN_READ,
        };
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let begin = is_first.then_some((begin, Request::Control(begin)));
        let writes =
            buffered.iter().map(|write| (write.sql, Request::Run(&write.prepared, &write.params)));
        let (names, requests): (Vec<&str>, Vec<Request<'_>>) =
            begin.into_iter().chain(writes).chain([(sql, request)]).unzip();
        let answers = self.link.send(&requests)?;
        Ok(names.into_iter().zip(answers).collect())
    }

    fn classify(&self, sql: &str, error: tokio_postgres::Error) -> DbError {
        classify(self.link.target(), || run_operation(sql), error)
    }
}

/// Each request's statement with its answer, in order.
type Answers = Vec<(&'static str, Result<Reply, tokio_postgres::Error>)>;

impl Statements for Transaction<'_> {
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>> {
        let prepared = self.prepared(sql)?;
        let params = encode(&prepared, sql, params)?;
        match self.ask(Request::Run(&prepared, &params), sql)? {
            Reply::Rows(rows) => rows.iter().map(|row| decode(row, &prepared.columns)).collect(),
            Reply::Control(_) | Reply::Prepared(_) => Err(unexpected_reply(sql)),
        }
    }

    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()> {
        if self.access == Access::Read {
            return Err(DbError::WriteInRead);
        }
        let bytes: usize = params.iter().map(SqlValue::size).sum();
        let prepared = self.prepared(sql)?;
        let params = encode(&prepared, sql, params)?;
        if self.buffered.len() >= MAX_BUFFERED_WRITES
            || self.buffered_bytes + bytes > MAX_BUFFERED_BYTES
        {
            return self.ask(Request::Run(&prepared, &params), sql).map(drop);
        }
        self.buffered_bytes += bytes;
        self.buffered.push(BufferedWrite { sql, prepared, params });
        Ok(())
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }
}

fn commit_unknown(error: DbError) -> DbError {
    match error {
        DbError::Disconnected { source, .. } => DbError::CommitUnknown { source },
        other => other,
    }
}

/// The library promises one answer of the right kind for each request, so this should never happen.
fn unexpected_reply(sql: &str) -> DbError {
    let source = io::Error::other("the server's answer does not match the request");
    DbError::other(run_operation(sql), source)
}

/// Chooses the wire format of each parameter by the type that the server expects.
fn encode(prepared: &Prepared, sql: &str, params: &[SqlValue]) -> Result<Params> {
    let types = prepared.statement.params();
    let refuse = |reason: String| DbError::other(run_operation(sql), io::Error::other(reason));
    if types.len() != params.len() {
        return Err(refuse(format!("expected {} parameters, got {}", types.len(), params.len())));
    }
    let mut encoded: Params = Vec::with_capacity(params.len());
    for (index, (value, kind)) in params.iter().zip(types).enumerate() {
        let param = encode_one(value, kind).ok_or_else(|| {
            refuse(format!("parameter ${} does not fit the type {kind}", index + 1))
        })?;
        encoded.push(param);
    }
    Ok(encoded)
}

fn encode_one(value: &SqlValue, kind: &Type) -> Option<Box<dyn ToSql + Sync + Send>> {
    let is_text = *kind == Type::TEXT || *kind == Type::VARCHAR;
    Some(match value {
        SqlValue::Null if *kind == Type::INT8 => Box::new(None::<i64>),
        SqlValue::Null if *kind == Type::INT4 => Box::new(None::<i32>),
        SqlValue::Null if *kind == Type::BYTEA => Box::new(None::<Vec<u8>>),
        SqlValue::Null if is_text => Box::new(None::<String>),
        SqlValue::Int(number) if *kind == Type::INT8 => Box::new(*number),
        // The server types a bare number in an expression as INT4.
        SqlValue::Int(number) if *kind == Type::INT4 => Box::new(i32::try_from(*number).ok()?),
        SqlValue::Text(text) if is_text => Box::new(text.clone()),
        SqlValue::Blob(bytes) if *kind == Type::BYTEA => Box::new(bytes.clone()),
        SqlValue::Null | SqlValue::Int(_) | SqlValue::Text(_) | SqlValue::Blob(_) => return None,
    })
}

fn decode(row: &tokio_postgres::Row, columns: &Arc<[String]>) -> Result<Row> {
    let mut values = Vec::with_capacity(columns.len());
    for (index, column) in row.columns().iter().enumerate() {
        values.push(decode_one(row, index, column)?);
    }
    Ok(Row::new(values, Arc::clone(columns)))
}

fn decode_one(
    row: &tokio_postgres::Row,
    index: usize,
    column: &tokio_postgres::Column,
) -> Result<SqlValue> {
    let kind = column.type_();
    let value = if *kind == Type::INT8 {
        row.try_get::<_, Option<i64>>(index).map(SqlValue::from)
    } else if *kind == Type::INT4 {
        row.try_get::<_, Option<i32>>(index).map(|number| SqlValue::from(number.map(i64::from)))
    } else if *kind == Type::BOOL {
        // SQLite returns a number for a comparison.
        row.try_get::<_, Option<bool>>(index).map(|truth| SqlValue::from(truth.map(i64::from)))
    } else if *kind == Type::TEXT || *kind == Type::VARCHAR {
        row.try_get::<_, Option<String>>(index).map(SqlValue::from)
    } else if *kind == Type::BYTEA {
        row.try_get::<_, Option<Vec<u8>>>(index).map(SqlValue::from)
    } else {
        return Err(DbError::Column {
            column: column.name().to_owned(),
            wanted: "a number, text or bytes",
            found: "a type that only PostgreSQL has",
        });
    };
    value.map_err(|error| DbError::other(format!("read column `{}`", column.name()), error))
}
