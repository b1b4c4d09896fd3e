//! Clears the mailbox before a workflow runs again: files of an earlier run must not count for the
//! new one.
//!
//! Nothing is deleted. After a crash, moved files stay moved and the next call moves the rest.

use std::collections::BTreeSet;

use super::names::{is_taken_signal, matches_template, numbered};
use super::signals::{gate_signals, step_signal};
use super::{
    FEEDBACK, FOLDER, MAX_ENTRIES, MAX_SAME_NAME, Mailbox, MailboxError, PAST, Result, SIGNALS,
    TAKEN,
};
use super::{disk, file_name, place};
use crate::exec::files::{self, AtPath};

/// The most attempts whose number is part of a folder's name.
const NUMBERED_FOLDERS: u32 = 100;

impl Mailbox {
    /// Moves the signals of these steps and gates, taken or not, and the files of these templates
    /// (feedback, or signals at their own path) to `.workflow/past/<label>/`. Returns how many.
    /// Creates the folders for the new run, so that agents can write to them and a watcher can
    /// watch them.
    pub fn clear_for(
        &self,
        steps: &[String],
        gates: &[String],
        retry_paths: &[String],
        label: &str,
    ) -> Result<usize> {
        let of_gates = gates.iter().flat_map(|gate| gate_signals(gate)).map(|(name, _)| name);
        let signals: BTreeSet<String> =
            steps.iter().map(|step| step_signal(step)).chain(of_gates).collect();
        let past = format!("{PAST}/{}", file_name(label));
        let _lock = self.lock()?;
        let mut moved = 0;
        let own = self.folder(SIGNALS);
        for name in self.names(&own)?.iter().filter(|name| signals.contains(*name)) {
            moved += self.archive(&own, name, &past)?;
        }
        let is_taken = |name: &&String| signals.iter().any(|signal| is_taken_signal(signal, name));
        // What another run has read is its own.
        let taken = if self.run.is_some() { Vec::new() } else { self.names(TAKEN)? };
        for name in taken.iter().filter(is_taken) {
            moved += self.archive(TAKEN, name, &past)?;
        }
        for template in retry_paths {
            let template = place::plain(template)?;
            let (folder, pattern) = template.rsplit_once('/').unwrap_or(("", &template));
            for folder in folders(folder) {
                let names = self.names(&folder)?;
                for name in names.iter().filter(|name| matches_template(pattern, name)) {
                    moved += self.archive(&folder, name, &past)?;
                }
            }
        }
        for folder in [SIGNALS, FEEDBACK] {
            place::created(&self.root, &format!("{}/x", self.folder(folder)))?;
        }
        Ok(moved)
    }

    /// The UTF-8 names in a folder.
    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let probe = if folder.is_empty() { "x".to_owned() } else { format!("{folder}/x") };
        let Some(probe) = place::existing(&self.root, &probe)? else { return Ok(Vec::new()) };
        let real = place::parent(&probe);
        let mut names = Vec::new();
        for entry in files::entries(real).at("list", real)?.take(MAX_ENTRIES) {
            // Banksman's own names are UTF-8; others are not what this looks for.
            names.extend(entry.at("list", real)?.file_name().into_string());
        }
        Ok(names)
    }

    /// Moves one file; returns 1 if it was moved and 0 if there was nothing to move.
    fn archive(&self, folder: &str, name: &str, past: &str) -> Result<usize> {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let Some(from) = place::existing(&self.root, &path)? else { return Ok(0) };
        if from.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return Ok(0);
        }
        let inside = path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/'));
        let wanted = format!("{past}/{}", inside.unwrap_or(&path));
        for number in 1..=MAX_SAME_NAME {
            let to = place::created(&self.root, &numbered(&wanted, number))?;
            match files::if_reachable(disk::move_to_free(&from, &to)).at("archive", &from)? {
                Some(true) => {
                    disk::sync_folder(place::parent(&to))?;
                    return Ok(1);
                }
                Some(false) => {}
                None => return Ok(0),
            }
        }
        Err(MailboxError::TooManyFiles(wanted))
    }
}

fn folders(folder: &str) -> Vec<String> {
    if !folder.contains("{n}") {
        return vec![folder.to_owned()];
    }
    (1..=NUMBERED_FOLDERS).map(|n| folder.replace("{n}", &n.to_string())).collect()
}
