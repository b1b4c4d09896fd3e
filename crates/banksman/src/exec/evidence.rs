//! Gathers facts about the work in a worktree: commits, paths, checks. The agent's own claims do
//! not count here.
//!
//! The agent has exited when this begins. Nothing here judges the facts.

mod hidden;
mod outputs;
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
use super::git::{
    CheckoutTarget, CommitChanges, Git, LINK_MODE, SUBMODULE_MODE, Status, failure, shown,
};
use super::job::{Verification, Workspace};
use super::mailbox::FOLDER;
use super::process::{Result, RunError, Runner};
use super::worktree::{
    BranchPosition, PreparedWorktree, RECORD_GONE, WorktreeJob, WorktreeState, left_heads,
    move_branch_to_head, restore_branch, start_of_own_work,
};
pub use outputs::Outputs;
pub use proof::{CheckProof, run_checks, run_command};

/// What git calls the commits that it is merging in.
const MERGED_HEADS: [&str; 3] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"];
/// The most symbolic links that are resolved; a change with more is rejected.
const MAX_LINKS: usize = 200;

/// Inspects what was done since `prepared`. With a message it commits uncommitted files, unless a
/// changed path is not allowed or a conflict is not resolved. It runs the checks only if the paths
/// are allowed, the branch holds the whole work and there is something to check, or if the checks
/// run unconditionally.
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
    evidence.notes.extend(job.repair(&record)?);
    let hidden = hidden::hidden(&mut job, &record, &prepared.excludes)?;
    let mut git = job.git();
    let mut state = WorkState::at(&mut git, workspace, &record, &mut evidence)?;
    let others = if state.was_on_base {
        // Its own commits are on the base, too.
        Vec::new()
    } else {
        merged_since(&mut git, workspace, &state.head)?
    };
    evidence.base = start_of_own_work(&mut git, &prepared.base, &others)?;
    let mut changes = git.changes(&evidence.base, &state.head)?;
    evidence.was_dirty = !state.status.is_clean();
    find_violations(&mut git, worktree, checks, (&changes, &state.status), &mut evidence)?;
    let is_allowed = evidence.outside.is_empty() && evidence.denied.is_empty();
    evidence.unmerged.extend(unresolved(&mut git, &state.status, prepared)?);
    let is_whole = evidence.unmerged.is_empty();

    if let Some(message) = commit_message
        && is_allowed
        && is_whole
        && (evidence.was_dirty || git.differs_in_mailbox(&evidence.base, &state.head)?)
        && let Some(commit) = commit_remaining(&mut git, message, &evidence.base, &state.head)?
    {
        changes = git.changes(&evidence.base, &commit)?;
        evidence.committed = Some(commit.clone());
        state = WorkState { head: commit, status: git.status()?, ..state };
    }
    evidence.head = state.head.clone();
    evidence.commits = count_own(&mut git, &evidence, &others)?;
    let left = left_heads(&record, prepared.logged_bytes).during("reading the log of", worktree)?;
    for reference in job.save_left(&left, &state.head)? {
        evidence.notes.push(format!("commits that the run has left are saved as `{reference}`"));
    }
    let changed = paths(&changes, &state.status).into_iter().take(EVIDENCE_PATHS);
    evidence.paths = changed.map(|path| shown(path)).collect();
    evidence.files = changes.files;
    evidence.insertions = changes.insertions;
    evidence.deletions = changes.deletions;

    run_due_checks(&mut job, checks, is_allowed, &mut evidence)?;
    evidence.unmerged.extend(hidden);
    if workspace.merges_in.is_empty() {
        add_markers(&mut job.git(), &mut evidence)?;
    }
    Ok(evidence)
}

/// Runs the checks if there is something to check, unless something keeps them from proving it.
fn run_due_checks(
    job: &mut WorktreeJob<'_>,
    checks: &Verification,
    is_allowed: bool,
    evidence: &mut Evidence,
) -> Result<()> {
    let is_due = evidence.commits > 0 || checks.even_unchanged;
    if !is_due || checks.commands.is_empty() {
        return Ok(());
    }
    let obstacle = match evidence.unmerged.first() {
        _ if !is_allowed => Some("paths were changed that may not be changed".to_owned()),
        left => left.cloned(),
    };
    let proof = match obstacle {
        Some(_) => CheckProof { skipped: obstacle, ..CheckProof::default() },
        None => run_checks(job.runner, &job.workspace.worktree, checks)?,
    };
    (evidence.checks, evidence.unchecked) = (proof.checks, proof.skipped);
    Ok(())
}

/// Adds the files to which the work has added conflict markers. A run that joins branches is not
/// asked here: it may have those of their work.
fn add_markers(git: &mut Git<'_>, evidence: &mut Evidence) -> Result<()> {
    let marked = git.added_markers(&evidence.base, &evidence.head)?;
    let marked = marked.iter().map(|path| format!("conflict markers are left in {path}"));
    let new: Vec<String> = marked.filter(|what| !evidence.unmerged.contains(what)).collect();
    evidence.unmerged.extend(new.into_iter().take(EVIDENCE_PATHS));
    Ok(())
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
    /// The worktree was left on the base branch.
    was_on_base: bool,
}

