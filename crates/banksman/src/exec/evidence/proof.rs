//! Runs the commands that verify the work, on exactly the commit in question.

use std::path::Path;
use std::time::Duration;

use banksman_core::limits::CHECK_TAIL_BYTES;
use banksman_core::receipt::{CheckResult, ProcessExit};

use crate::exec::git::Git;
use crate::exec::job::Verification;
use crate::exec::process::{Result, Runner};
use crate::exec::worktree::run_shell;

/// The results of the checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckProof {
    /// In order, up to the first that failed.
    pub checks: Vec<CheckResult>,
    /// Why none ran.
    pub skipped: Option<String>,
}

impl CheckProof {
    /// Whether all commands passed.
    pub fn all_passed(&self, checks: &Verification) -> bool {
        self.checks.len() == checks.commands.len() && self.checks.iter().all(CheckResult::passed)
    }
}

/// Runs the commands in order. They do not run on a tree with uncommitted files, which could not be
/// merged. A command that moves the head or changes tracked files has failed, whatever its exit
/// code.
pub fn run_checks(
    runner: &mut dyn Runner,
    worktree: &Path,
    checks: &Verification,
) -> Result<CheckProof> {
    let mut proof = CheckProof::default();
    let status = Git::at(runner, worktree).status()?;
    let Some(head) = status.head.as_deref().filter(|_| status.is_clean()) else {
        proof.skipped = Some("there are uncommitted files".to_owned());
        return Ok(proof);
    };
    for command in &checks.commands {
        let check = run_one(runner, worktree, (command, checks.timeout_ms), head)?;
        let has_passed = check.passed();
        proof.checks.push(check);
        if !has_passed {
            break;
        }
    }
    // The next attempt would take files that the checks left for work. There were none before.
    Git::at(runner, worktree).clean_untracked()?;
    Ok(proof)
}

fn run_one(
    runner: &mut dyn Runner,
    worktree: &Path,
    (command, timeout_ms): (&str, i64),
    head: &str,
) -> Result<CheckResult> {
    let mut check = CheckResult {
        head: head.to_owned(),
        ..run_command(runner, worktree, (command, timeout_ms))?
    };
    if !check.passed() {
        return Ok(check);
    }
    let mut git = Git::at(runner, worktree);
    if git.commit_of("HEAD")?.as_deref() != Some(head) {
        mark_failed(&mut check, "it moved the head, so it proves nothing about the commit");
    } else if git.has_tracked_changes()? {
        mark_failed(&mut check, "it changed tracked files, so it proves nothing about the commit");
    }
    Ok(check)
}

/// Runs a command on the files as they are, so the result proves nothing about a commit.
pub fn run_command(
    runner: &mut dyn Runner,
    folder: &Path,
    (command, timeout_ms): (&str, i64),
) -> Result<CheckResult> {
    let timeout = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    // One stream for both, so that the tail keeps the order of the output.
    let one_stream = format!("exec 2>&1\n{command}");
    let output = run_shell(runner, &one_stream, folder, timeout, CHECK_TAIL_BYTES)?;
    let mut check = CheckResult {
        command: command.to_owned(),
        head: String::new(),
        exit: output.exit,
        millis: output.millis,
        tail: output.stdout.trim_end().to_owned(),
    };
    if output.timed_out {
        mark_failed(&mut check, &format!("it timed out after {} s", timeout.as_secs()));
    }
    Ok(check)
}

fn mark_failed(check: &mut CheckResult, why: &str) {
    check.exit = ProcessExit { code: None, ..check.exit };
    let gap = if check.tail.is_empty() { "" } else { "\n" };
    check.tail = format!("{}{gap}({why})", check.tail);
}
