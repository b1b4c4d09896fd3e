//! The folder `.workflow/` in a repository's root, where people, agents and Banksman exchange files
//! about a workflow: its layout, and the files that are written once and kept.
//!
//! It only handles files. Other modules decide what a signal means for a task and whether a gate
//! has passed. Nothing here overwrites a file or follows a link out of the repository, and every
//! operation can be repeated after a crash.

mod audit;
pub(super) mod disk;
mod feedback;
mod hiding;
mod names;
mod past;
mod place;
mod signals;

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{AtPath, FileError, fault, remove_if_exists};
use super::lock::lock_within;
use super::worktree::common_folder;
use crate::clock;
use disk::DRAFT_ENDING;
use hiding::EXCLUDE;
pub(super) use hiding::hide_from_git;
pub use names::file_name;
pub(super) use signals::StepSignal;
pub use signals::{Content, ExpectedSignal, SignalFile, SignalResult};

pub(in crate::exec) const FOLDER: &str = ".workflow";
pub const SPECS: &str = ".workflow/specs";
pub(super) const SIGNALS: &str = ".workflow/signals";
pub(super) const TAKEN: &str = ".workflow/signals/taken";
pub(super) const FEEDBACK: &str = ".workflow/retry-context";
pub(super) const STEPS: &str = ".workflow/steps";
pub(super) const AUDIT: &str = ".workflow/audit";
pub(super) const PAST: &str = ".workflow/past";
/// In a folder that git ignores. A lock file outlives its holder, a lock does not.
const LOCK: &str = ".workflow/audit/.lock";
const IGNORED: &str = "/signals/\n/retry-context/\n/steps/\n/audit/\n/past/\n";

/// A lock holder writes a few small files; after five seconds it was probably stopped in between.
const LOCK_TRIES: u32 = 500;
const BETWEEN_LOCK_TRIES: Duration = Duration::from_millis(10);
/// The most files whose names differ only in a number.
const MAX_SAME_NAME: u32 = 10_000;
/// The most entries examined per folder.
const MAX_ENTRIES: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the path `{path}` {why}")]
    Path { path: String, why: &'static str },
    #[error("invalid mark `{0}`: a mark has 1 to 100 visible ASCII characters without brackets")]
    Mark(String),
    #[error("timed out waiting for the lock on `{}`", .0.display())]
    Busy(PathBuf),
    #[error("too many files are named like `{0}`")]
    TooManyFiles(String),
    #[error("`{0}` is not readable yet and stays in place")]
    NotYet(String),
}

type Result<T, E = MailboxError> = std::result::Result<T, E>;

/// The result of keeping a copy of a workflow file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecCopy {
    Written(String),
    AlreadyThere(String),
    /// Another text already has this name, and stays.
    Differs(String),
}

/// The workflow files of one repository.
#[derive(Debug, Clone)]
pub struct Mailbox {
    root: PathBuf,
    /// The folder of one run inside each of the folders.
    run: Option<String>,
}

