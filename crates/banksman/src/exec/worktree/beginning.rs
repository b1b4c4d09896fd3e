//! Records in the home which branch a task's work began from, and that the task's own branch was
//! made for it.
//!
//! What a repository calls its main branch may change while a task is at work, and a branch of the
//! name may be there before. Agents write to the repository, so neither is asked of it later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::link::read_small;
use super::names::hash_of;
use crate::exec::files::{self, remove_if_exists};
use crate::exec::job::Workspace;

/// Next to the spare worktrees: a record for each worktree.
const FOLDER: &str = "begun";

#[derive(Debug, Serialize, Deserialize)]
pub struct Beginning {
    /// The branch that the work started from and goes back to.
    pub base: String,
    branch: String,
    /// Tells tasks of different stores apart that have the same id.
    since: Instant,
}

fn path(spare: &Path, worktree: &Path) -> PathBuf {
    spare.join(FOLDER).join(hash_of(worktree))
}

/// How the work of the task that exists since then began in this worktree, if it has.
pub fn beginning(spare: &Path, worktree: &Path, since: Instant) -> Option<Beginning> {
    read(spare, worktree).filter(|begun| begun.since == since)
}

fn read(spare: &Path, worktree: &Path) -> Option<Beginning> {
    serde_json::from_str(&read_small(&path(spare, worktree)).ok()?).ok()
}

/// Whether the branch was made for this task.
pub(super) fn is_own(workspace: &Workspace) -> bool {
    let Workspace { spare, worktree, since, branch, .. } = workspace;
    let begun = beginning(spare, worktree, *since);
    workspace.has_begun || begun.is_some_and(|begun| begun.branch == *branch)
}

/// Whether the worktree was made for another task, of another store.
pub(super) fn is_of_other(workspace: &Workspace) -> bool {
    let Workspace { spare, worktree, since, .. } = workspace;
    read(spare, worktree).is_some_and(|begun| begun.since != *since)
}

/// Records that the work begins, unless it has begun before.
pub(super) fn record(workspace: &Workspace) -> io::Result<()> {
    let Workspace { spare, worktree, since, branch, base, .. } = workspace;
    if beginning(spare, worktree, *since).is_some_and(|begun| begun.branch == *branch) {
        return Ok(());
    }
    let (base, branch) = (base.clone(), branch.clone());
    let begun = serde_json::to_vec(&Beginning { base, branch, since: *since })?;
    fs::create_dir_all(spare.join(FOLDER))?;
    files::replace(&path(spare, worktree), &begun)
}

/// Removes the record of a worktree whose branch is gone.
pub(super) fn forget(Workspace { spare, worktree, .. }: &Workspace) -> io::Result<()> {
    remove_if_exists(&path(spare, worktree))
}
