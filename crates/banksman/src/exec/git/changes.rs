//! The changes between two commits, without the mailbox of a workflow.

use super::quoted::unquote;
use super::steps::WORK_ONLY;
use super::{Git, LONG};
use crate::exec::process::Result;

/// git's mode for a symbolic link.
pub const LINK_MODE: &str = "120000";
/// git's mode for a commit of another repository.
pub const SUBMODULE_MODE: &str = "160000";
/// git's mode for a path that does not exist.
const GONE_MODE: &str = "000000";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    pub path: Vec<u8>,
    /// After the change; all zeros for a deleted path.
    pub mode: String,
    pub object: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitChanges {
    /// Contains both names of a renamed or copied file.
    pub list: Vec<ChangedPath>,
    pub files: u32,
    pub insertions: u32,
    pub deletions: u32,
    /// Whether the output was truncated.
    pub cut: bool,
}

impl Git<'_> {
    pub fn changes(&mut self, base: &str, head: &str) -> Result<CommitChanges> {
        let command = "diff --raw --no-abbrev --shortstat --find-renames --no-ext-diff \
                       --no-textconv --ignore-submodules=none --end-of-options";
        let args = [&[base, head, "--"], &WORK_ONLY[..]].concat();
        let output = self.run_checked(command, &args, LONG)?;
        let mut changes = CommitChanges { cut: output.cut, ..CommitChanges::default() };
        for line in output.stdout.lines() {
            match line.strip_prefix(':') {
                Some(entry) => read_entry(&mut changes, entry),
                None => read_totals(&mut changes, line),
            }
        }
        Ok(changes)
    }
}

/// Parses `MODE MODE OBJECT OBJECT STATUS`, then the paths, each after a tab.
fn read_entry(changes: &mut CommitChanges, entry: &str) {
    let mut parts = entry.split('\t');
    let facts: Vec<&str> = parts.next().unwrap_or_default().split(' ').collect();
    let (Some(mode), Some(object)) = (facts.get(1), facts.get(3)) else { return };
    let paths: Vec<&str> = parts.collect();
    let Some((now, before)) = paths.split_last() else { return };
    let change = |path: &str, mode: &str| ChangedPath {
        path: unquote(path),
        mode: mode.to_owned(),
        object: (*object).to_owned(),
    };
    changes.list.extend(before.iter().map(|path| change(path, GONE_MODE)));
    changes.list.push(change(now, mode));
}

/// Parses ` 3 files changed, 10 insertions(+), 2 deletions(-)`; git omits zeros.
fn read_totals(changes: &mut CommitChanges, line: &str) {
    for part in line.split(',') {
        let Some((count, what)) = part.trim().split_once(' ') else { continue };
        let Ok(count) = count.parse() else { continue };
        if what.starts_with("file") {
            changes.files = count;
        } else if what.starts_with("insertion") {
            changes.insertions = count;
        } else if what.starts_with("deletion") {
            changes.deletions = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_a_rename_are_changes() {
        let mut changes = CommitChanges::default();
        read_entry(&mut changes, "100644 120000 aa bb R090\told\t\"n\\303\\244\"");
        read_totals(&mut changes, " 1 file changed, 2 insertions(+), 1 deletion(-)");
        let side = |path: &[u8], mode: &str| ChangedPath {
            path: path.to_vec(),
            mode: mode.to_owned(),
            object: "bb".to_owned(),
        };
        assert_eq!(changes.list, [side(b"old", GONE_MODE), side("nä".as_bytes(), LINK_MODE)]);
        assert_eq!((changes.files, changes.insertions, changes.deletions), (1, 2, 1));
    }

    #[test]
    fn other_lines_are_not_totals() {
        let mut changes = CommitChanges::default();
        read_totals(&mut changes, "warning: nothing, really 3 x");
        assert_eq!(changes, CommitChanges::default());
    }
}
