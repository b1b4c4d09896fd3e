//! Reads a log that may still grow, in order and without repeats, also across its rotation.
//!
//! When the log is full, its writer renames `out.jsonl` to `out.jsonl.1` and starts a new file. The
//! reader keeps its file open and compares inodes, not names, to know which one it is reading.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::exec::files::if_exists;
use crate::exec::keeper::FileError;
use crate::ops::OpsError;
use crate::plain_file::open_unlinked;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many files one call reads; a faster writer is followed by the next call.
const FILES: usize = 100;

/// What a read returns.
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// Output was dropped before it could be read.
    Gap,
}

pub(super) struct Tail {
    name: &'static str,
    file: Option<File>,
}

impl Tail {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, file: None }
    }

    /// Passes on everything that was written since the last call.
    pub(super) fn read<E: From<OpsError>>(
        &mut self,
        folder: &Path,
        take: &mut dyn FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for _ in 0..FILES {
            self.drain(folder, take)?;
            let next = self.next(folder).map_err(|source| self.fault(folder, source))?;
            let Some((next, is_gap)) = next else { return Ok(()) };
            // Only now is it certain that nothing more is written to the old file.
            self.drain(folder, take)?;
            if is_gap {
                take(Piece::Gap)?;
            }
            self.file = Some(next);
        }
        Ok(())
    }

    fn drain<E: From<OpsError>>(
        &mut self,
        folder: &Path,
        take: &mut dyn FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let Some(file) = &mut self.file else { return Ok(()) };
            match file.read(&mut chunk).map_err(|source| self.fault(folder, source))? {
                0 => return Ok(()),
                read => take(Piece::Bytes(&chunk[..read]))?,
            }
        }
    }

    fn fault(&self, folder: &Path, source: io::Error) -> OpsError {
        FileError { action: "read", path: folder.join(self.name), source }.into()
    }

    /// The file after the one that was read to its end, and whether data between them is missing.
    fn next(&mut self, folder: &Path) -> io::Result<Option<(File, bool)>> {
        let current = folder.join(self.name);
        let older = folder.join(format!("{}.1", self.name));
        let Some(file) = &mut self.file else {
            let first = if_exists(open_unlinked(&older))?;
            return Ok(match first {
                Some(first) => Some((first, false)),
                None => if_exists(open_unlinked(&current))?.map(|first| (first, false)),
            });
        };
        let own = file.metadata()?;
        match if_exists(fs::metadata(&current))? {
            Some(now) if is_same(&now, &own) => {
                // A log that could not be renamed was truncated instead.
                if now.len() >= file.stream_position()? {
                    return Ok(None);
                }
                return Ok(Some((open_unlinked(&current)?, true)));
            }
            Some(_) | None => {}
        }
        let is_older = |older: Option<Metadata>| older.is_some_and(|older| is_same(&older, &own));
        if is_older(if_exists(fs::metadata(&older))?) {
            let Some(next) = if_exists(open_unlinked(&current))? else { return Ok(None) };
            // It follows ours only if there was no other rotation meanwhile.
            if is_older(if_exists(fs::metadata(&older))?) {
                return Ok(Some((next, false)));
            }
        }
        let next = if_exists(open_unlinked(&older))?;
        Ok(next.map(|next| (next, true)))
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    struct Written {
        folder: tempfile::TempDir,
        tail: Tail,
    }

    impl Written {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), tail: Tail::new("a") }
        }

        fn write(&self, text: &str) {
            let path = self.folder.path().join("a");
            let mut file = File::options().append(true).create(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn rotate(&self) {
            let path = self.folder.path().join("a");
            fs::rename(&path, self.folder.path().join("a.1")).unwrap();
        }

        fn read(&mut self) -> String {
            let mut text = String::new();
            let read = self.tail.read::<OpsError>(self.folder.path(), &mut |piece| {
                match piece {
                    Piece::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
                    Piece::Gap => text.push('…'),
                }
                Ok(())
            });
            read.unwrap();
            text
        }
    }

    #[test]
    fn what_comes_is_read_once() {
        let mut log = Written::new();
        assert_eq!(log.read(), "");
        log.write("one");
        assert_eq!(log.read(), "one");
        assert_eq!(log.read(), "");
        log.write("two");
        assert_eq!(log.read(), "two");
    }

    #[test]
    fn the_older_half_comes_first() {
        let mut log = Written::new();
        log.write("one");
        log.rotate();
        log.write("two");
        assert_eq!(log.read(), "onetwo");
    }

    #[test]
    fn a_rotation_loses_nothing() {
        let mut log = Written::new();
        log.write("one");
        assert_eq!(log.read(), "one");
        log.write("two");
        log.rotate();
        assert_eq!(log.read(), "two", "the rest of the old file, although there is no new one yet");
        log.write("three");
        assert_eq!(log.read(), "three");
        log.rotate();
        log.write("four");
        assert_eq!(log.read(), "four");
    }

    #[test]
    fn what_was_dropped_is_told() {
        let mut log = Written::new();
        log.write("one");
        assert_eq!(log.read(), "one");
        log.rotate();
        log.write("two");
        log.rotate();
        log.write("three");
        assert_eq!(
            log.read(),
            "…twothree",
            "the file after `one` is missing, and may have held more"
        );
        File::create(log.folder.path().join("a")).unwrap();
        assert_eq!(log.read(), "…");
    }
}
