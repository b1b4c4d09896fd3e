//! A harness in which nobody works, with questions for a person and the note that asks them.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::as_system::move_as_system;
use crate::engine::harness::Harness;

/// A note that is written by asking for it.
pub(super) struct Desk {
    harness: Harness,
}

impl Deref for Desk {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    pub(super) fn with(settings: &[(&str, &str)]) -> Self {
        let settings =
            [&[("lifecycle", "\"autonomous\""), ("limits.agents", "0")], settings].concat();
        Self { harness: Harness::new(&settings) }
    }

    /// With a folder that `up` and `pulse` look after.
    pub(super) fn watched(settle: &str) -> Self {
        let desk = Self::new();
        let folder = format!("{:?}", desk.folder().display().to_string());
        desk.set(&[("daily.folder", &folder), ("daily.settle", settle)]);
        desk
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.path("notes")
    }

    /// Brings a new task before a person.
    pub(super) fn ask(&self, title: &str, trigger: &str, fields: &[&str]) -> String {
        let id = self.ok(&["add", "--quiet", title]).trim().to_owned();
        let to = |args: &[&str]| self.ok(&[&["move", &id][..], args].concat());
        to(&["active", "--as", "worker:ada"]);
        to(&["decomposing", "--as", "worker:ada"]);
        to(&["consensus", "--as", "worker:ada", "--set", "subtasks=[{\"pr_sized\":true}]"]);
        move_as_system(Path::new(self.store()), &id, ("waiting", Some(trigger)), fields);
        id
    }

    /// Asks for the note, whatever comes of its answers.
    pub(super) fn daily(&self) -> Value {
        let output = self.run(&["daily", "--json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Where the note is that was asked for.
    pub(super) fn note(&self) -> PathBuf {
        PathBuf::from(self.daily()["path"].as_str().unwrap())
    }

    pub(super) fn state(&self, id: &str) -> Value {
        self.json(&["show", id])["state"].clone()
    }

    /// Records of a task's history that were made by the note.
    pub(super) fn answers(&self, id: &str) -> Vec<Value> {
        let history = self.json(&["history", id]);
        let by_note = |record: &&Value| {
            record["idempotency_key"].as_str().is_some_and(|key| key.starts_with("note-"))
        };
        history.as_array().unwrap().iter().filter(by_note).cloned().collect()
    }
}

pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Saves the note as a person does, some time ago.
pub(crate) fn save(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    rest(path);
}

/// Nobody has written for a while.
pub(super) fn rest(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let changed = file.metadata().unwrap().modified().unwrap();
    let before = changed.checked_sub(Duration::from_secs(3_600)).unwrap_or(SystemTime::UNIX_EPOCH);
    file.set_modified(before).unwrap();
}

/// What differs from day to day and from run to run, made the same.
pub(super) fn steady(text: &str, desk: &Desk) -> String {
    let text = text.replace(&desk.root().canonicalize().unwrap().display().to_string(), "[YARD]");
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        for word in &mut words {
            let shape: String =
                word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            let is_date = shape.starts_with("0000-00-00") || shape.contains("/0000-00-00.md");
            if is_date || ["00:00", "00:00,", "0min"].contains(&shape.as_str()) {
                *word = shape;
            }
        }
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Ticks the first box of this name that is free.
pub(crate) fn ticked(text: &str, label: &str) -> String {
    let free = format!("- [ ] {label}");
    assert!(text.contains(&free), "{text}");
    text.replacen(&free, &format!("- [x] {label}"), 1)
}
