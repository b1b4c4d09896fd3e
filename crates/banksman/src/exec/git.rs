//! Git's command line; no other file knows it.
//!
//! Every call excludes what the caller did not ask for: hooks, pager, editor, prompt, signatures
//! and background maintenance, and git never looks for a repository above the given folder. Branch
//! names and paths come after `--end-of-options` or `--`, so that git takes none of them for an
//! option. `git reset` gets only full commit ids: the oldest supported git does not know
//! `--end-of-options` there.
//!
//! Paths are read in git's quoted form, because it is lossless in text. Nothing here decides what
//! to do.

mod changes;
mod id;
mod index;
mod markers;
mod objects;
mod obstacles;
mod pulls;
mod quoted;
mod scratch;
mod status;
mod steps;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::process::{Program, ProgramOutput, Result, RunError, Runner};
use id::full_id;

pub use changes::{ChangedPath, CommitChanges, LINK_MODE, SUBMODULE_MODE};
pub(super) use obstacles::is_of_submodule;
pub use pulls::PullRequest;
pub use quoted::shown;
pub use status::Status;
pub use steps::MAILBOX;

/// The oldest supported version: that of Debian 12.
pub const OLDEST: &str = "2.39";

/// Settings of every call. A repository's hooks are for its people and agents, not for Banksman's
/// own commands.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.quotePath=true",
    "core.fsmonitor=false",
    "core.pager=cat",
    "color.ui=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "rerere.enabled=false",
    "submodule.recurse=false",
    "diff.external=",
    "advice.detachedHead=false",
];
/// Variables that would lead git to another repository or change its output.
const REMOVED_VARIABLES: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_PARAMETERS",
    "GIT_TRACE",
];
const SET_VARIABLES: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", ":"),
    ("GIT_SEQUENCE_EDITOR", ":"),
    ("GIT_PAGER", "cat"),
    // A read-only status must not block an agent's own git.
    ("GIT_OPTIONAL_LOCKS", "0"),
    // An agent can write both, and git would show other contents or parents than a commit has.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
];
const NAME: &str = "user.name=Banksman";
const EMAIL: &str = "user.email=banksman@localhost";

/// For work on refs and objects. It takes milliseconds; a loaded machine gets some slack.
const SHORT: Duration = Duration::from_secs(60);
/// For work that writes a whole tree.
const LONG: Duration = Duration::from_secs(600);
/// A fetch that takes longer counts as failed: the work can begin without it.
const FETCH: Duration = Duration::from_secs(30);
/// How much of git's output is kept: the paths of about 100,000 changed files.
const KEEP_BYTES: usize = 16 * 1024 * 1024;
/// How much of git's message an error quotes.
const DETAIL_CHARS: usize = 600;

/// How often git is retried because another git was writing or removing the record of a worktree.
const RECORD_TRIES: u32 = 10;
const RECORD_PAUSE: Duration = Duration::from_millis(10);

/// git in one folder.
pub struct Git<'a> {
    runner: &'a mut dyn Runner,
    folder: PathBuf,
    env: BTreeMap<String, String>,
}

/// What a worktree checks out.
#[derive(Debug, Clone, Copy)]
pub enum CheckoutTarget<'a> {
    Branch(&'a str),
    Commit(&'a str),
}

impl<'a> CheckoutTarget<'a> {
    /// The option that it needs, and its revision.
    fn parts(self) -> (&'static str, &'a str) {
        match self {
            Self::Branch(branch) => ("", branch),
            Self::Commit(commit) => ("--detach", commit),
        }
    }
}

/// A worktree that git lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorktreeEntry {
    pub path: PathBuf,
    /// The full name of its ref.
    pub branch: Option<String>,
}

/// The result of merging two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeTree {
    Clean { tree: String },
    Conflict { paths: Vec<String> },
}

