//! The database as somebody sees it who goes past the store: for looking at rows, and for tampering
//! with them.

use banksman::store::conn::Target;
use rusqlite::types::ValueRef;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{NoTls, SimpleQueryMessage};

pub(crate) enum Raw {
    Sqlite(rusqlite::Connection),
    Postgres { runtime: Runtime, client: tokio_postgres::Client },
}

impl Raw {
    pub(crate) fn open(target: &Target, schema: Option<&str>) -> Self {
        match target {
            Target::Sqlite(path) => {
                let connection = rusqlite::Connection::open(path).expect("the file opens");
                connection
                    .pragma_update(None, "foreign_keys", false)
                    .expect("references can be switched off");
                Self::Sqlite(connection)
            }
            Target::Postgres(url) => {
                let runtime =
                    Builder::new_current_thread().enable_all().build().expect("a runtime");
                let client = runtime.block_on(async {
                    let (client, connection) =
                        tokio_postgres::connect(url, NoTls).await.expect("the server answers");
                    tokio::spawn(connection);
                    client
                });
                let mut raw = Self::Postgres { runtime, client };
                if let Some(schema) = schema {
                    raw.run(&format!("SET search_path TO {schema}"));
                }
                raw
            }
        }
    }

    /// Runs statements, separated by `;`.
    pub(crate) fn run(&mut self, sql: &str) {
        match self {
            Self::Sqlite(connection) => {
                let done = connection.execute_batch(sql);
                done.unwrap_or_else(|error| panic!("{error} in\n{sql}"));
            }
            Self::Postgres { runtime, client } => runtime
                .block_on(client.batch_execute(sql))
                .unwrap_or_else(|error| panic!("{error:?} in\n{sql}")),
        }
    }

    /// Whether another connection waits for what this one has locked. SQLite does not tell.
    pub(crate) fn is_waited_for(&mut self) -> Option<bool> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres { .. } => Some(
                self.number(
                    "SELECT count(*) FROM pg_locks WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))",
                ) > 0,
            ),
        }
    }

    /// The rows of a query as text; bytes are written `\x…` as PostgreSQL does.
    pub(crate) fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement =
                    connection.prepare(sql).unwrap_or_else(|e| panic!("{e}: {sql}"));
                let columns = statement.column_count();
                let rows = statement.query_map([], |row| {
                    (0..columns).map(|at| Ok(text(row.get_ref(at)?))).collect()
                });
                let rows: Result<_, _> = rows.expect("the query runs").collect();
                rows.expect("the rows are read")
            }
            Self::Postgres { runtime, client } => {
                let answer = runtime.block_on(client.simple_query(sql));
                let answer = answer.unwrap_or_else(|error| panic!("{error:?} in {sql}"));
                let row = |message: &SimpleQueryMessage| match message {
                    SimpleQueryMessage::Row(row) => {
                        Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
                    }
                    _ => None,
                };
                answer.iter().filter_map(row).collect()
            }
        }
    }

    /// The one value that a query answers with.
    pub(crate) fn value(&mut self, sql: &str) -> Option<String> {
        let mut rows = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0).remove(0)
    }

    pub(crate) fn number(&mut self, sql: &str) -> i64 {
        let text = self.value(sql).unwrap_or_else(|| panic!("{sql} has no answer"));
        text.parse().unwrap_or_else(|_| panic!("{sql} answers {text}"))
    }

    /// Lets the database take what it would refuse: rows that point nowhere, values that a CHECK
    /// forbids.
    pub(crate) fn lift_constraints(&mut self) {
        match self {
            Self::Sqlite(_) => self.run("PRAGMA ignore_check_constraints = ON"),
            Self::Postgres { .. } => self.run(
                "DO $$ DECLARE c record; BEGIN
                   FOR c IN SELECT conrelid::regclass AS of_table, conname FROM pg_constraint
                            WHERE connamespace = current_schema()::regnamespace AND contype IN ('f', 'c')
                   LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of_table, c.conname); END LOOP;
                 END $$",
            ),
        }
    }

    /// Bytes as this engine writes them in a statement.
    pub(crate) fn bytes(&self, hex: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("X'{hex}'"),
            Self::Postgres { .. } => format!("'\\x{hex}'::bytea"),
        }
    }
}

fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Some(format!("\\x{}", banksman::store::hex(bytes))),
    }
}
