//! Merges the branches of other tasks that a task builds on into its own branch before it begins.
//!
//! A merge happens completely or not at all: the worktree never stays in between.

use std::fmt;
use std::path::Path;

use super::{WorktreeJob, diverged, environment, head_of, names};
use crate::exec::git::{self, Git, MergeTree};
use crate::exec::job::{JobResult, LeftOut, Workspace};
use crate::exec::process::Result;

/// The most branches that one task may merge.
const MAX_BRANCHES: usize = 200;
/// The most files that a conflict names.
const MAX_PATHS: usize = 20;

/// A branch that could not be merged in, because both sides have changed these files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchConflict {
    pub branch: String,
    pub tip: String,
    pub paths: Vec<String>,
}

impl fmt::Display for BranchConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { branch, paths, .. } = self;
        let named: Vec<&str> = paths.iter().take(MAX_PATHS).map(String::as_str).collect();
        let more = match paths.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        write!(f, "`{branch}` conflicts in {}{more}", named.join(", "))
    }
}

/// A branch with its commits merged in, and what could not be merged.
pub(super) struct MergedBranch {
    /// The commit that the task's own work starts from.
    pub(super) base: String,
    pub(super) head: String,
    pub(super) conflicts: Vec<BranchConflict>,
}

impl WorktreeJob<'_> {
    /// Merges what the branch does not contain yet, without the work that is left out. What
    /// conflicts is for whoever works here.
    pub(super) fn merge_branches(
        &mut self,
        (mut base, mut head): (String, String),
        record: &Path,
        start: &str,
    ) -> JobResult<MergedBranch> {
        let workspace = self.workspace;
        let count = workspace.merges_in.len();
        if count > MAX_BRANCHES {
            let detail = format!("cannot merge {count} branches, at most {MAX_BRANCHES}");
            return Err(environment(detail));
        }
        let mut tips = Vec::new();
        for branch in workspace.merges_in.iter().filter(|branch| **branch != workspace.branch) {
            match tip_of(&mut self.repo_git(), workspace, branch)? {
                Some(tip) => tips.push((branch.clone(), tip)),
                None => self.notes.push(format!("there is no branch `{branch}` to merge")),
            }
        }
        if self.leave_out(&head, &mut tips, record, start)? {
            (base, head) = (start.to_owned(), start.to_owned());
        }
        let mut git = Git::at(self.runner, &workspace.worktree);
        if let [(branch, tip)] = tips.as_slice()
            && head == base
            && let Some(common) = start_at_tip(&mut git, tip, &head)?
        {
            (base, head) = (common, tip.clone());
            let onto = &workspace.base;
            self.notes.push(format!("`{branch}` conflicts with the current `{onto}`"));
        }
        let mut conflicts = Vec::new();
        for (branch, tip) in &tips {
            if git.is_ancestor(tip, &head)? {
                continue;
            }
            match merge_in(&mut git, (branch, tip), &head, &workspace.worktree)? {
                Ok(merged) => head = merged,
                Err(conflict) => conflicts.push(conflict),
            }
        }
        let tips: Vec<String> = tips.into_iter().map(|(_, tip)| tip).collect();
        let start = start_of_own_work(&mut git, &base, &tips)?;
        // A conflict that somebody resolved was work, and what is merged without one is none.
        let is_all = !tips.is_empty() && git.tree_of(&start)? == git.tree_of(&head)?;
        let base = if is_all { head.clone() } else { start };
        Ok(MergedBranch { base, head, conflicts })
    }

    /// Has branches that work shares with skipped work end before that, and starts the task's own
    /// branch again if it contains skipped work, which a rescue ref keeps. Returns whether it did.
    /// A commit that the remaining work is built on is not skipped work.
    ///
    /// An attempt may have started the branch again and ended before the other work on it was
    /// merged back, so that is looked for each time.
    fn leave_out(
        &mut self,
        head: &str,
        tips: &mut Vec<(String, String)>,
        record: &Path,
        start: &str,
    ) -> JobResult<bool> {
        let LeftOut { commits, shared } = &self.workspace.left_out;
        let mut git = Git::at(self.runner, &self.workspace.worktree);
        let others = tips.iter().filter(|(branch, _)| !shared.contains_key(branch));
        let others = others.map(|(_, tip)| tip).chain(shared.values().flatten());
        let stays: Vec<&str> = others.map(String::as_str).chain([start]).collect();
        let mut skipped = Vec::new();
        for commit in commits {
            if git.commit_of(commit)?.is_some() && !is_in_any(&mut git, commit, &stays)? {
                skipped.push(commit.as_str());
            }
        }
        let mut kept = Vec::new();
        for (branch, tip) in std::mem::take(tips) {
            match shared.get(&branch) {
                Some(own) if contains_any(&mut git, &tip, &skipped)? => {
                    kept.extend(own.iter().map(|commit| (branch.clone(), commit.clone())));
                }
                Some(_) | None => kept.push((branch, tip)),
            }
        }
        *tips = kept;
        let starts_again = contains_any(&mut git, head, &skipped)?;
        let branch = &self.workspace.branch;
        for commit in shared.get(branch).into_iter().flatten() {
            if starts_again || git.lacks_changes_of(head, commit)? {
                tips.push((branch.clone(), commit.clone()));
            }
        }
        if !starts_again {
            return Ok(false);
        }
        let saved = self.save(record, &[])?;
        if !saved.whole {
            let why = "cannot be saved before skipped work is left out";
            return Err(diverged(format!("what is in the worktree of `{branch}` {why}")));
        }
        let mut git = self.git();
        git.reset_hard(start)?;
        git.clean_untracked()?;
        let rescue = saved.reference.map(|name| format!("; it is saved as `{name}`"));
        let rescue = rescue.unwrap_or_default();
        self.notes.push(format!("`{branch}` starts again without skipped work{rescue}"));
        Ok(true)
    }
}

