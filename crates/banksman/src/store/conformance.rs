//! Tests that need the inside of the store: both engines accept every statement, and the cache of
//! lifecycles does not run ahead of a transaction.
//!
//! `tests/it/store` tests what the store promises.

use std::process;
use std::sync::Arc;

use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::time::Instant;

use super::conn::tests::test_server;
use super::conn::{Conn, Db, DbError, Dialect, Options, SqlValue, Target};
use super::definitions::{Definition, Definitions};
use super::{MIGRATIONS, StoreError, sql};

/// EXPLAIN makes an engine parse and plan a statement, with its parameters, without running it.
fn explain_all(db: &Db) -> Vec<String> {
    let explained = db.write(|conn| {
        let pairs = sql::PAIRS.iter().map(|(name, pair)| (*name, pair.pick(conn)));
        let statements: Vec<_> = pairs.chain(sql::STATEMENTS.iter().copied()).collect();
        let mut names = Vec::with_capacity(statements.len());
        for (name, statement) in statements {
            explain(conn, statement).map_err(|error| (name, error)).unwrap_or_else(|broken| {
                panic!("{:?} does not understand {broken:?}", conn.dialect())
            });
            names.push(name.to_owned());
        }
        Ok::<_, DbError>(names)
    });
    explained.expect("every statement is explained")
}

fn explain(conn: &mut dyn Conn, statement: &str) -> Result<(), DbError> {
    // A connection takes constants of the program only, and this one is made for the test.
    let explain: &'static str = format!("EXPLAIN {statement}").leak();
    conn.query(explain, &vec![SqlValue::Null; parameters(statement)]).map(|_| ())
}

/// The highest `$n`. No text in the statements has a `$`.
fn parameters(statement: &str) -> usize {
    let digits = |after: &str| after.chars().take_while(char::is_ascii_digit).collect::<String>();
    let numbers =
        statement.split('$').skip(1).map(|after| digits(after).parse().expect("a number"));
    numbers.max().unwrap_or(0)
}

fn assert_all_are_understood(target: &Target, options: &Options, dialect: Dialect) {
    let db = Db::open(target, options, MIGRATIONS).expect("the store opens");
    let names = explain_all(&db);
    assert_eq!(names.len(), sql::PAIRS.len() + sql::STATEMENTS.len());
    assert!(names.len() > 50, "{dialect:?}: {names:?}");
}

#[test]
fn sqlite_understands_every_statement() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let target = Target::Sqlite(folder.path().join("store.db"));
    assert_all_are_understood(&target, &Options::default(), Dialect::Sqlite);
}

#[test]
fn migrations_are_numbered_without_gaps() {
    assert!(MIGRATIONS.iter().zip(1..).all(|(migration, number)| migration.version == number));
}

#[test]
fn a_lifecycle_of_a_transaction_that_was_undone_is_not_taken_for_kept() {
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let target = Target::Sqlite(folder.path().join("store.db"));
    let db = Db::open(&target, &Options::default(), MIGRATIONS).expect("the store opens");
    let overrides = Overrides::new();
    let lifecycle =
        builtin::get("mission", &overrides).expect("it is built in").expect("it is sound");
    let lifecycle = Arc::new(lifecycle);
    let source = builtin::source("mission").expect("it is built in").to_owned();
    let definition = Definition { lifecycle: Arc::clone(&lifecycle), source, overrides };
    let definitions = Arc::new(Definitions::default());
    let inside = Arc::clone(&definitions);
    let undone = db.write(move |conn| {
        inside.keep(conn, &definition, Instant(0))?;
        inside.get(conn, &definition.lifecycle.version)?;
        Err::<(), _>(StoreError::Db(DbError::Closed))
    });
    assert!(undone.is_err());
    assert!(!definitions.has(&lifecycle.version));
    definitions.remember(&lifecycle);
    assert!(definitions.has(&lifecycle.version));
}

mod needs_postgres {
    use super::*;

    #[test]
    fn postgres_understands_every_statement() {
        let url = test_server();
        let target: Target = url.parse().expect("BANKSMAN_TEST_PG is a URL");
        let schema = format!("statements_{}", process::id());
        let options = Options { schema: Some(schema.clone()), ..Options::default() };
        assert_all_are_understood(&target, &options, Dialect::Postgres);
        let drop_schema: &'static str = format!("DROP SCHEMA {schema} CASCADE").leak();
        let outside = Db::open(&target, &Options::default(), &[]).expect("the server answers");
        outside.write(move |conn| conn.write(drop_schema, &[])).expect("the schema is dropped");
    }
}
