//! The files that a step must leave: they have to be in the commit, because nothing else of the
//! worktree reaches the next step.

use std::path::{Component, Path, PathBuf};

use crate::exec::files;
use crate::exec::git::{Git, MAILBOX, shown};
use crate::exec::job::Verification;
use crate::exec::process::Result;

/// The most files that are looked up for one pattern: one that counts is enough.
const MAX_FILES: usize = 1_000;

/// What matched in the worktree when the agent had ended.
pub struct Outputs {
    missing: Vec<String>,
    /// By pattern, the files that match and are large enough.
    found: Vec<(String, Vec<PathBuf>)>,
}

impl Outputs {
    /// Looks before anything is removed or checked, while the files are as the agent left them.
    pub fn look(folder: &Path, checks: &Verification) -> Self {
        let Verification { outputs, files: not_empty, .. } = checks;
        let missing = files::missing(folder, outputs, not_empty);
        let all = not_empty.iter().map(|pattern| (pattern, 1));
        let all = all.chain(outputs.iter().map(|pattern| (pattern, 0)));
        let found = all.filter_map(|(pattern, least)| {
            let found = files::find(folder, pattern, MAX_FILES, &|bytes| bytes >= least);
            let paths: Vec<PathBuf> = found.into_iter().map(|file| file.path).collect();
            (!paths.is_empty()).then(|| (pattern.clone(), paths))
        });
        let found = found.collect();
        Self { missing, found }
    }

    /// Those that are missing where there is no commit.
    pub fn missing(self) -> Vec<String> {
        self.missing
    }

    /// Those that are missing, or that an agent who changed nothing found as they are. Messages
    /// between steps change nothing.
    pub fn unchanged(self) -> Vec<String> {
        let Self { mut missing, found } = self;
        let old = found.iter().filter(|(_, paths)| !paths.iter().any(|path| is_message(path)));
        missing.extend(old.map(|(pattern, _)| format!("{pattern} (as it was before the run)")));
        missing
    }

    /// Those that are missing, or that the commit lacks. Messages between steps are in no commit.
    pub fn missing_in(self, git: &mut Git<'_>, folder: &Path, head: &str) -> Result<Vec<String>> {
        let Self { mut missing, found } = self;
        for (pattern, paths) in found {
            if paths.iter().any(|path| is_message(path)) || is_any_in(git, folder, head, &paths)? {
                continue;
            }
            let first = plain(paths.first().map_or(Path::new(""), PathBuf::as_path));
            let why = match git.ignored_by(&first)? {
                Some(place) => format!("ignored by {place}, so that the commit lacks it"),
                None => "not in the commit".to_owned(),
            };
            missing.push(format!("{pattern} ({why})"));
        }
        Ok(missing)
    }
}

fn is_message(path: &Path) -> bool {
    MAILBOX.iter().any(|folder| path.starts_with(folder))
}

/// Whether the commit has one of these files, and what it leads to if it is a link. A file behind a
/// link to a folder is in the commit under its other name.
fn is_any_in(git: &mut Git<'_>, folder: &Path, head: &str, paths: &[PathBuf]) -> Result<bool> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let needs = |path: &PathBuf| {
        let path = folder.join(path);
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let link = path.is_symlink().then(|| path.clone());
        let inside = |path: PathBuf| Some(plain(path.strip_prefix(&folder).ok()?));
        link.into_iter().chain([real]).filter_map(inside).collect()
    };
    let needs: Vec<Vec<String>> = paths.iter().map(needs).collect();
    let asked: Vec<&str> = needs.iter().flatten().map(String::as_str).collect();
    let has = git.paths_in(head, &asked)?;
    Ok(needs.iter().any(|names| names.iter().all(|name| has.contains(name.as_bytes()))))
}

/// The path without `.` in it.
fn plain(path: &Path) -> String {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let path: PathBuf = parts.collect();
    shown(path.as_os_str().as_encoded_bytes())
}
