//! Reads and writes text files of the worktree for an agent that cannot do so itself.
//!
//! It walks a path from the worktree's root one name at a time and follows no symbolic link, so a
//! path cannot lead out of the worktree even if somebody changes folders meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, ftruncate, mkdirat, openat};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{INTERNAL, NOT_FOUND, WRONG_PARAMS};
use crate::exec::agent::text::text_of;

/// The largest file. As JSON it may take twice as much, and it must fit a message.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// The most folders in a path.
const DEPTH: usize = 256;

/// A JSON-RPC error code and a message.
type Refusal = (i64, String);

pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn read(&self, params: &Value) -> Result<Value, Refusal> {
        let path = text_of(params, "path");
        let file = self.open(path, OFlags::RDONLY).map_err(|error| refusal(path, &error))?;
        let mut content = Vec::new();
        file.take(FILE_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(|error| refusal(path, &error))?;
        if content.len() as u64 > FILE_BYTES {
            return Err((INTERNAL, format!("`{path}` is longer than {FILE_BYTES} bytes")));
        }
        let content = String::from_utf8(content)
            .map_err(|_| (INTERNAL, format!("`{path}` is not UTF-8 text")))?;
        Ok(json!({ "content": lines(&content, &params["line"], &params["limit"]) }))
    }

    pub(super) fn write(&self, params: &Value) -> Result<Value, Refusal> {
        let path = text_of(params, "path");
        let Some(content) = params["content"].as_str() else {
            return Err((WRONG_PARAMS, "`content` is missing".to_owned()));
        };
        if content.len() as u64 > FILE_BYTES {
            return Err((INTERNAL, format!("the content is longer than {FILE_BYTES} bytes")));
        }
        let write = || {
            let mut file = self.open(path, OFlags::WRONLY | OFlags::CREATE)?;
            ftruncate(&file, 0)?;
            file.write_all(content.as_bytes())
        };
        write().map_err(|error| refusal(path, &error))?;
        Ok(json!({}))
    }

    /// Opens a regular file, never through a link. Creates missing folders if the file may be
    /// created.
    fn open(&self, path: &str, how: OFlags) -> io::Result<File> {
        let names = self.names(path)?;
        let (name, folders) = names.split_last().ok_or(io::ErrorKind::IsADirectory)?;
        let folder_flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let mut folder: OwnedFd = openat(CWD, &self.root, folder_flags, Mode::empty())?;
        for name in folders {
            if how.contains(OFlags::CREATE) {
                match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            folder = openat(&folder, name, folder_flags | OFlags::NOFOLLOW, Mode::empty())?;
        }
        // Without NONBLOCK, opening a pipe that nobody writes to would block forever.
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&folder, name, flags, Mode::from_raw_mode(0o666))?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(File::from(file))
    }

    /// The names from the root to a file; an error for a path that leads outside.
    fn names(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        let outside = || io::Error::new(io::ErrorKind::PermissionDenied, "outside the worktree");
        let path = Path::new(path);
        let inside = if path.is_absolute() {
            path.strip_prefix(&self.root).map_err(|_| outside())?
        } else {
            path
        };
        let mut names = Vec::new();
        for component in inside.components().take(DEPTH) {
            match component {
                Component::Normal(name) => names.push(PathBuf::from(name)),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside());
                }
            }
        }
        Ok(names)
    }
}

fn refusal(path: &str, error: &io::Error) -> Refusal {
    match error.kind() {
        // The wording that clients of this protocol look for.
        io::ErrorKind::NotFound => (NOT_FOUND, format!("Resource not found: {path}")),
        _ => (INTERNAL, format!("`{path}`: {error}")),
    }
}