fn is_in_any(git: &mut Git<'_>, commit: &str, heads: &[&str]) -> Result<bool> {
    for head in heads {
        if git.is_ancestor(commit, head)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_any(git: &mut Git<'_>, head: &str, commits: &[&str]) -> Result<bool> {
    for commit in commits {
        if git.is_ancestor(commit, head)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether another branch also contains some of these commits. They are linear, so it contains the
/// first of them.
pub(super) fn is_shared(git: &mut Git<'_>, base: &str, head: &str) -> Result<bool> {
    match git.first_commit(base, head)? {
        Some(first) => Ok(git.branches_with(&first, 2)?.len() > 1),
        None => Ok(false),
    }
}

/// The tip of the local branch; otherwise of the remote's, which nobody here has worked on.
fn tip_of(git: &mut Git<'_>, workspace: &Workspace, branch: &str) -> Result<Option<String>> {
    if !names::is_branch_name(branch) {
        return Ok(None);
    }
    if let Some(local) = git.commit_of(&format!("refs/heads/{branch}"))? {
        return Ok(Some(local));
    }
    let Some(remote) = &workspace.remote else { return Ok(None) };
    // If the fetch fails, an earlier one may have succeeded.
    drop(git.fetch(remote, &workspace.base, branch)?);
    git.commit_of(&format!("refs/remotes/{remote}/{branch}"))
}

/// If the branch has no work of its own yet and the branch it builds on conflicts with the base, it
/// starts at that branch's tip, because nobody can review or fix what they cannot see. Returns the
/// merge base if it did so.
fn start_at_tip(git: &mut Git<'_>, tip: &str, head: &str) -> Result<Option<String>> {
    if git.is_ancestor(tip, head)? || git.is_ancestor(head, tip)? {
        return Ok(None);
    }
    let Some(common) = git.merge_base(head, tip)? else { return Ok(None) };
    match git.merge_tree(head, tip)? {
        MergeTree::Conflict { .. } if git.reset_keep(tip)? => Ok(Some(common)),
        MergeTree::Conflict { .. } | MergeTree::Clean { .. } => Ok(None),
    }
}

fn merge_in(
    git: &mut Git<'_>,
    (branch, tip): (&str, &str),
    head: &str,
    worktree: &Path,
) -> JobResult<std::result::Result<String, BranchConflict>> {
    // Try the merge on the commits first, so that a conflict leaves no trace in the files.
    if !git.is_ancestor(head, tip)?
        && let MergeTree::Conflict { paths } = git.merge_tree(head, tip)?
    {
        let (branch, tip) = (branch.to_owned(), tip.to_owned());
        return Ok(Err(BranchConflict { branch, tip, paths }));
    }
    let merged = git.merge_in(tip, &format!("merge {branch}"))?;
    if merged.ok() {
        return Ok(Ok(head_of(git)?));
    }
    // There is nothing to undo if git refused to begin.
    git.abort("merge")?;
    if head_of(git)? != head {
        return Err(environment(format!("the merge of `{branch}` could not be undone")));
    }
    let (place, message) = (worktree.display(), git::message_of(&merged));
    let why = format!("cannot merge `{branch}` because of files in `{place}`: {message}");
    Err(diverged(why))
}

/// The commit to measure the task's own work from: one that contains the base and everything that
/// was merged in, since merged work is not the task's. It may be on no branch.
pub(in crate::exec) fn start_of_own_work(
    git: &mut Git<'_>,
    base: &str,
    merged: &[String],
) -> Result<String> {
    let mut start = base.to_owned();
    for tip in merged {
        if git.is_ancestor(tip, &start)? {
            continue;
        }
        if git.is_ancestor(&start, tip)? {
            start.clone_from(tip);
            continue;
        }
        if let MergeTree::Clean { tree } = git.merge_tree(&start, tip)? {
            start = git.commit_tree(&tree, &[&start, tip], "start of the task's own work\n")?;
        }
    }
    Ok(start)
}
