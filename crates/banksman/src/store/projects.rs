//! Projects: the folder of each repository that the store serves.

use banksman_core::time::Instant;

use super::{Store, StoreError, sql};

impl Store {
    /// Registers a project. A name belongs to one folder, so a second repository of the same name
    /// needs another name.
    pub fn put_project(&self, name: &str, path: &str, now: Instant) -> Result<(), StoreError> {
        let (name, path) = (name.to_owned(), path.to_owned());
        self.write(move |conn| {
            let columns = [name.as_str().into(), path.as_str().into(), now.0.into()];
            conn.write(sql::INSERT_PROJECT_IF_NEW, &columns)?;
            let rows = conn.query(sql::PROJECT, &[name.as_str().into()])?;
            let known = rows.first().map_or(Ok(path.as_str()), |row| row.text(0))?;
            if known == path {
                Ok(())
            } else {
                Err(StoreError::ProjectTaken(name.clone(), known.to_owned()))
            }
        })
    }

    /// The folder of a project.
    pub fn project(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::PROJECT, &[name.into()])?;
            rows.first()
                .map(|row| row.text(0).map(str::to_owned))
                .transpose()
                .map_err(StoreError::from)
        })
    }
}