impl WorkState {
    /// Ends on the task's branch, unless the worktree was left on other work.
    fn at(
        git: &mut Git<'_>,
        workspace: &Workspace,
        record: &Path,
        evidence: &mut Evidence,
    ) -> Result<Self> {
        let branch = workspace.branch.as_str();
        let name = format!("refs/heads/{branch}");
        let mut status = git.status()?;
        if status.head.is_none() {
            restore_branch(git, branch, record, &mut evidence.notes)?;
            status = git.status()?;
        }
        let was_on_base = status.branch.as_ref() == Some(&workspace.base);
        match move_branch_to_head(git, branch, &status)? {
            BranchPosition::OnBranch => {}
            BranchPosition::Moved { from } => {
                evidence.notes.push(format!("the work was on {from}; `{branch}` was moved there"));
            }
            BranchPosition::Away { at, head } if has_nothing_new(git, workspace, &status)? => {
                git.force_checkout(CheckoutTarget::Branch(branch))?;
                status = git.status()?;
                let note = format!("the worktree was left on {at} at {head}, without new work");
                evidence.notes.push(note);
            }
            BranchPosition::Away { at, head } => {
                let what = format!(
                    "the worktree was left on {at} at {head}, which is not based on `{branch}`"
                );
                evidence.notes.push(what.clone());
                evidence.unmerged.push(what);
            }
        }
        let gone = || RunError::failed(format!("reading the branch `{branch}`"), "it is gone");
        let head = git.commit_of(&name)?.ok_or_else(gone)?;
        Ok(Self { head, status, was_on_base })
    }
}

/// The names of the base, here and on the remote.
fn base_names(workspace: &Workspace) -> Vec<String> {
    let Workspace { base, remote, .. } = workspace;
    let of_remote = remote.iter().map(|remote| format!("refs/remotes/{remote}/{base}"));
    of_remote.chain([format!("refs/heads/{base}")]).collect()
}

fn tips_of(git: &mut Git<'_>, names: &[String]) -> Result<Vec<String>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(git.refs(&names)?.into_values().collect())
}

/// Whether a worktree that was left elsewhere has nothing that the task's branch or its base lack.
fn has_nothing_new(git: &mut Git<'_>, workspace: &Workspace, status: &Status) -> Result<bool> {
    let Some(head) = status.head.as_deref().filter(|_| status.is_clean()) else {
        return Ok(false);
    };
    let mut names = base_names(workspace);
    names.push(format!("refs/heads/{}", workspace.branch));
    for tip in tips_of(git, &names)? {
        if git.is_ancestor(head, &tip)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What the head has of its base as it is now. Commits that others brought to the base while the
/// run worked are not its own, however they came into its branch.
fn merged_since(git: &mut Git<'_>, workspace: &Workspace, head: &str) -> Result<Vec<String>> {
    let mut common = Vec::new();
    for tip in tips_of(git, &base_names(workspace))? {
        common.extend(git.merge_base(&tip, head)?);
    }
    Ok(common)
}

/// The number of own commits. None counts if they change nothing all in all: a commit that undoes
/// the other, or an empty one.
fn count_own(git: &mut Git<'_>, evidence: &Evidence, others: &[String]) -> Result<u32> {
    let Evidence { base, head, .. } = evidence;
    if git.tree_of(base)? == git.tree_of(head)? {
        return Ok(0);
    }
    let mut not_own = vec![base.as_str()];
    not_own.extend(others.iter().map(String::as_str));
    git.count(&not_own, head)
}

/// The conflicts in the worktree that a merge, or whatever works like one, has left and nobody has
/// resolved: committed, they would look like work.
fn unresolved(
    git: &mut Git<'_>,
    status: &Status,
    prepared: &PreparedWorktree,
) -> Result<Vec<String>> {
    let mut known = vec![prepared.base.clone(), prepared.head.clone()];
    for name in MERGED_HEADS {
        known.extend(git.commit_of(name)?);
    }
    let is_in_merge = known.len() > 2 || git.has_unmerged()?;
    if !is_in_merge {
        return Ok(Vec::new());
    }
    let paths: Vec<String> = status.tracked.iter().map(|path| shown(path)).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let marked = left_markers(git, None, &paths, &known)?;
    let one_sided = status.one_sided.iter().map(|path| {
        format!("the conflict in {} is not resolved: keep the file or remove it", shown(path))
    });
    let marked = marked.iter().map(|path| format!("conflict markers are left in {path}"));
    Ok(one_sided.chain(marked).take(EVIDENCE_PATHS).collect())
}

/// The files of these, in a commit or in the worktree, in which conflict markers are left: they
/// have more than in any of the known commits, in which such lines may be what a test reads.
pub fn left_markers(
    git: &mut Git<'_>,
    commit: Option<&str>,
    paths: &[String],
    known: &[&str],
) -> Result<Vec<String>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = git.conflict_markers(commit, paths)?;
    for known in known {
        if found.is_empty() {
            break;
        }
        let before = git.conflict_markers(Some(known), paths)?;
        found.retain(|path, count| before.get(path).is_none_or(|before| *count > *before));
    }
    Ok(found.into_keys().collect())
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
