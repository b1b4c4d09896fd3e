//! Creates a repository from scratch, for the demo.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::process::{PlainRunner, Program, RunError, Runner};

#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("`git {command}` failed: {stderr}")]
    Git { command: String, stderr: String },
}

/// Makes a repository of a folder's files, with one commit on `main`. `env` needs a PATH.
pub fn repository(
    folder: &Path,
    message: &str,
    env: &BTreeMap<String, String>,
) -> Result<(), ScratchError> {
    let identity = ["-c", "user.name=Banksman", "-c", "user.email=banksman@localhost"];
    let commit = [&identity[..], &["commit", "--quiet", "--message", message]].concat();
    for args in [&["init", "--quiet", "--initial-branch=main"][..], &["add", "--all"], &commit] {
        git(folder, args, env)?;
    }
    // Agents commit in its worktrees, even where git has no configured identity.
    git(folder, &["config", "user.name", "Scripted Agent"], env)?;
    git(folder, &["config", "user.email", "agent@localhost"], env)
}

fn git(folder: &Path, args: &[&str], env: &BTreeMap<String, String>) -> Result<(), ScratchError> {
    let program = Program {
        program: "git".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        folder: folder.to_owned(),
        env: env.clone(),
        stdin: None,
        timeout: Duration::from_secs(30),
        keep: 4_096,
    };
    let output = PlainRunner.run(&program)?;
    if output.ok() {
        return Ok(());
    }
    Err(ScratchError::Git { command: args.join(" "), stderr: output.stderr.trim().to_owned() })
}
