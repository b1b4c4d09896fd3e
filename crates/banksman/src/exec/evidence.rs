//! Gathers facts about the work in a worktree: commits, paths, checks. The agent's own claims do
//! not count here.
//!
//! The agent has exited when this begins. Nothing here judges the facts.

mod proof;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use banksman_core::globs::Globs;
use banksman_core::limits::EVIDENCE_PATHS;
use banksman_core::receipt::Evidence;

use super::files::{AtPath, if_exists};
use super::git::{CommitChanges, Git, LINK_MODE, SUBMODULE_MODE, Status, failure, shown};
use super::job::{Verification, Workspace};
use super::mailbox::FOLDER;
use super::process::{Result, RunError, Runner};
use super::worktree::{
    BranchPosition, PreparedWorktree, RECORD_GONE, WorktreeJob, WorktreeState, move_branch_to_head,
    restore_branch,
};
pub use proof::{CheckProof, run_checks, run_command};

/// The most symbolic links that are resolved; a change with more is rejected.
const MAX_LINKS: usize = 200;

/// Inspects what was done since `prepared`. With a message it commits uncommitted files, unless a
/// changed path is not allowed. It runs the checks only if the paths are allowed and there is
/// something to check, or if the checks run unconditionally.
pub fn gather(
    runner: &mut dyn Runner,
    workspace: &Workspace,
    prepared: &PreparedWorktree,
    checks: &Verification,
    commit_message: Option<&str>,
) -> Result<Evidence> {
    let mut job = WorktreeJob::new(runner, workspace)?;
    let worktree = workspace.worktree.as_path();
    let record = check_worktree(&job, worktree)?;
    let mut evidence = Evidence {
        base: prepared.base.clone(),
        head_before: prepared.head.clone(),
        notes: prepared.notes.clone(),
        ..Evidence::default()
    };
    let mut git = job.git();
    let mut state = WorkState::at(&mut git, workspace, &record, &mut evidence.notes)?;
    let mut changes = git.changes(&prepared.base, &state.head)?;
    evidence.was_dirty = !state.status.is_clean();
    find_violations(&mut git, worktree, checks, (&changes, &state.status), &mut evidence)?;
    let is_allowed = evidence.outside.is_empty() && evidence.denied.is_empty();

    if let Some(message) = commit_message
        && is_allowed
        && !state.is_away
        && (evidence.was_dirty || git.differs_in_mailbox(&prepared.base, &state.head)?)
        && let Some(commit) = commit_remaining(&mut git, message, &prepared.base, &state.head)?
    {
        changes = git.changes(&prepared.base, &commit)?;
        evidence.committed = Some(commit.clone());
        state = WorkState { head: commit, status: git.status()?, is_away: false };
    }
    evidence.head = state.head.clone();
    evidence.commits = git.count(&[&prepared.base], &state.head)?;
    let changed = paths(&changes, &state.status).into_iter().take(EVIDENCE_PATHS);
    evidence.paths = changed.map(|path| shown(path)).collect();
    evidence.files = changes.files;
    evidence.insertions = changes.insertions;
    evidence.deletions = changes.deletions;

    let is_due = evidence.commits > 0 || checks.even_unchanged;
    if is_allowed && is_due && !state.is_away && !checks.commands.is_empty() {
        let proof = run_checks(job.runner, worktree, checks)?;
        evidence.checks = proof.checks;
        evidence.notes.extend(proof.notes);
    }
    Ok(evidence)
}

/// The worktree's record. An agent may have replaced the worktree by another repository, whose
/// commits would prove nothing.
fn check_worktree(job: &WorktreeJob<'_>, worktree: &Path) -> Result<PathBuf> {
    let why = match job.inspect(worktree)? {
        WorktreeState::Ours(record) => return Ok(record),
        WorktreeState::Free => "it is gone".to_owned(),
        WorktreeState::Unfinished | WorktreeState::Orphan => RECORD_GONE.to_owned(),
        WorktreeState::Foreign(why) => why,
    };
    let what = format!("inspecting the worktree `{}`", worktree.display());
    Err(RunError::failed(what, why))
}

/// The task's branch and its uncommitted work.
struct WorkState {
    /// The head of the task's branch.
    head: String,
    status: Status,
    /// The files in the worktree belong to something other than the task's branch.
    is_away: bool,
}

impl WorkState {
    fn at(
        git: &mut Git<'_>,
        workspace: &Workspace,
        record: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let branch = workspace.branch.as_str();
        let mut status = git.status()?;
        if status.head.is_none() {
            restore_branch(git, branch, record, notes)?;
            status = git.status()?;
        }
        let mut is_away = false;
        match move_branch_to_head(git, branch, &status)? {
            BranchPosition::OnBranch => {}
            BranchPosition::Moved { from } => {
                notes.push(format!("the work was on {from}; `{branch}` was moved there"));
            }
            BranchPosition::Away { at, head } => {
                is_away = true;
                notes.push(format!(
                    "the worktree was left on {at} at {head}, which is not based on `{branch}`"
                ));
            }
        }
        let gone = || RunError::failed(format!("reading the branch `{branch}`"), "it is gone");
        let head = git.commit_of(&format!("refs/heads/{branch}"))?.ok_or_else(gone)?;
        Ok(Self { head, status, is_away })
    }
}

