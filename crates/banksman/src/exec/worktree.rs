//! Worktrees: one per task, on its own branch, created quickly, reused, and never removed with
//! unsaved work in it.
//!
//! This module does not know what a task is or when its worktree is to be removed. `names` has the
//! templates, `mark` finds existing worktrees, `pool` keeps spare ones, `merging` merges other
//! tasks' work in, `rescue` saves work and `removal` removes worktrees.

pub mod beginning;
mod link;
pub mod lock;
pub mod mark;
mod merging;
mod moving;
pub mod names;
pub(in crate::exec) mod pool;
mod recover;
pub mod removal;
mod repair;
pub mod rescue;

use std::fs;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::Duration;

use banksman_core::receipt::{EndCause, PrepareFault};

use super::files::{AtPath, if_exists, with_cause};
use super::git::{self, CheckoutTarget, Git};
use super::job::{JobResult, Workspace};
use super::process::{Program, ProgramOutput, Result, RunError, Runner, is_missing, quoted};
pub(in crate::exec) use link::{WorktreeState, common_folder, left_heads};
use lock::WorktreeLock;
pub use merging::BranchConflict;
use merging::MergedBranch;
pub(in crate::exec) use merging::start_of_own_work;
use pool::SET_UP;
pub(in crate::exec) use recover::{BranchPosition, move_branch_to_head, restore_branch};

/// A set-up command that takes longer hangs.
const SET_UP_TIME: Duration = Duration::from_secs(30 * 60);
/// How much of a set-up command's output is kept.
const SET_UP_BYTES: usize = 64 * 1024;
/// Why files cannot be used as a worktree.
pub(in crate::exec) const RECORD_GONE: &str = "its record in the repository is gone";

/// A worktree that is ready to use.
#[derive(Debug)]
pub struct PreparedWorktree {
    /// The commit that the task's own work starts from: with merged branches, one that contains
    /// all of them.
    pub base: String,
    pub head: String,
    /// Whether it was created now.
    pub fresh: bool,
    /// Branches that somebody must merge in by hand.
    pub conflicts: Vec<BranchConflict>,
    /// Remarks for people that need no action: a fetch that failed, work that was saved.
    pub notes: Vec<String>,
    /// How long the log of its heads was, so that what comes after it is the run's.
    pub logged_bytes: u64,
    /// The repository's own list of ignored files when the work began.
    pub excludes: Vec<u8>,
    /// Keeps other processes out of the worktree until it is dropped.
    pub held: WorktreeLock,
}

/// Banksman itself failed to prepare or to look at the work; the agent is not at fault.
impl From<RunError> for EndCause {
    fn from(error: RunError) -> Self {
        match &error {
            RunError::Start { source, .. } if is_missing(source) => unusable(with_cause(&error)),
            RunError::Start { .. }
            | RunError::Read { .. }
            | RunError::Failed { .. }
            | RunError::Interrupted => environment(with_cause(&error)),
        }
    }
}

/// Prepares the worktree: creates or takes it over, checks out its branch, rebases it if its base
/// has moved and nothing prevents that, and sets it up.
pub fn prepare(runner: &mut dyn Runner, workspace: &Workspace) -> JobResult<PreparedWorktree> {
    check_names(workspace)?;
    let mut job = WorktreeJob::new(runner, workspace)?;
    if let Some(why) = job.repo_git().too_old()? {
        return Err(unusable(why));
    }
    match prepare_with(&mut job) {
        Err(EndCause::NotPrepared { detail, class: PrepareFault::Environment }) => {
            let obstacle = job.obstacle()?;
            Err(obstacle.map_or_else(|| environment(detail), unusable))
        }
        prepared => prepared,
    }
}

