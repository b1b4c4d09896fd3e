//! Projects: the folder of each repository that the store serves.

use banksman_core::time::Instant;

use super::tx::params;
use super::{Result, Store, StoreError, sql};

impl Store {
    /// Registers a project. A name belongs to one folder, so a second repository of the same name
    /// needs another name.
    pub fn put_project(&self, name: &str, path: &str, now: Instant) -> Result<()> {
        let (name, path) = (name.to_owned(), path.to_owned());
        self.write(move |tx| {
            tx.write(sql::INSERT_PROJECT_IF_NEW, &params![&name, &path, now])?;
            let known: Option<String> = tx.value(sql::PROJECT, &params![&name])?;
            match known.filter(|known| *known != path) {
                None => Ok(()),
                Some(known) => Err(StoreError::ProjectTaken(name.clone(), known)),
            }
        })
    }

    /// The folder of a project.
    pub fn project(&self, name: &str) -> Result<Option<String>> {
        self.row(sql::PROJECT, &params![name], |row| row.get(0))
    }
}
