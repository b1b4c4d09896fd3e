//! Creates a repository from scratch, for the demo.

use std::collections::BTreeMap;
use std::path::Path;

use super::process::{PlainRunner, Program, RunError, Runner};

/// Makes a repository of a folder's files, with one commit on `main`. `env` needs a PATH.
pub fn repository(
    folder: &Path,
    message: &str,
    env: &BTreeMap<String, String>,
) -> Result<(), RunError> {
    let identity = ["-c", "user.name=Banksman", "-c", "user.email=banksman@localhost"];
    let commit = [&identity[..], &["commit", "--quiet", "--message", message]].concat();
    let commands = [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["add", "--all"],
        &commit,
        // Agents commit in its worktrees, even where git has no configured identity.
        &["config", "user.name", "Scripted Agent"],
        &["config", "user.email", "agent@localhost"],
    ];
    for args in commands {
        let program = Program::new("git", args.iter().copied(), folder, env);
        let output = PlainRunner.run(&program)?;
        if !output.ok() {
            let what = format!("`git {}`", args.join(" "));
            return Err(RunError::Failed { what, detail: output.stderr.trim().to_owned() });
        }
    }
    Ok(())
}