impl<'a> Git<'a> {
    pub fn at(runner: &'a mut dyn Runner, folder: &Path) -> Self {
        let mut env = runner.env().clone();
        env.retain(|name, _| !REMOVED_VARIABLES.contains(&name.as_str()));
        env.extend(
            SET_VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        if !env.contains_key("GIT_SSH_COMMAND") {
            env.insert("GIT_SSH_COMMAND".to_owned(), "ssh -oBatchMode=yes".to_owned());
        }
        if let Some(parent) = folder.parent().and_then(Path::to_str) {
            env.insert("GIT_CEILING_DIRECTORIES".to_owned(), parent.to_owned());
        }
        Self { runner, folder: folder.to_owned(), env }
    }

    /// The same git with another index, so that the worktree's own stays as it is.
    #[must_use]
    pub fn with_index(mut self, index: &Path) -> Self {
        self.env.insert("GIT_INDEX_FILE".to_owned(), index.to_string_lossy().into_owned());
        self
    }

    // Refs and commits.

    /// Full names of refs and their commits, for exact names and for prefixes that end in a slash.
    pub fn refs(&mut self, names: &[&str]) -> Result<BTreeMap<String, String>> {
        // The format has a space, so it is no word of the command.
        let args = [&["--format=%(objectname) %(refname)", "--"], names].concat();
        let output = self.run_checked("for-each-ref", &args, SHORT)?;
        let pair = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.to_owned(), commit.to_owned()))
        };
        Ok(output.stdout.lines().filter_map(pair).collect())
    }

    pub fn commit_of(&mut self, revision: &str) -> Result<Option<String>> {
        self.object(&format!("{revision}^{{commit}}"))
    }

    pub fn tree_of(&mut self, revision: &str) -> Result<Option<String>> {
        self.object(&format!("{revision}^{{tree}}"))
    }

    fn object(&mut self, wanted: &str) -> Result<Option<String>> {
        self.optional_line("rev-parse --verify --quiet --end-of-options", &[wanted])
    }

    pub fn is_ancestor(&mut self, old: &str, new: &str) -> Result<bool> {
        Ok(old == new || self.succeeds("merge-base --is-ancestor", &[old, new])?)
    }

    pub fn merge_base(&mut self, one: &str, other: &str) -> Result<Option<String>> {
        self.optional_line("merge-base", &[one, other])
    }

    /// The number of commits that a head has and none of the others contains.
    pub fn count(&mut self, others: &[&str], head: &str) -> Result<u32> {
        let args = [&[head, "--not"], others, &["--"]].concat();
        Ok(self.line("rev-list --count", &args)?.parse().unwrap_or(u32::MAX))
    }

    /// The changes of a commit since its merge base with `base`, for those who judge them: a
    /// summary, then the patch. Neither the attributes of files nor the repository's settings, both
    /// of which the author of the changes can write, hide a line or run a program.
    pub fn diff(&mut self, base: &str, head: &str) -> Result<String> {
        let range = format!("{base}...{head}");
        let command = "diff --stat --patch --text --no-textconv --no-ext-diff --unified=3 \
                       --inter-hunk-context=0 -O/dev/null --no-relative --submodule=short \
                       --ignore-submodules=none --end-of-options";
        Ok(self.run_checked(command, &[&range, "--"], SHORT)?.stdout)
    }

    pub fn has_merges(&mut self, base: &str, head: &str) -> Result<bool> {
        let range = format!("{base}..{head}");
        Ok(!self.line("rev-list --min-parents=2 --max-count=1", &[&range, "--"])?.is_empty())
    }

    /// Moves a ref only if it is still where the caller saw it; an empty `old` means that it must
    /// not exist.
    pub fn swap_ref(&mut self, name: &str, new: &str, old: &str) -> Result<bool> {
        let zero = "0".repeat(new.len());
        let old = if old.is_empty() { zero.as_str() } else { old };
        self.succeeds("update-ref -m banksman --no-deref", &[name, new, old])
    }

    /// Makes a branch that points to another one a branch of its own at the same commit, because
    /// whatever is written to it would change the other one. Returns whether it was such a branch.
    pub fn make_direct(&mut self, branch: &str) -> Result<bool> {
        let name = format!("refs/heads/{branch}");
        if !self.succeeds("symbolic-ref --quiet", &[&name])? {
            return Ok(false);
        }
        let (command, commit) = match self.commit_of(&name)? {
            Some(commit) => ("update-ref -m banksman --no-deref", Some(commit)),
            None => ("symbolic-ref --delete", None),
        };
        let args: Vec<&str> = [name.as_str()].into_iter().chain(commit.as_deref()).collect();
        self.run_checked(command, &args, SHORT)?;
        Ok(true)
    }

    pub fn delete_branch_at(&mut self, branch: &str, commit: &str) -> Result<()> {
        let name = format!("refs/heads/{branch}");
        let deleted = self.run_checked("update-ref --no-deref -d", &[&name, commit], SHORT);
        if deleted.is_err() && self.commit_of(&name)?.as_deref() == Some(commit) {
            return deleted.map(drop);
        }
        Ok(())
    }

    /// Fetches the base and the branch from a remote. A missing branch is not an error: a pattern
    /// may match nothing.
    pub fn fetch(&mut self, remote: &str, base: &str, branch: &str) -> Result<ProgramOutput> {
        let base = format!("+refs/heads/{base}:refs/remotes/{remote}/{base}");
        let branch = format!("+refs/heads/{branch}*:refs/remotes/{remote}/{branch}*");
        let command = "fetch --quiet --no-tags --no-write-fetch-head --no-recurse-submodules \
                       --end-of-options";
        self.run(command, &[remote, &base, &branch], None, FETCH)
    }

    // Worktrees.

    pub fn add_worktree(&mut self, path: &Path, on: CheckoutTarget<'_>) -> Result<()> {
        let (detach, revision) = on.parts();
        let command = format!("worktree add --quiet {detach} --end-of-options");
        self.run_checked(&command, &[text_of(path)?, revision], LONG).map(drop)
    }

    /// Creates a worktree's record for existing files, without touching them.
    pub fn add_empty_worktree(&mut self, path: &Path, commit: &str) -> Result<()> {
        let command = "worktree add --quiet --no-checkout --detach --end-of-options";
        self.run_checked(command, &[text_of(path)?, commit], SHORT).map(drop)
    }

    /// Removes a worktree's record, and its folder if it still exists.
    pub fn drop_worktree(&mut self, path: &Path) -> Result<()> {
        let command = "worktree remove --force --force --end-of-options";
        self.run_checked(command, &[text_of(path)?], LONG).map(drop)
    }

    pub fn worktrees(&mut self) -> Result<Vec<WorktreeEntry>> {
        let output = self.run_checked("worktree list --porcelain -z", &[], SHORT)?;
        let mut found: Vec<WorktreeEntry> = Vec::new();
        for field in output.stdout.split('\0') {
            if let Some(path) = field.strip_prefix("worktree ") {
                found.push(WorktreeEntry { path: PathBuf::from(path), branch: None });
            } else if let (Some(branch), Some(last)) =
                (field.strip_prefix("branch "), found.last_mut())
            {
                last.branch = Some(branch.to_owned());
            }
        }
        Ok(found)
    }

    /// Checks out a branch or a commit and discards what prevents it.
    pub fn force_checkout(&mut self, on: CheckoutTarget<'_>) -> Result<()> {
        // `--discard-changes` still refuses to overwrite untracked files, despite its manual.
        let (detach, revision) = on.parts();
        let command = format!("switch --quiet --force --no-guess {detach} --end-of-options");
        self.run_checked(&command, &[revision], LONG).map(drop)
    }

    /// Switches to a branch and keeps uncommitted work; false if that conflicts.
    pub fn switch_keeping_changes(&mut self, branch: &str) -> Result<bool> {
        self.succeeds("switch --quiet --no-guess --end-of-options", &[branch])
    }

    /// Sets the branch to `HEAD` and switches to it. Files and index stay as they are.
    pub fn set_branch_to_head(&mut self, branch: &str) -> Result<()> {
        self.run_checked("switch --quiet --no-track --force-create", &[branch], SHORT).map(drop)
    }

    /// Resets the index to the commit; files stay as they are.
    pub fn reset_index(&mut self) -> Result<()> {
        self.run_checked("reset --quiet --mixed", &[], LONG).map(drop)
    }

    /// Removes everything that the commit does not have, including ignored files and nested
    /// repositories.
    pub fn clean_all(&mut self) -> Result<()> {
        self.run_checked("clean --quiet -ffdx", &[], LONG).map(drop)
    }

    /// Removes files that are neither tracked nor ignored.
    pub fn clean_untracked(&mut self) -> Result<()> {
        self.run_checked("clean --quiet -fd", &[], LONG).map(drop)
    }

    pub fn fast_forward(&mut self, commit: &str) -> Result<ProgramOutput> {
        let command = "merge --quiet --ff-only --no-autostash --end-of-options";
        self.run(command, &[commit], None, LONG)
    }

    /// Moves the checked-out branch and its files to another commit, unless uncommitted work would
    /// be lost.
    pub fn reset_keep(&mut self, commit: &str) -> Result<bool> {
        Ok(self.run("reset --quiet --keep", &[full_id(commit)?], None, LONG)?.ok())
    }

    /// Moves the checked-out branch and its files to another commit. Uncommitted work is lost.
    pub fn reset_hard(&mut self, commit: &str) -> Result<()> {
        self.run_checked("reset --quiet --hard", &[full_id(commit)?], LONG).map(drop)
    }

    pub fn rebase(&mut self, onto: &str) -> Result<bool> {
        let command = "rebase --quiet --no-autostash --no-fork-point --no-update-refs --no-gpg-sign \
                       --end-of-options";
        Ok(self.run_as_author(command, &[onto], None, LONG)?.ok())
    }

    /// Aborts an unfinished operation: `rebase`, `merge`, `cherry-pick`, `revert`, `am`.
    pub fn abort(&mut self, operation: &str) -> Result<bool> {
        self.succeeds(operation, &["--abort"])
    }

    // Trees and commits.

    pub fn add_all(&mut self, except: &[String]) -> Result<ProgramOutput> {
        let except: Vec<String> =
            except.iter().map(|path| format!(":(exclude,literal,top){path}")).collect();
        let except: Vec<&str> = except.iter().map(String::as_str).collect();
        self.run("add --all --ignore-errors -- :/", &except, None, LONG)
    }

    /// None while the index contains a conflict.
    pub fn write_tree(&mut self) -> Result<Option<String>> {
        self.optional_line("write-tree", &[])
    }

    pub fn commit_index(&mut self, message: &str) -> Result<()> {
        let command = "commit --quiet --no-verify --cleanup=whitespace --file=-";
        let output = self.run_as_author(command, &[], Some(message), LONG)?;
        checked("git commit", output).map(drop)
    }

    pub fn commit_tree(&mut self, tree: &str, parents: &[&str], message: &str) -> Result<String> {
        let mut args: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
        args.extend(["-F", "-", tree]);
        let output = self.run_as_author("commit-tree", &args, Some(message), SHORT)?;
        Ok(checked("git commit-tree", output)?.stdout.trim().to_owned())
    }

    pub fn merge_tree(&mut self, base: &str, branch: &str) -> Result<MergeTree> {
        let command = "merge-tree --write-tree --name-only --no-messages --end-of-options";
        let output = self.run(command, &[base, branch], None, LONG)?;
        let mut lines = output.stdout.lines();
        match output.exit.code {
            Some(0) => Ok(MergeTree::Clean { tree: lines.next().unwrap_or_default().to_owned() }),
            Some(1) => {
                let paths = lines.skip(1).map(|path| shown(&quoted::unquote(path))).collect();
                Ok(MergeTree::Conflict { paths })
            }
            Some(_) | None => Err(failure("git merge-tree", &output)),
        }
    }

    /// How many lines are as git marks a conflict, in the files of these that have any, in a commit
    /// or in the worktree.
    pub fn conflict_markers(
        &mut self,
        commit: Option<&str>,
        paths: &[String],
    ) -> Result<BTreeMap<String, u32>> {
        let literal: Vec<String> =
            paths.iter().map(|path| format!(":(top,literal){path}")).collect();
        let mut args: Vec<&str> = commit.map(full_id).transpose()?.into_iter().collect();
        args.push("--");
        args.extend(literal.iter().map(String::as_str));
        let command = "grep --count --text --no-textconv -E \
                       -e ^<{7}[[:space:]] -e ^>{7}[[:space:]]";
        let found = self.answer(command, &args)?;
        // It exits with 1 if it finds nothing.
        if !matches!(found.exit.code, Some(0 | 1)) {
            return Err(failure("git grep", &found));
        }
        let before = commit.map_or_else(String::new, |commit| format!("{commit}:"));
        let read = |line: &str| {
            let (path, count) = line.strip_prefix(&before)?.rsplit_once(':')?;
            Some((shown(&quoted::unquote(path)), count.parse().ok()?))
        };
        Ok(found.stdout.lines().filter_map(read).collect())
    }

    // Running.

    // `command` is ours and has words without spaces; `args` follow it, one word each.

    /// Uses the identity that the repository or its user has configured; otherwise ours.
    fn run_as_author(
        &mut self,
        command: &str,
        args: &[&str],
        stdin: Option<&str>,
        timeout: Duration,
    ) -> Result<ProgramOutput> {
        if self.succeeds("config --get user.email", &[])? {
            return self.run(command, args, stdin, timeout);
        }
        self.run(&format!("-c {NAME} -c {EMAIL} {command}"), args, stdin, timeout)
    }

    /// Whether git exits with 0.
    fn succeeds(&mut self, command: &str, args: &[&str]) -> Result<bool> {
        Ok(self.answer(command, args)?.ok())
    }

    /// One line of output; none if git fails or prints nothing.
    fn optional_line(&mut self, command: &str, args: &[&str]) -> Result<Option<String>> {
        let output = self.answer(command, args)?;
        let line = output.stdout.trim_end_matches('\n');
        Ok((output.ok() && !line.is_empty()).then(|| line.to_owned()))
    }

    /// A git that was killed or timed out did not answer "no".
    fn answer(&mut self, command: &str, args: &[&str]) -> Result<ProgramOutput> {
        let output = self.run(command, args, None, SHORT)?;
        if output.exit.code.is_some() { Ok(output) } else { Err(failure("git", &output)) }
    }

    fn line(&mut self, command: &str, args: &[&str]) -> Result<String> {
        Ok(self.run_checked(command, args, SHORT)?.stdout.trim_end_matches('\n').to_owned())
    }

    fn run_checked(
        &mut self,
        command: &str,
        args: &[&str],
        timeout: Duration,
    ) -> Result<ProgramOutput> {
        let output = self.run(command, args, None, timeout)?;
        let (name, _) = command.split_once(' ').unwrap_or((command, ""));
        checked(&format!("git {name}"), output)
    }

    fn run(
        &mut self,
        command: &str,
        args: &[&str],
        stdin: Option<&str>,
        timeout: Duration,
    ) -> Result<ProgramOutput> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
        let args = settings.chain(command.split_whitespace()).chain(args.iter().copied());
        let program = Program {
            stdin: stdin.map(str::to_owned),
            timeout,
            keep: KEEP_BYTES,
            ..Program::new("git", args, &self.folder, &self.env)
        };
        let mut output = self.runner.run(&program)?;
        for _ in 0..RECORD_TRIES {
            if output.ok() || !is_of_changing_record(&output.stderr) {
                break;
            }
            std::thread::sleep(RECORD_PAUSE);
            output = self.runner.run(&program)?;
        }
        if !output.ok() && repair_record(&self.folder, &output.stderr) {
            output = self.runner.run(&program)?;
        }
        Ok(output)
    }
}

