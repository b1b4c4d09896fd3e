//! Finds files below a folder by path or by a pattern from its root, and says which operation on
//! which file failed.
//!
//! Nothing outside the folder counts, whatever links lead there, and a search is bounded however
//! large the tree is.

use std::error::Error;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use banksman_core::globs::PathGlob;
use banksman_core::time::Instant;

use super::process::{Result, RunError};
use crate::plain_file::open_unlinked;

/// An operation on a file or folder failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} `{}`", path.display())]
pub struct FileError {
    pub action: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

pub(in crate::exec) fn fault(action: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError { action, path: path.to_owned(), source }
}

/// Names the operation and the path of an error.
pub(in crate::exec) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FileError>;
    /// The same as an error of a program, for work on worktrees.
    fn during(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| fault(action, path, source))
    }

    fn during(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| {
            RunError::failed(format!("{what} `{}`", path.display()), error.to_string())
        })
    }
}

/// An error and its cause.
pub(in crate::exec) fn with_cause(error: &dyn Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

/// Removes a file, if it exists.
pub(in crate::exec) fn remove_if_exists(path: &Path) -> io::Result<()> {
    if_exists(fs::remove_file(path)).map(drop)
}

pub(in crate::exec) fn sync_folder(path: &Path) -> Result<(), FileError> {
    File::open(path).and_then(|folder| folder.sync_all()).at("sync", path)
}

/// None where the file does not exist.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entries of a folder; none if it does not exist.
pub(in crate::exec) fn entries(
    folder: &Path,
) -> io::Result<impl Iterator<Item = io::Result<DirEntry>> + use<>> {
    Ok(if_reachable(fs::read_dir(folder))?.into_iter().flatten())
}

/// The paths in a folder, as far as they can be listed.
pub(in crate::exec) fn paths_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// None where the file does not exist, or where a file is in the place of a folder above it.
pub(in crate::exec) fn if_reachable<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match if_exists(result) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
        found => found,
    }
}

/// The most entries compared with one pattern: a large checkout with build output.
const MAX_ENTRIES: usize = 300_000;

/// A file that matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exec) struct FoundFile {
    /// From the folder's root.
    pub(in crate::exec) path: PathBuf,
    pub(in crate::exec) bytes: u64,
}

/// The required files that do not exist, and those of the second list that are empty.
pub fn missing(folder: &Path, outputs: &[String], not_empty: &[String]) -> Vec<String> {
    let has =
        |pattern: &str, least: u64| !find(folder, pattern, 1, &|bytes| bytes >= least).is_empty();
    let new = not_empty.iter().filter(|pattern| !outputs.contains(pattern));
    let (there, missing): (Vec<&String>, Vec<&String>) =
        outputs.iter().chain(new).partition(|pattern| has(pattern, 0));
    let empty = there.into_iter().filter(|pattern| not_empty.contains(pattern) && !has(pattern, 1));
    let empty: Vec<String> = empty.map(|pattern| format!("{pattern} (empty)")).collect();
    missing.into_iter().cloned().chain(empty).collect()
}

/// Whether a path stays below its folder, judging by its components.
pub(in crate::exec) fn is_inside(path: &str) -> bool {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    !path.is_empty() && Path::new(path).components().all(is_plain)
}

/// Up to `at_most` files that match and have an acceptable size, sorted by path.
pub(in crate::exec) fn find(
    folder: &Path,
    pattern: &str,
    at_most: usize,
    fits: &dyn Fn(u64) -> bool,
) -> Vec<FoundFile> {
    let pattern = pattern.trim().trim_start_matches("./").trim_start_matches('/');
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    if !is_inside(pattern) {
        return Vec::new();
    }
    // A name may contain pattern characters.
    if let Some(bytes) = size_of_file(&folder, &folder.join(pattern)).filter(|bytes| fits(*bytes)) {
        return vec![FoundFile { path: PathBuf::from(pattern), bytes }];
    }
    let whole = if pattern.ends_with('/') { format!("{pattern}**") } else { pattern.to_owned() };
    if !whole.contains(['*', '?', '[']) {
        return Vec::new();
    }
    let mut found = walk(&folder, &whole, fits);
    found.sort();
    found.truncate(at_most);
    found
}

/// Starts at the deepest folder that the pattern names literally.
fn walk(folder: &Path, pattern: &str, fits: &dyn Fn(u64) -> bool) -> Vec<FoundFile> {
    let whole = PathGlob::new(pattern);
    let parts = pattern.split('/').take_while(|part| !part.contains(['*', '?', '[', '\\']));
    let start: PathBuf = parts.collect();
    let is_here = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(folder));
    let mut waiting = vec![start];
    waiting.retain(|start| is_here(&folder.join(start)));
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(next) = waiting.pop() {
        let Ok(entries) = fs::read_dir(folder.join(&next)) else { continue };
        // What cannot be listed cannot be named either.
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            let path = next.join(entry.file_name());
            if is_folder(&entry) {
                if entry.file_name() != ".git" {
                    waiting.push(path);
                }
            } else if whole.matches(path.as_os_str().as_bytes())
                && let Some(bytes) = size_of_file(folder, &entry.path()).filter(|size| fits(*size))
            {
                found.push(FoundFile { path, bytes });
            }
        }
    }
    found
}

