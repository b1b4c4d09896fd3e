//! Locks on worktrees, one file each, so that two attempts never share a worktree.
//!
//! They use `flock`: the system releases a lock with its process, however that ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::WorktreeJob;
use super::names::{hash_of, rescue_name};
use crate::exec::files::AtPath;
use crate::exec::process::{Program, Result, RunError};

/// How often and how long to wait for a lock: half a minute in all. Most locks are held for
/// milliseconds, so the first attempts follow each other closely.
const TRIES: u32 = 200;
const QUICK_TRIES: u32 = 50;
const QUICK_PAUSE: Duration = Duration::from_millis(10);
const PAUSE_SECONDS: &str = "0.2";
/// How often a lock's file may turn out to be deleted before `try_acquire` gives up.
const MAX_STALE_FILES: u32 = 100;

/// A held lock, released when it is dropped.
#[derive(Debug)]
pub struct WorktreeLock {
    _file: File,
    path: PathBuf,
}

impl WorktreeLock {
    /// Releases the lock and removes its file, for things that will not be used again.
    pub(super) fn release_and_remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl WorktreeJob<'_> {
    pub(in crate::exec) fn lock_worktree(&mut self, worktree: &Path) -> Result<WorktreeLock> {
        self.lock(&format!("{}-{}", rescue_name(worktree), hash_of(worktree)))
    }

    /// Takes one of the repository's locks: `repository` on its base branches, `merges` for the
    /// queue of merges into them.
    pub(in crate::exec) fn lock_repository(&mut self, which: &str) -> Result<WorktreeLock> {
        self.lock(&format!("{which}-{}", hash_of(&self.common)))
    }

    /// Takes the lock, and waits for it through the runner, which has other duties meanwhile.
    fn lock(&mut self, name: &str) -> Result<WorktreeLock> {
        let lock = self.workspace.spare.join("locks").join(format!("{name}.lock"));
        for attempt in 0..TRIES {
            match try_acquire(&lock).during("taking the lock", &lock)? {
                Some(held) => return Ok(held),
                None if attempt < QUICK_TRIES => std::thread::sleep(QUICK_PAUSE),
                None => self.pause()?,
            }
        }
        let what = format!("taking the lock `{}`", lock.display());
        Err(RunError::failed(what, "timed out, because another process holds it"))
    }

    /// Waits a moment through the runner.
    pub(in crate::exec) fn pause(&mut self) -> Result<()> {
        let program = Program::new("sleep", [PAUSE_SECONDS], Path::new("/"), self.runner.env());
        self.runner.run(&program).map(drop)
    }
}

/// Takes the lock; none if another process holds it.
fn try_acquire(lock: &Path) -> io::Result<Option<WorktreeLock>> {
    if let Some(folder) = lock.parent() {
        fs::create_dir_all(folder)?;
    }
    for _ in 0..MAX_STALE_FILES {
        let file = OpenOptions::new().create(true).append(true).open(lock)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The last holder may have removed the file after we opened it; nobody else would see a
        // lock on that file.
        if fs::metadata(lock)
            .is_ok_and(|now| file.metadata().is_ok_and(|ours| ours.ino() == now.ino()))
        {
            return Ok(Some(WorktreeLock { _file: file, path: lock.to_owned() }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("locks/a.lock");
        let first = try_acquire(&lock).unwrap().unwrap();
        assert!(try_acquire(&lock).unwrap().is_none());
        drop(first);
        assert!(try_acquire(&lock).unwrap().is_some());
    }

    #[test]
    fn a_lock_whose_file_was_removed_can_be_taken_again() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("a.lock");
        let first = try_acquire(&lock).unwrap().unwrap();
        first.release_and_remove().unwrap();
        assert!(!lock.exists());
        let second = try_acquire(&lock).unwrap().unwrap();
        assert!(try_acquire(&lock).unwrap().is_none());
        drop(second);
    }
}
