//! A log of bounded size that never stops the job: bytes that cannot be written are counted and
//! dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// The current file holds half of the bound and the previous one the other half.
pub(super) struct Log {
    path: PathBuf,
    older: PathBuf,
    half: u64,
    file: Option<File>,
    written: u64,
    pub(super) dropped: u64,
}

impl Log {
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        let mut older = path.clone().into_os_string();
        older.push(".1");
        let half = (max_bytes / 2).max(1);
        Self { path, older: older.into(), half, file: None, written: 0, dropped: 0 }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.half - self.written).unwrap_or(usize::MAX);
            let fits = &bytes[..bytes.len().min(room)];
            let is_all = fits.len() == bytes.len();
            let now = if is_all { fits } else { self.up_to_line_end(fits) };
            if self.append(now).is_err() {
                self.dropped += now.len() as u64;
            }
            bytes = &bytes[now.len()..];
            if !is_all && self.rotate().is_err() {
                self.dropped += bytes.len() as u64;
                return;
            }
        }
    }

    /// Makes both files begin with a whole line, if lines are shorter than a file.
    fn up_to_line_end<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let line_end = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let without = if self.written == 0 { bytes.len() } else { 0 };
        &bytes[..line_end.unwrap_or(without)]
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().append(true).create(true).open(&self.path)?;
                self.written = file.metadata()?.len().min(self.half);
                self.file.insert(file)
            }
        };
        let written = file.write_all(bytes);
        if written.is_err() {
            // The next write opens it again and reads its real length.
            self.file = None;
        }
        self.written = (self.written + bytes.len() as u64).min(self.half);
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        // If there is nothing to rename, or the rename fails, the current file still must not grow.
        fs::rename(&self.path, &self.older).or_else(|_| File::create(&self.path).map(drop))?;
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn kept(path: &Path) -> (String, String) {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        (read(path.with_extension("log.1")), read(path.to_owned()))
    }

    #[test]
    fn the_oldest_half_goes_and_lines_stay_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = Log::new(path.clone(), 20);
        for line in 0..10 {
            log.write(format!("l{line}\n").as_bytes());
        }
        assert_eq!(kept(&path), ("l6\nl7\nl8\n".to_owned(), "l9\n".to_owned()));
        assert_eq!(log.dropped, 0);
    }

    #[test]
    fn one_huge_line_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        Log::new(path.clone(), 20).write(&[b'x'; 105]);
        assert_eq!(kept(&path), ("x".repeat(10), "x".repeat(5)));
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::new(folder.path().join("not/there.log"), 1_000);
        log.write(b"four");
        log.write(b"more");
        assert_eq!(log.dropped, 8);
    }
}
