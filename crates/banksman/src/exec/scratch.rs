//! Creates a repository from scratch, for the demo.

use std::path::Path;

use super::process::{Program, RunError, Runner};

/// Makes a repository of a folder's files, with one commit on `main`.
pub fn repository(runner: &mut dyn Runner, folder: &Path, message: &str) -> Result<(), RunError> {
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
        let program = Program::new("git", args.iter().copied(), folder, runner.env());
        let output = runner.run(&program)?;
        if !output.ok() {
            let what = format!("`git {}`", args.join(" "));
            return Err(RunError::failed(what, output.stderr.trim()));
        }
    }
    Ok(())
}
