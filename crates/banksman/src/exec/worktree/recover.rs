//! Takes over a worktree that was worked in before: removes a killed git's locks, ends an
//! unfinished rebase, restores a deleted branch and returns to the right one.
//!
//! It saves whatever cannot stay under a rescue ref first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{WorktreeJob, diverged, link};
use crate::exec::files::{AtPath, if_exists, paths_in};
use crate::exec::git::{CheckoutTarget, Git, Status};
use crate::exec::job::{JobResult, Workspace};
use crate::exec::process::{Result, RunError};

/// Files in a record that show an unfinished operation, in the order of checking.
const UNFINISHED: &[(&str, &str)] = &[
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
];

/// No git holds the lock on all refs for this long.
const STALE_LOCK_AGE: Duration = Duration::from_secs(30);

/// Where a worktree's head is relative to its task's branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::exec) enum BranchPosition {
    OnBranch,
    /// The head was elsewhere and ahead of the branch; the branch was moved to it.
    Moved {
        from: String,
    },
    /// The head has other commits than the branch; nothing was changed.
    Away {
        at: String,
        head: String,
    },
}

/// Moves the task's branch to work that was done on another branch or on a detached head, if that
/// builds on the branch. An agent may have made its branch point to another one; that ends here.
pub(in crate::exec) fn move_branch_to_head(
    git: &mut Git<'_>,
    branch: &str,
    status: &Status,
) -> Result<BranchPosition> {
    if status.branch.as_deref() == Some(branch) {
        return Ok(BranchPosition::OnBranch);
    }
    let at = status
        .branch
        .as_ref()
        .map_or("no branch".to_owned(), |other| format!("the branch `{other}`"));
    let Some(head) = status.head.clone() else {
        return Ok(BranchPosition::Away { at, head: String::new() });
    };
    git.make_direct(branch)?;
    let is_ahead = match git.commit_of(&format!("refs/heads/{branch}"))? {
        Some(commit) => git.is_ancestor(&commit, &head)?,
        None => true,
    };
    if !is_ahead {
        return Ok(BranchPosition::Away { at, head });
    }
    git.set_branch_to_head(branch)?;
    Ok(BranchPosition::Moved { from: at })
}

impl WorktreeJob<'_> {
    /// Makes a worktree usable. Returns whether it is clean.
    pub(super) fn recover(&mut self, record: &Path) -> JobResult<bool> {
        self.clear_locks(Some(record))?;
        let repaired = self.repair(record)?;
        self.notes.extend(repaired);
        self.undo_interrupted(record)?;
        self.abort_unfinished(record)?;
        let branch = self.workspace.branch.as_str();
        let mut git = Git::at(self.runner, &self.workspace.worktree);
        let status = git.status()?;
        if status.head.is_none() {
            if restore_branch(&mut git, branch, record, &mut self.notes)?.is_none() {
                let why = format!("the branch `{branch}` is gone and its last commit is unknown");
                return Err(diverged(why));
            }
            return Ok(git.status()?.is_clean());
        }
        if status.branch.as_deref() == Some(branch) {
            let last = link::last_head(record);
            if last.is_some() && last != status.head {
                let why = format!("the branch `{branch}` was moved from outside its worktree");
                return Err(diverged(why));
            }
            return Ok(status.is_clean());
        }
        match move_branch_to_head(&mut git, branch, &status)? {
            BranchPosition::OnBranch => {}
            BranchPosition::Moved { from } => {
                let note = format!("the last work was on {from}; `{branch}` was moved there");
                self.notes.push(note);
            }
            BranchPosition::Away { at, .. } => {
                let saved = self.save(record, &[])?;
                self.notes.push(note_with_rescue("the worktree was left on", &at, saved.reference));
                let mut git = self.git();
                if !git.switch_keeping_changes(branch)? {
                    git.force_checkout(CheckoutTarget::Branch(branch))?;
                }
            }
        }
        Ok(self.git().status()?.is_clean())
    }

    /// Removes the lock files that a killed git left for the branch and the worktree's record,
    /// unless a living process has them open. The caller holds the lock on the worktree.
    pub(super) fn clear_locks(&self, record: Option<&Path>) -> Result<()> {
        let of_branch =
            self.common.join("refs/heads").join(format!("{}.lock", self.workspace.branch));
        let of_record = record.map(locks_in).transpose()?;
        let of_refs = Some(self.common.join("packed-refs.lock")).filter(|lock| is_stale(lock));
        for lock in of_record.into_iter().flatten().chain([of_branch]).chain(of_refs) {
            if lock.symlink_metadata().is_err() {
                continue;
            }
            if is_open_somewhere(&lock) {
                let detail = format!("a process still has `{}` open", lock.display());
                return Err(RunError::failed("taking over the worktree", detail));
            }
            fs::remove_file(&lock).during("removing", &lock)?;
        }
        Ok(())
    }

    fn abort_unfinished(&mut self, record: &Path) -> Result<()> {
        let unfinished = UNFINISHED.iter().find(|(file, _)| record.join(file).exists());
        let Some((_, operation)) = unfinished else { return Ok(()) };
        let saved = self.save(record, &[])?;
        let what = "an unfinished operation was aborted:";
        self.notes.push(note_with_rescue(what, operation, saved.reference));
        let mut git = self.git();
        if git.abort(operation)? {
            return Ok(());
        }
        // Only the state of the operation remains to be removed; the work is saved.
        remove_operation_state(record)?;
        git.reset_index()
    }

    /// Creates a new record for files whose record was pruned; does not touch the files.
    pub(super) fn adopt(&mut self, start: &str) -> Result<()> {
        let Workspace { worktree, branch, spare, .. } = self.workspace;
        let beside = spare.join("making").join(super::names::hash_of(worktree));
        self.forget(&beside)?;
        let mut git = self.repo_git();
        let head = git.commit_of(&format!("refs/heads/{branch}"))?;
        git.add_empty_worktree(&beside, head.as_deref().unwrap_or(start))?;
        let linked = link::record_named_in(&beside.join(".git")).and_then(|record| {
            fs::remove_file(worktree.join(".git"))?;
            link::link_folder(worktree, &record)?;
            fs::remove_dir_all(&beside)
        });
        linked.during("taking over", worktree)?;
        let mut git = self.git();
        git.reset_index()?;
        git.set_branch_to_head(branch)?;
        let note = "the worktree's record in the repository was gone and was created again";
        self.notes.push(note.to_owned());
        Ok(())
    }
}