/// At most `limit` lines, beginning with `line`, counted from 1.
fn lines(content: &str, line: &Value, limit: &Value) -> String {
    let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
    if line.is_null() && limit.is_null() {
        return content.to_owned();
    }
    let from = number(line).unwrap_or(1).saturating_sub(1);
    content.split_inclusive('\n').skip(from).take(number(limit).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn fixture() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().join("worktree");
        fs::create_dir(&root).expect("made");
        fs::write(folder.path().join("secret"), "s").expect("written");
        let files = Files::new(&root);
        (folder, files)
    }

    #[test]
    fn what_is_written_is_read() {
        let (folder, files) = fixture();
        let root = folder.path().join("worktree");
        let path = root.join("a/b/c.txt");
        assert_eq!(
            files.write(&json!({"path": path, "content": "one\ntwo\nthree"})),
            Ok(json!({}))
        );
        assert_eq!(fs::read_to_string(&path).expect("read"), "one\ntwo\nthree");
        let read = |params: Value| {
            files.read(&params).map(|result| text_of(&result, "content").to_owned())
        };
        assert_eq!(read(json!({"path": path})).as_deref(), Ok("one\ntwo\nthree"));
        assert_eq!(read(json!({"path": path, "line": 2, "limit": 1})).as_deref(), Ok("two\n"));
        assert_eq!(read(json!({"path": path, "line": 3})).as_deref(), Ok("three"));
        assert_eq!(read(json!({"path": path, "line": 9})).as_deref(), Ok(""));
        assert_eq!(files.write(&json!({"path": "./a/b/c.txt", "content": "x"})), Ok(json!({})));
        assert_eq!(fs::read_to_string(&path).expect("read"), "x", "what was there is gone");
    }

    #[test]
    fn a_missing_file_has_its_own_code() {
        let (_folder, files) = fixture();
        let refusal = files.read(&json!({"path": "none/such"})).expect_err("missing");
        assert_eq!(refusal, (NOT_FOUND, "Resource not found: none/such".to_owned()));
        assert!(files.write(&json!({"path": "a"})).is_err(), "no content");
        assert!(files.read(&json!({})).is_err(), "no path");
    }

    #[test]
    fn nothing_leads_out_of_the_worktree() {
        let (folder, files) = fixture();
        let root = folder.path().join("worktree");
        symlink(folder.path(), root.join("up")).expect("linked");
        symlink("../secret", root.join("file")).expect("linked");
        symlink("../made", root.join("dangling")).expect("linked");
        let secret = folder.path().join("secret");
        let sneaky = format!("{}/x/../../secret", root.display());
        for path in [
            "../secret",
            "up/secret",
            "file",
            "x/../../secret",
            "/etc/passwd",
            &sneaky,
            secret.to_str().expect("UTF-8"),
        ] {
            assert!(files.read(&json!({"path": path})).is_err(), "read {path}");
            assert!(files.write(&json!({"path": path, "content": "w"})).is_err(), "write {path}");
        }
        assert!(files.write(&json!({"path": "dangling", "content": "w"})).is_err());
        assert!(files.write(&json!({"path": "up/made", "content": "w"})).is_err());
        assert_eq!(fs::read_to_string(&secret).expect("read"), "s");
        assert!(!folder.path().join("made").exists());
        assert!(!folder.path().join("x").exists());
    }

    #[test]
    fn only_small_texts_in_regular_files() {
        let (folder, files) = fixture();
        let root = folder.path().join("worktree");
        fs::write(root.join("binary"), [0xff, 0xfe]).expect("written");
        File::create(root.join("huge"))
            .and_then(|file| file.set_len(FILE_BYTES + 1))
            .expect("made");
        rustix::fs::mkfifoat(CWD, root.join("pipe"), Mode::from_raw_mode(0o600)).expect("made");
        for path in ["binary", "huge", "pipe", ".", ""] {
            assert!(files.read(&json!({"path": path})).is_err(), "{path}");
        }
        let long = "x".repeat(usize::try_from(FILE_BYTES).expect("small") + 1);
        assert!(files.write(&json!({"path": "long", "content": long})).is_err());
        assert!(!root.join("long").exists());
    }
}
