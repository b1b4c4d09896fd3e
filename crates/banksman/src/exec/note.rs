//! The file of a daily note: read as a whole, replaced only if it is unchanged, and kept where
//! agents do not write.
//!
//! It only handles files. People edit the note with programs that know nothing of Banksman, so
//! there is no lock: a new text replaces the old one atomically, and if the old one is not the
//! expected one, it is put back.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use banksman_core::limits;
use banksman_core::time::Instant;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::files::{AtPath, FileError, changed_at, fault};
use super::mailbox::disk::{self, DRAFT_ENDING, FileState};
use crate::clock;

/// A note says what people work on: it is readable by its owner alone, unless the owner changes
/// that.
const NEW_FILE: u32 = 0o600;
const NEW_FOLDER: u32 = 0o700;

#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot use the daily note `{}`: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("cannot keep the daily note in `{}`: {why}", folder.display())]
    Place { folder: PathBuf, why: String },
}

/// A note as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteFile {
    pub text: String,
    pub modified: Instant,
}

/// Creates the folder if needed, and refuses one in which agents work: text that an agent writes or
/// merges would count as a person's answer. `projects` are the folders of all repositories that
/// agents work on.
pub fn open_folder(folder: &Path, projects: &[PathBuf]) -> Result<PathBuf, NoteError> {
    refuse_agent_folder(&resolve_existing(folder), folder, projects)?;
    DirBuilder::new().recursive(true).mode(NEW_FOLDER).create(folder).at("create", folder)?;
    // Only now is it known where links lead.
    let real = folder.canonicalize().at("find", folder)?;
    refuse_agent_folder(&real, folder, projects)?;
    Ok(real)
}

/// Resolves the part of a path that exists and appends the rest.
fn resolve_existing(folder: &Path) -> PathBuf {
    let resolve =
        |there: &Path| Some(there.canonicalize().ok()?.join(folder.strip_prefix(there).ok()?));
    folder.ancestors().find_map(resolve).unwrap_or_else(|| folder.to_owned())
}

fn refuse_agent_folder(real: &Path, folder: &Path, projects: &[PathBuf]) -> Result<(), NoteError> {
    let refused = |why: String| NoteError::Place { folder: folder.to_owned(), why };
    // In a linked worktree `.git` is a file that names the repository.
    if let Some(worktree) = real.ancestors().find(|one| one.join(".git").is_file()) {
        let why = format!("`{}` is a worktree, in which agents may write", worktree.display());
        return Err(refused(why));
    }
    let contains_folder = |project: &&PathBuf| {
        let project = project.canonicalize().unwrap_or_else(|_| (*project).clone());
        real.starts_with(project)
    };
    match projects.iter().find(contains_folder) {
        Some(project) => Err(refused(format!(
            "`{}` is a project: a branch that an agent made could contain answers",
            project.display()
        ))),
        None => Ok(()),
    }
}

/// Reads the note, if it exists.
pub fn read(path: &Path) -> Result<Option<NoteFile>, NoteError> {
    let unusable = |why: String| NoteError::Unusable { path: path.to_owned(), why };
    match disk::read(path, limits::DAILY_BYTES)? {
        FileState::Missing => Ok(None),
        FileState::Unusable(_, why) => Err(unusable(why)),
        FileState::Plain(_, bytes) if bytes.len() > limits::DAILY_BYTES => {
            Err(unusable(format!("it has more than {} bytes", limits::DAILY_BYTES)))
        }
        FileState::Plain(meta, bytes) => {
            let text =
                String::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8".to_owned()))?;
            Ok(Some(NoteFile { text, modified: changed_at(&meta) }))
        }
    }
}

/// Replaces the text that was read by a new one. Returns false and changes nothing if somebody has
/// written meanwhile.
pub fn replace(path: &Path, expected: Option<&str>, new: &str) -> Result<bool, NoteError> {
    if new.len() > limits::DAILY_BYTES {
        let why = format!("it would have more than {} bytes", limits::DAILY_BYTES);
        return Err(NoteError::Unusable { path: path.to_owned(), why });
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let draft = folder.join(format!(".{:016x}{DRAFT_ENDING}", clock::nonce()));
    let Some(expected) = expected else {
        let mode = fs::Permissions::from_mode(NEW_FILE);
        let put = disk::create_via_draft(&draft, path, new.as_bytes())?;
        if put {
            fs::set_permissions(path, mode).at("protect", path)?;
        }
        return Ok(put);
    };
    if !disk::has_content(path, expected.as_bytes())? {
        return Ok(false);
    }
    let swapped =
        write_draft(&draft, path, new).and_then(|()| swap(&draft, path, expected.as_bytes(), new));
    let is_disposable = match swapped {
        Ok(Swapped::Replaced | Swapped::PutBack) => true,
        Ok(Swapped::Saved) => false,
        // It failed in between: the draft may hold somebody's text.
        Err(_) => disk::has_content(&draft, new.as_bytes())?,
    };
    if is_disposable {
        // A draft that stays is hidden and harmless.
        drop(fs::remove_file(&draft));
    }
    disk::sync_folder(folder)?;
    Ok(matches!(swapped?, Swapped::Replaced))
}

/// The result of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swapped {
    Replaced,
    /// Somebody saved in between, and their text is in place.
    PutBack,
    /// Two people saved in between: the last text is in place, and the other is next to it.
    Saved,
}

