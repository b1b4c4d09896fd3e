//! One connection to PostgreSQL, driven by the thread that uses it.
//!
//! Each link has its own runtime that runs only inside a call, so a link needs no thread and a call
//! is an ordinary blocking call. Several requests go out together and are answered in one round
//! trip. A broken link must never be used again; its owner checks [`Link::is_broken`].

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Error, NoTls, Notification, SimpleQueryMessage,
    Socket, Statement,
};

use super::failure::{classify, disconnected};
use crate::store::conn::error::DbError;
use crate::store::conn::{Result, run_operation, statement_key};

type Wire = Connection<Socket, NoTlsStream>;

/// The parameters of a statement, ready to be encoded.
pub(super) type Params = Vec<Box<dyn ToSql + Sync + Send>>;

/// The server cancels a slow statement itself. If nothing arrives for this much longer, the
/// connection is dead.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// How long connecting may take.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How to make links: the address and the session settings.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) config: Config,
    /// The address without secrets.
    pub(super) target: String,
    pub(super) statement_timeout: Duration,
}

/// A request to the server.
pub(super) enum Request<'a> {
    /// Statements without parameters.
    Control(&'a str),
    Prepare(&'a str),
    Run(&'a Prepared, &'a Params),
}

/// The server's answer to a request.
pub(super) enum Reply {
    /// The first value of the first row, if there is one.
    Control(Option<String>),
    Prepared(Statement),
    Rows(Vec<tokio_postgres::Row>),
}

type Pending<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + 'a>>;

/// A statement that the server has prepared.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) statement: Statement,
    pub(super) columns: Arc<[String]>,
}

pub(super) struct Link {
    runtime: Runtime,
    client: Client,
    /// None once the connection has ended.
    wire: Option<Wire>,
    /// By [`statement_key`].
    statements: HashMap<(usize, usize), Prepared>,
    connector: Arc<Connector>,
}

