//! The folder of this machine's jobs. Jobs are named by their tasks, so a store that shares the
//! folder with another one has a folder below it. The first store that works there has the folder
//! itself.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::plain_file::read_text;

/// The file with the id of the store that has the folder itself.
pub const OWNER: &str = "store";
/// The folder below it for other stores.
const OTHERS: &str = "stores";
/// An id is shorter.
const ID_BYTES: usize = 64;

/// Clones share what is known of the store.
#[derive(Debug, Clone)]
pub struct Home {
    given: PathBuf,
    of_store: Arc<OnceLock<PathBuf>>,
}

impl Home {
    /// The folder as the settings name it.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Finds out which folder is that of a store. As long as none has the folder itself, it may be
    /// that of any.
    pub fn settle(&self, store: &str) -> io::Result<()> {
        let owner = match read_text(&self.given.join(OWNER), ID_BYTES) {
            Ok(owner) => owner,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        self.of_store.get_or_init(|| match owner.trim() == store {
            true => self.given.clone(),
            false => self.given.join(OTHERS).join(store),
        });
        Ok(())
    }
}

impl From<PathBuf> for Home {
    fn from(given: PathBuf) -> Self {
        Self { given, of_store: Arc::default() }
    }
}

impl Deref for Home {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.of_store.get().unwrap_or(&self.given)
    }
}

impl PartialEq for Home {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_that_of_the_store_that_owns_it_and_others_have_one_below() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let of = |store: &str| {
            let home = Home::from(folder.path().to_owned());
            home.settle(store).expect("it is read");
            home.to_path_buf()
        };
        assert_eq!(of("a"), folder.path(), "nobody works there yet");
        fs::write(folder.path().join(OWNER), "a").expect("written");
        assert_eq!([of("a"), of("b")], [folder.path().to_owned(), folder.path().join("stores/b")]);
    }
}
