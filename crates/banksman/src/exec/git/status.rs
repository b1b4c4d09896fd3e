//! How a worktree differs from its commit, without the mailbox of a workflow.

use super::quoted::{shown, unquote};
use super::steps::WORK_ONLY;
use super::{Git, LONG};
use crate::exec::process::Result;

/// The most paths in one command line.
const MAX_PATHS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// None on a branch without commits.
    pub head: Option<String>,
    /// None on a detached head.
    pub branch: Option<String>,
    pub tracked: Vec<Vec<u8>>,
    /// The tracked paths that nobody has merged yet although git could not, because one side has
    /// not the file, rather than other lines in it.
    pub one_sided: Vec<Vec<u8>>,
    pub untracked: Vec<Vec<u8>>,
    /// Nested repositories, which git does not look into, with a trailing slash.
    pub nested: Vec<Vec<u8>>,
    /// Whether the output was truncated.
    pub cut: bool,
}

impl Status {
    pub fn is_clean(&self) -> bool {
        !self.cut && self.tracked.is_empty() && self.untracked.is_empty() && self.nested.is_empty()
    }

    pub fn paths(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.tracked.iter().chain(&self.untracked)
    }
}

impl Git<'_> {
    pub fn status(&mut self) -> Result<Status> {
        let command = "status --porcelain=v2 --branch --no-ahead-behind --no-renames \
                       --untracked-files=all --";
        let output = self.run_checked(command, &WORK_ONLY, LONG)?;
        let mut status = Status { cut: output.cut, ..Status::default() };
        for line in output.stdout.lines() {
            read_line(&mut status, line);
        }
        if output.cut {
            // The first lines, which name the head, were dropped.
            status.head = self.commit_of("HEAD")?;
            status.branch = self.optional_line("symbolic-ref --quiet --short HEAD", &[])?;
        }
        Ok(status)
    }

    /// Whether the index contains a conflict.
    pub fn has_unmerged(&mut self) -> Result<bool> {
        Ok(!self.run_checked("ls-files --unmerged", &[], LONG)?.stdout.is_empty())
    }

    /// Has git see changes again that it was told to overlook, in files that are there: to those,
    /// nothing else lends such a mark a meaning.
    pub fn show_hidden_changes(&mut self) -> Result<()> {
        let listed = self.run_checked("ls-files -v --full-name", &[":/"], LONG)?.stdout;
        let marked = listed.lines().filter_map(|line| line.split_once(' '));
        let marked = marked.filter(|(mark, _)| !matches!(*mark, "H" | "M"));
        let names = marked.map(|(_, path)| shown(&unquote(path)));
        let names: Vec<String> =
            names.filter(|name| self.folder.join(name).symlink_metadata().is_ok()).collect();
        for some in names.chunks(MAX_PATHS) {
            let paths: Vec<&str> = some.iter().map(String::as_str).collect();
            self.run_checked("update-index --no-assume-unchanged --", &paths, LONG)?;
            self.run_checked("update-index --no-skip-worktree --", &paths, LONG)?;
        }
        Ok(())
    }

    /// Whether a tracked file differs from the commit.
    pub fn has_tracked_changes(&mut self) -> Result<bool> {
        let command = "status --porcelain=v2 --untracked-files=no --";
        let output = self.run_checked(command, &WORK_ONLY, LONG)?;
        Ok(!output.stdout.is_empty())
    }
}

fn read_line(status: &mut Status, line: &str) {
    if let Some(head) = line.strip_prefix("# branch.oid ") {
        status.head = (head != "(initial)").then(|| head.to_owned());
    } else if let Some(branch) = line.strip_prefix("# branch.head ") {
        status.branch = (branch != "(detached)").then(|| branch.to_owned());
    } else if let Some(path) = line.strip_prefix("? ") {
        let path = unquote(path);
        let side = if path.ends_with(b"/") { &mut status.nested } else { &mut status.untracked };
        side.push(path);
    } else {
        // The fields before the path of a changed or an unmerged entry.
        let before_path = match line.split_once(' ') {
            Some(("1", _)) => 8,
            Some(("u", _)) => 10,
            Some(_) | None => return,
        };
        let Some(path) = line.splitn(before_path + 1, ' ').last().map(unquote) else { return };
        if before_path == 10 && !["u UU ", "u AA "].iter().any(|both| line.starts_with(both)) {
            status.one_sided.push(path.clone());
        }
        status.tracked.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_read() {
        let mut status = Status::default();
        let lines = "# branch.oid 1234\n# branch.head a/b\n1 .M N... 100644 100644 100644 aa bb a file\n\
                     u UU N... 100644 100644 100644 100644 aa bb cc in conflict\n\
                     u DU N... 100644 100644 100644 100644 aa bb cc gone there\n\
                     ? \"new\\nfile\"\n? inner/\n# other x\n";
        lines.lines().for_each(|line| read_line(&mut status, line));
        let expected = Status {
            head: Some("1234".to_owned()),
            branch: Some("a/b".to_owned()),
            tracked: vec![b"a file".to_vec(), b"in conflict".to_vec(), b"gone there".to_vec()],
            one_sided: vec![b"gone there".to_vec()],
            untracked: vec![b"new\nfile".to_vec()],
            nested: vec![b"inner/".to_vec()],
            cut: false,
        };
        assert_eq!(status, expected);
        assert!(!status.is_clean());
    }

    #[test]
    fn a_detached_and_an_unborn_head_are_known() {
        let mut status = Status::default();
        read_line(&mut status, "# branch.oid (initial)");
        read_line(&mut status, "# branch.head (detached)");
        assert_eq!((status.head.as_ref(), status.branch.as_ref()), (None, None));
        assert!(status.is_clean());
    }
}
