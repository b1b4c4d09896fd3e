//! How a worktree differs from its commit, without the mailbox of a workflow.

use super::quoted::unquote;
use super::steps::WORK_ONLY;
use super::{Git, LONG};
use crate::exec::process::Result;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// None on a branch without commits.
    pub head: Option<String>,
    /// None on a detached head.
    pub branch: Option<String>,
    pub tracked: Vec<Vec<u8>>,
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
        status.tracked.extend(line.splitn(before_path + 1, ' ').last().map(unquote));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_read() {
        let mut status = Status::default();
        let lines = "# branch.oid 1234\n# branch.head a/b\n1 .M N... 100644 100644 100644 aa bb a file\n\
                     u UU N... 100644 100644 100644 100644 aa bb cc in conflict\n? \"new\\nfile\"\n? inner/\n# other x\n";
        lines.lines().for_each(|line| read_line(&mut status, line));
        let expected = Status {
            head: Some("1234".to_owned()),
            branch: Some("a/b".to_owned()),
            tracked: vec![b"a file".to_vec(), b"in conflict".to_vec()],
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
