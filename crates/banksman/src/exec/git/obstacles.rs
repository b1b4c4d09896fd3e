//! What only a person can change and git does not say plainly: a git that is too old, and
//! submodules without files.

use super::{Git, LONG, OLDEST};
use crate::exec::process::{ProgramOutput, Result};

/// The most submodules that a message names.
const MAX_NAMED: usize = 10;

impl Git<'_> {
    /// Why this git cannot be used, if it is older than the oldest supported one. What it does not
    /// know, it takes for something else or calls missing.
    pub fn too_old(&mut self) -> Result<Option<String>> {
        let version = self.line("version", &[])?;
        // One that does not say a version may be any git.
        let is_older = number_in(&version).zip(number_in(OLDEST)).is_some_and(|(it, old)| it < old);
        Ok(is_older.then(|| {
            format!("this is `{version}`; install git {OLDEST} or newer, first on the PATH")
        }))
    }

    /// The paths of submodules that nobody has fetched yet.
    pub fn empty_submodules(&mut self) -> Result<Vec<String>> {
        if !self.folder.join(".gitmodules").exists() {
            return Ok(Vec::new());
        }
        // It fails if the file does not describe what the tree has, which is for the set-up
        // command to say.
        let output = self.run("submodule status", &[], None, LONG)?;
        let path = |line: &str| Some(line.strip_prefix('-')?.split_once(' ')?.1.to_owned());
        Ok(output.stdout.lines().filter_map(path).take(MAX_NAMED).collect())
    }
}

/// The first two parts of a version.
fn number_in(text: &str) -> Option<(u32, u32)> {
    let from = text.find(|c: char| c.is_ascii_digit())?;
    let mut parts = text[from..].split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether a command failed because git could not get a submodule.
pub(in crate::exec) fn is_of_submodule(output: &ProgramOutput) -> bool {
    // With a capital letter, git says that it has got one.
    [&output.stderr, &output.stdout].into_iter().any(|text| text.contains("submodule path '"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_not_texts() {
        for (text, number) in [
            ("git version 2.9.5", Some((2, 9))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 3.0.rc1", Some((3, 0))),
            ("2.39", Some((2, 39))),
            ("git version next", None),
            ("", None),
        ] {
            assert_eq!(number_in(text), number, "{text}");
        }
    }
}
