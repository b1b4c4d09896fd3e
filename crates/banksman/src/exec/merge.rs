//! Merges a task's branch into its base, without a checkout and never over anybody else's commits.
//!
//! The base moves by one compare-and-swap, after the checks have passed on exactly the resulting
//! tree. A checkout of the base moves with it, or nothing moves. If a commit is given, only that
//! commit is merged and nothing after it.

use std::path::Path;

use banksman_core::receipt::{CheckResult, MergeReport};

use super::evidence::run_checks;
use super::git::{CheckoutTarget, Git, MergeTree, message_of};
use super::job::{Verification, Workspace};
use super::process::{ProgramOutput, RunError, Runner};
use super::worktree::pool::WorktreePool;
use super::worktree::{WorktreeState, lock, names, set_up};

/// How often the base may move while the checks run before a person has to look.
const ROUNDS: u32 = 25;
/// How often to look again while another git has the checkout locked: ten seconds in all.
const LOCKED_TRIES: u32 = 50;

pub fn merge(
    runner: &mut dyn Runner,
    workspace: &Workspace,
    checks: &Verification,
    message: &str,
    commit: Option<&str>,
) -> Result<MergeReport, RunError> {
    let pool = WorktreePool::of(workspace)?;
    let mut queue = None;
    for round in 0..ROUNDS {
        if round > 0 && queue.is_none() {
            // Merges that lost the race queue up, so that they do not overtake each other
            // repeatedly. The queue is only advisory: the base moves by compare-and-swap with or
            // without it.
            let lock = lock::lock_of_merges(pool.spare, &pool.common);
            if let Ok(queue_lock) = lock::acquire(runner, &lock) {
                queue = Some(queue_lock);
            }
        }
        let mut git = pool.git(runner);
        let base = tip(git.commit_of(&branch_ref(&workspace.base))?, &workspace.base)?;
        let branch = git.commit_of(&branch_ref(&workspace.branch))?;
        let work = match commit {
            Some(commit) => commit.to_owned(),
            None => tip(branch.clone(), &workspace.branch)?,
        };
        if git.is_ancestor(&work, &base)? {
            return Ok(MergeReport::AlreadyIn { head: base });
        }
        if branch.as_ref() != Some(&work) {
            return Ok(MergeReport::MovedOn { branch: workspace.branch.clone() });
        }
        let tree = match git.merge_tree(&base, &work)? {
            MergeTree::Clean { tree } => tree,
            MergeTree::Conflict { paths } => return Ok(MergeReport::Conflict { paths }),
        };
        let head = git.commit_tree(&tree, &[&base, &work], message)?;
        if let Some(check) = failed_check(runner, &pool, workspace, checks, &head)? {
            return Ok(MergeReport::Rejected { check });
        }
        match update_base(runner, &pool, workspace, &base, &head)? {
            BaseUpdate::Done => return Ok(MergeReport::Merged { head }),
            BaseUpdate::Moved => {}
            BaseUpdate::Refused(check) => return Ok(MergeReport::Rejected { check }),
        }
    }
    let detail = format!("it moved {ROUNDS} times while the checks ran");
    Err(RunError::failed(format!("merging into `{}`", workspace.base), detail))
}

/// Whether the work is in its base. Changes nothing.
pub fn find(
    runner: &mut dyn Runner,
    workspace: &Workspace,
    commit: Option<&str>,
) -> Result<MergeReport, RunError> {
    let pool = WorktreePool::of(workspace)?;
    let mut git = pool.git(runner);
    let base = tip(git.commit_of(&branch_ref(&workspace.base))?, &workspace.base)?;
    let work = match commit {
        Some(commit) => commit.to_owned(),
        None => tip(git.commit_of(&branch_ref(&workspace.branch))?, &workspace.branch)?,
    };
    let is_in = git.is_ancestor(&work, &base)?;
    Ok(if is_in { MergeReport::AlreadyIn { head: base } } else { MergeReport::NotIn })
}

fn branch_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn tip(commit: Option<String>, branch: &str) -> Result<String, RunError> {
    commit.ok_or_else(|| RunError::failed("merging", format!("there is no branch `{branch}`")))
}

