//! The worktree pool: a few spare worktrees per repository, which need only the difference written,
//! and a trash folder for worktrees too dirty to reuse.
//!
//! The caller must have saved everything in a worktree that it hands over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::names::hash_of;
use super::{WorktreeJob, link, mark};
use crate::exec::files::{AtPath, paths_in, remove_if_exists};
use crate::exec::git::{CheckoutTarget, Git};
use crate::exec::process::{Result, RunError};

/// Spare worktrees per repository: as many as tasks commonly start at once.
pub const SPARES: usize = 4;
/// The most entries of one name in the trash.
const MAX_SAME_NAMES: u32 = 10_000;
/// Files in a record that change what a worktree shows; a worktree with any of them is not reused.
const NOT_REUSABLE: &[&str] = &["modules", "config.worktree", "info/sparse-checkout"];
/// In a record: the set-up command that has succeeded in its worktree.
pub(super) const SET_UP: &str = "banksman-set-up";

impl WorktreeJob<'_> {
    /// Creates a worktree at a free path, with the files of its commit and nothing else. Returns
    /// its record.
    pub(in crate::exec) fn obtain(
        &mut self,
        path: &Path,
        on: CheckoutTarget<'_>,
    ) -> Result<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).during("creating the folder", folder)?;
        self.forget(path)?;
        if let Some(record) = self.take_spare(path)? {
            match Git::at(self.runner, path).force_checkout(on) {
                Ok(()) => {
                    link::unmark_spare(&record).during("taking over the worktree", path)?;
                    return Ok(record);
                }
                Err(RunError::Interrupted) => return Err(RunError::Interrupted),
                // If the spare is unusable, create a new one below.
                Err(_) => self.discard(path)?,
            }
        }
        self.repo_git().add_worktree(path, on)?;
        link::record_named_in(&path.join(".git")).during("reading the new worktree", path)
    }

    /// Takes away a worktree whose contents are saved or worthless: it becomes a spare or goes to
    /// the trash.
    pub(in crate::exec) fn retire(
        &mut self,
        path: &Path,
        record: &Path,
        commit: &str,
    ) -> Result<()> {
        let is_plain = !NOT_REUSABLE.iter().any(|name| record.join(name).exists());
        if is_plain && self.spares().len() < SPARES {
            let mut git = Git::at(self.runner, path);
            match git.force_checkout(CheckoutTarget::Commit(commit)).and_then(|()| git.clean_all())
            {
                Ok(()) if self.put_spare(path, record).during("keeping the worktree", path)? => {
                    return Ok(());
                }
                Err(RunError::Interrupted) => return Err(RunError::Interrupted),
                // The trash takes what git cannot clean, such as read-only folders.
                Ok(()) | Err(_) => {}
            }
        }
        self.discard(path)
    }

    /// Moves a worktree to the trash and removes its record. The trash is emptied later, because
    /// that may take long.
    pub(in crate::exec) fn discard(&mut self, path: &Path) -> Result<()> {
        self.move_aside(path, "trash")?;
        self.forget(path)
    }

    /// Removes the record of a worktree whose folder is already gone.
    pub(super) fn forget(&mut self, path: &Path) -> Result<()> {
        let record = link::record_of(&self.common, path);
        match record.during("finding the record of the worktree", path)? {
            Some(_) => self.repo_git().drop_worktree(path),
            None => Ok(()),
        }
    }

    /// Renames a folder into one next to the spares and returns the new path.
    pub(super) fn move_aside(&self, path: &Path, folder: &str) -> Result<PathBuf> {
        let folder = self.workspace.spare.join(folder);
        fs::create_dir_all(&folder).during("moving away", path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let slots = (1..MAX_SAME_NAMES).map(|number| folder.join(format!("{name}.{number}")));
        let moved = rename_to_free(path, slots, |_| Ok(()))
            .and_then(|to| to.ok_or_else(|| io::Error::other("too many entries have its name")));
        moved.during("moving away", path)
    }

    fn pool(&self) -> PathBuf {
        self.workspace.spare.join("pool").join(hash_of(&self.common))
    }

    fn spares(&self) -> Vec<PathBuf> {
        // A spare that cannot be listed is not used.
        let mut spares = paths_in(&self.pool());
        spares.sort();
        spares
    }

    /// Takes a spare. The rename decides between processes: it succeeds for one only. The content
    /// can be trusted only after that.
    fn take_spare(&self, to: &Path) -> Result<Option<PathBuf>> {
        for spare in self.spares() {
            match fs::rename(&spare, to) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // For example another file system: then spares are of no use here.
                Err(_) => return Ok(None),
            }
            match link::record_named_in(&to.join(".git")) {
                Ok(record) if record.is_dir() => {
                    // The old mark must be gone before the worktree has its new path.
                    mark::remove_mark(&record)
                        .and_then(|()| link::link_folder(to, &record))
                        .during("taking over the worktree", to)?;
                    return Ok(Some(record));
                }
                Ok(_) | Err(_) => drop(self.move_aside(to, "trash")?),
            }
        }
        Ok(None)
    }

    /// Moves a worktree to a free slot among the spares; false if there is none.
    fn put_spare(&self, path: &Path, record: &Path) -> io::Result<bool> {
        let pool = self.pool();
        fs::create_dir_all(&pool)?;
        remove_if_exists(&record.join(SET_UP))?;
        link::mark_spare(record)?;
        let slots = (1..=SPARES).map(|number| pool.join(number.to_string()));
        let link = |to: &Path| link::link_folder_at(path, record, to);
        if rename_to_free(path, slots, link)?.is_some() {
            return Ok(true);
        }
        link::link_folder(path, record)?;
        Ok(false)
    }
}

/// Renames a folder to the first of these paths that is free and returns the path; none if all are
/// taken. `prepare` is called with each free path before the rename.
fn rename_to_free(
    folder: &Path,
    slots: impl Iterator<Item = PathBuf>,
    prepare: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<Option<PathBuf>> {
    for to in slots.filter(|to| to.symlink_metadata().is_err()) {
        prepare(&to)?;
        match fs::rename(folder, &to) {
            Ok(()) => return Ok(Some(to)),
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
