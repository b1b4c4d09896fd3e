//! Worktrees: one per task, on its own branch, created quickly, reused, and never removed with
//! unsaved work in it.
//!
//! This module does not know what a task is or when its worktree is to be removed. `names` has the
//! templates, `mark` finds existing worktrees, `pool` keeps spare ones, `merging` merges other
//! tasks' work in, `rescue` saves work and `removal` removes worktrees.

mod link;
pub mod lock;
pub mod mark;
mod merging;
mod moving;
pub mod names;
pub(in crate::exec) mod pool;
mod recover;
pub mod removal;
pub mod rescue;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use banksman_core::receipt::{EndCause, PrepareFault};

use super::files::AtPath;
use super::git::{self, CheckoutTarget, Git};
use super::job::Workspace;
use super::process::{Program, ProgramOutput, RunError, Runner};
pub(in crate::exec) use link::{WorktreeState, common_folder};
use lock::WorktreeLock;
use pool::{SET_UP, WorktreePool};
pub(in crate::exec) use recover::{BranchPosition, move_branch_to_head, restore_branch};

/// A set-up command that takes longer hangs.
const SET_UP_TIME: Duration = Duration::from_secs(30 * 60);
/// How much of a set-up command's output is kept.
const SET_UP_BYTES: usize = 64 * 1024;

/// A worktree that is ready to use.
#[derive(Debug)]
pub struct PreparedWorktree {
    /// The commit that the task's own work starts from: with merged branches, one that contains
    /// all of them.
    pub base: String,
    pub head: String,
    /// Whether it was created now.
    pub fresh: bool,
    /// Remarks for people that need no action: a fetch that failed, work that was saved.
    pub notes: Vec<String>,
    /// Keeps other processes out of the worktree until it is dropped.
    pub held: WorktreeLock,
}

/// Banksman itself failed to prepare or to look at the work; the agent is not at fault.
impl From<RunError> for EndCause {
    fn from(error: RunError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        environment(format!("{error}{}", cause.unwrap_or_default()))
    }
}

/// Prepares the worktree: creates or takes it over, checks out its branch, rebases it if its base
/// has moved and nothing prevents that, and sets it up.
pub fn prepare(
    runner: &mut dyn Runner,
    workspace: &Workspace,
) -> Result<PreparedWorktree, EndCause> {
    check_names(workspace)?;
    let lock = lock::lock_of_worktree(&workspace.spare, &workspace.worktree);
    let held = lock::acquire(runner, &lock)?;
    let mut job = WorktreeJob::new(runner, workspace)?;
    let branches = job.resolve_branches()?;

    job.clear_locks(None)?;
    if job.inspect()? == WorktreeState::Orphan {
        job.adopt(&branches.start)?;
    }
    let checkout = match job.inspect()? {
        WorktreeState::Ours(record) => {
            let is_clean = job.recover(&record)?;
            Checkout { record, fresh: false, is_clean }
        }
        WorktreeState::Unfinished => {
            job.pool.discard(job.runner, &workspace.worktree)?;
            job.make(&branches)?
        }
        WorktreeState::Free => job.make(&branches)?,
        WorktreeState::Orphan => {
            return Err(unusable_path(workspace, "its record in the repository is gone"));
        }
        WorktreeState::Foreign(why) => return Err(unusable_path(workspace, &why)),
    };
    // A worktree from an earlier version or another home gets its mark here.
    mark::write(&checkout.record, workspace)
        .and_then(|()| mark::remove_intent(workspace))
        .during("marking", &workspace.worktree)?;
    let is_new = checkout.fresh && branches.branch.is_none() && branches.published.is_none();
    if checkout.is_clean {
        moving::begin(&checkout.record)?;
    }
    let fresh = if is_new {
        Ok((branches.start.clone(), branches.start.clone()))
    } else {
        job.update_branch(&branches, checkout.is_clean)
    };
    let ready = fresh.and_then(|at| job.merge_branches(at));
    // Any other fault comes from a git that ran to its end.
    if !matches!(ready, Err(EndCause::NotPrepared { class: PrepareFault::Environment, .. })) {
        moving::end(&checkout.record)?;
    }
    let (base, head) = ready?;
    if let Some(command) = &workspace.setup
        && let Some(output) = set_up(job.runner, command, &workspace.worktree, &checkout.record)?
    {
        return Err(setup_failed(command, &output));
    }
    Ok(PreparedWorktree { base, head, fresh: checkout.fresh, notes: job.notes, held })
}

