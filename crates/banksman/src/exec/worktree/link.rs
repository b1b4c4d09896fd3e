//! The two files that link a worktree's folder to its record in the repository: `.git` in the
//! folder names the record, `gitdir` in the record names the folder. git documents both
//! (gitrepository-layout).
//!
//! Reading and writing them here moves a worktree with one rename, where git would examine every
//! worktree.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::exec::files;
use crate::plain_file::open_unlinked;

/// The reason for locking a record against `git worktree prune`, which also marks its worktree as
/// spare.
const SPARE: &str = "banksman keeps this worktree for its next use";
/// What git writes while it creates a worktree.
const INITIALIZING: &str = "initializing";
/// A record holds a few small files; a `.git` file holds one path.
const FILE_BYTES: u64 = 16 * 1024;
/// The log of a worktree's heads, in its record.
const HEAD_LOG: &str = "logs/HEAD";
/// How much of that log is read after a run: thousands of entries.
const LOG_BYTES: u64 = 1024 * 1024;
/// How the log calls an operation that leaves commits.
const LEAVES: [&str; 3] = ["checkout:", "reset:", "rebase"];
/// The most records examined per repository.
const RECORDS: usize = 100_000;

/// What is at the path of a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::exec) enum WorktreeState {
    /// Nothing, or an empty folder.
    Free,
    /// A worktree of this repository, with the path of its record.
    Ours(PathBuf),
    /// A worktree whose creation was interrupted before anybody worked in it.
    Unfinished,
    /// Files of a worktree whose record is gone.
    Orphan,
    /// Something that Banksman must not touch, with the reason.
    Foreign(String),
}

/// The folder with a repository's branches and records, for a plain, a bare and a linked one.
pub(in crate::exec) fn common_folder(repo: &Path) -> io::Result<PathBuf> {
    let dot_git = repo.join(".git");
    let inner = match fs::symlink_metadata(&dot_git) {
        Ok(found) if found.is_file() => record_named_in(&dot_git)?,
        Ok(_) => dot_git,
        Err(_) => repo.to_owned(),
    };
    let common = match files::if_exists(read_small(&inner.join("commondir")))? {
        Some(target) => inner.join(target.trim_end()),
        None => inner,
    };
    let common = common.canonicalize()?;
    if common.join("HEAD").symlink_metadata().is_err() {
        let reason = format!("`{}` is not a git repository", repo.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, reason));
    }
    Ok(common)
}

pub(super) fn inspect(common: &Path, worktree: &Path) -> io::Result<WorktreeState> {
    let Some(found) = files::if_exists(fs::symlink_metadata(worktree))? else {
        return Ok(WorktreeState::Free);
    };
    let foreign = |why: &str| Ok(WorktreeState::Foreign(why.to_owned()));
    if !found.is_dir() {
        return foreign("it is not a folder");
    }
    let dot_git = worktree.join(".git");
    match fs::symlink_metadata(&dot_git) {
        Ok(found) if found.is_file() && found.len() > 0 => {}
        Ok(found) if !found.is_file() => {
            return foreign("it contains a repository of its own");
        }
        Err(_) if fs::read_dir(worktree)?.next().is_none() => return Ok(WorktreeState::Free),
        // An empty file counts as none: a killed git created the file and did not write it.
        Ok(_) | Err(_) => {
            let Some(record) = record_of(common, worktree)? else {
                return foreign("it contains files that belong to no worktree");
            };
            link_folder(worktree, &record)?;
            return Ok(state_of(record));
        }
    }
    let record = record_named_in(&dot_git)?;
    let is_of_this = record.parent().is_some_and(|records| {
        records == common.join("worktrees")
            || records.canonicalize().is_ok_and(|real| real == common.join("worktrees"))
    });
    if !is_of_this {
        return foreign("it is a worktree of another repository");
    }
    if !record.is_dir() {
        return Ok(WorktreeState::Orphan);
    }
    let named = read_small(&record.join("gitdir"))?;
    let named = PathBuf::from(named.trim_end_matches('\n'));
    if !is_same(&named, &dot_git) {
        if named.exists() {
            return Ok(WorktreeState::Foreign(format!("it is a copy of `{}`", named.display())));
        }
        link_folder(worktree, &record)?;
    }
    Ok(state_of(record))
}

fn state_of(record: PathBuf) -> WorktreeState {
    if is_unfinished(&record) { WorktreeState::Unfinished } else { WorktreeState::Ours(record) }
}

/// Whether the creation of a record's worktree was interrupted, or the worktree is spare.
pub(super) fn is_unfinished(record: &Path) -> bool {
    let reason = read_small(&record.join("locked")).unwrap_or_default();
    reason.trim_end() == SPARE || reason.starts_with(INITIALIZING)
}

