//! SQLite alone: prepared statements, set up as the store sets it up, and nothing around them.

use std::path::Path;

use rusqlite::{Connection, Statement};

use crate::frame::Fault;
use crate::script::{Line, Slot};

/// Opens a store's file for bare statements at full durability.
pub(crate) fn connect(path: &Path) -> Result<Connection, Fault> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    Ok(connection)
}

/// The statements of one move, prepared once.
pub(crate) struct Ready<'a> {
    lines: Vec<(Statement<'a>, &'a Line)>,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(connection: &'a Connection, lines: &'a [Line]) -> Result<Self, Fault> {
        let mut ready = Vec::new();
        for line in lines {
            // SQLite numbers `$1` by its first appearance and `?1` by its digits.
            let statement = connection.prepare(&line.sql.replace('$', "?"))?;
            ready.push((statement, line));
        }
        Ok(Self { lines: ready })
    }

    pub(crate) fn write(&mut self, task: i64, version: i64) -> Result<(), Fault> {
        for (statement, line) in &mut self.lines {
            for (slot, index) in line.slots.iter().zip(1..) {
                match slot {
                    Slot::Fixed(value) => statement.raw_bind_parameter(index, value)?,
                    Slot::Task => statement.raw_bind_parameter(index, task)?,
                    Slot::Version => statement.raw_bind_parameter(index, version)?,
                    Slot::Before => statement.raw_bind_parameter(index, version - 1)?,
                }
            }
            Line::check(&line.sql, statement.raw_execute()? as u64)?;
        }
        Ok(())
    }
}

/// What begins and ends a transaction.
pub(crate) struct Ends<'a> {
    begin: Statement<'a>,
    commit: Statement<'a>,
}

impl<'a> Ends<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Result<Self, Fault> {
        Ok(Self {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
        })
    }

    /// Runs the writes in one transaction.
    pub(crate) fn around(
        &mut self,
        writes: impl FnOnce() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.begin.raw_execute()?;
        writes()?;
        self.commit.raw_execute()?;
        Ok(())
    }
}
