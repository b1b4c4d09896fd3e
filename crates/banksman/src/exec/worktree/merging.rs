//! Merges the branches of other tasks that a task builds on into its own branch before it begins.
//!
//! A merge happens completely or not at all: the worktree never stays in between.

use std::path::Path;

use banksman_core::receipt::EndCause;

use super::{WorktreeJob, diverged, environment, head_of, names};
use crate::exec::git::{self, Git, MergeTree};
use crate::exec::job::{JobResult, Workspace};
use crate::exec::process::Result;

/// The most branches that one task may merge.
const MAX_BRANCHES: usize = 200;
/// The most files that a conflict names.
const MAX_PATHS: usize = 20;

impl WorktreeJob<'_> {
    /// Merges what the branch does not contain yet. Returns the commit that the task's own work
    /// starts from, and the head.
    pub(super) fn merge_branches(
        &mut self,
        (mut base, mut head): (String, String),
    ) -> JobResult<(String, String)> {
        let workspace = self.workspace;
        let count = workspace.merges_in.len();
        if count == 0 {
            return Ok((base, head));
        }
        if count > MAX_BRANCHES {
            let detail = format!("cannot merge {count} branches, at most {MAX_BRANCHES}");
            return Err(environment(detail));
        }
        let mut tips = Vec::new();
        for branch in workspace.merges_in.iter().filter(|branch| **branch != workspace.branch) {
            match tip_of(&mut self.repo_git(), workspace, branch)? {
                Some(tip) => tips.push((branch.as_str(), tip)),
                None => self.notes.push(format!("there is no branch `{branch}` to merge")),
            }
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
        for (branch, tip) in &tips {
            if !git.is_ancestor(tip, &head)? {
                head = merge_in(&mut git, (branch, tip), &head, &workspace.worktree)?;
            }
        }
        let base = start_of_own_work(&mut git, base, &head, &tips)?;
        Ok((base, head))
    }
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
) -> JobResult<String> {
    // Try the merge on the commits first, so that a conflict leaves no trace in the files.
    if !git.is_ancestor(head, tip)?
        && let MergeTree::Conflict { paths } = git.merge_tree(head, tip)?
    {
        return Err(conflict(branch, &paths));
    }
    let merged = git.merge_in(tip, &format!("merge {branch}"))?;
    if merged.ok() {
        return Ok(head_of(git)?);
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

fn conflict(branch: &str, paths: &[String]) -> EndCause {
    let named: Vec<&str> = paths.iter().take(MAX_PATHS).map(String::as_str).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    diverged(format!("cannot merge `{branch}`: it conflicts in {}{more}", named.join(", ")))
}

/// The commit to measure the task's own work from: one that contains the base and every merged
/// branch, since merged work is not the task's. It may be on no branch.
fn start_of_own_work(
    git: &mut Git<'_>,
    base: String,
    head: &str,
    tips: &[(&str, String)],
) -> Result<String> {
    let mut start = base;
    for (_, tip) in tips {
        if git.is_ancestor(tip, &start)? {
            continue;
        }
        if git.is_ancestor(&start, tip)? {
            start.clone_from(tip);
            continue;
        }
        // A conflict that somebody resolved was work.
        if let MergeTree::Clean { tree } = git.merge_tree(&start, tip)? {
            start = git.commit_tree(&tree, &[&start, tip], "start of the task's own work\n")?;
        }
    }
    let is_all = git.tree_of(&start)? == git.tree_of(head)?;
    Ok(if is_all { head.to_owned() } else { start })
}