/// Exchanges the draft and the note atomically, so that the previous content can be examined.
fn swap(draft: &Path, path: &Path, expected: &[u8], new: &str) -> Result<Swapped, NoteError> {
    match exchange(draft, path) {
        Ok(()) => {}
        // On a file system without this rename, a text saved at this very moment is lost.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::rename(draft, path).at("replace", path)?;
            return Ok(Swapped::Replaced);
        }
        Err(Errno::NOENT) => return Ok(Swapped::PutBack),
        Err(error) => return Err(fault("replace", path, error.into()).into()),
    }
    if disk::has_content(draft, expected)? {
        return Ok(Swapped::Replaced);
    }
    let put_back = |error: Errno| fault("put back", path, error.into());
    exchange(draft, path).map_err(put_back)?;
    if disk::has_content(draft, new.as_bytes())? {
        return Ok(Swapped::PutBack);
    }
    // Whoever saved over our text saved last.
    exchange(draft, path).map_err(put_back)?;
    let beside = path.with_extension(format!("{:08x}.conflict.md", clock::nonce() >> 32));
    fs::rename(draft, &beside).at("keep", &beside)?;
    Ok(Swapped::Saved)
}

fn exchange(draft: &Path, path: &Path) -> Result<(), Errno> {
    renameat_with(CWD, draft, CWD, path, RenameFlags::EXCHANGE)
}

fn write_draft(draft: &Path, path: &Path, new: &str) -> Result<(), NoteError> {
    let written = fs::metadata(path).and_then(|old| {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(NEW_FILE).open(draft)?;
        file.write_all(new.as_bytes())?;
        file.set_permissions(old.permissions())?;
        file.sync_all()
    });
    Ok(written.at("write", draft)?)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_note_is_replaced_only_if_unchanged() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.md");
        assert_eq!(read(&path).unwrap(), None);
        assert!(replace(&path, None, "one").unwrap());
        assert!(!replace(&path, None, "other").unwrap(), "somebody else has made it");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, NEW_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(!replace(&path, Some("x"), "two").unwrap());
        assert_eq!(read(&path).unwrap().unwrap().text, "one");
        assert!(replace(&path, Some("one"), "two").unwrap());
        assert_eq!(read(&path).unwrap().unwrap().text, "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a.md"]);
    }

    #[test]
    fn a_concurrent_save_is_put_back() {
        let folder = TempDir::new().unwrap();
        let [path, draft] = ["a.md", "draft"].map(|name| folder.path().join(name));
        fs::write(&path, "saved meanwhile").unwrap();
        fs::write(&draft, "ours").unwrap();
        assert_eq!(swap(&draft, &path, b"seen", "ours").unwrap(), Swapped::PutBack);
        assert_eq!(fs::read_to_string(&path).unwrap(), "saved meanwhile");
        // As if two people had saved: one before our text was in place, and one over it.
        fs::write(&draft, "saved a moment later").unwrap();
        assert_eq!(swap(&draft, &path, b"seen", "ours").unwrap(), Swapped::Saved);
        let texts: Vec<String> = names(folder.path())
            .iter()
            .map(|name| fs::read_to_string(folder.path().join(name)).unwrap())
            .collect();
        assert_eq!(texts, ["saved meanwhile", "saved a moment later"]);
        assert!(names(folder.path())[0].ends_with(".conflict.md"));
    }

    /// A person saves as fast as possible while we write: nothing is lost.
    #[test]
    fn nothing_that_somebody_saves_is_lost() {
        const LINES: usize = 300;
        let folder = TempDir::new().unwrap();
        let [path, own] = ["a.md", "own"].map(|name| folder.path().join(name));
        fs::write(&path, "0\n").unwrap();
        let typed = |lines: usize| -> String {
            (0..lines).map(|number| format!("line {number}\n")).collect()
        };
        std::thread::scope(|scope| {
            let person = scope.spawn(|| {
                for lines in 1..=LINES {
                    fs::write(&own, format!("0\n{}", typed(lines))).unwrap();
                    fs::rename(&own, &path).unwrap();
                }
            });
            let mut written = 0;
            while !person.is_finished() || written == 0 {
                let expected = read(&path).unwrap().unwrap().text;
                let (count, rest) = expected.split_once('\n').unwrap();
                let new = format!("{}\n{rest}", count.parse::<usize>().unwrap() + 1);
                written += usize::from(replace(&path, Some(&expected), &new).unwrap());
            }
        });
        // Of two saves at the same moment, one is next to the note.
        let texts = names(folder.path());
        let texts = texts.iter().map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
        let all = typed(LINES);
        assert!(texts.into_iter().any(|text| text.ends_with(&all)));
        assert!(names(folder.path()).iter().all(|name| name.ends_with(".md")), "no draft is left");
    }

    #[test]
    fn links_long_files_and_bytes_are_refused() {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("long"), vec![b'a'; limits::DAILY_BYTES + 1]).unwrap();
        fs::write(at("bytes"), [0xff]).unwrap();
        std::os::unix::fs::symlink(at("bytes"), at("link")).unwrap();
        for (name, why) in [("long", "more than"), ("bytes", "not UTF-8"), ("link", "a link")] {
            let error = read(&at(name)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_folder_in_which_agents_work_is_refused() {
        let root = TempDir::new().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("project/.git")).unwrap();
        fs::create_dir_all(at("tree")).unwrap();
        fs::write(at("tree/.git"), "gitdir: elsewhere").unwrap();
        std::os::unix::fs::symlink(at("project"), at("link")).unwrap();
        let projects = [at("project")];
        for (name, why) in [
            ("project/notes", "is a project"),
            ("link/notes", "is a project"),
            ("tree/a/b", "is a worktree"),
        ] {
            let error = open_folder(&at(name), &projects).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(!at(name).exists(), "{name} was made");
        }
        // Agents do not work in a vault that people keep in git.
        fs::create_dir_all(at("vault/.git")).unwrap();
        let real = open_folder(&at("vault/daily"), &projects).unwrap();
        assert_eq!(real, at("vault/daily").canonicalize().unwrap());
    }
}
