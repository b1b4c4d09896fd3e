//! Prepares a schema from a URL: session settings, the schema, migrations.

use std::sync::Arc;
use std::time::Duration;

use super::link::{CONNECT_WITHIN, Connector, Link};
use crate::store::conn::error::DbError;
use crate::store::conn::migrate::{self, Migration};
use crate::store::conn::target::{Target, postgres_config};
use crate::store::conn::{Dialect, Options, Result};

/// The lock under which all stores of one database change their schema. The number is arbitrary.
const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7089063422501)";

/// A migration may rewrite a large table.
const STEP_AT_MOST: Duration = Duration::from_secs(60 * 60);

/// The server ends a transaction that stays open this long without a statement.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(30);

const SCHEMA_NAME_BYTES: usize = 63;

pub(super) fn connector(url: &str, options: &Options) -> Result<Connector> {
    let mut config = postgres_config(url)?;
    let mut settings = config.get_options().unwrap_or_default().to_owned();
    let mut set = |name: &str, value: &str| {
        settings.push_str(&format!(" -c {name}={value}"));
    };
    set("statement_timeout", &millis(options.statement_timeout));
    set("lock_timeout", &millis(options.busy_timeout));
    set("idle_in_transaction_session_timeout", &millis(IDLE_IN_TRANSACTION));
    // A statement outside a READ WRITE transaction must not change anything; pipelining depends on
    // it.
    set("default_transaction_read_only", "on");
    if let Some(schema) = &options.schema {
        check_schema_name(schema)?;
        set("search_path", schema);
    }
    config
        .options(settings)
        .application_name("banksman")
        .connect_timeout(CONNECT_WITHIN)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(30))
        .tcp_user_timeout(options.statement_timeout + Duration::from_secs(30));
    Ok(Connector {
        config,
        target: Target::Postgres(url.to_owned()).to_string(),
        statement_timeout: options.statement_timeout,
    })
}

/// Zero would switch the limit off.
fn millis(time: Duration) -> String {
    time.as_millis().clamp(1, i32::MAX as u128).to_string()
}

/// A plain name needs no quoting, neither in SQL nor in session settings.
fn check_schema_name(name: &str) -> Result<()> {
    let is_plain =
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
    if is_plain && starts_well && name.len() <= SCHEMA_NAME_BYTES {
        return Ok(());
    }
    Err(DbError::Target {
        reason: "the schema's name may have at most 63 characters: lower-case letters, digits and `_`",
    })
}

/// Applies migrations and returns the name of the channel on which changes are announced.
pub(super) fn set_up(
    connector: &Arc<Connector>,
    options: &Options,
    migrations: &[Migration],
) -> Result<(Link, String)> {
    let mut link = Link::connect(connector).map_err(|error| open_error(connector, error))?;
    if let Some(schema) = &options.schema {
        make_schema(&mut link, schema)?;
    }
    let found = schema_version(&mut link)?;
    for migration in migrate::due(migrations, found)? {
        apply_migration(&mut link, migration).map_err(|error| migration.failed(error))?;
    }
    let schema = link.control("SELECT current_schema()::regnamespace::oid")?;
    let schema = schema.ok_or(DbError::Target {
        reason: "the server's search path names no schema that exists",
    })?;
    Ok((link, format!("banksman_{schema}")))
}

fn open_error(connector: &Connector, error: DbError) -> DbError {
    match error {
        DbError::Disconnected { source, .. } | DbError::Other { source, .. } => {
            DbError::Open { target: connector.target.clone(), source }
        }
        known => known,
    }
}

fn make_schema(link: &mut Link, schema: &str) -> Result<()> {
    if link.control(&format!("SELECT to_regnamespace('{schema}')"))?.is_some() {
        return Ok(());
    }
    let make = format!("CREATE SCHEMA IF NOT EXISTS {schema}");
    run(link, &["BEGIN READ WRITE", SCHEMA_LOCK, &make, "COMMIT"])
}

fn apply_migration(link: &mut Link, migration: &Migration) -> Result<()> {
    run(link, &["BEGIN READ WRITE", "SET LOCAL statement_timeout = 0", SCHEMA_LOCK])?;
    // Another process may have applied the step while we waited for the lock.
    if schema_version(link)? >= migration.version {
        return run(link, &["ROLLBACK"]);
    }
    let statements = migration.statements(Dialect::Postgres);
    run(link, &statements)?;
    run(link, &["COMMIT"])
}

fn schema_version(link: &mut Link) -> Result<i64> {
    // Querying a missing table would abort the transaction, so check its existence first, and with
    // an ordinary query: `to_regclass` may answer from what the session knew before it waited for
    // the lock.
    let book = "SELECT 1 FROM pg_catalog.pg_tables \
                WHERE schemaname = current_schema() AND tablename = 'schema_versions'";
    if link.control(book)?.is_none() {
        return Ok(0);
    }
    let version = link.control("SELECT max(version) FROM schema_versions")?;
    Ok(version.and_then(|version| version.parse().ok()).unwrap_or(0))
}

/// Runs statements in order; stops at the first error.
fn run(link: &mut Link, statements: &[impl AsRef<str>]) -> Result<()> {
    statements.iter().try_for_each(|sql| link.control_within(STEP_AT_MOST, sql.as_ref()).map(drop))
}
