//! Records which task and home a worktree belongs to, in a mark inside the worktree's record in the
//! repository.
//!
//! The mark moves with the worktree, whatever template gave it its path, and a person's own
//! worktree has none. Banksman therefore never takes a worktree for its own because of its name,
//! except below its own folder. A record gets its mark when it is created; the home keeps a note of
//! every worktree that is about to be created, so that recovery finds one whose creator died in
//! between.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::ids::TaskId;
use serde::{Deserialize, Serialize};

use super::link;
use super::names::{hash_of, own_folder, spare_folder};
use crate::exec::files::{self, remove_if_exists};
use crate::exec::job::Workspace;

/// The mark's file in a record.
const MARK: &str = "banksman-task";
/// Next to the spare worktrees: notes of worktrees about to be created.
const INTENTS: &str = "intended";
/// The most worktrees that one search returns.
const WORKTREES: usize = 10_000;

/// A worktree that was created for a task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskWorktree {
    pub task: TaskId,
    pub path: PathBuf,
    /// The repository whose record says so. None for a worktree that is known only by its path
    /// below our own folder.
    pub repo: Option<PathBuf>,
}

/// A mark, or the note of a worktree that a process is, or was, about to create.
#[derive(Serialize, Deserialize)]
struct MarkFile {
    task: String,
    /// The path that its locks are named after; the record may spell it differently.
    worktree: PathBuf,
    /// The folder of spare worktrees, which identifies the home. Earlier versions omitted it
    /// before the creation, and the next two in a mark.
    #[serde(default)]
    spare: PathBuf,
    #[serde(default)]
    repo: PathBuf,
    #[serde(default)]
    branch: String,
}

impl MarkFile {
    fn write(workspace: &Workspace, path: &Path) -> io::Result<()> {
        let Workspace { task, worktree, spare, repo, branch, .. } = workspace.clone();
        let note = serde_json::to_vec(&Self { task, worktree, spare, repo, branch })?;
        files::replace(path, &note)
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&link::read_small(path).ok()?).ok()
    }
}

fn intent_of(Workspace { task, worktree, spare, .. }: &Workspace) -> PathBuf {
    spare.join(INTENTS).join(format!("{task}-{}", hash_of(worktree)))
}

/// Records a worktree that is about to be created.
pub(super) fn record_intent(workspace: &Workspace) -> io::Result<()> {
    fs::create_dir_all(workspace.spare.join(INTENTS))?;
    MarkFile::write(workspace, &intent_of(workspace))
}

/// Removes that note: the worktree has its mark, or is gone.
pub(super) fn remove_intent(workspace: &Workspace) -> io::Result<()> {
    remove_if_exists(&intent_of(workspace))
}

/// Writes the mark for the worktree of this record.
pub(super) fn write(record: &Path, workspace: &Workspace) -> io::Result<()> {
    MarkFile::write(workspace, &record.join(MARK))
}

/// Removes the mark from a worktree that is about to serve another task.
pub(super) fn remove_mark(record: &Path) -> io::Result<()> {
    remove_if_exists(&record.join(MARK))
}

/// The task worktrees that this home created, in these repositories and below its own folder. A
/// repository that cannot be read is skipped: it may belong to another machine.
pub fn worktrees(home: &Path, repos: &[PathBuf]) -> io::Result<Vec<TaskWorktree>> {
    let mut found: Vec<TaskWorktree> = repos.iter().flat_map(|repo| marked(home, repo)).collect();
    let is_known =
        |of_task: &TaskWorktree| of_task.repo.as_ref().is_some_and(|repo| repos.contains(repo));
    found.extend(intended(home)?.into_iter().filter(is_known));
    let known: BTreeSet<PathBuf> =
        found.iter().filter_map(|of_task| of_task.path.canonicalize().ok()).collect();
    let is_new = |of_task: &TaskWorktree| {
        of_task.path.canonicalize().is_ok_and(|path| !known.contains(&path))
    };
    found.extend(in_own_folder(&own_folder(home))?.into_iter().filter(is_new));
    found.sort();
    found.dedup();
    found.truncate(WORKTREES);
    Ok(found)
}

fn marked(home: &Path, repo: &Path) -> Vec<TaskWorktree> {
    let records = link::common_folder(repo).and_then(|common| link::records(&common));
    let Ok(spare) = spare_folder(home).canonicalize() else { return Vec::new() };
    let of_task = |(record, dot_git): (PathBuf, PathBuf)| {
        let note = MarkFile::read(&record.join(MARK))?;
        let folder = dot_git.parent()?;
        let is_ours = note.spare.canonicalize().ok()? == spare && !folder.starts_with(&spare);
        let is_there = is_worktree(folder);
        let is_named_so = link::is_same(&note.worktree.join(".git"), &dot_git);
        let path = if is_named_so { note.worktree } else { folder.to_owned() };
        let task = note.task.parse().ok()?;
        (is_ours && is_there).then(|| TaskWorktree { task, path, repo: Some(repo.to_owned()) })
    };
    records.unwrap_or_default().into_iter().filter_map(of_task).take(WORKTREES).collect()
}

/// Worktrees that were about to be created and exist, although their record has no mark.
fn intended(home: &Path) -> io::Result<Vec<TaskWorktree>> {
    let read = |entry: fs::DirEntry| {
        let intent = MarkFile::read(&entry.path())?;
        let is_it = is_intended(&intent)?;
        let MarkFile { task, worktree, repo, .. } = intent;
        let task = task.parse().ok()?;
        is_it.then_some(TaskWorktree { task, path: worktree, repo: Some(repo) })
    };
    // An entry that goes away while it is listed is no intention any more.
    let entries = files::entries(&spare_folder(home).join(INTENTS))?;
    Ok(entries.flatten().take(WORKTREES).filter_map(read).collect())
}

/// Whether the worktree is the intended one: a person may have created another one there since, on
/// their own branch.
fn is_intended(MarkFile { worktree, repo, branch, .. }: &MarkFile) -> Option<bool> {
    let record = link::record_named_in(&worktree.join(".git")).ok()?.canonicalize().ok()?;
    let is_of_repo = record.starts_with(link::common_folder(repo).ok()?);
    let head = link::read_small(&record.join("HEAD")).unwrap_or_default();
    let is_on_branch = head.trim_end().strip_prefix("ref: refs/heads/") == Some(branch);
    Some(is_of_repo && (is_on_branch || link::is_unfinished(&record)))
}

/// One folder per repository, with one folder per task in it.
fn in_own_folder(folder: &Path) -> io::Result<Vec<TaskWorktree>> {
    let mut found = Vec::new();
    for repo in folders_in(folder)? {
        for path in folders_in(&repo)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let task = name.parse().ok().filter(|task: &TaskId| task.to_string() == name);
            if let Some(task) = task.filter(|_| is_worktree(&path) && found.len() < WORKTREES) {
                found.push(TaskWorktree { task, path, repo: None });
            }
        }
    }
    Ok(found)
}

fn is_worktree(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok_and(|file| file.is_file())
}

fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    // A folder that goes away while it is listed is not there.
    let entries = files::entries(folder)?.flatten();
    Ok(entries.filter(files::is_folder).take(WORKTREES).map(|entry| entry.path()).collect())
}