/// Reads the beginning of a file where an agent can put anything.
pub(in crate::exec) fn read_plain(path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_unlinked(path)?.take(at_most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the end of a file.
pub(in crate::exec) fn read_end(file: &mut File, at_most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(at_most)))?;
    let mut bytes = Vec::new();
    file.take(at_most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file atomically: readers see the old content or the new. A link in its place is
/// replaced, not followed.
pub(in crate::exec) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (_, draft) = write_draft(path, bytes)?;
    fs::rename(&draft, path)
}

/// Writes a new file next to the one that it is to replace.
pub(in crate::exec) fn write_draft(path: &Path, bytes: &[u8]) -> io::Result<(File, PathBuf)> {
    let mut draft = path.as_os_str().to_owned();
    // Two processes may replace a file at the same time.
    draft.push(format!(".{}.draft", std::process::id()));
    let draft = PathBuf::from(draft);
    remove_if_exists(&draft)?;
    let mut file = File::create_new(&draft)?;
    file.write_all(bytes)?;
    Ok((file, draft))
}

/// When a file was last changed, by this machine's clock.
pub(in crate::exec) fn changed_at(meta: &fs::Metadata) -> Instant {
    let millis = meta.mtime().saturating_mul(1_000).saturating_add(meta.mtime_nsec() / 1_000_000);
    Instant(millis)
}

/// A link to a folder does not count: following it might never end.
pub(in crate::exec) fn is_folder(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// None for something that is not a plain file or lies outside the folder.
fn size_of_file(folder: &Path, path: &Path) -> Option<u64> {
    let real = path.canonicalize().ok().filter(|real| real.starts_with(folder))?;
    let found = fs::metadata(real).ok()?;
    found.is_file().then_some(found.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn missing_of(folder: &Path, outputs: &[&str], files: &[&str]) -> Vec<String> {
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        missing(folder, &owned(outputs), &owned(files))
    }

    #[test]
    fn paths_are_literal_and_patterns_start_at_the_root() {
        let tree = tree(&[
            ("src/chat/index.py", "x"),
            ("docs/a.md", "x"),
            ("docs/deep/b.md", "x"),
            ("a[1].txt", "x"),
        ]);
        let there = [
            "src/chat/index.py",
            "./docs/a.md",
            "/docs/a.md",
            "docs/*.md",
            "docs/**",
            "**/b.md",
            "src/",
            "src/*/index.??",
            "a[1].txt",
            "[a-b]*.txt",
        ];
        assert_eq!(missing_of(tree.path(), &there, &there), [""; 0]);
        let not_there = [
            "index.py",
            "src",
            "docs/*.txt",
            "*.md",
            "docs/d*",
            "docs/*/*.py",
            "",
            "src/chat/index.py/",
        ];
        assert_eq!(missing_of(tree.path(), &not_there, &[]), not_there);
    }

    #[test]
    fn an_empty_file_is_an_output_and_proves_nothing() {
        let tree = tree(&[("empty", ""), ("some/a", ""), ("some/b", "x")]);
        assert_eq!(missing_of(tree.path(), &["empty", "some/*"], &[]), [""; 0]);
        let missing_names =
            missing_of(tree.path(), &["gone"], &["empty", "some/*", "some/a*", "gone"]);
        assert_eq!(missing_names, ["gone", "empty (empty)", "some/a* (empty)"]);
    }

    #[test]
    fn nothing_outside_counts() {
        let outside = tree(&[("secret", "x"), ("folder/x", "x")]);
        let tree = tree(&[("real", "x"), ("src/x", "x"), (".git/config", "x")]);
        symlink(outside.path().join("secret"), tree.path().join("out")).unwrap();
        symlink(outside.path().join("folder"), tree.path().join("way")).unwrap();
        symlink("real", tree.path().join("in")).unwrap();
        symlink("nowhere", tree.path().join("dangling")).unwrap();
        symlink("..", tree.path().join("src/up")).unwrap();
        let away = format!("../{}/secret", outside.path().file_name().unwrap().display());
        let absolute = outside.path().join("secret").display().to_string();
        let wanted = ["out", "way/x", "way/*", "dangling", "**/config", &away, &absolute];
        assert_eq!(missing_of(tree.path(), &wanted, &[]), wanted);
        assert_eq!(missing_of(tree.path(), &["in", "i*", "src/**"], &["in"]), [""; 0]);
        assert_eq!(missing_of(&tree.path().join("not"), &["real"], &[]), ["real"]);
    }
}