/// The first check that fails on the merged tree, in a worktree used for nothing else.
fn failed_check(
    runner: &mut dyn Runner,
    pool: &WorktreePool<'_>,
    workspace: &Workspace,
    checks: &Verification,
    head: &str,
) -> Result<Option<CheckResult>, RunError> {
    if checks.commands.is_empty() {
        return Ok(None);
    }
    let path = pool.spare.join("merging").join(names::hash_of(&workspace.worktree));
    let _held = lock::acquire(runner, &lock::lock_of_worktree(pool.spare, &path))?;
    if pool.inspect(&path)? != WorktreeState::Free {
        pool.discard(runner, &path)?;
    }
    let record = pool.obtain(runner, &path, CheckoutTarget::Commit(head))?;
    if let Some(command) = &workspace.setup
        && let Some(output) = set_up(runner, command, &path, &record)?
    {
        pool.retire(runner, &path, &record, head)?;
        return Ok(Some(check_of(command, head, &output)));
    }
    let proof = run_checks(runner, &path, checks)?;
    let holds = proof.all_passed(checks);
    pool.retire(runner, &path, &record, head)?;
    if holds {
        return Ok(None);
    }
    let last = proof.checks.into_iter().next_back();
    let none = || RunError::failed("running the checks on the merged tree", proof.notes.join("; "));
    last.map(Some).ok_or_else(none)
}

fn check_of(command: &str, head: &str, output: &ProgramOutput) -> CheckResult {
    CheckResult {
        command: command.to_owned(),
        head: head.to_owned(),
        exit: output.exit,
        millis: output.millis,
        tail: message_of(output),
    }
}

enum BaseUpdate {
    Done,
    /// The base moved after the result was made.
    Moved,
    Refused(CheckResult),
}

/// Moves the base, and a checkout of it, from `old` to `new`.
fn update_base(
    runner: &mut dyn Runner,
    pool: &WorktreePool<'_>,
    workspace: &Workspace,
    old: &str,
    new: &str,
) -> Result<BaseUpdate, RunError> {
    let lock = lock::lock_of_repository(pool.spare, &pool.common);
    let _held = lock::acquire(runner, &lock)?;
    let name = branch_ref(&workspace.base);
    let mut git = pool.git(runner);
    let is_here = |path: &Path| path.symlink_metadata().is_ok();
    let mut checkouts: Vec<_> = git
        .worktrees()?
        .into_iter()
        .filter(|listed| listed.branch.as_ref() == Some(&name) && is_here(&listed.path))
        .collect();
    let Some(checkout) = checkouts.pop() else {
        if git.swap_ref(&name, new, old)? {
            return Ok(BaseUpdate::Done);
        }
        if git.commit_of(&name)?.as_deref() != Some(old) {
            return Ok(BaseUpdate::Moved);
        }
        let why =
            format!("git could not move `{}`; another git may have left a lock", workspace.base);
        return Err(RunError::failed("merging", why));
    };
    if let Some(other) = checkouts.pop() {
        let (one, two) = (other.path.display(), checkout.path.display());
        let why = format!("`{}` is checked out in both `{one}` and `{two}`", workspace.base);
        return Err(RunError::failed("merging", why));
    }
    if git.commit_of(&name)?.as_deref() != Some(old) {
        return Ok(BaseUpdate::Moved);
    }
    // Moves files and branch together or not at all, and only forward.
    let output = fast_forward(runner, &checkout.path, new)?;
    let now = pool.git(runner).commit_of(&name)?;
    if now.as_deref() == Some(new) {
        return Ok(BaseUpdate::Done);
    }
    if now.as_deref() != Some(old) {
        return Ok(BaseUpdate::Moved);
    }
    let mut check = check_of("git merge --ff-only", new, &output);
    check.tail = format!(
        "the checkout of `{}` in `{}` has conflicting changes: {}",
        workspace.base,
        checkout.path.display(),
        check.tail
    );
    Ok(BaseUpdate::Refused(check))
}

/// Fast-forwards a checkout. A lock that another git holds there, of a person or of another node, is
/// no fault of the work: it is waited for, and reported as a failure of the merge if it stays.
fn fast_forward(
    runner: &mut dyn Runner,
    checkout: &Path,
    commit: &str,
) -> Result<ProgramOutput, RunError> {
    let mut last = String::new();
    for _ in 0..LOCKED_TRIES {
        let output = Git::at(runner, checkout).fast_forward(commit)?;
        last = message_of(&output);
        if output.ok() || !last.contains(".lock': File exists") {
            return Ok(output);
        }
        lock::pause(runner)?;
    }
    let what = format!("updating the checkout `{}`", checkout.display());
    Err(RunError::failed(what, format!("another git has locked it: {last}")))
}