fn prepare_with(job: &mut WorktreeJob<'_>) -> JobResult<PreparedWorktree> {
    let workspace = job.workspace;
    let held = job.lock_worktree(&workspace.worktree)?;
    let branches = job.resolve_branches()?;
    let found = job.find(&branches.start)?.map_err(|why| {
        let worktree = workspace.worktree.display();
        unusable(format!("`{worktree}` cannot be used as a worktree: {why}; move it away"))
    })?;
    job.take_branch(&branches, found.is_some())?;
    let checkout = match found {
        Some(record) => {
            let is_clean = job.recover(&record)?;
            Checkout { record, fresh: false, is_clean }
        }
        None => job.make(&branches)?,
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
    let ready = fresh.and_then(|at| job.merge_branches(at, &checkout.record, &branches.start));
    // Any other fault comes from a git that ran to its end.
    if !matches!(ready, Err(EndCause::NotPrepared { class: PrepareFault::Environment, .. })) {
        moving::end(&checkout.record)?;
    }
    let MergedBranch { base, head, conflicts } = ready?;
    if let Some((command, output)) = job.set_up(&workspace.worktree, &checkout.record)? {
        return Err(setup_failed(workspace, command, &output));
    }
    job.note_empty_submodules()?;
    let logged_bytes = link::logged_bytes(&checkout.record);
    let excludes = job.excludes()?;
    let (fresh, notes) = (checkout.fresh, take(&mut job.notes));
    Ok(PreparedWorktree { base, head, fresh, conflicts, notes, logged_bytes, excludes, held })
}

/// Work on a task's worktree and its repository, by whatever runs its programs.
pub(in crate::exec) struct WorktreeJob<'a> {
    pub(in crate::exec) runner: &'a mut dyn Runner,
    pub(in crate::exec) workspace: &'a Workspace,
    /// The repository's folder for branches and records.
    common: PathBuf,
    /// Remarks for people that need no action.
    notes: Vec<String>,
}

impl<'a> WorktreeJob<'a> {
    pub(in crate::exec) fn new(
        runner: &'a mut dyn Runner,
        workspace: &'a Workspace,
    ) -> Result<Self> {
        let repo = &workspace.repo;
        let common = common_folder(repo).during("opening the repository", repo)?;
        Ok(Self { runner, workspace, common, notes: Vec::new() })
    }

    /// Where the repository's own list of ignored files is, which no commit has.
    pub(in crate::exec) fn exclude_file(&self) -> PathBuf {
        self.common.join("info/exclude")
    }

    pub(in crate::exec) fn excludes(&self) -> Result<Vec<u8>> {
        let path = self.exclude_file();
        let list = if_exists(fs::read(&path)).during("reading", &path)?;
        Ok(list.unwrap_or_default())
    }

    /// git in the worktree.
    pub(in crate::exec) fn git(&mut self) -> Git<'_> {
        Git::at(self.runner, &self.workspace.worktree)
    }

    /// git in the repository.
    pub(in crate::exec) fn repo_git(&mut self) -> Git<'_> {
        Git::at(self.runner, &self.workspace.repo)
    }

    pub(in crate::exec) fn inspect(&self, path: &Path) -> Result<WorktreeState> {
        link::inspect(&self.common, path).during("inspecting", path)
    }

    /// Finds the worktree: takes over files whose record is gone, and discards a worktree in which
    /// nobody has worked yet. Returns its record, none if the path is free, or why it is of no use.
    fn find(&mut self, start: &str) -> Result<Result<Option<PathBuf>, String>> {
        let worktree = &self.workspace.worktree;
        self.clear_locks(None)?;
        if self.inspect(worktree)? == WorktreeState::Orphan {
            self.adopt(start)?;
        }
        Ok(match self.inspect(worktree)? {
            WorktreeState::Ours(record) => Ok(Some(record)),
            WorktreeState::Unfinished => {
                self.discard(worktree)?;
                Ok(None)
            }
            WorktreeState::Free => Ok(None),
            WorktreeState::Orphan => Err(RECORD_GONE.to_owned()),
            WorktreeState::Foreign(why) => Err(why),
        })
    }

    /// Runs the set-up command, if there is one and it has not succeeded here before. Returns it
    /// with its output if it fails.
    pub(in crate::exec) fn set_up(
        &mut self,
        worktree: &Path,
        record: &Path,
    ) -> Result<Option<(&'a str, ProgramOutput)>> {
        let Some(command) = &self.workspace.setup else { return Ok(None) };
        let marker = record.join(SET_UP);
        if fs::read_to_string(&marker).is_ok_and(|done| done == *command) {
            return Ok(None);
        }
        let output = run_shell(self.runner, command, worktree, SET_UP_TIME, SET_UP_BYTES)?;
        if !output.ok() {
            return Ok(Some((command, output)));
        }
        fs::write(&marker, command).during("writing", &marker)?;
        Ok(None)
    }
}