/// Work on a task's worktree, by whatever runs its programs.
struct WorktreeJob<'a> {
    runner: &'a mut dyn Runner,
    pool: WorktreePool<'a>,
    workspace: &'a Workspace,
    /// Remarks for people that need no action.
    notes: Vec<String>,
}

impl<'a> WorktreeJob<'a> {
    fn new(runner: &'a mut dyn Runner, workspace: &'a Workspace) -> Result<Self, RunError> {
        let pool = WorktreePool::of(workspace)?;
        Ok(Self { runner, pool, workspace, notes: Vec::new() })
    }

    /// git in the worktree.
    fn git(&mut self) -> Git<'_> {
        Git::at(self.runner, &self.workspace.worktree)
    }

    /// git in the repository.
    fn repo_git(&mut self) -> Git<'_> {
        self.pool.git(self.runner)
    }

    fn inspect(&self) -> Result<WorktreeState, RunError> {
        self.pool.inspect(&self.workspace.worktree)
    }
}

struct Checkout {
    record: PathBuf,
    fresh: bool,
    is_clean: bool,
}

/// The commits of the relevant branches.
struct Branches {
    /// The commit that new work starts from.
    start: String,
    branch: Option<String>,
    /// The task's branch on the remote.
    published: Option<String>,
}

fn check_names(workspace: &Workspace) -> Result<(), EndCause> {
    let names = [Some(&workspace.branch), Some(&workspace.base), workspace.remote.as_ref()];
    match names.into_iter().flatten().find(|name| !names::is_branch_name(name)) {
        None => Ok(()),
        Some(name) => Err(environment(format!("`{name}` is not a valid git name"))),
    }
}

pub(in crate::exec) fn environment(detail: String) -> EndCause {
    EndCause::NotPrepared { detail, class: PrepareFault::Environment }
}

fn diverged(detail: String) -> EndCause {
    EndCause::NotPrepared { detail, class: PrepareFault::Diverged }
}

fn unusable_path(workspace: &Workspace, why: &str) -> EndCause {
    environment(format!("`{}` cannot be used as a worktree: {why}", workspace.worktree.display()))
}

impl WorktreeJob<'_> {
    fn resolve_branches(&mut self) -> Result<Branches, EndCause> {
        let Workspace { base, branch, remote, .. } = self.workspace;
        let mut git = self.pool.git(self.runner);
        if let Some(remote) = remote {
            let fetched = git.fetch(remote, base, branch)?;
            if !fetched.ok() {
                let message = git::message_of(&fetched);
                self.notes.push(format!("failed to fetch `{remote}`: {message}"));
            }
        }
        let local_name = |name: &str| format!("refs/heads/{name}");
        let remote_name = |name: &str| {
            remote.as_ref().map_or(String::new(), |remote| format!("refs/remotes/{remote}/{name}"))
        };
        let wanted = [local_name(base), local_name(branch), remote_name(base), remote_name(branch)];
        let asked: Vec<&str> =
            wanted.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
        let mut refs = git.refs(&asked)?;
        let [local_base, local_branch, remote_base, remote_branch] =
            wanted.map(|name| refs.remove(&name));
        let start = match (local_base, remote_base) {
            (None, None) => {
                return Err(environment(format!(
                    "the branch `{base}` has no commit to start from"
                )));
            }
            (Some(only), None) | (None, Some(only)) => only,
            (Some(local), Some(remote)) => {
                newer_tip(&mut git, local, remote, base, &mut self.notes)?
            }
        };
        Ok(Branches { start, branch: local_branch, published: remote_branch })
    }

    fn make(&mut self, branches: &Branches) -> Result<Checkout, RunError> {
        let Workspace { branch, worktree, .. } = self.workspace;
        mark::record_intent(self.workspace).during("marking", worktree)?;
        if branches.branch.is_none() {
            let start = branches.published.as_ref().unwrap_or(&branches.start);
            let name = format!("refs/heads/{branch}");
            // Created apart from the worktree, so that each step can be repeated after the other
            // has failed.
            if !self.repo_git().swap_ref(&name, start, "")? {
                let detail =
                    "another branch may have a prefix of this name, or this name as its prefix";
                return Err(RunError::failed(format!("creating the branch `{branch}`"), detail));
            }
        }
        let record = self.pool.obtain(self.runner, worktree, CheckoutTarget::Branch(branch))?;
        Ok(Checkout { record, fresh: true, is_clean: true })
    }

    /// Updates the branch to its published commits and onto its base, as far as that works without
    /// a conflict. Returns the base and the head.
    fn update_branch(
        &mut self,
        branches: &Branches,
        is_clean: bool,
    ) -> Result<(String, String), EndCause> {
        let mut head = head_of(&mut self.git())?;
        if let Some(published) = &branches.published {
            head = self.follow_remote(head, published, is_clean)?;
        }
        let workspace = self.workspace;
        let mut git = self.git();
        let Some(base) = git.merge_base(&branches.start, &head)? else {
            return Err(cannot_continue(workspace, "it has no commit in common with its base"));
        };
        let is_stale = base != branches.start;
        // Do not rewrite commits that others may have fetched or merged.
        if !is_stale
            || !is_clean
            || branches.published.is_some()
            || git.has_merges(&base, &head)?
            || merging::is_shared(&mut git, &base, &head)?
        {
            return Ok((base, head));
        }
        if git.rebase(&branches.start)? {
            return Ok((branches.start.clone(), head_of(&mut git)?));
        }
        if !git.abort("rebase")? && head_of(&mut git)? != head {
            return Err(environment("a rebase with conflicts could not be undone".to_owned()));
        }
        let base_name = &workspace.base;
        self.notes.push(format!("`{base_name}` has moved on and conflicts with this branch"));
        Ok((base, head))
    }

    /// Takes over what others have pushed to the task's branch.
    fn follow_remote(
        &mut self,
        head: String,
        published: &str,
        is_clean: bool,
    ) -> Result<String, EndCause> {
        let workspace = self.workspace;
        let mut git = self.git();
        if git.is_ancestor(published, &head)? {
            return Ok(head);
        }
        if !git.is_ancestor(&head, published)? {
            return Err(cannot_continue(workspace, "it was rewritten on the remote"));
        }
        if is_clean && git.fast_forward(published)?.ok() {
            return Ok(head_of(&mut git)?);
        }
        let note = "the branch on the remote is ahead, but there is uncommitted work here";
        self.notes.push(note.to_owned());
        Ok(head)
    }
}

