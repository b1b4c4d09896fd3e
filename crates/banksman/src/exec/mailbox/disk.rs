//! How files of the mailbox are read and written: never through a link, never half, never over
//! another one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use banksman_core::time::Instant;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::place::parent;
use super::{FileError, fault};

pub(in crate::exec) const DRAFT_ENDING: &str = ".banksman-draft";

/// What is at a path.
pub(in crate::exec) enum Found {
    Nothing,
    /// Something that is not read, with the reason.
    Odd(Metadata, String),
    /// A plain file and its beginning: at most one byte more than was asked for, by which it is
    /// known to be too long.
    Plain(Metadata, Vec<u8>),
}

/// Reads the beginning of a plain file. A link is not followed, and a pipe is not waited for.
pub(in crate::exec) fn read(path: &Path, at_most: usize) -> Result<Found, FileError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if is_absence(&error) => return Ok(Found::Nothing),
        Err(source) => return Err(fault("look at", path, source)),
    };
    if !meta.is_file() {
        let kind = if meta.is_symlink() { "a link" } else { "no plain file" };
        return Ok(Found::Odd(meta, format!("it is {kind}")));
    }
    let file = match open(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if is_absence(&error) => return Ok(Found::Nothing),
        Err(error) => return Ok(Found::Odd(meta, format!("it cannot be opened: {error}"))),
    };
    // Whatever lay there a moment ago, this is about the file that is open.
    let meta = file.metadata().map_err(|source| fault("look at", path, source))?;
    if !meta.is_file() {
        return Ok(Found::Odd(meta, "it is no plain file".to_owned()));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(at_most).unwrap_or(u64::MAX).saturating_add(1);
    match file.take(limit).read_to_end(&mut bytes) {
        Ok(_) => Ok(Found::Plain(meta, bytes)),
        Err(error) => Ok(Found::Odd(meta, format!("it cannot be read: {error}"))),
    }
}

/// Whether a plain file with just this in it is at a path.
pub(in crate::exec) fn holds(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    Ok(match read(path, bytes.len())? {
        Found::Plain(_, found) => found == bytes,
        Found::Nothing | Found::Odd(..) => false,
    })
}

/// A file at its place as a whole, or false if there is something. Only who holds the mailbox's
/// lock may call this: the draft has one name, so that a crash leaves at most one behind, and the
/// next draft takes its place.
pub(super) fn put_new(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    put_new_by(&parent(path).join(DRAFT_ENDING), path, bytes)
}

pub(in crate::exec) fn put_new_by(
    draft: &Path,
    path: &Path,
    bytes: &[u8],
) -> Result<bool, FileError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    // Somebody may have put a link in the draft's place; what is removed is the link.
    match fs::remove_file(draft) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => return Err(fault("remove", draft, source)),
    }
    let written =
        open(OpenOptions::new().write(true).create_new(true), draft).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    let put = written
        .map_err(|source| fault("write", draft, source))
        .and_then(|()| move_new(draft, path).map_err(|source| fault("write", path, source)));
    if !matches!(put, Ok(true)) {
        // The first fault is the one to tell of; a draft that stays is replaced by the next one.
        drop(fs::remove_file(draft));
    }
    if put? {
        sync_folder(parent(path))?;
        return Ok(true);
    }
    Ok(false)
}

/// Moves a file to a place where nothing is; false if there is something.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if is_absence(&error) => Ok(()),
        Err(source) => Err(fault("replace", path, source)),
    }
}

pub(super) fn move_new(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // A file system that does not know this move knows links. A crash between the two leaves
        // the file under both names.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

pub(in crate::exec) fn sync_folder(path: &Path) -> Result<(), FileError> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|source| fault("sync", path, source))
}

pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true).write(true).create(true).truncate(false), path)
}

/// For reading, and for writing at the end only.
pub(super) fn open_log(path: &Path) -> io::Result<File> {
    let file = open(OpenOptions::new().read(true).append(true).create(true), path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file"))
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

pub(in crate::exec) fn modified(meta: &Metadata) -> Instant {
    let millis = meta.mtime().saturating_mul(1_000).saturating_add(meta.mtime_nsec() / 1_000_000);
    Instant(millis)
}

/// When anything about a file was last changed, its name included. Unlike the time above, no
/// program can set it.
pub(super) fn changed(meta: &Metadata) -> Instant {
    Instant(meta.ctime().saturating_mul(1_000).saturating_add(meta.ctime_nsec() / 1_000_000))
}

/// The beginning of a text, cut between two characters.
pub(super) fn cut(text: &str, at_most: usize) -> &str {
    &text[..text.floor_char_boundary(at_most)]
}
