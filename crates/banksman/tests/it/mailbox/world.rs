//! A repository with a mailbox, and short ways to its files.

use std::fs;
use std::path::{Path, PathBuf};

use banksman::exec::mailbox::{ExpectedSignal, Mailbox, SignalFile};
use banksman_core::time::Instant;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use tempfile::TempDir;

/// A time at which every file of a test was written.
pub(super) const WRITTEN: Instant = Instant(1_700_000_000_000);

pub(super) struct World {
    folder: TempDir,
    pub(super) mailbox: Mailbox,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("repo")).unwrap();
        let mailbox = Mailbox::new(folder.path().join("repo"));
        Self { folder, mailbox }
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    /// A folder beside the repository.
    pub(super) fn outside(&self) -> PathBuf {
        let outside = self.folder.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        outside
    }

    /// Writes a file as somebody else would, at [`WRITTEN`].
    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        set_modified(&path, WRITTEN);
    }

    pub(super) fn read(&self, path: &str) -> String {
        let full = self.root().join(path);
        fs::read_to_string(&full).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root().join(path)).is_ok()
    }

    /// A look a minute after everything was written.
    pub(super) fn look(&self, expected: &[ExpectedSignal]) -> Vec<SignalFile> {
        self.mailbox.look(expected, Instant(WRITTEN.0 + 60_000)).unwrap()
    }

    pub(super) fn only(&self, expected: ExpectedSignal) -> SignalFile {
        let mut seen = self.look(&[expected]);
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }

    /// Every file of the repository, in order.
    pub(super) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let root = self.root();
        list(&root, &root, &mut files);
        files.sort();
        files
    }
}

fn list(root: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            list(root, &entry.path(), files);
        } else {
            files.push(entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

pub(super) fn set_modified(path: &Path, at: Instant) {
    let time =
        Timespec { tv_sec: at.0.div_euclid(1_000), tv_nsec: at.0.rem_euclid(1_000) * 1_000_000 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub(super) fn gate(id: &str) -> ExpectedSignal {
    ExpectedSignal::Gate { id: id.to_owned() }
}

pub(super) fn step(id: &str) -> ExpectedSignal {
    ExpectedSignal::Step { id: id.to_owned(), path: None }
}
