//! A note in a worktree's record while our own git writes its files. If that was interrupted, the
//! worktree is reset to its branch.
//!
//! Only a clean worktree gets the note, so everything that differs from the branch was written by
//! that git: files of the commit it was moving to, some of them partial. They must not be committed
//! as work.

use std::fs;
use std::io;
use std::path::Path;

use super::pool::{WorktreePool, failed};
use super::{link, recover, rescue};
use crate::exec::git::CheckoutTarget;
use crate::exec::job::Workspace;
use crate::exec::process::{RunError, Runner};

/// The note's file in a record.
const NOTE: &str = "banksman-moving";

/// Begins a move: all changes from here on are ours.
pub(super) fn begin(record: &Path) -> Result<(), RunError> {
    let note = record.join(NOTE);
    link::replace(&note, "").map_err(|error| failed("writing", &note, &error))
}

pub(super) fn end(record: &Path) -> Result<(), RunError> {
    let note = record.join(NOTE);
    match fs::remove_file(&note) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", &note, &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Undoes an interrupted move. It saves the files first anyway: a process that an agent left behind
/// may have written here, too.
pub(super) fn undo_interrupted(
    runner: &mut dyn Runner,
    pool: &WorktreePool<'_>,
    workspace: &Workspace,
    record: &Path,
    notes: &mut Vec<String>,
) -> Result<(), RunError> {
    if !record.join(NOTE).exists() {
        return Ok(());
    }
    let branch = workspace.branch.as_str();
    let tip = pool.git(runner).commit_of(&format!("refs/heads/{branch}"))?;
    if let Some(tip) = tip {
        let saved = rescue::save(runner, pool, &workspace.worktree, record, &[tip])?;
        if saved.whole {
            recover::remove_operation_state(record)?;
            let mut git = pool.git_in(runner, &workspace.worktree);
            git.force_checkout(CheckoutTarget::Branch(branch))?;
            git.clean_untracked()?;
        }
        if let Some(reference) = saved.reference {
            notes.push(format!(
                "an interrupted update of the branch was undone; its files are saved as `{reference}`"
            ));
        }
    }
    end(record)
}
