//! Reads plain files up to a size. Where a file is expected, nothing else is opened: a pipe would
//! make the reader wait for ever, and a device never ends.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
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

/// Reads the text of a file that is not larger.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    text_of(open(path)?, most)
}

/// The same of something that is open. The kind of the error is `FileTooLarge` or `InvalidData` if
/// it can be read, but is no such text.
pub fn text_of(input: impl Read, most: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    input.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let message = format!("larger than {} KiB", most / 1024);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let message = format!("not UTF-8 after byte {}", error.utf8_error().valid_up_to());
        io::Error::new(ErrorKind::InvalidData, message)
    })
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
        let large = read_text(&path("text"), 2).unwrap_err();
        assert_eq!(
            (large.kind(), large.to_string().as_str()),
            (ErrorKind::FileTooLarge, "larger than 0 KiB")
        );
        for path in [path("pipe"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(refused(&path), "not a plain file", "{}", path.display());
        }
        assert_eq!(refused(&path("bytes")), "not UTF-8 after byte 0");
        assert_eq!(read_text(&path("none"), 3).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(open_unlinked(&path("link")).is_err() && open_unlinked(&path("text")).is_ok());
    }
}
