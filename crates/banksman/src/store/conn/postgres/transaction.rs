//! One PostgreSQL transaction as a [`Conn`], with as few round trips as its queries need.
//!
//! BEGIN and writes are buffered and go out with the next query or with COMMIT. That is safe
//! because each session is read-only unless a transaction says otherwise: if BEGIN fails, nothing
//! after it in the same message can change anything.

use std::io;
use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::failure::{Failure, classify};
use super::link::{Link, Params, Prepared, Reply, Request};
use crate::store::conn::error::DbError;
use crate::store::conn::value::{Row, SqlValue};
use crate::store::conn::{Access, Conn, Dialect, Result, run_operation};

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
    notifies: bool,
    failure: Option<Failure>,
}

struct BufferedWrite {
    sql: &'static str,
    prepared: Prepared,
    params: Params,
}

/// How an uncommitted transaction ended.
pub(super) enum Lost {
    /// Nothing was changed.
    RolledBack(Failure),
    /// The connection broke during COMMIT.
    Unknown(DbError),
}

impl<'a> Transaction<'a> {
    pub(super) fn new(link: &'a mut Link, access: Access) -> Self {
        Self {
            link,
            access,
            is_begun: false,
            buffered: Vec::new(),
            buffered_bytes: 0,
            notifies: false,
            failure: None,
        }
    }

    pub(super) fn notifies(&self) -> bool {
        self.notifies
    }

    /// The error that lost the transaction, whatever the job made of it.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Sends buffered writes together with COMMIT.
    pub(super) fn commit(&mut self) -> Result<(), Lost> {
        if !self.is_begun && self.buffered.is_empty() {
            return Ok(());
        }
        let commit = (Request::Control("COMMIT"), "COMMIT");
        // If the server did not answer, COMMIT had already been sent.
        let answers =
            self.send(Some(commit)).map_err(|failure| Lost::Unknown(commit_unknown(failure)))?;
        let before_commit = answers.len() - 1;
        for (index, (sql, answer)) in answers.into_iter().enumerate() {
            let Err(error) = answer else { continue };
            // A server error on an earlier request means that COMMIT was not reached, or that it ended
            // an aborted transaction.
            let is_certain = error.as_db_error().is_some() && index < before_commit;
            let failure = self.classify(sql, error);
            return Err(if failure.is_disconnect() && !is_certain {
                Lost::Unknown(commit_unknown(failure))
            } else {
                Lost::RolledBack(failure)
            });
        }
        Ok(())
    }

    /// Ends the transaction without keeping anything. Buffered writes are dropped.
    pub(super) fn roll_back(&mut self) {
        if self.is_begun && !self.link.is_broken() {
            // If this fails, the connection is broken and the transaction is gone with it.
            drop(self.link.send(&[Request::Control("ROLLBACK")]));
        }
    }

    fn run(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, Failure> {
        let prepared = self.prepared(sql)?;
        let params = encode(&prepared, sql, params)?;
        match self.ask(Request::Query(&prepared, &params), sql)? {
            Reply::Rows(rows) => Ok(rows
                .iter()
                .map(|row| decode(row, &prepared.columns))
                .collect::<Result<_, _>>()?),
            Reply::Done | Reply::Prepared(_) => Err(unexpected_reply(sql)),
        }
    }

    fn buffer(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<(), Failure> {
        let bytes: usize = params.iter().map(SqlValue::size).sum();
        if self.buffered.len() >= MAX_BUFFERED_WRITES
            || self.buffered_bytes + bytes > MAX_BUFFERED_BYTES
        {
            self.last_answer(None)?;
        }
        let prepared = self.prepared(sql)?;
        let params = encode(&prepared, sql, params)?;
        self.buffered_bytes += bytes;
        self.buffered.push(BufferedWrite { sql, prepared, params });
        Ok(())
    }

    fn prepared(&mut self, sql: &'static str) -> Result<Prepared, Failure> {
        if let Some(prepared) = self.link.prepared(sql) {
            return Ok(prepared.clone());
        }
        match self.ask(Request::Prepare(sql), sql)? {
            Reply::Prepared(statement) => Ok(self.link.keep_prepared(sql, statement)),
            Reply::Done | Reply::Rows(_) => Err(unexpected_reply(sql)),
        }
    }

    /// Sends buffered writes and one more request, and returns the answer to that request.
    fn ask(&mut self, request: Request<'_>, sql: &'static str) -> Result<Reply, Failure> {
        self.last_answer(Some((request, sql)))?.ok_or_else(|| unexpected_reply(sql))
    }

    fn last_answer(
        &mut self,
        last: Option<(Request<'_>, &'static str)>,
    ) -> Result<Option<Reply>, Failure> {
        let mut reply = None;
        // The first error is the cause; the server answers each later request with "the transaction is
        // aborted".
        for (sql, answer) in self.send(last)? {
            reply = Some(answer.map_err(|error| self.classify(sql, error))?);
        }
        Ok(reply)
    }

    fn send(&mut self, last: Option<(Request<'_>, &'static str)>) -> Result<Answers, Failure> {
        let buffered = std::mem::take(&mut self.buffered);
        self.buffered_bytes = 0;
        let mut names = Vec::with_capacity(buffered.len() + 2);
        let mut requests = Vec::with_capacity(buffered.len() + 2);
        if !self.is_begun {
            self.is_begun = true;
            let begin = match self.access {
                Access::Write => BEGIN_WRITE,
                Access::Read => BEGIN_READ,
            };
            names.push(begin);
            requests.push(Request::Control(begin));
        }
        for write in &buffered {
            names.push(write.sql);
            requests.push(Request::Write(&write.prepared, &write.params));
        }
        if let Some((request, name)) = last {
            names.push(name);
            requests.push(request);
        }
        let answers = self.link.send(&requests)?;
        Ok(names.into_iter().zip(answers).collect())
    }

    fn classify(&self, sql: &str, error: tokio_postgres::Error) -> Failure {
        classify(self.link.target(), || run_operation(sql), error)
    }

    /// Refuses a statement if the transaction is lost.
    fn guard(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.error.clone()),
            None => Ok(()),
        }
    }

    fn lose(&mut self, failure: Failure) -> DbError {
        let error = failure.error.clone();
        self.failure = Some(failure);
        error
    }
}

/// Each request's statement with its answer, in order.
type Answers = Vec<(&'static str, Result<Reply, tokio_postgres::Error>)>;

impl Conn for Transaction<'_> {
    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>> {
        self.guard()?;
        self.run(sql, params).map_err(|failure| self.lose(failure))
    }

    fn write(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<()> {
        self.guard()?;
        let buffered = match self.access {
            Access::Write => self.buffer(sql, params),
            Access::Read => Err(Failure::from(DbError::WriteInRead)),
        };
        buffered.map_err(|failure| self.lose(failure))
    }

    fn notify(&mut self) {
        self.notifies = true;
    }

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }
}

fn commit_unknown(failure: Failure) -> DbError {
    match failure.error {
        DbError::Disconnected { source, .. } => DbError::CommitUnknown { source },
        other => other,
    }
}

/// The library promises one answer of the right kind for each request, so this should never happen.
fn unexpected_reply(sql: &str) -> Failure {
    let source = io::Error::other("the server's answer does not match the request");
    Failure::from(DbError::other(run_operation(sql), source))
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