/// Repairs a worktree's record that a killed git left with an empty `commondir`, at which every git
/// that reads all worktrees fails. Writes what git itself would have written, the only content that
/// the file ever has. Returns whether there was such a file.
fn repair_record(folder: &Path, stderr: &str) -> bool {
    let unread = stderr.split_once("failed to read ").and_then(|(_, rest)| rest.split_once(": "));
    let Some((file, _)) = unread else { return false };
    let file = folder.join(file);
    let is_record = file.ends_with("commondir") && file.iter().any(|part| part == "worktrees");
    let is_empty =
        || file.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
    is_record && is_empty() && fs::write(&file, "../..\n").is_ok()
}

/// A path as a command line argument.
fn text_of(path: &Path) -> Result<&str> {
    let failed =
        || RunError::failed("reading a path", format!("`{}` is not UTF-8", path.display()));
    path.to_str().ok_or_else(failed)
}

fn checked(what: &str, output: ProgramOutput) -> Result<ProgramOutput> {
    if output.ok() { Ok(output) } else { Err(failure(what, &output)) }
}

/// The reason is at the end of git's output.
pub(super) fn failure(what: &str, output: &ProgramOutput) -> RunError {
    let message = message_of(output);
    let detail = if output.timed_out { format!("it timed out. {message}") } else { message };
    RunError::failed(what, detail)
}

pub(super) fn message_of(output: &ProgramOutput) -> String {
    let words =
        [output.stderr.trim(), output.stdout.trim()].into_iter().find(|text| !text.is_empty());
    let words = words.unwrap_or("no output");
    let skip = words.chars().count().saturating_sub(DETAIL_CHARS);
    words.chars().skip(skip).collect()
}

/// What git prints if it reads all worktrees while another git writes or removes the record of one.
/// Nothing else distinguishes this from a real fault, and it passes in a moment.
fn is_of_changing_record(stderr: &str) -> bool {
    const MESSAGES: [[&str; 2]; 2] =
        [["failed to read", "/worktrees/"], ["No such file or directory", ".git/worktrees/"]];
    MESSAGES.iter().any(|parts| parts.iter().all(|part| stderr.contains(part)))
}
