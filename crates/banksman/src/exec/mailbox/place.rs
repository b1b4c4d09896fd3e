//! Confines paths from outside to the repository: by their components, and by where their folders
//! really are.
//!
//! This file only checks folders. Opening a file decides whether its last component may be a link.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use banksman_core::limits::WORKFLOW_PATH_BYTES;

use super::{FOLDER, MailboxError, Result, make};
use crate::exec::files::{AtPath, FileError, fault};

/// Normalises a path from the repository's root; an error if its components lead elsewhere.
pub(super) fn plain(path: &str) -> Result<String> {
    Ok(parts(path)?.join("/"))
}

/// The file's real path, if its folder exists.
pub(super) fn existing(root: &Path, path: &str) -> Result<Option<PathBuf>> {
    walk(root, path, |_| Ok(false))
}

/// The file's real path; creates missing folders.
pub(super) fn created(root: &Path, path: &str) -> Result<PathBuf> {
    let created = walk(root, path, |folder| make(folder).map(|()| true))?;
    created.ok_or_else(|| refused(path, "is in a folder that disappears as soon as it is created"))
}

/// The folder of a path from [`existing`] or [`created`].
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().expect("the path of a file in a repository has a folder")
}

/// Descends folder by folder, so that nothing is created beyond a link that leads out.
fn walk(
    root: &Path,
    path: &str,
    on_missing: impl Fn(&Path) -> Result<bool, FileError>,
) -> Result<Option<PathBuf>> {
    let parts = parts(path)?;
    let (name, folders) = parts.split_last().expect("a path without parts is refused");
    let root = root.canonicalize().at("find", root)?;
    let mut real = root.clone();
    let is_of_mailbox = parts.first() == Some(&FOLDER);
    for folder in folders {
        let next = real.join(folder);
        // A merged link would put answers where any agent may commit them.
        if is_of_mailbox && next.is_symlink() {
            return Err(refused(path, "is reached through a link"));
        }
        let found = match next.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !on_missing(&next)? {
                    return Ok(None);
                }
                next.canonicalize()
            }
            found => found,
        };
        real = match found {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
            Err(source) => return Err(fault("find", &next, source).into()),
        };
        let inside = real.strip_prefix(&root);
        let inside =
            inside.map_err(|_| refused(path, "leads out of the repository through a link"))?;
        if inside.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
            return Err(refused(path, GIT));
        }
    }
    Ok(Some(real.join(name)))
}

const GIT: &str = "leads into git's own files";

fn parts(path: &str) -> Result<Vec<&str>> {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let why = if path.starts_with('/') {
        Some("is not relative to the root of the repository")
    } else if parts.is_empty() || path.ends_with('/') {
        Some("names no file")
    } else if parts.contains(&"..") {
        Some("contains `..`")
    } else if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
        Some(GIT)
    } else if path.contains(char::is_control) {
        Some("contains a control character")
    } else if path.len() > WORKFLOW_PATH_BYTES {
        Some("is too long")
    } else {
        None
    };
    why.map_or(Ok(parts), |why| Err(refused(path, why)))
}

fn refused(path: &str, why: &'static str) -> MailboxError {
    let shown = path.chars().map(|char| if char.is_control() { '?' } else { char });
    MailboxError::Path { path: shown.take(WORKFLOW_PATH_BYTES).collect(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "a/../b",
            ".",
            "a/",
            ".git/config",
            "a/.GIT/x",
            "a\nb",
            "a\0b",
        ] {
            assert!(plain(path).is_err(), "{path:?}");
        }
        assert!(plain(&"a/".repeat(600)).is_err());
        assert_eq!(plain("./a//b/./c").unwrap(), "a/b/c");
        assert_eq!(plain("a/..b/.gitignore").unwrap(), "a/..b/.gitignore");
    }
}
