//! Reads and writes files of the mailbox: never through a link, never partially, never over an
//! existing file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use banksman_core::time::Instant;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::place::parent;
pub(in crate::exec) use crate::exec::files::sync_folder;
use crate::exec::files::{AtPath, FileError, if_reachable, remove_if_exists};

pub(in crate::exec) const DRAFT_ENDING: &str = ".banksman-draft";

/// What is at a path.
pub(in crate::exec) enum FileState {
    Missing,
    /// Not a readable plain file, with the reason.
    Unusable(Metadata, String),
    /// A plain file and its beginning: at most one byte more than requested, which shows that the
    /// file is too long.
    Plain(Metadata, Vec<u8>),
}

/// Reads the beginning of a plain file. It follows no link and waits for no pipe.
pub(in crate::exec) fn read(path: &Path, at_most: usize) -> Result<FileState, FileError> {
    let Some(meta) = if_reachable(fs::symlink_metadata(path)).at("inspect", path)? else {
        return Ok(FileState::Missing);
    };
    if !meta.is_file() {
        let kind = if meta.is_symlink() { "a link" } else { "not a plain file" };
        return Ok(FileState::Unusable(meta, format!("it is {kind}")));
    }
    let file = match if_reachable(open(OpenOptions::new().read(true), path)) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(FileState::Missing),
        Err(error) => {
            return Ok(FileState::Unusable(meta, format!("it cannot be opened: {error}")));
        }
    };
    // The file that is open counts, whatever was at the path a moment ago.
    let meta = file.metadata().at("inspect", path)?;
    if !meta.is_file() {
        return Ok(FileState::Unusable(meta, "it is not a plain file".to_owned()));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(at_most).unwrap_or(u64::MAX).saturating_add(1);
    match file.take(limit).read_to_end(&mut bytes) {
        Ok(_) => Ok(FileState::Plain(meta, bytes)),
        Err(error) => Ok(FileState::Unusable(meta, format!("it cannot be read: {error}"))),
    }
}

/// Whether the path is a plain file with exactly this content.
pub(in crate::exec) fn has_content(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    Ok(match read(path, bytes.len())? {
        FileState::Plain(_, found) => found == bytes,
        FileState::Missing | FileState::Unusable(..) => false,
    })
}

/// Creates a file with its whole content; false if the path exists. The caller must hold the
/// mailbox lock: the draft has a fixed name, so that a crash leaves at most one draft, which the
/// next one replaces.
pub(super) fn create_new_file(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    create_via_draft(&parent(path).join(DRAFT_ENDING), path, bytes)
}

pub(in crate::exec) fn create_via_draft(
    draft: &Path,
    path: &Path,
    bytes: &[u8],
) -> Result<bool, FileError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    // Somebody may have put a link in the draft's place; this removes the link.
    remove_if_exists(draft).at("remove", draft)?;
    let written =
        open(OpenOptions::new().write(true).create_new(true), draft).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    let put = written.at("write", draft).and_then(|()| move_to_free(draft, path).at("write", path));
    if let Ok(true) = put {
        sync_folder(parent(path))?;
    } else {
        // Report the first fault; the next draft replaces one that stays.
        drop(fs::remove_file(draft));
    }
    put
}

/// Moves a file to a free path; false if the path exists.
pub(super) fn move_to_free(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // A file system without this rename still has links. A crash in between leaves the file
        // under both names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// Opens a log for reading and appending.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    let file = open(OpenOptions::new().read(true).append(true).create(true), path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is not a plain file"))
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// When the file or its name last changed. Unlike the modification time, no program can set it.
pub(super) fn changed(meta: &Metadata) -> Instant {
    Instant(meta.ctime().saturating_mul(1_000).saturating_add(meta.ctime_nsec() / 1_000_000))
}
