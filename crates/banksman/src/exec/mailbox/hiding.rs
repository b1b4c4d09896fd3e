//! Hides the mailbox from git through `info/exclude`, because `.gitignore` files belong to people.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use super::super::files::if_exists;
use super::super::git::MAILBOX;

/// In the repository's git folder, for all its worktrees, and never committed.
pub(super) const EXCLUDE: &str = "info/exclude";
/// Larger than any hand-written list of ignored files.
const EXCLUDE_BYTES: u64 = 1024 * 1024;

/// Makes git ignore the mailbox in all worktrees of a repository, so that `git add --all` does not
/// include it. `common` is the repository's git folder.
pub(in crate::exec) fn hide_from_git(common: &Path) -> io::Result<()> {
    let path = common.join(EXCLUDE);
    let mut known = String::new();
    match if_exists(File::open(&path))? {
        Some(file) => drop(file.take(EXCLUDE_BYTES).read_to_string(&mut known)?),
        None => fs::create_dir_all(common.join("info"))?,
    }
    let lines = MAILBOX.map(|folder| format!("/{folder}/"));
    let missing: Vec<&String> =
        lines.iter().filter(|line| !known.lines().any(|known| known == line.as_str())).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
    let mut text = format!("{gap}# Files that the steps of a workflow exchange.\n");
    for line in missing {
        text.push_str(line);
        text.push('\n');
    }
    // One write: two processes that do this at once leave duplicate lines at worst, never partial
    // ones.
    OpenOptions::new().create(true).append(true).open(&path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailbox_is_hidden_once() {
        let common = tempfile::tempdir().unwrap();
        let list = common.path().join(EXCLUDE);
        fs::create_dir(common.path().join("info")).unwrap();
        // An earlier version listed fewer folders.
        fs::write(&list, "/.workflow/signals/\n*.log").unwrap();
        hide_from_git(common.path()).unwrap();
        hide_from_git(common.path()).unwrap();
        let text = fs::read_to_string(&list).unwrap();
        assert!(text.starts_with("/.workflow/signals/\n*.log\n#"), "{text}");
        for folder in MAILBOX {
            assert_eq!(text.matches(&format!("/{folder}/\n")).count(), 1, "{text}");
        }
        fs::remove_dir_all(common.path().join("info")).unwrap();
        hide_from_git(common.path()).unwrap();
        assert!(list.exists());
    }

    #[test]
    fn the_gitignore_lists_exactly_the_mailbox() {
        let mut ignored: Vec<String> =
            super::super::IGNORED.lines().map(|line| format!(".workflow{line}")).collect();
        ignored.sort();
        let mut mailbox = MAILBOX.map(|folder| format!("{folder}/"));
        mailbox.sort();
        assert_eq!(ignored, mailbox);
    }
}