/// The branch tip that contains the other: local merges that are not pushed count, and so do
/// commits that others have pushed.
fn newer_tip(
    git: &mut Git<'_>,
    local: String,
    remote: String,
    base: &str,
    notes: &mut Vec<String>,
) -> Result<String, RunError> {
    if git.is_ancestor(&remote, &local)? {
        return Ok(local);
    }
    if !git.is_ancestor(&local, &remote)? {
        notes.push(format!(
            "the local `{base}` and the remote one have diverged; the remote one is used"
        ));
    }
    Ok(remote)
}

fn cannot_continue(workspace: &Workspace, why: &str) -> EndCause {
    diverged(format!("cannot continue on the branch `{}`: {why}", workspace.branch))
}

fn head_of(git: &mut Git<'_>) -> Result<String, RunError> {
    let none = || RunError::failed("reading the worktree's head", "there is no commit");
    git.commit_of("HEAD")?.ok_or_else(none)
}

/// Runs the set-up command, unless the same command has succeeded here before. Returns the output
/// of a failed one.
pub(in crate::exec) fn set_up(
    runner: &mut dyn Runner,
    command: &str,
    worktree: &Path,
    record: &Path,
) -> Result<Option<ProgramOutput>, RunError> {
    let marker = record.join(SET_UP);
    if fs::read_to_string(&marker).is_ok_and(|done| done == command) {
        return Ok(None);
    }
    let output = run_shell(runner, command, worktree, SET_UP_TIME, SET_UP_BYTES)?;
    if !output.ok() {
        return Ok(Some(output));
    }
    fs::write(&marker, command).during("writing", &marker)?;
    Ok(None)
}

fn setup_failed(command: &str, output: &ProgramOutput) -> EndCause {
    let how = if output.timed_out { "took too long" } else { "failed" };
    let detail = format!("the set-up command `{command}` {how}: {}", git::message_of(output));
    EndCause::NotPrepared { detail, class: PrepareFault::Setup }
}

/// Runs a user's command with `sh`.
pub(in crate::exec) fn run_shell(
    runner: &mut dyn Runner,
    command: &str,
    folder: &Path,
    timeout: Duration,
    keep: usize,
) -> Result<ProgramOutput, RunError> {
    let program = Program::new("sh", ["-c", command], folder, runner.env());
    runner.run(&Program { timeout, keep, ..program })
}
