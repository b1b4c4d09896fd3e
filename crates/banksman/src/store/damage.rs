//! Damage: what is in the store and cannot be read.
//!
//! One damaged row must not hide the others. A query of several rows leaves it out and notes it
//! here, so that surfaces can name it. It is never replaced by a default.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use banksman_core::ids::TaskId;

use super::StoreError;
use super::conn::{DbError, Row};

/// Notes that are kept: the store is broken, and people know.
const NOTES: usize = 1_000;

/// Something that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// None if it belongs to no task, such as an account.
    pub task: Option<TaskId>,
    pub what: String,
}

/// What the reads of one handle and its clones have left out.
#[derive(Debug, Default)]
pub(super) struct DamageLog(Mutex<BTreeSet<Damage>>);

impl DamageLog {
    /// Notes the damage of a row and leaves the row out. Any other error stays one.
    pub(super) fn leave_out<T>(
        &self,
        row: &Row,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Err(error) if is_damage(&error) => {
                let mut notes = self.notes();
                if notes.len() < NOTES {
                    notes.insert(match damage_in(row, error) {
                        StoreError::Corrupt { task, what } => Damage { task: Some(task), what },
                        error => Damage { task: None, what: format!("{}{error}", name_of(row)) },
                    });
                }
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// The notes so far, which are forgotten.
    pub(super) fn take(&self) -> BTreeSet<Damage> {
        std::mem::take(&mut *self.notes())
    }

    fn notes(&self) -> MutexGuard<'_, BTreeSet<Damage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A column of the wrong type is damage of the task that the row names.
pub(super) fn damage_in(row: &Row, error: StoreError) -> StoreError {
    let column = ["task", "id"].into_iter().find_map(|name| row.column(name));
    match column.and_then(|column| row.get(column).ok()) {
        Some(task) => damage_of(task, error),
        None => error,
    }
}

/// The name in a row that belongs to no task, such as that of an account.
fn name_of(row: &Row) -> String {
    let name = row.column("name").and_then(|column| row.text(column).ok());
    name.map(|name| format!("`{name}`: ")).unwrap_or_default()
}

/// Whether an error is about damaged data, and so about nothing but what it belongs to.
pub(super) fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt { .. }
        | StoreError::Definition { .. }
        | StoreError::NoDefinition(_)
        | StoreError::Db(DbError::Column { .. }) => true,
        StoreError::Db(_)
        | StoreError::Rejected(_)
        | StoreError::NoTask(_)
        | StoreError::KeyTaken { .. }
        | StoreError::Bug { .. }
        | StoreError::Cursor(_)
        | StoreError::ProjectTaken(..) => false,
    }
}

/// `None` for a damaged task that no row names. Callers skip it, and `check` names it.
pub(super) fn unless_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if is_damage(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// What cannot be read of a task is damage of that task.
pub(super) fn damage_of(task: TaskId, error: StoreError) -> StoreError {
    match error {
        StoreError::Db(DbError::Column { .. })
        | StoreError::Definition { .. }
        | StoreError::NoDefinition(_) => StoreError::Corrupt { task, what: error.to_string() },
        other => other,
    }
}
