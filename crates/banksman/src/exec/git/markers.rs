//! Conflict markers that changes add.

use std::collections::BTreeSet;

use super::quoted::unquote;
use super::steps::WORK_ONLY;
use super::{Git, LONG, failure, full_id, shown};
use crate::exec::process::Result;

/// How `git diff --check` names an added line, after the path and the number of the line.
const LEFTOVER: &str = ": leftover conflict marker";

impl Git<'_> {
    /// The files in which changes add a line as git marks a conflict. git's own check decides,
    /// with the attribute `conflict-marker-size`; but a line of equals signs alone may underline a
    /// heading.
    pub fn added_markers(&mut self, base: &str, head: &str) -> Result<Vec<String>> {
        let command = "-c core.whitespace=-blank-at-eol,-blank-at-eof,-space-before-tab diff \
                       --check --find-renames --no-ext-diff --no-textconv --end-of-options";
        let args = [&[base, head, "--"], &WORK_ONLY[..]].concat();
        let output = self.run(command, &args, None, LONG)?;
        // It exits with 2 if it finds anything.
        if !matches!(output.exit.code, Some(0 | 2)) {
            return Err(failure("git diff --check", &output));
        }
        let added: BTreeSet<(Vec<u8>, &str)> =
            output.stdout.lines().filter_map(|line| place(line.strip_suffix(LEFTOVER)?)).collect();
        if added.is_empty() {
            return Ok(Vec::new());
        }
        let command = "grep --line-number --only-matching -I -E -e ^<{7}[[:space:]] \
                       -e ^>{7}[[:space:]]";
        let found = self.answer(command, &[full_id(head)?, "--"])?;
        let marked = found.stdout.lines().filter_map(|line| {
            let (_commit, rest) = line.split_once(':')?;
            let (at, _marker) = rest.rsplit_once(':')?;
            place(at)
        });
        let both: BTreeSet<Vec<u8>> =
            marked.filter(|at| added.contains(at)).map(|(path, _)| path).collect();
        Ok(both.iter().map(|path| shown(path)).collect())
    }
}

/// Splits `PATH:LINE`.
fn place(text: &str) -> Option<(Vec<u8>, &str)> {
    let (path, line) = text.rsplit_once(':')?;
    Some((unquote(path), line))
}
