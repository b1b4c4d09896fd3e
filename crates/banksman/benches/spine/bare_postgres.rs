//! PostgreSQL alone: one connection, prepared statements, and nothing around them.
//!
//! The connection is driven by the thread that uses it. The server is the one in
//! `BANKSMAN_BENCH_PG`, where schemas are made and dropped; `scripts/bench` starts a private one.

use std::env;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use banksman::store::Store;
use banksman::store::conn::{Options, SqlValue, Target};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Statement};

use crate::frame::Fault;
use crate::script::{Line, Slot};

/// The server to measure on, if there is one.
pub(crate) fn server() -> Option<String> {
    env::var("BANKSMAN_BENCH_PG").ok().filter(|url| !url.is_empty())
}

/// A schema of its own, gone when this is dropped.
pub(crate) struct Schema {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Schema {
    /// A schema with a store in it that may use so many connections.
    pub(crate) fn with_store(url: &str, connections: usize) -> Result<(Self, Store), Fault> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench_{}_{number}", std::process::id());
        let schema = Self { url: url.to_owned(), name };
        let store = schema.store(connections)?;
        Ok((schema, store))
    }

    pub(crate) fn store(&self, connections: usize) -> Result<Store, Fault> {
        let options =
            Options { connections, schema: Some(self.name.clone()), ..Options::default() };
        Ok(Store::open(&Target::Postgres(self.url.clone()), &options)?)
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let dropped = Bare::connect(self)
            .and_then(|bare| bare.batch(&format!("DROP SCHEMA {} CASCADE", self.name)));
        if let Err(fault) = dropped {
            eprintln!("the schema {} stays behind: {fault}", self.name);
        }
    }
}

pub(crate) struct Bare {
    runtime: Runtime,
    client: Client,
    /// Ends with the runtime.
    _wire: JoinHandle<Result<(), Error>>,
}

/// The statements of one move, prepared once.
pub(crate) struct Ready<'a> {
    lines: Vec<(Statement, &'a Line)>,
}

impl Bare {
    pub(crate) fn connect(schema: &Schema) -> Result<Self, Fault> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, wire) = runtime.block_on(tokio_postgres::connect(&schema.url, NoTls))?;
        let wire = runtime.spawn(wire);
        let bare = Self { runtime, client, _wire: wire };
        bare.batch(&format!("SET search_path = {}", schema.name))?;
        Ok(bare)
    }

    pub(crate) fn batch(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    /// The first column of the first row, as text.
    pub(crate) fn word(&self, sql: &str) -> Result<String, Fault> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]))?;
        Ok(row.try_get(0)?)
    }

    pub(crate) fn ready<'a>(&self, lines: &'a [Line]) -> Result<Ready<'a>, Fault> {
        let mut ready = Vec::new();
        for line in lines {
            let statement = self.runtime.block_on(self.client.prepare(&line.sql))?;
            ready.push((statement, line));
        }
        Ok(Ready { lines: ready })
    }

    /// One transaction, each statement sent when the one before was answered.
    pub(crate) fn write(&self, ready: &Ready<'_>, task: i64, version: i64) -> Result<(), Fault> {
        self.runtime.block_on(async {
            self.control("BEGIN").await?;
            for (statement, line) in &ready.lines {
                self.execute(statement, line, task, version).await?;
            }
            self.control("COMMIT").await?;
            Ok(())
        })
    }

    /// One transaction, all of it sent at once.
    pub(crate) fn write_at_once(
        &self,
        ready: &Ready<'_>,
        task: i64,
        version: i64,
    ) -> Result<(), Fault> {
        self.runtime.block_on(async {
            let mut steps: Vec<Sent<'_>> = vec![Box::pin(self.control("BEGIN"))];
            for (statement, line) in &ready.lines {
                steps.push(Box::pin(self.execute(statement, line, task, version)));
            }
            steps.push(Box::pin(self.control("COMMIT")));
            together(steps).await
        })
    }

    /// One transaction whose first statement finds its task by itself and returns it. The rest
    /// follows one by one, or, with COMMIT, at once.
    pub(crate) fn claim(&self, ready: &Ready<'_>, pace: Pace) -> Result<Option<i64>, Fault> {
        let Some(((first, line), rest)) = ready.lines.split_first() else {
            return Ok(None);
        };
        self.runtime.block_on(async {
            let params = params(first, &line.slots, 0, 2);
            let params = borrowed(&params);
            let mut found = None;
            match pace {
                Pace::OneByOne => {
                    self.control("BEGIN").await?;
                    found = self.client.query_opt(first, &params).await?;
                }
                Pace::AtOnce => {
                    let begin = Box::pin(self.control("BEGIN"));
                    let find = Box::pin(async {
                        found = self.client.query_opt(first, &params).await?;
                        Ok(())
                    });
                    together(vec![begin, find]).await?;
                }
            }
            let task: Option<i64> = found.map(|row| row.try_get(0)).transpose()?;
            let Some(task) = task else {
                self.control("ROLLBACK").await?;
                return Ok(None);
            };
            match pace {
                Pace::OneByOne => {
                    for (statement, line) in rest {
                        self.execute(statement, line, task, 2).await?;
                    }
                    self.control("COMMIT").await?;
                }
                Pace::AtOnce => {
                    let lines = rest.iter();
                    let mut steps: Vec<Sent<'_>> = lines
                        .map(|(statement, line)| {
                            Box::pin(self.execute(statement, line, task, 2)) as Sent<'_>
                        })
                        .collect();
                    steps.push(Box::pin(self.control("COMMIT")));
                    together(steps).await?;
                }
            }
            Ok(Some(task))
        })
    }

    async fn execute(
        &self,
        statement: &Statement,
        line: &Line,
        task: i64,
        version: i64,
    ) -> Result<(), Fault> {
        let params = params(statement, &line.slots, task, version);
        let rows = self.client.execute(statement, &borrowed(&params)).await?;
        Line::check(&line.sql, rows)
    }

    async fn control(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(sql).await?)
    }
}

/// How the statements of a transaction are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    OneByOne,
    AtOnce,
}

type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), Fault>> + 'a>>;

/// Polls all requests in order, so that they go out in order and together.
async fn together(mut steps: Vec<Sent<'_>>) -> Result<(), Fault> {
    let mut answered = vec![false; steps.len()];
    poll_fn(|context| {
        for (step, answered) in steps.iter_mut().zip(&mut answered) {
            if !*answered && let Poll::Ready(result) = step.as_mut().poll(context) {
                *answered = true;
                if result.is_err() {
                    return Poll::Ready(result);
                }
            }
        }
        if answered.iter().all(|answered| *answered) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

type Param = Box<dyn ToSql + Sync>;

fn params(statement: &Statement, slots: &[Slot], task: i64, version: i64) -> Vec<Param> {
    let kinds = statement.params().iter();
    slots.iter().zip(kinds).map(|(slot, kind)| param(slot.fill(task, version), kind)).collect()
}

/// A value in the form in which the server takes it.
fn param(value: SqlValue, kind: &Type) -> Param {
    match value {
        SqlValue::Null if *kind == Type::INT8 => Box::new(None::<i64>),
        SqlValue::Null if *kind == Type::BYTEA => Box::new(None::<Vec<u8>>),
        SqlValue::Null => Box::new(None::<String>),
        SqlValue::Int(number) => Box::new(number),
        SqlValue::Text(text) => Box::new(text),
        SqlValue::Blob(bytes) => Box::new(bytes),
    }
}

fn borrowed(params: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|param| &**param).collect()
}
