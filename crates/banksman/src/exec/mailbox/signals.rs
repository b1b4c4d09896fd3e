//! Signals: files by which a step says that it is done and a gate that it has passed or failed.
//!
//! Looking changes nothing. A signal counts until it is taken; what it led to must be on record by
//! then, under the signal's [`SignalFile::key`], because a crash between the two shows the same
//! signal again.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::disk::{self, Found};
use super::names::{file_name, split_ending};
use super::{Mailbox, MailboxError, SAME_NAME, SIGNALS, TAKEN, fault, place};

/// More than a reviewer writes, less than what an agent pours out by mistake.
const SIGNAL_BYTES: usize = 256 * 1_024;
/// Whoever writes a file is finished with it by then.
const WRITING: Span = Span(10 * 60_000);
/// Where a sentence may stand, the likeliest first.
const NOTES: [&str; 5] = ["feedback", "note", "message", "summary", "reason"];
const FAILED: [&str; 5] = ["failed", "failure", "fail", "error", "blocked"];
/// How a gate's file may end.
pub(super) const ENDINGS: [&str; 4] = ["", ".json", ".md", ".txt"];

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedSignal {
    /// The end of a step: in `signals/<id>-done.json`, or at a path of its own from the root of the
    /// repository.
    Step { id: String, path: Option<String> },
    /// The verdict of a gate: in `signals/<id>-pass` or `-fail`, with an ending or without.
    Gate { id: String },
}

/// A signal that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalFile {
    pub what: ExpectedSignal,
    /// From the root of the repository.
    pub path: String,
    pub modified: Instant,
    /// When it was last changed, its name included, and after that the folders on the way to it:
    /// what lay elsewhere before may have come with its folder. A program can set the time
    /// above, and not these.
    pub changed: Vec<Instant>,
    /// The user that it belongs to, by number; none of a path that leads out of the repository.
    pub owner: Option<u32>,
    pub content: Content,
    /// None of a path that leads out of the repository, where nothing was looked at.
    print: Option<Print>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Done {
        failed: bool,
        note: Option<String>,
    },
    Pass {
        note: Option<String>,
    },
    Fail {
        note: String,
        reason: Option<String>,
    },
    /// It cannot be read, maybe because it is being written.
    NotYet {
        why: String,
    },
    /// It cannot be read and nobody writes it any more.
    Unreadable {
        why: String,
    },
}

/// What became of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalResult {
    /// It lies here now.
    Moved(String),
    /// It is not what was read any more, and was left.
    Changed,
    /// It is not there any more.
    Gone,
}

/// By which a file is known again, and by which a new one of the same words is known to be new.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Print {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    /// Of as much as is read.
    hash: String,
}

