//! Which files a commit has, and which patterns keep files of a worktree out of one.

use std::collections::BTreeSet;
use std::path::Path;

use super::quoted::unquote;
use super::steps::WORK_ONLY;
use super::{Git, LONG, full_id, shown};
use crate::exec::process::Result;

impl Git<'_> {
    /// Those of these paths that are files in a commit.
    pub fn paths_in(&mut self, commit: &str, paths: &[&str]) -> Result<BTreeSet<Vec<u8>>> {
        let args = [&[full_id(commit)?, "--"], paths].concat();
        let listed = self.run_checked("ls-tree -r --name-only --full-tree", &args, LONG)?;
        Ok(listed.stdout.lines().map(unquote).collect())
    }

    /// The file and the line of the pattern that makes git ignore a path.
    pub fn ignored_by(&mut self, path: &str) -> Result<Option<String>> {
        let found = self.optional_line("check-ignore --verbose --", &[path])?;
        let place = found.as_deref().and_then(|found| found.split('\t').next()?.rsplit_once(':'));
        // The pattern itself may contain a colon.
        let place = place.map(|(place, _)| place.splitn(3, ':').take(2).collect::<Vec<_>>());
        Ok(place.map(|parts| parts.join(":")))
    }

    /// Files that one list of ignored files hides, and neither an earlier one nor `.gitignore`.
    pub fn hidden_since(&mut self, then: &Path, now: &Path) -> Result<Vec<String>> {
        let from = |list: &Path| format!("--exclude-from={}", list.display());
        let (then, now) = (from(then), from(now));
        let args = [&[then.as_str(), "--"], &WORK_ONLY[..]].concat();
        let command = "ls-files --others --exclude-per-directory=.gitignore";
        let shown_then = self.run_checked(command, &args, LONG)?.stdout;
        let shown_then: BTreeSet<&str> = shown_then.lines().collect();
        let args = [&[now.as_str(), "--"], &WORK_ONLY[..]].concat();
        let hidden = self.run_checked("ls-files --others --ignored", &args, LONG)?.stdout;
        let new = hidden.lines().filter(|path| shown_then.contains(path));
        Ok(new.map(|path| shown(&unquote(path))).collect())
    }
}