fn note_with_rescue(what: &str, detail: &str, reference: Option<String>) -> String {
    let saved = reference.map(|name| format!("; its work is saved as `{name}`"));
    format!("{what} {detail}{}", saved.unwrap_or_default())
}

/// Restores a branch that was deleted under its worktree. Returns its last commit, if known.
pub(in crate::exec) fn restore_branch(
    git: &mut Git<'_>,
    branch: &str,
    record: &Path,
    notes: &mut Vec<String>,
) -> Result<Option<String>> {
    let Some(last) = link::last_head(record) else { return Ok(None) };
    git.swap_ref(&format!("refs/heads/{branch}"), &last, "")?;
    notes.push(format!("the branch `{branch}` was gone and was restored at its last commit"));
    Ok(Some(last))
}

/// Any process may hold the lock on all refs, for milliseconds. Left behind, it prevents every ref
/// of the repository from being deleted.
fn is_stale(lock: &Path) -> bool {
    let changed = lock.symlink_metadata().and_then(|found| found.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_LOCK_AGE))
}

/// `index.lock`, `HEAD.lock`, and the locks of an operation in progress, such as `AUTO_MERGE.lock`.
fn locks_in(record: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(record).during("listing", record)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<PathBuf>, _>>().during("listing", record)?;
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|end| end == "lock");
    Ok(paths.into_iter().filter(is_lock).collect())
}

/// Where processes cannot be listed, assume that none has it open: our own lock keeps others out.
fn is_open_somewhere(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    let is_process = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    // What cannot be listed is not recognised, and stays.
    let processes = paths_in(Path::new("/proc")).into_iter().filter(is_process);
    processes
        .flat_map(|process| paths_in(&process.join("fd")))
        .any(|open| fs::read_link(open).is_ok_and(|target| target == file))
}

/// Removes the state of an operation; files, index and branches stay as they are.
pub(super) fn remove_operation_state(record: &Path) -> Result<()> {
    for (file, _) in UNFINISHED {
        let path = record.join(file);
        let removed = if_exists(path.symlink_metadata()).and_then(|found| match found {
            Some(found) if found.is_dir() => fs::remove_dir_all(&path),
            Some(_) => fs::remove_file(&path),
            None => Ok(()),
        });
        removed.during("removing", &path)?;
    }
    Ok(())
}