/// Commits the remaining files; none if nothing differs after all, such as in files that only seem
/// changed. Removes from the branch what the agent put into the mailbox of a workflow, even if the
/// agent committed it.
fn commit_remaining(
    git: &mut Git<'_>,
    message: &str,
    base: &str,
    head: &str,
) -> Result<Option<String>> {
    let added = git.add_all(&[])?;
    if !added.ok() {
        return Err(failure("git add", &added));
    }
    git.reset_mailbox(base)?;
    if git.write_tree()? == git.tree_of(head)? {
        return Ok(None);
    }
    git.commit_index(message)?;
    git.commit_of("HEAD")
}

/// All changed paths, committed or not.
fn paths<'c>(changes: &'c CommitChanges, status: &'c Status) -> BTreeSet<&'c Vec<u8>> {
    changes.list.iter().map(|change| &change.path).chain(status.paths()).collect()
}

fn find_violations(
    git: &mut Git<'_>,
    worktree: &Path,
    checks: &Verification,
    (changes, status): (&CommitChanges, &Status),
    evidence: &mut Evidence,
) -> Result<()> {
    let allowed = Globs::new(&checks.allowed_paths);
    let denied = Globs::new(&checks.denied_paths);
    let paths = paths(changes, status);
    let is_outside = |path: &[u8]| !allowed.is_empty() && !allowed.any_matches(path);
    let named = |is_bad: &dyn Fn(&[u8]) -> bool| -> Vec<String> {
        let bad = paths.iter().filter(|path| is_bad(path));
        bad.take(EVIDENCE_PATHS).map(|path| shown(path)).collect()
    };
    evidence.outside = named(&is_outside);
    // Whatever takes the place of the mailbox's folder decides what is in it.
    evidence.denied = named(&|path| denied.any_guards(path) || path == FOLDER.as_bytes());

    let inner = status.nested.iter().map(|path| format!("{} (a nested repository)", shown(path)));
    evidence.outside.extend(inner.take(EVIDENCE_PATHS));
    let submodules = changes.list.iter().filter(|change| change.mode == SUBMODULE_MODE);
    let submodules = submodules.map(|change| format!("{} (a submodule)", shown(&change.path)));
    evidence.outside.extend(submodules.take(EVIDENCE_PATHS));
    evidence.outside.extend(links_to_outside(git, worktree, changes, status)?);
    let has_rules = !allowed.is_empty() || !denied.is_empty();
    if has_rules && (changes.cut || status.cut) {
        evidence.outside.push("(more paths than can be checked)".to_owned());
    }
    Ok(())
}

/// Links, committed or not, that lead out of the worktree.
fn links_to_outside(
    git: &mut Git<'_>,
    worktree: &Path,
    changes: &CommitChanges,
    status: &Status,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut note = |path: &[u8], target: &[u8]| {
        if leads_out(path, target) {
            found.push(format!("{} (a link to {})", shown(path), shown(target)));
        }
    };
    let links = || changes.list.iter().filter(|change| change.mode == LINK_MODE);
    for change in links().take(MAX_LINKS) {
        note(&change.path, git.link_target(&change.object)?.as_bytes());
    }
    for path in status.paths() {
        let file = worktree.join(OsStr::from_bytes(path));
        match if_exists(fs::read_link(&file)) {
            Ok(Some(target)) => note(path, target.as_os_str().as_bytes()),
            Ok(None) => {}
            // It is no link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            Err(error) => return Err(error).during("reading the link", &file),
        }
    }
    found.truncate(EVIDENCE_PATHS);
    if links().count() > MAX_LINKS {
        found.push("(more links than can be checked)".to_owned());
    }
    Ok(found)
}

/// Whether a link may lead out of the tree. `..` is resolved only at the target's beginning: after
/// a name it depends on whether that name is a link, too.
fn leads_out(link: &[u8], target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut above = link.split(|byte| *byte == b'/').count() - 1;
    let mut descended = false;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if descended || above == 0 => return true,
            b".." => above -= 1,
            _ => descended = true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_tree_are_found() {
        let check = |link: &str, target: &str, expected: bool| {
            assert_eq!(
                leads_out(link.as_bytes(), target.as_bytes()),
                expected,
                "{link} -> {target}"
            );
        };
        check("a", "b", false);
        check("a/b/c", "../../d", false);
        check("a/b/c", "./../x/y", false);
        check("a", "../b", true);
        check("a/b", "../../c", true);
        check("a", "/etc/passwd", true);
        check("a", "b/../../c", true);
        check("a", "b/../c", true);
    }
}
