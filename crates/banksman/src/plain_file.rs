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

/// The folder of a project's settings. Agents may not write in it, but in the rest of the project.
pub const SETTINGS_FOLDER: &str = ".banksman";

/// Reads the text of a settings file, which no link may take from a place where agents write.
pub fn read_settings(path: &Path, most: usize) -> io::Result<String> {
    let text = read_text(path, most)?;
    let Some(folder) = path.ancestors().find(|above| above.ends_with(SETTINGS_FOLDER)) else {
        return Ok(text);
    };
    let root = folder.parent().filter(|root| !root.as_os_str().is_empty());
    let (real, root) = (path.canonicalize()?, root.unwrap_or(Path::new(".")).canonicalize()?);
    if real.starts_with(&root) && !real.starts_with(root.join(SETTINGS_FOLDER)) {
        let message = format!(
            "a link leads to {}, where agents may write; move the file into {SETTINGS_FOLDER}/",
            real.display()
        );
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    Ok(text)
}

/// The text of something that is open. The kind of the error is `FileTooLarge` or `InvalidData` if
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

    /// A link within a project would let an agent write what restricts it; a person may keep the
    /// settings elsewhere.
    #[test]
    fn settings_do_not_come_from_where_agents_write() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let read = |name: &str| read_settings(&root.path().join(".banksman").join(name), 9);
        for folder in ["conf", ".banksman"] {
            fs::create_dir(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("policy.yaml"), folder).unwrap();
        }
        fs::write(other.path().join("policy.yaml"), "other").unwrap();
        assert_eq!(read("policy.yaml").unwrap(), ".banksman");
        symlink("../conf/policy.yaml", root.path().join(".banksman/linked")).unwrap();
        symlink("policy.yaml", root.path().join(".banksman/beside")).unwrap();
        symlink(other.path().join("policy.yaml"), root.path().join(".banksman/far")).unwrap();
        assert!(read("linked").unwrap_err().to_string().contains("conf/policy.yaml"));
        assert_eq!(read("beside").unwrap(), ".banksman");
        assert_eq!(read("far").unwrap(), "other");
        fs::remove_dir_all(root.path().join(".banksman")).unwrap();
        symlink("conf", root.path().join(".banksman")).unwrap();
        assert_eq!(read("policy.yaml").unwrap_err().kind(), ErrorKind::PermissionDenied);
        fs::remove_file(root.path().join(".banksman")).unwrap();
        symlink(other.path(), root.path().join(".banksman")).unwrap();
        assert_eq!(read("policy.yaml").unwrap(), "other");
    }
}