impl Print {
    fn of(meta: &Metadata, bytes: &[u8]) -> Self {
        let digest = Sha256::digest(bytes);
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            hash: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

impl SignalFile {
    /// Names this signal and no other one, also after a restart: by it what follows from the signal
    /// is done once.
    #[must_use]
    pub fn key(&self) -> String {
        let Some(print) = &self.print else { return self.path.clone() };
        let Print { inode, modified: (seconds, nanos), hash, .. } = print;
        format!("{}@{seconds}.{nanos:09}-{inode}-{hash}", self.path)
    }
}

impl SignalFile {
    /// The same as a mark for the log of a workflow.
    #[must_use]
    pub fn mark(&self) -> String {
        let digest = Sha256::digest(self.key().as_bytes());
        let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("signal-{short}")
    }
}

impl Mailbox {
    /// Whether anything lies in the folder of signals beside what was taken.
    #[must_use]
    pub fn has_signals(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.signals_folder()) else { return false };
        entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
    }

    /// The signals that are there, in the order in which they are expected. Of a gate all are
    /// given, a fail before a pass: where both lie, somebody has something against it.
    pub fn look(
        &self,
        expected: &[ExpectedSignal],
        now: Instant,
    ) -> Result<Vec<SignalFile>, MailboxError> {
        let mut seen = Vec::new();
        for what in expected {
            for (path, kind) in paths(what) {
                seen.extend(self.look_at(what, &path, kind, now)?);
            }
        }
        Ok(seen)
    }

    fn look_at(
        &self,
        what: &ExpectedSignal,
        path: &str,
        kind: Kind,
        now: Instant,
    ) -> Result<Option<SignalFile>, MailboxError> {
        let full = match place::existing(&self.root, path) {
            Ok(Some(full)) => full,
            Ok(None) => return Ok(None),
            Err(error) => return refused_path(what, path, error, now).map(Some),
        };
        let (meta, bytes, read) = match disk::read(&full, SIGNAL_BYTES)? {
            Found::Nothing => return Ok(None),
            Found::Odd(meta, why) => (meta, Vec::new(), Err(why)),
            Found::Plain(meta, bytes) => {
                let read = kind.read(path, &bytes);
                (meta, bytes, read)
            }
        };
        let modified = disk::modified(&meta);
        // A time that has yet to come says as little about somebody at work as one that is long
        // past.
        let is_left = now.0.abs_diff(modified.0) > WRITING.0.unsigned_abs();
        let content = match read {
            Ok(content) => content,
            Err(why) if is_left => Content::Unreadable { why },
            Err(why) => Content::NotYet { why },
        };
        Ok(Some(SignalFile {
            what: what.clone(),
            path: path.to_owned(),
            modified,
            changed: self.changed(path, &meta),
            owner: Some(meta.uid()),
            content,
            print: Some(Print::of(&meta, &bytes)),
        }))
    }

    fn changed(&self, path: &str, meta: &Metadata) -> Vec<Instant> {
        let own = disk::changed(meta);
        let full = self.root.join(path);
        let folders = full.ancestors().skip(1).take_while(|folder| *folder != self.root);
        let looks = folders.flat_map(|folder| [fs::symlink_metadata(folder), fs::metadata(folder)]);
        let later = looks.flatten().map(|meta| disk::changed(&meta)).filter(|at| *at > own);
        [own].into_iter().chain(later).collect()
    }

    /// Puts a signal that was read into `signals/taken/`, where it stays readable and does not
    /// count any more.
    pub fn take(&self, seen: &SignalFile) -> Result<SignalResult, MailboxError> {
        match &seen.content {
            Content::NotYet { .. } => return Err(MailboxError::NotYet(seen.path.clone())),
            Content::Done { .. }
            | Content::Pass { .. }
            | Content::Fail { .. }
            | Content::Unreadable { .. } => {}
        }
        let lock = self.lock()?;
        let Some(from) = place::existing(&self.root, &seen.path)? else {
            return Ok(SignalResult::Gone);
        };
        let print = print_of(&from)?;
        if print.is_none() {
            return Ok(SignalResult::Gone);
        }
        if print != seen.print {
            return Ok(SignalResult::Changed);
        }
        let name = seen.path.rsplit('/').next().unwrap_or(&seen.path);
        let (stem, ending) = split_ending(name);
        for number in 1..=SAME_NAME {
            let path = format!("{TAKEN}/{stem}.{number}{ending}");
            let to = place::made(&self.root, &path)?;
            match disk::move_new(&from, &to) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if disk::is_absence(&error) => return Ok(SignalResult::Gone),
                Err(source) => return Err(fault("take", &from, source).into()),
            }
            // Between the look and the move somebody may have put a new one there, which nobody has
            // read. It goes back, unless there is a still newer one.
            if print_of(&to)? != seen.print {
                let back = disk::move_new(&to, &from);
                back.map_err(|source| fault("put back", &from, source))?;
                return Ok(SignalResult::Changed);
            }
            disk::sync_folder(place::parent(&to))?;
            disk::sync_folder(place::parent(&from))?;
            drop(lock);
            return Ok(SignalResult::Moved(path));
        }
        Err(MailboxError::Crowded(seen.path.clone()))
    }

    /// The same for one that may lie in a worktree of the repository, maybe on another disk: it is
    /// kept here and is no more there, where it would be committed.
    pub fn take_from(&self, place: &Self, seen: &SignalFile) -> Result<SignalResult, MailboxError> {
        if place.root == self.root {
            return self.take(seen);
        }
        let lock = self.lock()?;
        let Some(from) = place::existing(&place.root, &seen.path)? else {
            return Ok(SignalResult::Gone);
        };
        let bytes = match disk::read(&from, SIGNAL_BYTES)? {
            Found::Nothing => return Ok(SignalResult::Gone),
            Found::Odd(meta, _) if Some(Print::of(&meta, &[])) == seen.print => Vec::new(),
            Found::Plain(meta, bytes) if Some(Print::of(&meta, &bytes)) == seen.print => bytes,
            Found::Odd(..) | Found::Plain(..) => return Ok(SignalResult::Changed),
        };
        let name = seen.path.rsplit('/').next().unwrap_or(&seen.path);
        let (stem, ending) = split_ending(name);
        for number in 1..=SAME_NAME {
            let path = format!("{TAKEN}/{stem}.{number}{ending}");
            if disk::put_new(&place::made(&self.root, &path)?, &bytes)? {
                disk::remove(&from)?;
                drop(lock);
                return Ok(SignalResult::Moved(path));
            }
        }
        Err(MailboxError::Crowded(seen.path.clone()))
    }

    /// Makes the folder in which a signal will appear, and answers with it: to be watched.
    pub fn make_room_for(&self, path: &str) -> Result<PathBuf, MailboxError> {
        Ok(place::parent(&place::made(&self.root, path)?).to_owned())
    }
}

