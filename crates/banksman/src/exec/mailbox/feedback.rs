//! A gate's feedback on the work, written for the next attempt and read by it.
//!
//! A person may have written or changed these files. Banksman reads them as they are and never
//! overwrites them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use banksman_core::globs::Globs;

use super::disk::{self, Found};
use super::names::{in_natural_order, numbered};
use super::{FileError, MAX_ENTRIES, MAX_SAME_NAME, Mailbox, MailboxError, fault, place};

/// The size of one feedback file; more does not belong in an agent's prompt.
const FEEDBACK_BYTES: usize = 256 * 1_024;
/// The limits for all feedback of one attempt; the newest files take precedence.
const FILES: usize = 100;
const ALL_BYTES: usize = 1_024 * 1_024;
/// The depth below the folder that a pattern names.
const DEPTH: usize = 8;
const CUT: &str = "\n[truncated]\n";

impl Mailbox {
    /// Writes feedback to a path in which `{n}` stands for the number of the failure, and returns
    /// the path. Writing the same text again changes nothing. If another file has the name, `-2`,
    /// `-3` and so on go before the extension.
    pub fn write_feedback(
        &self,
        path_template: &str,
        n: u32,
        text: &str,
    ) -> Result<String, MailboxError> {
        let path = place::plain(&path_template.replace("{n}", &n.to_string()))?;
        let text = shortened(text);
        let lock = self.lock()?;
        for number in 1..=MAX_SAME_NAME {
            let path = numbered(&path, number);
            let full = place::created(&self.root, &path)?;
            if disk::create_new_file(&full, text.as_bytes())?
                || disk::has_content(&full, text.as_bytes())?
            {
                drop(lock);
                return Ok(path);
            }
        }
        Err(MailboxError::TooManyFiles(path))
    }

    /// The matching files with their paths from the root, oldest attempt first. Beyond the limit
    /// the oldest are omitted.
    pub fn feedback(&self, globs: &[String]) -> Result<Vec<(String, String)>, MailboxError> {
        let mut paths = Vec::new();
        for glob in globs {
            self.find(&place::plain(glob)?, &mut paths)?;
        }
        paths.sort_by(|remaining, right| in_natural_order(remaining, right));
        paths.dedup();
        let (mut texts, mut remaining) = (Vec::new(), ALL_BYTES);
        for path in paths.into_iter().rev().take(FILES) {
            let Some(full) = place::existing(&self.root, &path)? else { continue };
            let Found::Plain(_, bytes) = disk::read(&full, FEEDBACK_BYTES)? else { continue };
            let text = shortened(&String::from_utf8_lossy(&bytes));
            if text.len() > remaining {
                break;
            }
            remaining -= text.len();
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
        // A name that looks like a pattern may be a plain name.
        let search = Search { exact: glob, globs: Globs::new(&[format!("/{glob}")]) };
        // Resolve the folder through the path of a file in it.
        let probe = if folder.is_empty() { "x".to_owned() } else { format!("{folder}/x") };
        let Some(probe) = place::existing(&self.root, &probe)? else { return Ok(()) };
        let mut entries = MAX_ENTRIES;
        Ok(search.list(place::parent(&probe), &folder, depth, &mut entries, paths)?)
    }
}

struct Search<'a> {
    exact: &'a str,
    globs: Globs,
}

impl Search<'_> {
    /// Follows no links, so the search ends with the folders.
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
            Err(error) if disk::is_missing(&error) => return Ok(()),
            Err(source) => return Err(failed(source)),
        };
        for entry in listing {
            let entry = entry.map_err(failed)?;
            let Some(remaining) = entries.checked_sub(1) else { return Ok(()) };
            *entries = remaining;
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
