//! Branches that conflict where a run begins: what its agent is told about them, and whether it has
//! joined them.
//!
//! It never merges anything itself.

use banksman_core::fence::fence;
use banksman_core::limits::SENT_PROMPT_BYTES;
use banksman_core::receipt::Evidence;
use banksman_core::text::start_of;

use super::super::git::Git;
use super::super::job::{AgentWork, JobResult, Workspace};
use super::super::worktree::{self, BranchConflict, diverged};
use super::Keeper;
use super::stages::MARKS_BYTES;

impl Keeper {
    /// Whether no conflict markers are left in the files of the worktree that conflicted.
    pub(super) fn is_joined(
        &mut self,
        workspace: &Workspace,
        prepared: &worktree::PreparedWorktree,
    ) -> JobResult<bool> {
        let mut git = Git::at(self, &workspace.worktree);
        let paths: Vec<String> = conflict_paths(prepared).collect();
        Ok(marked(&mut git, None, &paths, prepared)?.is_empty())
    }

    /// The conflicts that nobody has resolved: a branch that the work does not contain, or files
    /// in which conflict markers are left.
    pub(super) fn unmerged(
        &mut self,
        workspace: &Workspace,
        prepared: &worktree::PreparedWorktree,
        evidence: &Evidence,
    ) -> JobResult<Vec<String>> {
        if workspace.merges_in.is_empty() {
            return Ok(Vec::new());
        }
        let mut git = Git::at(self, &workspace.repo);
        let mut unmerged = Vec::new();
        for conflict in &prepared.conflicts {
            if !git.is_ancestor(&conflict.tip, &evidence.head)? {
                unmerged.push(conflict.to_string());
            }
        }
        let paths = conflict_paths(prepared).chain(evidence.paths.iter().cloned());
        let paths: Vec<String> = paths.collect();
        for path in marked(&mut git, Some(&evidence.head), &paths, prepared)? {
            unmerged.push(format!("conflict markers are left in {path}"));
        }
        Ok(unmerged)
    }
}

fn conflict_paths(prepared: &worktree::PreparedWorktree) -> impl Iterator<Item = String> {
    prepared.conflicts.iter().flat_map(|conflict| conflict.paths.iter().cloned())
}

/// The files of these in which conflict markers are left: they have more than any of the commits
/// that were joined, in which such lines may be what a test reads.
fn marked(
    git: &mut Git<'_>,
    commit: Option<&str>,
    paths: &[String],
    prepared: &worktree::PreparedWorktree,
) -> JobResult<Vec<String>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = git.conflict_markers(commit, paths)?;
    let tips = prepared.conflicts.iter().map(|conflict| &conflict.tip);
    for joined in tips.chain([&prepared.base, &prepared.head]) {
        if found.is_empty() {
            break;
        }
        let known = git.conflict_markers(Some(joined), paths)?;
        found.retain(|path, count| known.get(path).is_none_or(|known| *count > *known));
    }
    Ok(found.into_keys().collect())
}

/// The prompt of an agent that has to join branches first; none if nothing conflicts.
pub(super) fn join_prompt(
    work: &AgentWork,
    conflicts: &[BranchConflict],
) -> JobResult<Option<String>> {
    if conflicts.is_empty() {
        return Ok(None);
    }
    let list: String = conflicts.iter().map(|conflict| format!("- {conflict}\n")).collect();
    let Some(join) = &work.join else {
        return Err(diverged(format!("cannot merge what it builds on:\n{list}")));
    };
    let prompt = &work.ask.prompt;
    let room = SENT_PROMPT_BYTES.saturating_sub(prompt.len() + join.len() + MARKS_BYTES);
    let list = fence(start_of(&list, room));
    Ok(Some(format!("{prompt}\n{}", join.replace("{conflicts}", &list))))
}