/// One step with a path that leads elsewhere must not hide the signals of all others. Our own
/// folder is another matter.
fn refused_path(
    what: &ExpectedSignal,
    path: &str,
    error: MailboxError,
    now: Instant,
) -> Result<SignalFile, MailboxError> {
    match (what, error) {
        (ExpectedSignal::Step { path: Some(_), .. }, MailboxError::Path { why, .. }) => {
            let content = Content::Unreadable { why: format!("its path {why}") };
            let path = path.to_owned();
            let what = what.clone();
            Ok(SignalFile {
                what,
                path,
                modified: now,
                changed: vec![now],
                owner: None,
                content,
                print: None,
            })
        }
        (ExpectedSignal::Step { .. } | ExpectedSignal::Gate { .. }, error) => Err(error),
    }
}

fn print_of(path: &Path) -> Result<Option<Print>, MailboxError> {
    Ok(match disk::read(path, SIGNAL_BYTES)? {
        Found::Nothing => None,
        Found::Odd(meta, _) => Some(Print::of(&meta, &[])),
        Found::Plain(meta, bytes) => Some(Print::of(&meta, &bytes)),
    })
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Done,
    Pass,
    Fail,
}

fn paths(what: &ExpectedSignal) -> Vec<(String, Kind)> {
    match what {
        ExpectedSignal::Step { path: Some(path), .. } => vec![(path.clone(), Kind::Done)],
        ExpectedSignal::Step { id, path: None } => {
            vec![(format!("{SIGNALS}/{}", step_signal(id)), Kind::Done)]
        }
        ExpectedSignal::Gate { id } => {
            let of = |word: &str, kind: Kind| {
                let stem = format!("{SIGNALS}/{}-{word}", file_name(id));
                ENDINGS.map(|ending| (format!("{stem}{ending}"), kind))
            };
            of("fail", Kind::Fail).into_iter().chain(of("pass", Kind::Pass)).collect()
        }
    }
}

/// The name of a step's file where its workflow names none.
pub(super) fn step_signal(id: &str) -> String {
    format!("{}-done.json", file_name(id))
}

impl Kind {
    fn read(self, path: &str, bytes: &[u8]) -> Result<Content, String> {
        if bytes.len() > SIGNAL_BYTES {
            return Err(format!("it is larger than {} KiB", SIGNAL_BYTES / 1_024));
        }
        let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let text = text.trim_start_matches('\u{feff}').trim();
        let is_json = path.ends_with(".json");
        if text.is_empty() && (is_json || matches!(self, Self::Fail)) {
            return Err("it is empty".to_owned());
        }
        let value = serde_json::from_str::<Value>(text);
        let fields = match (value, is_json) {
            (Ok(Value::Object(fields)), _) => fields,
            (Ok(Value::String(words)), true) => note_only(&words),
            (Ok(_), true) | (_, false) => note_only(text),
            (Err(error), true) => return Err(format!("it is not JSON: {error}")),
        };
        Ok(self.content(&fields, text))
    }

    fn content(self, fields: &Map<String, Value>, text: &str) -> Content {
        let note = words(fields, &NOTES);
        match self {
            Self::Done => Content::Done { failed: says_failed(fields), note },
            Self::Pass => Content::Pass { note },
            Self::Fail => Content::Fail {
                // An object of other fields is still what the reviewer had to say.
                note: note.unwrap_or_else(|| text.to_owned()),
                reason: words(fields, &["reason"]),
            },
        }
    }
}

fn note_only(words: &str) -> Map<String, Value> {
    Map::from_iter([("note".to_owned(), Value::String(words.to_owned()))])
}

fn words(fields: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let texts = names.iter().filter_map(|name| fields.get(*name)?.as_str());
    texts.map(str::trim).find(|text| !text.is_empty()).map(str::to_owned)
}

/// What a step says with its signal: whether it failed, and a sentence about it. None while it is
/// not a whole JSON value.
#[must_use]
pub fn word_of(bytes: &[u8]) -> Option<(bool, Option<String>)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let Value::Object(fields) = value else { return Some((false, None)) };
    Some((says_failed(&fields), words(&fields, &NOTES)))
}

/// The ways in which agents are known to say so.
fn says_failed(fields: &Map<String, Value>) -> bool {
    let is = |name: &str, value: bool| fields.get(name).and_then(Value::as_bool) == Some(value);
    let word =
        words(fields, &["status", "outcome", "result"]).map(|word| word.to_ascii_lowercase());
    is("failed", true)
        || is("success", false)
        || is("ok", false)
        || word.is_some_and(|word| FAILED.contains(&word.as_str()))
}