impl WorktreeJob<'_> {
    /// Says that git leaves submodules empty, because whatever fails for that reason seldom does.
    fn note_empty_submodules(&mut self) -> Result<()> {
        let empty = self.git().empty_submodules()?;
        if !empty.is_empty() {
            self.notes.push(format!(
                "empty submodules: {}; to fetch them, set `worktrees.setup` to `git submodule \
                 update --init`",
                empty.join(", ")
            ));
        }
        Ok(())
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

fn check_names(workspace: &Workspace) -> JobResult<()> {
    let names = [Some(&workspace.branch), Some(&workspace.base), workspace.remote.as_ref()];
    match names.into_iter().flatten().find(|name| !names::is_branch_name(name)) {
        None => Ok(()),
        // What git writes into the file for old readers, if refs are elsewhere.
        Some(name) if name == ".invalid" => Err(unusable(format!(
            "`{}` keeps its refs in a reftable, which Banksman cannot read; convert it with `git \
             refs migrate --ref-format=files`",
            workspace.repo.display()
        ))),
        Some(name) => Err(unusable(format!("`{name}` is not a valid git name"))),
    }
}

pub(in crate::exec) fn unusable(detail: String) -> EndCause {
    EndCause::NotPrepared { detail, class: PrepareFault::Unusable }
}

pub(in crate::exec) fn environment(detail: String) -> EndCause {
    EndCause::NotPrepared { detail, class: PrepareFault::Environment }
}

pub(in crate::exec) fn diverged(detail: String) -> EndCause {
    EndCause::NotPrepared { detail, class: PrepareFault::Diverged }
}

impl WorktreeJob<'_> {
    fn resolve_branches(&mut self) -> JobResult<Branches> {
        let Workspace { base, branch, remote, repo, .. } = self.workspace;
        let mut git = Git::at(self.runner, repo);
        if let Some(remote) = remote {
            let fetched = git.fetch(remote, base, branch)?;
            if !fetched.ok() {
                let message = git::message_of(&fetched);
                self.notes.push(format!("failed to fetch `{remote}`: {message}"));
            }
        }
        let local = |name: &str| Some(format!("refs/heads/{name}"));
        let on_remote = |name: &str| Some(format!("refs/remotes/{}/{name}", remote.as_ref()?));
        let wanted = [local(base), local(branch), on_remote(base), on_remote(branch)];
        let asked: Vec<&str> = wanted.iter().flatten().map(String::as_str).collect();
        let mut refs = git.refs(&asked)?;
        let [local_base, local_branch, remote_base, remote_branch] =
            wanted.map(|name| refs.remove(&name?));
        if local_branch.is_some() && git.make_direct(branch)? {
            self.notes
                .push(format!("`{branch}` pointed to another branch; now it is one of its own"));
        }
        let start = match (local_base, remote_base) {
            (None, None) => {
                return Err(unusable(format!(
                    "the branch `{base}` has no commit to start from; commit something first"
                )));
            }
            (Some(only), None) | (None, Some(only)) => only,
            // Work is merged into the local base, so what a task needs may be there and not yet
            // pushed; commits that others have pushed count as far as they are nothing but newer.
            (Some(local), Some(newer)) if git.is_ancestor(&local, &newer)? => newer,
            (Some(local), Some(remote)) => {
                if !git.is_ancestor(&remote, &local)? {
                    self.notes.push(format!(
                        "the local `{base}` and the remote one have diverged; the local one is \
                         used, and `git pull` brings in what it lacks"
                    ));
                }
                local
            }
        };
        Ok(Branches { start, branch: local_branch, published: remote_branch })
    }

    /// Refuses a branch or a worktree of the task's name that was not made for it: whatever is
    /// there would count as the task's work.
    fn take_branch(&mut self, branches: &Branches, is_there: bool) -> JobResult<()> {
        let Workspace { branch, worktree, .. } = self.workspace;
        let is_own = beginning::is_own(self.workspace);
        if is_there && !is_own && beginning::is_of_other(self.workspace) {
            let path = worktree.display();
            return Err(unusable(format!(
                "`{path}` is the worktree of a task of another store; move it away with `git \
                 worktree move {path} PATH`"
            )));
        }
        if !is_there && !is_own && branches.branch.is_some() {
            return Err(unusable(format!(
                "the branch `{branch}` was not made for this task; rename it with `git branch -m \
                 {branch} NAME`"
            )));
        }
        if let (false, false, Some(_), Some(remote)) =
            (is_there, is_own, &branches.published, &self.workspace.remote)
        {
            return Err(unusable(format!(
                "`{remote}` has a branch `{branch}` that was not made for this task; rename it \
                 there, or name branches differently with the setting `worktrees.branch`"
            )));
        }
        Ok(beginning::record(self.workspace).during("recording the beginning of", worktree)?)
    }

    fn make(&mut self, branches: &Branches) -> Result<Checkout> {
        let Workspace { branch, worktree, .. } = self.workspace;
        mark::record_intent(self.workspace).during("marking", worktree)?;
        if branches.branch.is_none() {
            let start = branches.published.as_ref().unwrap_or(&branches.start);
            let name = format!("refs/heads/{branch}");
            // Created apart from the worktree, so that each step can be repeated after the other
            // has failed.
            if !self.repo_git().swap_ref(&name, start, "")? {
                return Err(RunError::failed(
                    format!("creating the branch `{branch}`"),
                    "git refuses",
                ));
            }
        }
        let record = self.obtain(worktree, CheckoutTarget::Branch(branch))?;
        Ok(Checkout { record, fresh: true, is_clean: true })
    }

    /// What keeps the task's branch from being checked out until a person moves it.
    fn obstacle(&mut self) -> Result<Option<String>> {
        let Workspace { branch, worktree, .. } = self.workspace;
        let name = format!("refs/heads/{branch}");
        let mut git = self.repo_git();
        let holder = git.worktrees()?.into_iter().find(|listed| {
            listed.branch.as_ref() == Some(&name) && !link::is_same(&listed.path, worktree)
        });
        if let Some(path) = holder.map(|listed| listed.path.display().to_string()) {
            return Ok(Some(format!(
                "the branch `{branch}` is checked out in `{path}`; free it with `git -C {path} \
                 switch --detach`"
            )));
        }
        // git keeps branches like files, so that a name and one below it exclude each other.
        let above =
            branch.match_indices('/').map(|(end, _)| format!("refs/heads/{}", &branch[..end]));
        let names: Vec<String> = above.chain([format!("{name}/")]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = git.refs(&names)?.into_keys().find(|other| *other != name);
        Ok(found.as_deref().and_then(|other| other.strip_prefix("refs/heads/")).map(|other| {
            format!(
                "the branch `{other}` is in the way of `{branch}`; rename it with `git branch -m \
                 {other} NAME`"
            )
        }))
    }

    /// Updates the branch to its published commits and onto its base, as far as that works without
    /// a conflict. Returns the base and the head.
    fn update_branch(
        &mut self,
        branches: &Branches,
        is_clean: bool,
    ) -> JobResult<(String, String)> {
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
    ) -> JobResult<String> {
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

fn cannot_continue(workspace: &Workspace, why: &str) -> EndCause {
    diverged(format!("cannot continue on the branch `{}`: {why}", workspace.branch))
}

fn head_of(git: &mut Git<'_>) -> Result<String> {
    let none = || RunError::failed("reading the worktree's head", "there is no commit");
    git.commit_of("HEAD")?.ok_or_else(none)
}

fn setup_failed(workspace: &Workspace, command: &str, output: &ProgramOutput) -> EndCause {
    let how = if output.timed_out { "took too long" } else { "failed" };
    let detail = format!("the set-up command `{command}` {how}: {}", git::message_of(output));
    if git::is_of_submodule(output) {
        let worktree = quoted(&workspace.worktree.to_string_lossy());
        return unusable(format!(
            "a submodule cannot be fetched; try `git -C {worktree} submodule update --init` until \
             it succeeds, or correct its address in `.gitmodules`. {detail}"
        ));
    }
    EndCause::NotPrepared { detail, class: PrepareFault::Setup }
}

/// Runs a user's command with `sh`.
pub(in crate::exec) fn run_shell(
    runner: &mut dyn Runner,
    command: &str,
    folder: &Path,
    timeout: Duration,
    keep: usize,
) -> Result<ProgramOutput> {
    let program = Program::new("sh", ["-c", command], folder, runner.env());
    runner.run(&Program { timeout, keep, ..program })
}
