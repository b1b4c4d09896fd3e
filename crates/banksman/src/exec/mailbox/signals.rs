//! Signals: files by which a step reports that it is done and a gate that it passed or failed.
//!
//! Reading changes nothing. A signal counts until it is taken. Its consequences must be recorded by
//! then, under [`SignalFile::key`], because a crash in between shows the same signal again.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use banksman_core::limits::SIGNAL_BYTES;
use banksman_core::time::{Instant, Span};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::disk::{self, FileState};
use super::names::{file_name, short_hash, split_extension};
use super::{MAX_SAME_NAME, Mailbox, MailboxError, Result, SIGNALS, TAKEN, place};
use crate::exec::files::{AtPath, changed_at, if_reachable, remove_if_exists};

/// Nobody takes longer to write a file.
const WRITE_TIMEOUT: Span = Span(10 * 60_000);
/// Fields that may hold a sentence, the likeliest first.
const NOTES: [&str; 5] = ["feedback", "note", "message", "summary", "reason"];
const FAILED: [&str; 5] = ["failed", "failure", "fail", "error", "blocked"];
/// The extensions of a gate's file.
const ENDINGS: [&str; 4] = ["", ".json", ".md", ".txt"];

/// A signal that a workflow waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedSignal {
    /// The end of a step: `signals/<id>-done.json`, or a path of its own from the repository's
    /// root.
    Step { id: String, path: Option<String> },
    /// The verdict of a gate: `signals/<id>-pass` or `-fail`, with or without an extension.
    Gate { id: String },
}

/// A signal file that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalFile {
    pub what: ExpectedSignal,
    /// From the root of the repository.
    pub path: String,
    pub modified: Instant,
    /// When the file or its name last changed, followed by later changes of the folders above it:
    /// the file may have been moved there with its folder. A program can set `modified`, but not
    /// these.
    pub changed: Vec<Instant>,
    /// The user id of the owner; none for a path that leads out of the repository.
    pub owner: Option<u32>,
    pub content: Content,
    /// None for a path that leads out of the repository, which is not opened.
    fingerprint: Option<Fingerprint>,
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
    /// Not readable, perhaps because it is being written.
    NotYet {
        why: String,
    },
    /// Not readable, and too old to be still in writing.
    Unreadable {
        why: String,
    },
}

/// What happened to a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalResult {
    /// Moved to this path.
    Moved(String),
    /// Left in place: it is no longer the file that was read.
    Changed,
    /// It no longer exists.
    Gone,
}

/// Identifies a file, and tells it from a new file with the same text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    /// The hash of the part that is read.
    hash: String,
}

impl Fingerprint {
    fn of(meta: &Metadata, bytes: &[u8]) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            hash: short_hash(bytes),
        }
    }
}

impl SignalFile {
    /// Identifies this signal alone, also after a restart, so that its consequences happen once.
    pub fn key(&self) -> String {
        let Some(fingerprint) = &self.fingerprint else { return self.path.clone() };
        let Fingerprint { inode, modified: (seconds, nanos), hash, .. } = fingerprint;
        format!("{}@{seconds}.{nanos:09}-{inode}-{hash}", self.path)
    }

    /// The same as a mark for the audit log.
    pub fn mark(&self) -> String {
        format!("signal-{}", short_hash(self.key().as_bytes()))
    }
}

impl Mailbox {
    /// Whether the signals folder holds anything that was not taken.
    pub fn has_signals(&self) -> bool {
        let holds_any = |folder: PathBuf| {
            let Ok(entries) = fs::read_dir(folder) else { return false };
            // A hint: the turn that reads the folder reports what it cannot read.
            entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        };
        self.signals_folders().into_iter().any(holds_any)
    }

    /// The signals that exist, in the expected order. For a gate it returns all, a fail before a
    /// pass: where both exist, somebody objects.
    pub fn look(&self, expected: &[ExpectedSignal], now: Instant) -> Result<Vec<SignalFile>> {
        let mut found = Vec::new();
        for what in expected {
            for (path, kind) in paths(what, &self.folder(SIGNALS)) {
                found.extend(self.look_at(what, &path, kind, now)?);
            }
        }
        Ok(found)
    }

