//! Reads plain files up to a size. Where a file is expected, nothing else is opened: a pipe would
//! make the reader wait for ever, and a device never ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a file, also behind a link.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

/// Opens a file where an agent can put anything, a link to somewhere else included.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a plain file")) }
}

/// Reads a whole file that is not larger.
pub fn read_at_most(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("larger than {} KiB", most / 1024)));
    }
    Ok(bytes)
}

/// Reads a whole text that is not larger.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    String::from_utf8(read_at_most(path, most)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_plain_files_of_the_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("text"), "abc").unwrap();
        fs::write(path("bytes"), [0xff]).unwrap();
        symlink(path("text"), path("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR).unwrap();
        let refused = |path: &Path| read_text(path, 3).unwrap_err().to_string();
        assert_eq!(read_text(&path("link"), 3).unwrap(), "abc");
        assert_eq!(read_at_most(&path("text"), 2).unwrap_err().to_string(), "larger than 0 KiB");
        for path in [path("pipe"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(refused(&path), "not a plain file", "{}", path.display());
        }
        assert!(refused(&path("bytes")).contains("invalid utf-8"));
        assert_eq!(read_text(&path("none"), 3).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_unlinked(&path("link")).is_err() && open_unlinked(&path("text")).is_ok());
    }
}
