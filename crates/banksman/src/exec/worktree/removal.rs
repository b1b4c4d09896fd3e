//! Removes worktrees, after their work is saved, and measures disk use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{WorktreeJob, beginning, mark, rescue};
use crate::exec::files::AtPath;
use crate::exec::git::{self, Git};
use crate::exec::job::Workspace;
use crate::exec::process::{Program, Result, RunError, Runner};

pub use super::pool::SPARES;

/// The most trash entries deleted at once.
const TRASH: usize = 100;
/// A tree with a million files takes about a minute.
const DELETE_TIME: Duration = Duration::from_secs(300);

/// The result of removing a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// The rescue ref with what was only there.
    pub rescue: Option<String>,
    /// Where the folder was moved, because a commit cannot hold something in it.
    pub kept: Option<PathBuf>,
}

/// The disk use of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUse {
    pub bytes: u64,
    pub entries: u64,
    /// False if there was more than could be examined.
    pub complete: bool,
}

/// Saves what is only in the worktree under a rescue ref and removes the worktree. Deletes its
/// branch as well if the base or the branches that it merged contain all its commits. Can be
/// repeated after a crash, and for a worktree that is gone.
pub fn remove(runner: &mut dyn Runner, workspace: &Workspace) -> Result<Removed> {
    let worktree = &workspace.worktree;
    let mut job = WorktreeJob::new(runner, workspace)?;
    let lock = job.lock_worktree(worktree)?;
    let safe = safe_commits(&mut job.repo_git(), workspace)?;
    let found = job
        .find(safe.first().map_or("HEAD", String::as_str))?
        .map_err(|detail| RunError::failed(format!("removing `{}`", worktree.display()), detail))?;
    let removed = match found {
        Some(record) => job.save_and_retire(&record, &safe)?,
        None => {
            job.forget(worktree)?;
            Removed::default()
        }
    };
    delete_contained_branch(&mut job.repo_git(), &workspace.branch, &safe)?;
    mark::remove_intent(workspace).during("forgetting", worktree)?;
    // A branch that stays is still the task's own.
    if job.repo_git().commit_of(&format!("refs/heads/{}", workspace.branch))?.is_none() {
        beginning::forget(workspace).during("forgetting", worktree)?;
    }
    // A lock file that stays behind is reused.
    drop(lock.release_and_remove());
    Ok(removed)
}

/// Commits reachable from these are not lost with the worktree.
fn safe_commits(git: &mut Git<'_>, workspace: &Workspace) -> Result<Vec<String>> {
    let Workspace { base, remote, merges_in, .. } = workspace;
    let of_remote = remote.iter().map(|remote| format!("refs/remotes/{remote}/{base}"));
    let of_base: Vec<String> = of_remote.chain([format!("refs/heads/{base}")]).collect();
    // The branches that were merged in keep their own commits.
    let merged = merges_in.iter().map(|branch| format!("refs/heads/{branch}")).collect();
    let mut safe = Vec::new();
    for names in [of_base, merged] {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Without a name, git would list all refs.
        if !names.is_empty() {
            safe.extend(git.refs(&names)?.into_values());
        }
    }
    Ok(safe)
}

impl WorktreeJob<'_> {
    fn save_and_retire(&mut self, record: &Path, safe: &[String]) -> Result<Removed> {
        let worktree = &self.workspace.worktree;
        self.clear_locks(Some(record))?;
        self.repair(record)?;
        let saved = self.save(record, safe)?;
        if !saved.whole {
            let kept = self.move_aside(worktree, "kept")?;
            self.forget(worktree)?;
            return Ok(Removed { rescue: saved.reference, kept: Some(kept) });
        }
        let commit = safe.first().map_or("HEAD", String::as_str);
        self.retire(worktree, record, commit)?;
        Ok(Removed { rescue: saved.reference, kept: None })
    }
}

fn delete_contained_branch(git: &mut Git<'_>, branch: &str, safe: &[String]) -> Result<()> {
    let name = format!("refs/heads/{branch}");
    let Some(commit) = git.commit_of(&name)? else { return Ok(()) };
    if rescue::is_contained(git, &commit, safe)?
        && git.worktrees()?.iter().all(|listed| listed.branch.as_ref() != Some(&name))
    {
        // If somebody moves the branch at this moment, it stays.
        git.delete_branch_at(branch, &commit)?;
    }
    Ok(())
}

/// Deletes the trash and returns the number of deleted trees.
pub fn empty_trash(runner: &mut dyn Runner, spare: &Path) -> Result<usize> {
    let Ok(entries) = fs::read_dir(spare.join("trash")) else { return Ok(0) };
    let mut deleted = 0;
    // What cannot be listed now is deleted by a later clean-up.
    for entry in entries.flatten().take(TRASH) {
        let path = entry.path().to_string_lossy().into_owned();
        let mut run = |program: &str, options: &[&str]| {
            let args = options.iter().copied().chain(["--", &path]);
            let program = Program::new(program, args, spare, runner.env());
            runner.run(&Program { timeout: DELETE_TIME, ..program })
        };
        // Tools such as Go's create folders that even their owner cannot delete from.
        run("chmod", &["-R", "u+w"])?;
        let output = run("rm", &["-rf"])?;
        if !output.ok() {
            return Err(git::failure("emptying the trash", &output));
        }
        deleted += 1;
    }
    Ok(deleted)
}

/// The disk use below a folder, up to a number of entries. Follows no links and skips what cannot
/// be read.
pub fn disk_use(folder: &Path, at_most: u64) -> DiskUse {
    let mut used = DiskUse { complete: true, ..DiskUse::default() };
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        // The sum is an estimate for people.
        for entry in entries.flatten() {
            if used.entries >= at_most {
                used.complete = false;
                return used;
            }
            let Ok(found) = entry.metadata() else { continue };
            used.entries += 1;
            used.bytes += found.blocks() * 512;
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    used
}
