//! A note in a worktree's record while our own git writes its files. If that was interrupted, the
//! worktree is reset to its branch.
//!
//! Only a clean worktree gets the note, so everything that differs from the branch was written by
//! that git: files of the commit it was moving to, some of them partial. They must not be committed
//! as work.

use std::path::Path;

use super::{WorktreeJob, recover};
use crate::exec::files::{self, AtPath, remove_if_exists};
use crate::exec::git::CheckoutTarget;
use crate::exec::process::Result;

/// The note's file in a record.
const NOTE: &str = "banksman-moving";

/// Begins a move: all changes from here on are ours.
pub(super) fn begin(record: &Path) -> Result<()> {
    let note = record.join(NOTE);
    files::replace(&note, b"").during("writing", &note)
}

pub(super) fn end(record: &Path) -> Result<()> {
    let note = record.join(NOTE);
    remove_if_exists(&note).during("removing", &note)
}

impl WorktreeJob<'_> {
    /// Undoes an interrupted move. It saves the files first anyway: a process that an agent left
    /// behind may have written here, too.
    pub(super) fn undo_interrupted(&mut self, record: &Path) -> Result<()> {
        if !record.join(NOTE).exists() {
            return Ok(());
        }
        let branch = self.workspace.branch.as_str();
        if let Some(tip) = self.repo_git().commit_of(&format!("refs/heads/{branch}"))? {
            let saved = self.save(record, &[tip])?;
            if saved.whole {
                recover::remove_operation_state(record)?;
                let mut git = self.git();
                git.force_checkout(CheckoutTarget::Branch(branch))?;
                git.clean_untracked()?;
            }
            if let Some(reference) = saved.reference {
                self.notes.push(format!(
                    "an interrupted update of the branch was undone; its files are saved as `{reference}`"
                ));
            }
        }
        end(record)
    }
}
