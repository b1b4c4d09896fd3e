//! Branches that conflict where a run begins: what its agent is told about them, and whether it has
//! joined them.
//!
//! It never merges anything itself.

use banksman_core::fence::fence;
use banksman_core::limits::SENT_PROMPT_BYTES;
use banksman_core::receipt::Evidence;
use banksman_core::text::start_of;

use super::super::evidence::left_markers;
use super::super::git::Git;
use super::super::job::{AgentWork, JobResult, Workspace};
use super::super::worktree::{BranchConflict, PreparedWorktree, diverged};
use super::Keeper;
use super::stages::MARKS_BYTES;

impl Keeper {
    /// The conflicts that nobody has resolved: a branch that the work does not contain, or files
    /// in which conflict markers are left.
    pub(super) fn unmerged(
        &mut self,
        workspace: &Workspace,
        prepared: &PreparedWorktree,
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
        let of_conflicts = prepared.conflicts.iter().flat_map(|conflict| &conflict.paths);
        let paths: Vec<String> = of_conflicts.chain(&evidence.paths).cloned().collect();
        let tips = prepared.conflicts.iter().map(|conflict| &conflict.tip);
        let known: Vec<&str> =
            tips.chain([&prepared.base, &prepared.head]).map(String::as_str).collect();
        for path in left_markers(&mut git, Some(&evidence.head), &paths, &known)? {
            unmerged.push(format!("conflict markers are left in {path}"));
        }
        Ok(unmerged)
    }
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
