//! The mailbox files of a run: signals that a step is done, and feedback on earlier attempts.
//!
//! Agents and people write these files, so nothing in them is trusted: sizes are bounded, links are
//! not followed, and only files below the given roots are touched. What a signal means for the run
//! is decided elsewhere.

use std::fs;
use std::io;
use std::path::Path;

use banksman_core::limits::SIGNAL_BYTES;

use crate::exec::files::{self, FoundFile, remove_if_exists};
use crate::exec::git::MAILBOX;
use crate::exec::mailbox::{StepSignal, TAKEN, disk};

/// How much of the sentences is kept.
const NOTE_BYTES: usize = 2 * 1024;
/// The most feedback for one attempt: an agent has to read it all.
const FEEDBACK_FILES: usize = 50;
const FEEDBACK_BYTES: u64 = 2 * 1024 * 1024;

/// What is at the path of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignalState {
    Missing,
    /// Not a complete JSON value, or not yet.
    Incomplete,
    /// Something that cannot become a signal.
    Unusable(String),
    Complete {
        text: Vec<u8>,
        signal: StepSignal,
    },
}

/// Reads a signal below a root.
pub(super) fn read_signal(root: &Path, path: &str) -> SignalState {
    if !files::is_inside(path) {
        return SignalState::Unusable("its path leads out of the repository".to_owned());
    }
    match disk::read(&root.join(path), SIGNAL_BYTES) {
        Ok(disk::FileState::Missing) => SignalState::Missing,
        Ok(disk::FileState::Unusable(_, why)) => SignalState::Unusable(why),
        Ok(disk::FileState::Plain(_, text)) if text.len() > SIGNAL_BYTES => {
            SignalState::Unusable("it is too large".to_owned())
        }
        Ok(disk::FileState::Plain(_, text)) => match parse_signal(&text) {
            Some(signal) => SignalState::Complete { text, signal },
            None => SignalState::Incomplete,
        },
        Err(error) => SignalState::Unusable(files::with_cause(&error)),
    }
}

/// None while the text is not a complete JSON value.
fn parse_signal(text: &[u8]) -> Option<StepSignal> {
    let mut signal = StepSignal::parse(text)?;
    signal.note.iter_mut().for_each(|note| note.truncate(note.floor_char_boundary(NOTE_BYTES)));
    Some(signal)
}

/// Removes a signal, if it exists.
pub(super) fn remove_signal(root: &Path, path: &str) -> io::Result<()> {
    if !files::is_inside(path) {
        return Ok(());
    }
    remove_if_exists(&root.join(path))
}

/// Keeps a copy of a signal that a job has read, for people who want to look it up later.
pub(super) fn keep_copy(mailbox: &Path, path: &str, job: &str, text: &[u8]) -> io::Result<()> {
    let folder = mailbox.join(TAKEN);
    fs::create_dir_all(&folder)?;
    let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files::replace(&folder.join(format!("{name}.{job}.json")), text)
}

/// Copies feedback on earlier attempts to the same place in the worktree. Returns which files were
/// not copied, and why.
pub(super) fn copy_feedback(mailbox: &Path, worktree: &Path, globs: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut found: Vec<FoundFile> = Vec::new();
    for glob in globs {
        let of_mailbox =
            |found: &FoundFile| MAILBOX.iter().any(|folder| found.path.starts_with(folder));
        let (inside, outside): (Vec<FoundFile>, Vec<FoundFile>) =
            files::find(mailbox, glob, FEEDBACK_FILES + 1, &|_| true)
                .into_iter()
                .partition(of_mailbox);
        found.extend(inside);
        // Elsewhere a copy would count as the agent's work.
        notes.extend(outside.iter().map(|file| not_copied(file, "it is not in the mailbox")));
    }
    found.sort();
    found.dedup();
    let mut bytes = 0;
    for (number, file) in found.iter().enumerate() {
        bytes += file.bytes;
        if number >= FEEDBACK_FILES || bytes > FEEDBACK_BYTES {
            notes.push(not_copied(file, "the limit of feedback for one attempt is reached"));
            break;
        }
        if let Err(error) = copy(mailbox, worktree, file) {
            notes.push(not_copied(file, &error.to_string()));
        }
    }
    notes
}

fn not_copied(file: &FoundFile, why: &str) -> String {
    format!("feedback `{}` was not copied: {why}", file.path.display())
}

fn copy(mailbox: &Path, worktree: &Path, file: &FoundFile) -> io::Result<()> {
    make_folders(worktree, file.path.parent().unwrap_or(Path::new("")))?;
    let text = files::read_plain(&mailbox.join(&file.path), file.bytes)?;
    files::replace(&worktree.join(&file.path), &text)
}

