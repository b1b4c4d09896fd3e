//! A gate's feedback on the work, written for the next attempt; the keeper copies it to the
//! attempt's worktree.
//!
//! A person may have written or changed these files. Banksman never overwrites them.

use banksman_core::text::start_of;

use super::names::numbered;
use super::{MAX_SAME_NAME, Mailbox, MailboxError, Result, disk, place};

/// The size of one feedback file; more does not belong in an agent's prompt.
const FEEDBACK_BYTES: usize = 256 * 1_024;
const CUT: &str = "\n[truncated]\n";

impl Mailbox {
    /// Writes feedback to a path in which `{n}` stands for the number of the failure, and returns
    /// the path. Writing the same text again changes nothing. If another file has the name, `-2`,
    /// `-3` and so on go before the extension.
    pub fn write_feedback(&self, path_template: &str, n: u32, text: &str) -> Result<String> {
        let path = place::plain(&path_template.replace("{n}", &n.to_string()))?;
        let text = shortened(text);
        let _lock = self.lock()?;
        for number in 1..=MAX_SAME_NAME {
            let path = numbered(&path, number);
            let full = place::created(&self.root, &path)?;
            if disk::create_new_file(&full, text.as_bytes())?
                || disk::has_content(&full, text.as_bytes())?
            {
                return Ok(path);
            }
        }
        Err(MailboxError::TooManyFiles(path))
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= FEEDBACK_BYTES {
        return text.to_owned();
    }
    format!("{}{CUT}", start_of(text, FEEDBACK_BYTES - CUT.len()))
}
