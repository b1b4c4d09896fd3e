//! Verifies work in the folder where a person did it: it creates no worktree and changes nothing
//! there.

use std::path::Path;

use banksman_core::receipt::Evidence;

use super::super::evidence::run_command;
use super::super::files;
use super::super::job::{JobResult, Verification};
use super::Keeper;
use super::status::Stage;

impl Keeper {
    /// Runs the commands only if no file is missing: otherwise they could not add anything.
    pub(super) fn inspect(&mut self, folder: &Path, checks: &Verification) -> JobResult<()> {
        self.confirm_lease()?;
        self.status_file.status.stage = Stage::Evidence;
        let mut found = Evidence { missing: missing(folder, checks), ..Evidence::default() };
        for command in checks.commands.iter().filter(|_| found.missing.is_empty()) {
            let check = run_command(self, folder, (command, checks.timeout_ms))?;
            let has_passed = check.passed();
            found.checks.push(check);
            if !has_passed {
                break;
            }
        }
        self.receipt.evidence = Some(found);
        Ok(())
    }
}

fn missing(folder: &Path, checks: &Verification) -> Vec<String> {
    if !folder.is_dir() {
        return vec![format!("{} (no such folder)", folder.display())];
    }
    files::missing(folder, &checks.outputs, &checks.files)
}