/// Creates folders below a root, none of them through a link.
fn make_folders(root: &Path, below: &Path) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in below.components() {
        folder.push(part);
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other("a link or a file is in its place")),
            Err(_) => fs::create_dir(&folder)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const PATH: &str = ".workflow/signals/X-1-done.json";

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_signal_is_any_complete_json_value() {
        let signal =
            |failed, note: Option<&str>| Some(StepSignal { failed, note: note.map(str::to_owned) });
        for (text, expected) in [
            ("{}", signal(false, None)),
            ("true", signal(false, None)),
            ("\"failed\"", signal(false, None)),
            (r#"{"status":"done","note":" all green "}"#, signal(false, Some("all green"))),
            (r#"{"status":"FAILED","note":"","message":"no disk"}"#, signal(true, Some("no disk"))),
            (r#"{"status":"blocked","reason":"why"}"#, signal(true, Some("why"))),
            (r#"{"status":"error","summary":"what","note":7}"#, signal(true, Some("what"))),
            (r#"{"status":"fail"}"#, signal(true, None)),
            (r#"{"status":"not failed"}"#, signal(false, None)),
            ("", None),
            ("{\"status\":\"do", None),
            ("{} {}", None),
            ("done", None),
        ] {
            assert_eq!(parse_signal(text.as_bytes()), expected, "{text}");
        }
        let long = format!(r#"{{"note":"{}"}}"#, "é".repeat(5_000));
        assert!(parse_signal(long.as_bytes()).unwrap().note.unwrap().len() <= NOTE_BYTES);
    }

    #[test]
    fn unusable_signal_files_are_recognised() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(read_signal(root, PATH), SignalState::Missing);
        assert_eq!(
            read_signal(root, "../x.json"),
            SignalState::Unusable("its path leads out of the repository".to_owned())
        );
        put(root, PATH, "{\"sta");
        assert_eq!(read_signal(root, PATH), SignalState::Incomplete);
        put(root, PATH, &format!("\"{}\"", "x".repeat(300_000)));
        assert_eq!(read_signal(root, PATH), SignalState::Unusable("it is too large".to_owned()));
        remove_signal(root, PATH).unwrap();
        remove_signal(root, PATH).unwrap();
        put(root, "elsewhere", "{}");
        symlink(root.join("elsewhere"), root.join(PATH)).unwrap();
        assert_eq!(read_signal(root, PATH), SignalState::Unusable("it is a link".to_owned()));
        remove_signal(root, PATH).unwrap();
        assert!(root.join("elsewhere").exists() && !root.join(PATH).exists());
    }

    #[test]
    fn feedback_goes_to_the_same_place_and_nowhere_else() {
        let (mailbox, worktree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mailbox, worktree) = (mailbox.path(), worktree.path());
        let at = |name: &str| format!(".workflow/retry-context/{name}");
        put(mailbox, &at("XG-1-2-attempt-1.md"), "one");
        put(mailbox, &at("XG-1-2-attempt-2.md"), "two");
        put(mailbox, &at("XG-2-end-attempt-1.md"), "other");
        put(mailbox, "docs/plan.md", "plan");
        put(worktree, &at("XG-1-2-attempt-1.md"), "old");
        let globs = [at("XG-1-2-*.md"), "docs/*".to_owned(), at("none-*.md")];
        let notes = copy_feedback(mailbox, worktree, &globs);
        let expected = ["feedback `docs/plan.md` was not copied: it is not in the mailbox"];
        assert_eq!(notes, expected);
        let read = |name: &str| fs::read_to_string(worktree.join(at(name))).ok();
        assert_eq!(read("XG-1-2-attempt-1.md").as_deref(), Some("one"));
        assert_eq!(read("XG-1-2-attempt-2.md").as_deref(), Some("two"));
        assert_eq!(read("XG-2-end-attempt-1.md"), None);
        assert!(!worktree.join("docs").exists());
    }

    #[test]
    fn feedback_is_bounded_and_does_not_follow_links() {
        let (mailbox, worktree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = tempfile::tempdir().unwrap();
        let glob = [".workflow/retry-context/*".to_owned()];
        for number in 0..60 {
            put(mailbox.path(), &format!(".workflow/retry-context/{number:03}.md"), "x");
        }
        let notes = copy_feedback(mailbox.path(), worktree.path(), &glob);
        assert_eq!(notes.len(), 1, "{notes:?}");
        let copied = fs::read_dir(worktree.path().join(".workflow/retry-context")).unwrap();
        assert_eq!(copied.count(), FEEDBACK_FILES);

        fs::remove_dir_all(worktree.path().join(".workflow")).unwrap();
        symlink(outside.path(), worktree.path().join(".workflow")).unwrap();
        let notes = copy_feedback(mailbox.path(), worktree.path(), &glob);
        assert!(notes[0].contains("a link or a file is in its place"), "{notes:?}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