/// The record that names this folder, whether or not the folder exists.
pub(super) fn record_of(common: &Path, worktree: &Path) -> io::Result<Option<PathBuf>> {
    let dot_git = worktree.join(".git");
    let is_it = |(_, named): &(PathBuf, PathBuf)| is_same(named, &dot_git);
    Ok(records(common)?.into_iter().find(is_it).map(|(record, _)| record))
}

/// Every record with the `.git` file that it names, whether or not that file exists.
pub(super) fn records(common: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut records = Vec::new();
    for folder in files::entries(&common.join("worktrees"))?.take(RECORDS) {
        let record = folder?.path();
        // A record may disappear meanwhile; other git processes create and remove them.
        if let Ok(named) = read_small(&record.join("gitdir")) {
            let named = record.join(named.trim_end_matches('\n'));
            records.push((record, named));
        }
    }
    Ok(records)
}

/// Makes a folder and its record name each other.
pub(super) fn link_folder(worktree: &Path, record: &Path) -> io::Result<()> {
    link_folder_at(worktree, record, worktree)
}

/// The same for a folder that is about to be renamed, so that a process that takes it from its new
/// place finds it complete.
pub(super) fn link_folder_at(worktree: &Path, record: &Path, future: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (future.parent(), future.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a worktree has a name"));
    };
    let named = above.canonicalize()?.join(name).join(".git");
    files::replace(&record.join("gitdir"), format!("{}\n", named.display()).as_bytes())?;
    let dot_git = worktree.join(".git");
    if record_named_in(&dot_git).is_ok_and(|named| named == record) {
        return Ok(());
    }
    files::replace(&dot_git, format!("gitdir: {}\n", record.display()).as_bytes())
}

/// The last commit of the head according to this worktree's reflog, even if its branch is gone;
/// none without a reflog.
pub(in crate::exec) fn last_head(record: &Path) -> Option<String> {
    let mut log = fs::File::open(record.join(HEAD_LOG)).ok()?;
    let bytes = files::read_end(&mut log, FILE_BYTES).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut fields = text.lines().next_back()?.split(' ');
    let (old, new) = (fields.next()?, fields.next()?);
    // The last entry may be the deletion.
    let is_none = |commit: &str| commit.bytes().all(|byte| byte == b'0');
    [new, old].into_iter().find(|commit| !is_none(commit)).map(str::to_owned)
}

/// The length of the log of a worktree's heads.
pub(super) fn logged_bytes(record: &Path) -> u64 {
    record.join(HEAD_LOG).metadata().map_or(0, |found| found.len())
}

/// The commits that a worktree's head has left for others since its log had this length. Commits
/// that were amended are not among them: others took their place.
pub(in crate::exec) fn left_heads(record: &Path, since: u64) -> io::Result<Vec<String>> {
    let Some(log) = files::if_exists(fs::File::open(record.join(HEAD_LOG)))? else {
        return Ok(Vec::new());
    };
    let bytes = log.metadata()?.len().saturating_sub(since).min(LOG_BYTES);
    let bytes = files::read_end(&mut { log }, bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let left = text.lines().filter_map(|line| {
        let (ids, message) = line.split_once('\t')?;
        let is_left = LEAVES.iter().any(|operation| message.starts_with(operation));
        ids.split(' ').next().filter(|_| is_left).map(str::to_owned)
    });
    let mut left: Vec<String> = left.collect();
    left.sort();
    left.dedup();
    Ok(left)
}

/// Locks the record against `git worktree prune` during the move and marks the worktree as spare.
pub(super) fn mark_spare(record: &Path) -> io::Result<()> {
    files::replace(&record.join("locked"), SPARE.as_bytes())
}

pub(super) fn unmark_spare(record: &Path) -> io::Result<()> {
    fs::remove_file(record.join("locked"))
}

pub(super) fn record_named_in(dot_git: &Path) -> io::Result<PathBuf> {
    let text = read_small(dot_git)?;
    let target = text.strip_prefix("gitdir: ").map(|target| target.trim_end_matches('\n'));
    let folder = dot_git.parent().unwrap_or(Path::new("/"));
    target.map(|target| folder.join(target)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("`{}` names no repository", dot_git.display()),
        )
    })
}

/// Whether two paths name the same file, even if the file is gone or a folder above it is a link.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| {
        let above = path.parent().and_then(Path::parent)?.canonicalize().ok()?;
        Some(above.join(path.parent()?.file_name()?).join(path.file_name()?))
    };
    one == other || (real(one).is_some() && real(one) == real(other))
}

pub(super) fn read_small(path: &Path) -> io::Result<String> {
    io::read_to_string(open_unlinked(path)?.take(FILE_BYTES))
}
