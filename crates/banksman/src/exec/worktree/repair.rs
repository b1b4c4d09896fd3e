//! Repairs what git cannot read of a worktree: its `HEAD`, its branch, its index. An agent or a
//! crash may have damaged one, and every attempt would fail in the same way.
//!
//! Files and commits stay as they are.

use std::fs;
use std::path::Path;

use super::{WorktreeJob, link};
use crate::exec::files::{self, AtPath, remove_if_exists};
use crate::exec::process::{Result, RunError};

impl WorktreeJob<'_> {
    /// Returns what was repaired, for people.
    pub(in crate::exec) fn repair(&mut self, record: &Path) -> Result<Option<String>> {
        let branch = &self.workspace.branch;
        let mut repaired = Vec::new();
        let head = record.join("HEAD");
        if !link::read_small(&head).is_ok_and(|text| is_ref(&text)) {
            let text = format!("ref: refs/heads/{branch}\n");
            files::replace(&head, text.as_bytes()).during("restoring", &head)?;
            repaired.push("its HEAD");
        }
        // A branch that is gone is restored at its last commit.
        let own = self.common.join("refs/heads").join(branch);
        if link::read_small(&own).is_ok_and(|text| !is_ref(&text)) {
            fs::remove_file(&own).during("removing", &own)?;
            repaired.push("its branch");
        }
        match self.git().show_hidden_changes() {
            Err(RunError::Failed { .. }) => {
                let index = record.join("index");
                remove_if_exists(&index).during("removing", &index)?;
                self.git().reset_index()?;
                repaired.push("its index");
            }
            seen => seen?,
        }
        let what = repaired.join(" and ");
        Ok((!what.is_empty()).then(|| format!("{what} could not be read and was made again")))
    }
}

/// Whether a file can be a ref: the name of another one, or the id of a commit.
fn is_ref(text: &str) -> bool {
    let text = text.trim_end();
    let is_id = || text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.starts_with("ref: refs/") || is_id()
}
