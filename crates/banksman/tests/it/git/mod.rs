//! Worktrees, evidence, merges and removal with the real git, in folders of their own: the user's
//! settings of git play no part.

mod bringing;
mod evidence;
mod faults;
mod mailbox;
mod merging;
mod preparing;
mod removal;
mod running;
mod showing;
mod speed;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use banksman::exec::evidence::gather;
use banksman::exec::job::{Verification, Workspace};
use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};
use banksman::exec::worktree::removal::{Removed, remove};
use banksman::exec::worktree::{PreparedWorktree, prepare};
use banksman_core::receipt::{EndCause, Evidence, PrepareFault};

/// Runs git as somebody who is nobody of this machine, and answers with what it prints.
pub(crate) fn git_with(env: BTreeMap<String, String>, folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Someone", "-c", "user.email=someone@localhost"])
        .args(args)
        .current_dir(folder)
        .env_clear()
        .envs(env)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {said}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A repository with one commit on `main`, which is checked out in it.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        let repo = world.repo();
        fs::create_dir_all(repo.join("src")).unwrap();
        world.git(world.root(), &["init", "--quiet", "-b", "main", "app repo"]);
        // A test that is cut short loses nothing, and hundreds of flushes would measure the disk.
        world.git(&repo, &["config", "core.fsync", "none"]);
        fs::write(repo.join("README.md"), "hello\n").unwrap();
        fs::write(repo.join("src/a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(repo.join(".gitignore"), "ignored/\n").unwrap();
        world.commit_in(&repo, "first");
        world
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn repo(&self) -> PathBuf {
        self.root().join("app repo")
    }

    fn spare(&self) -> PathBuf {
        self.root().join("home/worktrees/.spare")
    }

    fn env(&self) -> BTreeMap<String, String> {
        let home = self.root().join("user");
        fs::create_dir_all(&home).unwrap();
        let pair = |name: &str, value: String| (name.to_owned(), value);
        BTreeMap::from([
            pair("HOME", home.to_string_lossy().into_owned()),
            pair("PATH", std::env::var("PATH").unwrap()),
            pair("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ])
    }

    fn runner(&self) -> PlainRunner {
        PlainRunner { env: self.env() }
    }

    fn workspace(&self, task: &str) -> Workspace {
        Workspace {
            task: task.to_owned(),
            repo: self.repo(),
            worktree: self.root().join("home/worktrees/app").join(task),
            branch: format!("banksman/{task}"),
            base: "main".to_owned(),
            remote: None,
            setup: None,
            spare: self.spare(),
            merges_in: Vec::new(),
            left_out: Default::default(),
            since: banksman_core::time::Instant(1),
            has_begun: true,
            retry: Vec::new(),
        }
    }

    /// Adds a repository that ours fetches from.
    fn add_remote(&self) -> PathBuf {
        let remote = self.root().join("remote.git");
        self.git(self.root(), &["clone", "--quiet", "--bare", "app repo", "remote.git"]);
        self.git(&self.repo(), &["remote", "add", "origin", remote.to_str().unwrap()]);
        self.git(&self.repo(), &["fetch", "--quiet", "origin"]);
        remote
    }

    fn git(&self, folder: &Path, args: &[&str]) -> String {
        git_with(self.env(), folder, args)
    }

    fn commit_in(&self, folder: &Path, message: &str) -> String {
        self.git(folder, &["add", "--all"]);
        self.git(folder, &["commit", "--quiet", "-m", message]);
        self.git(folder, &["rev-parse", "HEAD"])
    }

    /// Writes a file and commits it.
    fn work(&self, folder: &Path, file: &str, text: &str) -> String {
        write(&folder.join(file), text);
        self.commit_in(folder, file)
    }

    fn rev(&self, name: &str) -> String {
        self.git(&self.repo(), &["rev-parse", "--verify", name])
    }

    fn has_ref(&self, name: &str) -> bool {
        !self.git(&self.repo(), &["for-each-ref", name]).is_empty()
    }

    fn try_prepare(&self, workspace: &Workspace) -> Result<PreparedWorktree, NotPrepared> {
        prepare(&mut self.runner(), workspace).map_err(|ended| match ended {
            EndCause::NotPrepared { detail, class } => NotPrepared { class, detail },
            other => panic!("{other:?}"),
        })
    }

    fn prepare(&self, workspace: &Workspace) -> PreparedWorktree {
        self.try_prepare(workspace).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn gather(
        &self,
        workspace: &Workspace,
        prepared: &PreparedWorktree,
        checks: &Verification,
    ) -> Evidence {
        gather(&mut self.runner(), workspace, prepared, checks, Some("what was left\n")).unwrap()
    }

    fn remove(&self, workspace: &Workspace) -> Removed {
        remove(&mut self.runner(), workspace).unwrap()
    }

    fn status(&self, folder: &Path) -> String {
        self.git(folder, &["status", "--porcelain"])
    }
}

#[derive(Debug)]
struct NotPrepared {
    class: PrepareFault,
    detail: String,
}

impl std::fmt::Display for NotPrepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn checks(commands: &[&str]) -> Verification {
    Verification {
        commands: commands.iter().map(|command| (*command).to_owned()).collect(),
        timeout_ms: 20_000,
        ..Verification::default()
    }
}

fn said(notes: &[String], part: &str) -> bool {
    notes.iter().any(|note| note.contains(part))
}

/// Another git that has locked the checkout's index, and is done when somebody has waited for it
/// this often.
struct LocksIndex<'a> {
    plain: PlainRunner,
    world: &'a World,
    waits: u32,
}

impl Runner for LocksIndex<'_> {
    fn env(&self) -> &BTreeMap<String, String> {
        self.plain.env()
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput, RunError> {
        if program.program != "sleep" {
            return self.plain.run(program);
        }
        self.waits = self.waits.saturating_sub(1);
        if self.waits == 0 {
            fs::remove_file(self.world.repo().join(".git/index.lock")).unwrap();
        }
        self.plain.run(&Program { program: "true".to_owned(), ..program.clone() })
    }
}
