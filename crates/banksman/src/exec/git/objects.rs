//! Objects of the repository: which of them it has itself, and what is in them.

use std::path::Path;

use super::{Git, LONG, SHORT, checked, text_of};
use crate::exec::process::Result;

impl Git<'_> {
    /// The target of a symbolic link in a commit.
    pub fn link_target(&mut self, object: &str) -> Result<String> {
        Ok(self.run_checked("cat-file blob", &[object], SHORT)?.stdout)
    }

    /// Copies what the head has and the base has not into the repository itself, if that borrows
    /// objects from other folders: an agent can add one, and merged work must outlast it.
    pub fn keep_objects(&mut self, base: &str, head: &str) -> Result<()> {
        let objects = self.line("rev-parse --path-format=absolute --git-path objects", &[])?;
        let objects = Path::new(&objects);
        if !objects.join("info/alternates").exists() {
            return Ok(());
        }
        let pack = objects.join("pack/pack");
        let wanted = format!("{head}\n^{base}\n");
        let args = [text_of(&pack)?];
        let output = self.run("pack-objects --quiet --revs", &args, Some(&wanted), LONG)?;
        checked("git pack-objects", output).map(drop)
    }
}
