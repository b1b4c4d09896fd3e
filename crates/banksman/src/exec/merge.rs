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
use super::process::{ProgramOutput, Result, RunError, Runner};
use super::worktree::{WorktreeJob, WorktreeState, names};

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
) -> Result<MergeReport> {
    let mut job = WorktreeJob::new(runner, workspace)?;
    let mut queue = None;
    for round in 0..ROUNDS {
        if round > 0 && queue.is_none() {
            // Merges that lost the race queue up, so that they do not overtake each other
            // repeatedly. The queue is only advisory: the base moves by compare-and-swap with or
            // without it.
            if let Ok(lock) = job.lock_repository("merges") {
                queue = Some(lock);
            }
        }
        let mut git = job.repo_git();
        let (base, work) = match tips(&mut git, workspace, commit)? {
            Ok(tips) => tips,
            Err(detail) => return Ok(MergeReport::Hindered { detail }),
        };
        if git.is_ancestor(&work, &base)? {
            return Ok(MergeReport::AlreadyIn { head: base });
        }
        if commit.is_some()
            && git.commit_of(&branch_ref(&workspace.branch))?.as_ref() != Some(&work)
        {
            return Ok(MergeReport::MovedOn { branch: workspace.branch.clone() });
        }
        let tree = match git.merge_tree(&base, &work)? {
            MergeTree::Clean { tree } => tree,
            MergeTree::Conflict { paths } => return Ok(MergeReport::Conflict { paths }),
        };
        let head = git.commit_tree(&tree, &[&base, &work], message)?;
        if let Some(check) = job.failed_check(checks, &head)? {
            return Ok(MergeReport::Rejected { check });
        }
        job.repo_git().keep_objects(&base, &head)?;
        match job.update_base(&base, &head)? {
            BaseUpdate::Done => return Ok(MergeReport::Merged { head }),
            BaseUpdate::Moved => {}
            BaseUpdate::Refused(detail) => return Ok(MergeReport::Hindered { detail }),
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
) -> Result<MergeReport> {
    let mut job = WorktreeJob::new(runner, workspace)?;
    let mut git = job.repo_git();
    let (base, work) = match tips(&mut git, workspace, commit)? {
        Ok(tips) => tips,
        Err(detail) => return Ok(MergeReport::Hindered { detail }),
    };
    let is_in = git.is_ancestor(&work, &base)?;
    Ok(if is_in { MergeReport::AlreadyIn { head: base } } else { MergeReport::NotIn })
}

fn branch_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// The commit of the base, and the commit to merge: the branch's, if none is given. Or what is
/// gone: waiting brings no branch back.
fn tips(
    git: &mut Git<'_>,
    workspace: &Workspace,
    commit: Option<&str>,
) -> Result<Result<(String, String), String>> {
    let Workspace { base, branch, .. } = workspace;
    let gone = |branch: &str| Ok(Err(format!("there is no branch `{branch}`")));
    let Some(into) = git.commit_of(&branch_ref(base))? else { return gone(base) };
    let work = match commit {
        Some(commit) => git.commit_of(commit)?,
        None => git.commit_of(&branch_ref(branch))?,
    };
    work.map_or_else(|| gone(branch), |work| Ok(Ok((into, work))))
}

fn merging_failed(detail: String) -> RunError {
    RunError::failed("merging", detail)
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
    /// The checkout of the base cannot take the merge.
    Refused(String),
}

impl WorktreeJob<'_> {
    /// The first check that fails on the merged tree, in a worktree used for nothing else.
    fn failed_check(&mut self, checks: &Verification, head: &str) -> Result<Option<CheckResult>> {
        if checks.commands.is_empty() {
            return Ok(None);
        }
        let Workspace { spare, worktree, .. } = self.workspace;
        let path = spare.join("merging").join(names::hash_of(worktree));
        let _held = self.lock_worktree(&path)?;
        if self.inspect(&path)? != WorktreeState::Free {
            self.discard(&path)?;
        }
        let record = self.obtain(&path, CheckoutTarget::Commit(head))?;
        if let Some((command, output)) = self.set_up(&path, &record)? {
            self.retire(&path, &record, head)?;
            return Ok(Some(check_of(command, head, &output)));
        }
        let proof = run_checks(self.runner, &path, checks)?;
        self.retire(&path, &record, head)?;
        if proof.all_passed(checks) {
            return Ok(None);
        }
        let last = proof.checks.into_iter().next_back();
        let why = proof.skipped.unwrap_or_default();
        let none = || RunError::failed("running the checks on the merged tree", why);
        last.map(Some).ok_or_else(none)
    }

    /// Moves the base, and a checkout of it, from `old` to `new`.
    fn update_base(&mut self, old: &str, new: &str) -> Result<BaseUpdate> {
        let _held = self.lock_repository("repository")?;
        let base = &self.workspace.base;
        let name = branch_ref(base);
        let mut git = self.repo_git();
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
            let why = format!("git could not move `{base}`; another git may have left a lock");
            return Err(merging_failed(why));
        };
        if let Some(other) = checkouts.pop() {
            let (one, two) = (other.path.display(), checkout.path.display());
            let why = format!("`{base}` is checked out in both `{one}` and `{two}`");
            return Err(merging_failed(why));
        }
        if git.commit_of(&name)?.as_deref() != Some(old) {
            return Ok(BaseUpdate::Moved);
        }
        // Moves files and branch together or not at all, and only forward.
        let output = self.fast_forward(&checkout.path, new)?;
        let now = self.repo_git().commit_of(&name)?;
        if now.as_deref() == Some(new) {
            return Ok(BaseUpdate::Done);
        }
        if now.as_deref() != Some(old) {
            return Ok(BaseUpdate::Moved);
        }
        Ok(BaseUpdate::Refused(format!(
            "the checkout of `{base}` in `{}` is in the way; commit, stash or remove what is named \
             here: {}",
            checkout.path.display(),
            message_of(&output)
        )))
    }

    /// Fast-forwards a checkout. A lock that another git holds there, of a person or of another
    /// node, is no fault of the work: it is waited for, and reported as a failure of the merge if
    /// it stays.
    fn fast_forward(&mut self, checkout: &Path, commit: &str) -> Result<ProgramOutput> {
        let mut last = String::new();
        for _ in 0..LOCKED_TRIES {
            let output = Git::at(self.runner, checkout).fast_forward(commit)?;
            last = message_of(&output);
            if output.ok() || !last.contains(".lock': File exists") {
                return Ok(output);
            }
            self.pause()?;
        }
        let what = format!("updating the checkout `{}`", checkout.display());
        Err(RunError::failed(what, format!("another git has locked it: {last}")))
    }
}
