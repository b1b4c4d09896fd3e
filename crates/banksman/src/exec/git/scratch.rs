//! Creates a repository from scratch, for the demo.

use super::{EMAIL, Git, LONG, NAME, Result, SHORT};

/// Settings of the repository: its agents commit by themselves, and whoever runs the demo may sign
/// commits, run hooks or ignore files everywhere.
const OWN_SETTINGS: [[&str; 2]; 5] = [
    ["user.name", "Scripted Agent"],
    ["user.email", "agent@localhost"],
    ["commit.gpgSign", "false"],
    ["core.hooksPath", "/dev/null"],
    ["core.excludesFile", "/dev/null"],
];

impl Git<'_> {
    /// Makes a repository of the folder's files, with one commit on `main`.
    pub fn create_repository(&mut self, message: &str) -> Result<()> {
        self.run_checked("init --quiet --initial-branch=main", &[], SHORT)?;
        for setting in OWN_SETTINGS {
            self.run_checked("config", &setting, SHORT)?;
        }
        self.run_checked("add --all", &[], LONG)?;
        let command = format!("-c {NAME} -c {EMAIL} commit --quiet");
        self.run_checked(&command, &["--message", message], LONG).map(drop)
    }
}
