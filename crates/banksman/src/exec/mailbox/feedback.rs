//! What a gate had against the work: written for the next attempt, and read by it.
//!
//! Files here may be a person's own, or have been changed by one. They are read as they are and
//! never written over.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use banksman_core::globs::Globs;

use super::disk::{self, Found};
use super::names::{in_natural_order, numbered};
use super::{ENTRIES, FileError, Mailbox, MailboxError, SAME_NAME, fault, place};

/// One file of feedback; what is beyond is not for an agent's prompt.
const FEEDBACK_BYTES: usize = 256 * 1_024;
/// Everything that one attempt is told; the newest count most.
const FILES: usize = 100;
const ALL_BYTES: usize = 1_024 * 1_024;
/// Folders below the one that a pattern names.
const DEPTH: usize = 8;
const CUT: &str = "\n[the rest was cut off]\n";

impl Mailbox {
    /// Writes feedback to a path in which `{n}` stands for the number of the failure, and answers
    /// with the path. The same text again is no change. Where something else lies already,
    /// `-2`, `-3` is added before the ending.
    pub fn write_feedback(
        &self,
        path_template: &str,
        n: u32,
        text: &str,
    ) -> Result<String, MailboxError> {
        let path = place::plain(&path_template.replace("{n}", &n.to_string()))?;
        let text = shortened(text);
        let lock = self.lock()?;
        for number in 1..=SAME_NAME {
            let path = numbered(&path, number);
            let full = place::made(&self.root, &path)?;
            if disk::put_new(&full, text.as_bytes())? || disk::holds(&full, text.as_bytes())? {
                drop(lock);
                return Ok(path);
            }
        }
        Err(MailboxError::Crowded(path))
    }

    /// The files that match, with their paths from the root, the oldest attempt first. Beyond the
    /// bound the oldest are left out.
    pub fn feedback(&self, globs: &[String]) -> Result<Vec<(String, String)>, MailboxError> {
        let mut paths = Vec::new();
        for glob in globs {
            self.find(&place::plain(glob)?, &mut paths)?;
        }
        paths.sort_by(|left, right| in_natural_order(left, right));
        paths.dedup();
        let (mut texts, mut left) = (Vec::new(), ALL_BYTES);
        for path in paths.into_iter().rev().take(FILES) {
            let Some(full) = place::existing(&self.root, &path)? else { continue };
            let Found::Plain(_, bytes) = disk::read(&full, FEEDBACK_BYTES)? else { continue };
            let text = shortened(&String::from_utf8_lossy(&bytes));
            if text.len() > left {
                break;
            }
            left -= text.len();
            texts.push((path, text));
        }
        texts.reverse();
        Ok(texts)
    }

    fn find(&self, glob: &str, paths: &mut Vec<String>) -> Result<(), MailboxError> {
        let parts: Vec<&str> = glob.split('/').collect();
        let is_pattern = |part: &&str| part.contains(['*', '?', '[', '\\']);
        let fixed =
            parts.iter().position(is_pattern).unwrap_or(parts.len() - 1).min(parts.len() - 1);
        let depth = if parts.contains(&"**") { DEPTH } else { parts.len() - fixed };
        let folder = parts[..fixed].join("/");
        // A name that reads like a pattern may be just a name.
        let search = Search { exact: glob, globs: Globs::new(&[format!("/{glob}")]) };
        // The folder is resolved by the way to any file in it.
        let probe = if folder.is_empty() { "x".to_owned() } else { format!("{folder}/x") };
        let Some(probe) = place::existing(&self.root, &probe)? else { return Ok(()) };
        let mut entries = ENTRIES;
        Ok(search.list(place::parent(&probe), &folder, depth, &mut entries, paths)?)
    }
}

struct Search<'a> {
    exact: &'a str,
    globs: Globs,
}

impl Search<'_> {
    /// Links are left alone, so this ends where the folders end.
    fn list(
        &self,
        folder: &Path,
        name: &str,
        depth: usize,
        entries: &mut usize,
        paths: &mut Vec<String>,
    ) -> Result<(), FileError> {
        let failed = |source| fault("list", folder, source);
        let listing = match fs::read_dir(folder) {
            Ok(listing) => listing,
            Err(error) if disk::is_absence(&error) => return Ok(()),
            Err(source) => return Err(failed(source)),
        };
        for entry in listing {
            let entry = entry.map_err(failed)?;
            let Some(left) = entries.checked_sub(1) else { return Ok(()) };
            *entries = left;
            let Ok(own) = entry.file_name().into_string() else { continue };
            let path = if name.is_empty() { own.clone() } else { format!("{name}/{own}") };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(failed(source)),
            };
            if kind.is_dir() && depth > 1 && !own.eq_ignore_ascii_case(".git") {
                self.list(&entry.path(), &path, depth - 1, entries, paths)?;
            } else if kind.is_file()
                && !own.ends_with(disk::DRAFT_ENDING)
                && (path == self.exact || self.globs.any_matches(path.as_bytes()))
            {
                paths.push(path);
            }
        }
        Ok(())
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= FEEDBACK_BYTES {
        return text.to_owned();
    }
    format!("{}{CUT}", disk::cut(text, FEEDBACK_BYTES - CUT.len()))
}