impl Mailbox {
    /// `root` is the repository's root. Nothing is created before something is written.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), run: None }
    }

    /// The same for a run that has a folder of its own, because another run of its workflow uses
    /// the folders themselves.
    #[must_use]
    pub fn of_run(&self, run: Option<&str>) -> Self {
        Self { root: self.root.clone(), run: run.map(str::to_owned) }
    }

    /// One of the folders, or that of the run inside of it.
    fn folder(&self, folder: &str) -> String {
        self.run.as_ref().map_or_else(|| folder.to_owned(), |run| format!("{folder}/{run}"))
    }

    /// The folder for signals. It may not exist.
    pub fn signals_folder(&self) -> PathBuf {
        self.root.join(self.folder(SIGNALS))
    }

    /// The folders to watch for signals: that of the repository, which may not exist, and those of
    /// single runs.
    pub fn signals_folders(&self) -> Vec<PathBuf> {
        let all = self.root.join(SIGNALS);
        let taken = self.root.join(TAKEN);
        let mut folders = vec![all.clone()];
        // A hint: the turn that reads a folder reports what it cannot read.
        for entry in fs::read_dir(&all).into_iter().flatten().flatten().take(MAX_ENTRIES) {
            let path = entry.path();
            if path != taken && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
        folders
    }

    /// Keeps the text of a workflow in `specs/`, unless a file of that name exists.
    pub fn keep_spec(&self, id: &str, yaml: &str) -> Result<SpecCopy> {
        let _lock = self.lock()?;
        let path = format!("{SPECS}/{}.yaml", file_name(id));
        let full = place::created(&self.root, &path)?;
        Ok(if disk::create_new_file(&full, yaml.as_bytes())? {
            SpecCopy::Written(path)
        } else if disk::has_content(&full, yaml.as_bytes())? {
            SpecCopy::AlreadyThere(path)
        } else {
            SpecCopy::Differs(path)
        })
    }

    /// Keeps a copy of a workflow file, unless the file is already in `specs/`.
    pub fn keep_spec_file(&self, id: &str, file: &Path) -> Result<SpecCopy> {
        let real = file.canonicalize().at("read", file)?;
        let specs = self.root.join(SPECS);
        if specs.canonicalize().is_ok_and(|specs| real.starts_with(specs)) {
            return Ok(SpecCopy::AlreadyThere(file.display().to_string()));
        }
        let text = fs::read_to_string(&real).at("read", file)?;
        self.keep_spec(id, &text)
    }

    /// Writes the assignment of a manual step to `steps/<step-id>.md` and returns the path.
    pub fn keep_assignment(&self, step: &str, text: &str) -> Result<PathBuf> {
        let _lock = self.lock()?;
        let full =
            place::created(&self.root, &format!("{}/{}.md", self.folder(STEPS), file_name(step)))?;
        if !disk::has_content(&full, text.as_bytes())? {
            remove_if_exists(&full).at("replace", &full)?;
            disk::create_new_file(&full, text.as_bytes())?;
        }
        Ok(full)
    }

    /// Creates the folder if needed and locks it until the returned file is dropped.
    fn lock(&self) -> Result<File> {
        self.make_folder()?;
        let path = place::created(&self.root, LOCK)?;
        if fs::symlink_metadata(&path).is_err() {
            self.hide()?;
        }
        let file = disk::open_lock(&path).at("open", &path)?;
        match lock_within(&file, LOCK_TRIES, BETWEEN_LOCK_TRIES) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(MailboxError::Busy(path)),
            Err(TryLockError::Error(source)) => Err(fault("lock", &path, source).into()),
        }
    }

    /// Adds the mailbox to `.git/info/exclude`: where people made the folder, its `.gitignore` is
    /// theirs. This happens before the first file that git would see.
    fn hide(&self) -> Result<()> {
        let Ok(common) = common_folder(&self.root) else { return Ok(()) };
        hide_from_git(&common).at("extend", &common.join(EXCLUDE))?;
        Ok(())
    }

    /// Creates the folder and its `.gitignore`. An empty folder counts as one whose creation was
    /// interrupted, because nothing else leaves one behind.
    fn make_folder(&self) -> Result<()> {
        let ignore = place::created(&self.root, &format!("{FOLDER}/.gitignore"))?;
        let folder = place::parent(&ignore);
        if !is_empty_folder(folder).at("list", folder)? {
            return Ok(());
        }
        // The lock is not held yet, so the draft needs a unique name.
        let draft = folder.join(format!(".{:016x}{DRAFT_ENDING}", clock::nonce()));
        disk::create_via_draft(&draft, &ignore, IGNORED.as_bytes())?;
        Ok(())
    }
}

fn is_empty_folder(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if !entry?.file_name().as_encoded_bytes().ends_with(DRAFT_ENDING.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn make(folder: &Path) -> Result<(), FileError> {
    match fs::create_dir(folder) {
        // Another process was faster. A dangling link gives this error too; the next check finds
        // it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.at("create", folder),
    }
}
