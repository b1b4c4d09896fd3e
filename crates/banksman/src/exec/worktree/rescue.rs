//! Saves what is only in a worktree: one commit with everything, under a ref that git keeps. The
//! worktree, its index and its branches stay as they are.

use std::fs;
use std::path::Path;

use super::names::rescue_name;
use super::{WorktreeJob, WorktreeState, link};
use crate::exec::files::{AtPath, remove_if_exists};
use crate::exec::git::{CheckoutTarget, Git, MergeTree, Status, shown};
use crate::exec::job::Workspace;
use crate::exec::process::{Result, RunError, Runner};

/// The prefix of all rescue refs.
const REFS: &str = "refs/banksman/rescue/";
/// How often to look for a number that is neither taken nor locked by a killed git.
const MAX_TRIES: u32 = 20;

/// The most nested merges examined: a task merges few branches.
const MAX_MERGES: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Saved {
    /// The ref; none if there was nothing to save.
    pub(super) reference: Option<String>,
    /// Whether everything was saved: a nested repository or an unreadable file cannot be.
    pub(super) whole: bool,
}

/// Brings a worktree back to the commit at which a run began that was not to change anything. What
/// it changed is saved first; returns where, if there was anything.
pub fn take_back(
    runner: &mut dyn Runner,
    workspace: &Workspace,
    began: &str,
) -> Result<Option<String>> {
    let mut job = WorktreeJob::new(runner, workspace)?;
    let WorktreeState::Ours(record) = job.inspect(&workspace.worktree)? else { return Ok(None) };
    let status = job.git().status()?;
    let is_on_branch = status.branch.as_ref() == Some(&workspace.branch);
    if is_on_branch && status.is_clean() && status.head.as_deref() == Some(began) {
        return Ok(None);
    }
    let saved = job.save(&record, &[began.to_owned()])?;
    let mut git = job.git();
    git.make_direct(&workspace.branch)?;
    git.force_checkout(CheckoutTarget::Commit(began))?;
    git.clean_untracked()?;
    git.set_branch_to_head(&workspace.branch)?;
    Ok(saved.reference)
}

/// The most commits that a run left and that are looked at.
const MAX_LEFT: usize = 50;

impl WorktreeJob<'_> {
    /// Saves commits that a run has left, unless a ref contains them or the head has their changes.
    /// Returns the refs.
    pub(in crate::exec) fn save_left(
        &mut self,
        left: &[String],
        head: &str,
    ) -> Result<Vec<String>> {
        let worktree = &self.workspace.worktree;
        let mut git = self.repo_git();
        let mut saved = Vec::new();
        for commit in left.iter().take(MAX_LEFT) {
            if git.commit_of(commit)?.is_some()
                && !git.is_in_a_ref(commit)?
                && git.tree_of(commit)? != git.tree_of(head)?
                && git.lacks_changes_of(head, commit)?
            {
                saved.push(store_ref(&mut git, worktree, commit)?);
            }
        }
        Ok(saved)
    }

    /// Saves what is in the worktree and not reachable from any of the `safe` commits.
    pub(super) fn save(&mut self, record: &Path, safe: &[String]) -> Result<Saved> {
        let status = self.git().status()?;
        let head = status.head.clone().or_else(|| link::last_head(record));
        let (work, whole) = match &status {
            clean if clean.is_clean() => (None, true),
            dirty => self.snapshot(record, dirty, head.as_deref())?,
        };
        let Some(commit) = work.or(head) else { return Ok(Saved { reference: None, whole }) };
        let worktree = &self.workspace.worktree;
        let mut git = self.repo_git();
        if is_contained(&mut git, &commit, safe)? {
            return Ok(Saved { reference: None, whole });
        }
        let reference = store_ref(&mut git, worktree, &commit)?;
        Ok(Saved { reference: Some(reference), whole })
    }

    /// A commit of all files, whose second parent is the index if that differs; none if the files
    /// equal the head.
    fn snapshot(
        &mut self,
        record: &Path,
        status: &Status,
        head: Option<&str>,
    ) -> Result<(Option<String>, bool)> {
        let index = record.join("banksman-index");
        let own_index = record.join("index");
        // Left over by a process that was killed in between.
        for left in [index.clone(), record.join("banksman-index.lock")] {
            remove_if_exists(&left).during("removing", &left)?;
        }
        if own_index.exists() {
            fs::copy(&own_index, &index).during("copying", &own_index)?;
        }
        let nested: Vec<String> = status.nested.iter().map(|path| shown(path)).collect();
        let mut git = self.git().with_index(&index);
        let added = git.add_all(&nested)?;
        let files = git.write_tree()?;
        fs::remove_file(&index).during("removing", &index)?;
        let whole = added.ok() && nested.is_empty() && files.is_some();
        let Some(files) = files else { return Ok((None, whole)) };

        let message = format!("uncommitted work in `{}`\n", rescue_name(&self.workspace.worktree));
        let mut git = self.git();
        let of_head = head.map(|head| git.tree_of(head)).transpose()?.flatten();
        let staged =
            git.write_tree()?.filter(|tree| *tree != files && Some(tree) != of_head.as_ref());
        if staged.is_none() && Some(&files) == of_head.as_ref() {
            return Ok((None, whole));
        }
        let mut parents: Vec<&str> = head.into_iter().collect();
        let staged = staged
            .map(|tree| git.commit_tree(&tree, &parents, "staged when the work was saved\n"))
            .transpose()?;
        parents.extend(staged.as_deref());
        Ok((Some(git.commit_tree(&files, &parents, &message)?), whole))
    }
}

