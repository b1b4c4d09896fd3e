//! Projects and batches: where tasks belong.

use banksman_core::time::Instant;

use super::{Store, StoreError, sql};

impl Store {
    /// Makes a project known, or moves it to another folder. A name belongs to one folder: another one must be chosen
    /// for a second repository of the same name.
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

    /// Makes a batch known; one that exists stays as it is.
    pub fn put_batch(&self, name: &str, concurrency: i64, now: Instant) -> Result<(), StoreError> {
        let columns = [name.into(), concurrency.max(1).into(), now.0.into()];
        self.write(move |conn| Ok(conn.write(sql::INSERT_BATCH, &columns)?))
    }
}
