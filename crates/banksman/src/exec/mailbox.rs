//! The folder `.workflow/` in the root of a repository: where people, agents and this program leave
//! each other files about a workflow. Its layout, and what is written there once and kept.
//!
//! It knows files only. What a signal means for a task, and whether a gate has passed, is decided
//! elsewhere. Nothing here overwrites a file, nothing follows a link out of the repository, and
//! everything can be done again after a crash without being done twice.

mod audit;
pub(super) mod disk;
mod feedback;
mod hiding;
mod names;
mod past;
mod place;
mod signals;

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keeper::FileError;
use super::lock::lock_within;
use super::repo;
use crate::clock;
use disk::DRAFT_ENDING;
use hiding::EXCLUDE;
pub(super) use hiding::hide_from_git;
pub use names::file_name;
pub use signals::{Content, ExpectedSignal, SignalFile, SignalResult, word_of};

const FOLDER: &str = ".workflow";
const SPECS: &str = ".workflow/specs";
const SIGNALS: &str = ".workflow/signals";
const TAKEN: &str = ".workflow/signals/taken";
const FEEDBACK: &str = ".workflow/retry-context";
const STEPS: &str = ".workflow/steps";
const AUDIT: &str = ".workflow/audit";
const PAST: &str = ".workflow/past";
/// In a folder that git does not look at. A lock file outlives its holder, a lock does not.
const LOCK: &str = ".workflow/audit/.lock";
const IGNORED: &str = "/signals/\n/retry-context/\n/steps/\n/audit/\n/past/\n";

/// Whoever holds the lock writes a few small files: five seconds are a sign that he was stopped in
/// the middle.
const LOCK_TRIES: u32 = 500;
const BETWEEN_LOCK_TRIES: Duration = Duration::from_millis(10);
/// Files of one name that differ in a number only.
const SAME_NAME: u32 = 10_000;
/// Entries of one folder that are looked at.
const ENTRIES: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum MailboxError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the path `{path}` {why}")]
    Path { path: String, why: &'static str },
    #[error(
        "`{0}` cannot mark a line: it takes 1 to 100 visible ASCII characters without brackets"
    )]
    Mark(String),
    #[error("`{}` is held by somebody who does not let go of it", .0.display())]
    Busy(PathBuf),
    #[error("there are too many files like `{0}`")]
    Crowded(String),
    #[error("`{0}` could not be read yet and stays where it is")]
    NotYet(String),
}

/// What became of a spec that was to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecCopy {
    Written(String),
    AlreadyThere(String),
    /// There is another text under its name, which stays.
    Differs(String),
}

/// The files of the workflows of one repository.
#[derive(Debug, Clone)]
pub struct Mailbox {
    root: PathBuf,
}

impl Mailbox {
    /// `root` is the root of the repository. Nothing is made before something is written.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where signals appear: to be watched. It need not be there.
    #[must_use]
    pub fn signals_folder(&self) -> PathBuf {
        self.root.join(SIGNALS)
    }

    /// Keeps the text of a workflow in `specs/`, unless there is one of its name.
    pub fn keep_spec(&self, id: &str, yaml: &str) -> Result<SpecCopy, MailboxError> {
        let lock = self.lock()?;
        let path = format!("{SPECS}/{}.yaml", file_name(id));
        let full = place::made(&self.root, &path)?;
        let kept = if disk::put_new(&full, yaml.as_bytes())? {
            SpecCopy::Written(path)
        } else if disk::holds(&full, yaml.as_bytes())? {
            SpecCopy::AlreadyThere(path)
        } else {
            SpecCopy::Differs(path)
        };
        drop(lock);
        Ok(kept)
    }

    /// The same of a file, unless it is one of those that people keep there themselves.
    pub fn keep_spec_file(&self, id: &str, file: &Path) -> Result<SpecCopy, MailboxError> {
        let failed = |source| fault("read", file, source);
        let real = file.canonicalize().map_err(failed)?;
        let specs = self.root.join(SPECS);
        if specs.canonicalize().is_ok_and(|specs| real.starts_with(specs)) {
            return Ok(SpecCopy::AlreadyThere(file.display().to_string()));
        }
        let text = fs::read_to_string(&real).map_err(failed)?;
        self.keep_spec(id, &text)
    }

    /// Keeps what somebody has to know to do a step by hand, as `steps/<step-id>.md`; answers with
    /// the file.
    pub fn keep_assignment(&self, step: &str, text: &str) -> Result<PathBuf, MailboxError> {
        let lock = self.lock()?;
        let full = place::made(&self.root, &format!("{STEPS}/{}.md", file_name(step)))?;
        if !disk::holds(&full, text.as_bytes())? {
            disk::remove(&full)?;
            disk::put_new(&full, text.as_bytes())?;
        }
        drop(lock);
        Ok(full)
    }

    /// Makes the folder where it is missing, and keeps everybody else from writing as long as the
    /// answer lives.
    fn lock(&self) -> Result<File, MailboxError> {
        self.make_folder()?;
        let path = place::made(&self.root, LOCK)?;
        if fs::symlink_metadata(&path).is_err() {
            self.hide()?;
        }
        let file = disk::open_lock(&path).map_err(|source| fault("open", &path, source))?;
        match lock_within(&file, LOCK_TRIES, BETWEEN_LOCK_TRIES) {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(MailboxError::Busy(path)),
            Err(TryLockError::Error(source)) => Err(fault("lock", &path, source).into()),
        }
    }

    /// Where people have made the folder, its `.gitignore` is theirs; the repository's own list is
    /// not part of anybody's work. This comes before the first file that git would see.
    fn hide(&self) -> Result<(), MailboxError> {
        let Some(common) = repo::common_folder(&self.root) else { return Ok(()) };
        hide_from_git(&common).map_err(|source| fault("extend", &common.join(EXCLUDE), source))?;
        Ok(())
    }

    /// The first to make the folder also tells git what not to look at. A folder with nothing in it
    /// counts as one that was being made when something went wrong, because nobody else leaves
    /// such a folder behind.
    fn make_folder(&self) -> Result<(), MailboxError> {
        let ignore = place::made(&self.root, &format!("{FOLDER}/.gitignore"))?;
        let folder = place::parent(&ignore);
        if !is_bare(folder).map_err(|source| fault("list", folder, source))? {
            return Ok(());
        }
        // Nobody holds the lock yet, so the draft needs a name that nobody else has.
        let draft = folder.join(format!(".{:016x}{DRAFT_ENDING}", clock::nonce()));
        disk::put_new_by(&draft, &ignore, IGNORED.as_bytes())?;
        Ok(())
    }
}

fn is_bare(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if !entry?.file_name().as_encoded_bytes().ends_with(DRAFT_ENDING.as_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn make(folder: &Path) -> Result<(), FileError> {
    match DirBuilder::new().create(folder) {
        Ok(()) => Ok(()),
        // Somebody else was faster. A link that leads nowhere gives this answer too, and is found
        // by the next look.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(fault("create", folder, source)),
    }
}

fn fault(action: &'static str, path: &Path, source: io::Error) -> FileError {
    FileError { action, path: path.to_owned(), source }
}
