//! A worktree in motion: as long as our own git writes its files, a note in its record says so. One
//! that was cut off there is put back to where its branch stands.
//!
//! The note is only there for a worktree that was clean, so what is found beside the branch was
//! written by that git: the files of a commit that it was going to, some of them half-written.
//! Taken for work, they would be committed as such.

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

/// Says that everything from here on is ours.
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

/// Undoes what was cut off. Saved first all the same: a process that an agent has left behind may
/// have written here, too.
pub(super) fn put_back(
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
            recover::forget_half_way(record)?;
            let mut git = pool.git_in(runner, &workspace.worktree);
            git.force_to(CheckoutTarget::Branch(branch))?;
            git.clean_untracked()?;
        }
        if let Some(reference) = saved.reference {
            notes.push(format!(
                "bringing the branch up to date was cut off and was undone; what was there is saved as `{reference}`"
            ));
        }
    }
    end(record)
}