/// Whether nothing is lost with a commit. A merge that git can reproduce is not work; then its
/// parents decide.
pub(super) fn is_contained(git: &mut Git<'_>, commit: &str, safe: &[String]) -> Result<bool> {
    let mut open = vec![commit.to_owned()];
    for _ in 0..MAX_MERGES {
        let Some(next) = open.pop() else { return Ok(true) };
        let mut is_safe = false;
        for safe in safe {
            is_safe = is_safe || git.is_ancestor(&next, safe)?;
        }
        if is_safe {
            continue;
        }
        let (Some(first), Some(second)) =
            (git.commit_of(&format!("{next}^1"))?, git.commit_of(&format!("{next}^2"))?)
        else {
            return Ok(false);
        };
        match git.merge_tree(&first, &second)? {
            MergeTree::Clean { tree } if git.tree_of(&next)? == Some(tree.clone()) => {
                open.extend([first, second]);
            }
            MergeTree::Clean { .. } | MergeTree::Conflict { .. } => return Ok(false),
        }
    }
    Ok(false)
}

/// Stores the commit under the next free number, or returns the last ref if it holds the same work.
fn store_ref(git: &mut Git<'_>, worktree: &Path, commit: &str) -> Result<String> {
    let prefix = format!("{REFS}{}/", rescue_name(worktree));
    for attempt in 1..=MAX_TRIES {
        let number =
            |name: &str| name.strip_prefix(&prefix).and_then(|rest| rest.parse::<u32>().ok());
        let refs = git.refs(&[&prefix])?;
        let last = refs.iter().filter_map(|(name, at)| Some((number(name)?, name, at))).max();
        if let Some((_, name, at)) = last {
            let parent = |commit: &str| format!("{commit}^1");
            let is_same = at == commit
                || (git.tree_of(at)? == git.tree_of(commit)?
                    && git.commit_of(&parent(at))? == git.commit_of(&parent(commit))?);
            if is_same {
                return Ok(name.clone());
            }
        }
        let name = format!("{prefix}{}", last.map_or(0, |(number, ..)| number) + attempt);
        if git.swap_ref(&name, commit, "")? {
            return Ok(name);
        }
    }
    let detail = format!("no free number was found under `{prefix}`");
    Err(RunError::failed("saving the work under a rescue ref", detail))
}