    fn look_at(
        &self,
        what: &ExpectedSignal,
        path: &str,
        kind: Kind,
        now: Instant,
    ) -> Result<Option<SignalFile>> {
        let full = match place::existing(&self.root, path) {
            Ok(Some(full)) => full,
            Ok(None) => return Ok(None),
            Err(error) => return refused_path(what, path, error, now).map(Some),
        };
        let (meta, bytes, read) = match disk::read(&full, SIGNAL_BYTES)? {
            FileState::Missing => return Ok(None),
            FileState::Unusable(meta, why) => (meta, Vec::new(), Err(why)),
            FileState::Plain(meta, bytes) => {
                let read = kind.read(path, &bytes);
                (meta, bytes, read)
            }
        };
        let modified = changed_at(&meta);
        // A modification time in the future says as little about a current writer as one long past.
        let is_abandoned = now.0.abs_diff(modified.0) > WRITE_TIMEOUT.0.unsigned_abs();
        let content = match read {
            Ok(content) => content,
            Err(why) if is_abandoned => Content::Unreadable { why },
            Err(why) => Content::NotYet { why },
        };
        Ok(Some(SignalFile {
            what: what.clone(),
            path: path.to_owned(),
            modified,
            changed: self.changed(path, &meta),
            owner: Some(meta.uid()),
            content,
            fingerprint: Some(Fingerprint::of(&meta, &bytes)),
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

    /// Moves a signal that was read to `signals/taken/` of this mailbox, where it stays readable
    /// and no longer counts. `place` is the mailbox that it was found in: this one, or a worktree
    /// of the repository, possibly on another disk, where it would be committed.
    pub fn take_from(&self, place: &Self, found: &SignalFile) -> Result<SignalResult> {
        if let Content::NotYet { .. } = found.content {
            return Err(MailboxError::NotYet(found.path.clone()));
        }
        let _lock = self.lock()?;
        let Some(from) = place::existing(&place.root, &found.path)? else {
            return Ok(SignalResult::Gone);
        };
        let Some((fingerprint, bytes)) = identify(&from)? else { return Ok(SignalResult::Gone) };
        if Some(&fingerprint) != found.fingerprint.as_ref() {
            return Ok(SignalResult::Changed);
        }
        let name = found.path.rsplit('/').next().unwrap_or(&found.path);
        let (stem, ending) = split_extension(name);
        for number in 1..=MAX_SAME_NAME {
            let path = format!("{TAKEN}/{stem}.{number}{ending}");
            let to = place::created(&self.root, &path)?;
            let moved = SignalResult::Moved(path);
            let result = if place.root == self.root {
                move_unchanged(&from, &to, &fingerprint, moved)?
            } else if disk::create_new_file(&to, &bytes)? {
                remove_if_exists(&from).at("replace", &from)?;
                Some(moved)
            } else {
                None
            };
            if let Some(result) = result {
                return Ok(result);
            }
        }
        Err(MailboxError::TooManyFiles(found.path.clone()))
    }

    /// Creates the folder in which a signal will appear and returns it, to be watched.
    pub fn create_folder_for(&self, path: &str) -> Result<PathBuf> {
        Ok(place::parent(&place::created(&self.root, path)?).to_owned())
    }
}

/// A bad path of one step must not hide the signals of all others. An error in our own folder does
/// count.
fn refused_path(
    what: &ExpectedSignal,
    path: &str,
    error: MailboxError,
    now: Instant,
) -> Result<SignalFile> {
    match (what, error) {
        (ExpectedSignal::Step { path: Some(_), .. }, MailboxError::Path { why, .. }) => {
            Ok(SignalFile {
                what: what.clone(),
                path: path.to_owned(),
                modified: now,
                changed: vec![now],
                owner: None,
                content: Content::Unreadable { why: format!("its path {why}") },
                fingerprint: None,
            })
        }
        (ExpectedSignal::Step { .. } | ExpectedSignal::Gate { .. }, error) => Err(error),
    }
}

/// The identity of a file and the part of it that is read.
fn identify(path: &Path) -> Result<Option<(Fingerprint, Vec<u8>)>> {
    let (meta, bytes) = match disk::read(path, SIGNAL_BYTES)? {
        FileState::Missing => return Ok(None),
        FileState::Unusable(meta, _) => (meta, Vec::new()),
        FileState::Plain(meta, bytes) => (meta, bytes),
    };
    Ok(Some((Fingerprint::of(&meta, &bytes), bytes)))
}

/// Moves a file to a path and returns `moved`, or what prevented it; none if the path is not free.
fn move_unchanged(
    from: &Path,
    to: &Path,
    expected: &Fingerprint,
    moved: SignalResult,
) -> Result<Option<SignalResult>> {
    match if_reachable(disk::move_to_free(from, to)).at("take", from)? {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => return Ok(Some(SignalResult::Gone)),
    }
    // Somebody may have written a new file between the check and the move, which nobody has read.
    // Put it back, unless there is a still newer one.
    if identify(to)?.is_none_or(|(now, _)| now != *expected) {
        disk::move_to_free(to, from).at("put back", from)?;
        return Ok(Some(SignalResult::Changed));
    }
    disk::sync_folder(place::parent(to))?;
    disk::sync_folder(place::parent(from))?;
    Ok(Some(moved))
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Done,
    Pass,
    Fail,
}

fn paths(what: &ExpectedSignal, signals: &str) -> Vec<(String, Kind)> {
    match what {
        ExpectedSignal::Step { path: Some(path), .. } => vec![(path.clone(), Kind::Done)],
        ExpectedSignal::Step { id, path: None } => {
            vec![(format!("{signals}/{}", step_signal(id)), Kind::Done)]
        }
        ExpectedSignal::Gate { id } => {
            gate_signals(id).map(|(name, kind)| (format!("{signals}/{name}"), kind)).collect()
        }
    }
}

/// The file names of a gate's signals, a fail before a pass.
pub(super) fn gate_signals(id: &str) -> impl Iterator<Item = (String, Kind)> + use<> {
    let gate = file_name(id);
    [("fail", Kind::Fail), ("pass", Kind::Pass)].into_iter().flat_map(move |(word, kind)| {
        ENDINGS.map(|ending| (format!("{gate}-{word}{ending}"), kind))
    })
}

/// The file name of a step's signal, if the workflow gives no path.
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
        let fields = match (serde_json::from_str(text), is_json) {
            (Ok(SignalText::Fields(fields)), _) => fields,
            (Ok(SignalText::Text(note)), true) => note_only(note),
            (Ok(SignalText::Other(_)), true) | (_, false) => note_only(text.to_owned()),
            (Err(error), true) => return Err(format!("it is not JSON: {error}")),
        };
        let note = first_text(&fields, &NOTES);
        Ok(match self {
            Self::Done => Content::Done { failed: says_failed(&fields), note },
            Self::Pass => Content::Pass { note },
            Self::Fail => Content::Fail {
                // An object with other fields is still the reviewer's feedback.
                note: note.unwrap_or_else(|| text.to_owned()),
                reason: first_text(&fields, &["reason"]),
            },
        })
    }
}

/// What people and agents write: any JSON, with members of any type.
#[derive(Deserialize)]
#[serde(untagged)]
enum SignalText {
    Fields(SignalFields),
    Text(String),
    Other(IgnoredAny),
}

type SignalFields = BTreeMap<String, SignalField>;

#[derive(Deserialize)]
#[serde(untagged)]
enum SignalField {
    Flag(bool),
    Text(String),
    Other(IgnoredAny),
}

fn note_only(note: String) -> SignalFields {
    BTreeMap::from([("note".to_owned(), SignalField::Text(note))])
}

fn first_text(fields: &SignalFields, names: &[&str]) -> Option<String> {
    let texts = names.iter().filter_map(|name| match fields.get(*name)? {
        SignalField::Text(text) => Some(text.trim()),
        SignalField::Flag(_) | SignalField::Other(_) => None,
    });
    texts.filter(|text| !text.is_empty()).map(str::to_owned).next()
}

/// The content of a step's signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::exec) struct StepSignal {
    pub(in crate::exec) failed: bool,
    pub(in crate::exec) note: Option<String>,
}

impl StepSignal {
    /// None while the text is not a complete JSON value.
    pub(in crate::exec) fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = match serde_json::from_slice(bytes).ok()? {
            SignalText::Fields(fields) => fields,
            SignalText::Text(_) | SignalText::Other(_) => SignalFields::new(),
        };
        Some(Self { failed: says_failed(&fields), note: first_text(&fields, &NOTES) })
    }
}

/// The ways in which agents are known to report a failure.
fn says_failed(fields: &SignalFields) -> bool {
    let is = |name: &str, value: bool| matches!(fields.get(name), Some(SignalField::Flag(flag)) if *flag == value);
    let word =
        first_text(fields, &["status", "outcome", "result"]).map(|word| word.to_ascii_lowercase());
    is("failed", true)
        || is("success", false)
        || is("ok", false)
        || word.is_some_and(|word| FAILED.contains(&word.as_str()))
}