impl Link {
    pub(super) fn connect(connector: &Arc<Connector>) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| DbError::other("start a connection to the database", error))?;
        let connected = runtime.block_on(async {
            tokio::time::timeout(CONNECT_WITHIN, connector.config.connect(NoTls)).await
        });
        let operation = || "connect".to_owned();
        let (client, wire) = connected
            .map_err(|elapsed| disconnected(operation(), elapsed))?
            .map_err(|error| classify(&connector.target, operation, error))?;
        Ok(Self {
            runtime,
            client,
            wire: Some(wire),
            statements: HashMap::new(),
            connector: Arc::clone(connector),
        })
    }

    pub(super) fn is_broken(&self) -> bool {
        self.wire.is_none()
    }

    pub(super) fn target(&self) -> &str {
        &self.connector.target
    }

    /// Notices that the server closed an idle connection, without a request.
    pub(super) fn notice_close(&mut self) {
        let wire = &mut self.wire;
        let mut turns = 0;
        self.runtime.block_on(poll_fn(|context| {
            advance(wire, context, &mut |_| {});
            turns += 1;
            if turns > 1 {
                return Poll::Ready(());
            }
            // The runtime checks for arrived data only between two polls.
            context.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    pub(super) fn prepared(&self, sql: &'static str) -> Option<&Prepared> {
        self.statements.get(&statement_key(sql))
    }

    pub(super) fn keep_prepared(&mut self, sql: &'static str, statement: Statement) -> Prepared {
        let columns = statement.columns().iter();
        let prepared = Prepared {
            columns: columns.map(|column| column.name().to_owned()).collect(),
            statement,
        };
        self.statements.insert(statement_key(sql), prepared.clone());
        prepared
    }

    /// Runs statements without parameters and returns the first value of the first row.
    pub(super) fn control(&mut self, sql: &str) -> Result<Option<String>> {
        self.control_within(self.connector.statement_timeout + ANSWER_MARGIN, sql)
    }

    pub(super) fn control_within(&mut self, limit: Duration, sql: &str) -> Result<Option<String>> {
        match self.send_within(limit, &[Request::Control(sql)])?.pop().transpose() {
            Ok(Some(Reply::Control(value))) => Ok(value),
            Ok(Some(Reply::Prepared(_) | Reply::Rows(_)) | None) => Ok(None),
            Err(error) => Err(classify(self.target(), || run_operation(sql), error)),
        }
    }

    /// Sends all requests at once and returns one answer for each. An error means that the server
    /// did not answer.
    pub(super) fn send(&mut self, requests: &[Request<'_>]) -> Result<Vec<Result<Reply, Error>>> {
        let count = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        let limit = self.connector.statement_timeout.saturating_mul(count) + ANSWER_MARGIN;
        self.send_within(limit, requests)
    }

    fn send_within(
        &mut self,
        limit: Duration,
        requests: &[Request<'_>],
    ) -> Result<Vec<Result<Reply, Error>>> {
        let Self { runtime, client, wire, .. } = self;
        let asked = requests.iter().map(|request| ask(client, request)).collect();
        let mut asked = pin!(all(asked));
        let answered = runtime.block_on(async {
            let answered = poll_fn(|context| {
                let answered = asked.as_mut().poll(context);
                if answered.is_pending() {
                    advance(wire, context, &mut |_| {});
                }
                answered
            });
            tokio::time::timeout(limit, answered).await
        });
        answered.map_err(|_| {
            self.wire = None;
            let silence = io::Error::new(io::ErrorKind::TimedOut, "the server does not answer");
            disconnected("wait for the server".to_owned(), silence)
        })
    }

    /// Waits for notifications until the connection ends or `is_stopped` returns true.
    pub(super) fn receive_notifications(
        &mut self,
        mut is_stopped: impl FnMut(&Context<'_>) -> bool,
        mut on_notification: impl FnMut(&Notification),
    ) {
        let wire = &mut self.wire;
        self.runtime.block_on(poll_fn(|context| {
            advance(wire, context, &mut on_notification);
            if wire.is_none() || is_stopped(context) { Poll::Ready(()) } else { Poll::Pending }
        }));
    }
}

/// Makes the future of a request, which is queued when it is first polled.
fn ask<'a>(client: &'a Client, request: &'a Request<'a>) -> Pending<'a> {
    match request {
        Request::Control(sql) => Box::pin(async {
            let messages = client.simple_query(sql).await?;
            Ok(Reply::Control(messages.iter().find_map(first_value)))
        }),
        Request::Prepare(sql) => Box::pin(async { client.prepare(sql).await.map(Reply::Prepared) }),
        Request::Run(prepared, params) => Box::pin(async {
            let params: Vec<_> =
                params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
            client.query(&prepared.statement, &params).await.map(Reply::Rows)
        }),
    }
}

fn first_value(message: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    row.get(0).map(str::to_owned)
}

/// Polls all requests in order, so that they go out in order and together.
async fn all(mut asked: Vec<Pending<'_>>) -> Vec<Result<Reply, Error>> {
    let mut answers: Vec<Option<Result<Reply, Error>>> = asked.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_complete = true;
        for (request, answer) in asked.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match request.as_mut().poll(context) {
                    Poll::Ready(ready) => *answer = Some(ready),
                    Poll::Pending => is_complete = false,
                }
            }
        }
        if is_complete { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

/// Lets the connection read and write what it can now.
fn advance(
    wire: &mut Option<Wire>,
    context: &mut Context<'_>,
    on_notification: &mut dyn FnMut(&Notification),
) {
    // Each iteration takes one message that the server sent unasked, until none is left.
    while let Some(open) = wire {
        match open.poll_message(context) {
            Poll::Ready(Some(Ok(AsyncMessage::Notification(notification)))) => {
                on_notification(&notification);
            }
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_)) | None) => *wire = None,
            Poll::Pending => return,
        }
    }
}
