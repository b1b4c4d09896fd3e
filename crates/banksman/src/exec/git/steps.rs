//! What workflow steps need from git: it keeps the mailbox out of the work and merges branches.

use super::{Git, LONG, SHORT, full_id};
use crate::exec::mailbox::{AUDIT, FEEDBACK, PAST, SIGNALS, STEPS};
use crate::exec::process::{ProgramOutput, Result};

/// The mailbox folders, through which the steps of a workflow communicate. No file in them is part
/// of the work.
pub const MAILBOX: [&str; 5] = [SIGNALS, FEEDBACK, AUDIT, STEPS, PAST];

/// Pathspecs for everything else. `git add` rejects them if the repository ignores one of the
/// folders.
pub(super) const WORK_ONLY: [&str; 6] = [
    ":/",
    ":(exclude,top,literal).workflow/signals",
    ":(exclude,top,literal).workflow/retry-context",
    ":(exclude,top,literal).workflow/audit",
    ":(exclude,top,literal).workflow/steps",
    ":(exclude,top,literal).workflow/past",
];

impl Git<'_> {
    /// Whether two commits differ in the mailbox.
    pub fn differs_in_mailbox(&mut self, one: &str, other: &str) -> Result<bool> {
        let args = [&[one, other, "--"], &MAILBOX[..]].concat();
        Ok(!self.succeeds("diff --quiet --no-ext-diff --end-of-options", &args)?)
    }

    /// Resets the mailbox in the index to the commit; files stay as they are.
    pub fn reset_mailbox(&mut self, commit: &str) -> Result<()> {
        let args = [&[full_id(commit)?, "--"], &MAILBOX[..]].concat();
        self.run_checked("reset --quiet", &args, LONG).map(drop)
    }

    /// Commits that a head has and none of the others contains, whose message contains this text
    /// in a line, the latest first.
    pub fn commits_mentioning(
        &mut self,
        text: &str,
        others: &[&str],
        head: &str,
        at_most: u32,
    ) -> Result<Vec<String>> {
        let (text, at_most) = (format!("--grep={text}"), format!("--max-count={at_most}"));
        let args = [&[text.as_str(), &at_most, head, "--not"], others, &["--"]].concat();
        let output = self.run_checked("rev-list --fixed-strings", &args, LONG)?;
        Ok(output.stdout.lines().map(str::to_owned).collect())
    }

    /// The first of the commits from `base` to `head`, if they are linear.
    pub fn first_commit(&mut self, base: &str, head: &str) -> Result<Option<String>> {
        let range = format!("{base}..{head}");
        let output = self.run_checked("rev-list --reverse", &[&range, "--"], SHORT)?;
        Ok(output.stdout.lines().next().map(str::to_owned))
    }

    /// Branches that contain a commit, up to a number.
    pub fn branches_with(&mut self, commit: &str, at_most: u32) -> Result<Vec<String>> {
        let (contains, count) = (format!("--contains={commit}"), format!("--count={at_most}"));
        let command = "for-each-ref --format=%(refname:lstrip=2)";
        let output = self.run_checked(command, &[&contains, &count, "refs/heads/"], LONG)?;
        Ok(output.stdout.lines().map(str::to_owned).collect())
    }

    /// Whether a commit contains changes that the head contains neither as they are nor rebased.
    pub fn lacks_changes_of(&mut self, head: &str, commit: &str) -> Result<bool> {
        let range = format!("{head}...{commit}");
        let command = "rev-list --cherry-pick --right-only --no-merges --max-count=1";
        let output = self.run_checked(command, &[&range, "--"], LONG)?;
        Ok(!output.stdout.is_empty())
    }

    pub fn is_in_a_ref(&mut self, commit: &str) -> Result<bool> {
        let contains = format!("--contains={commit}");
        let output = self.run_checked("for-each-ref --count=1", &[&contains], LONG)?;
        Ok(!output.stdout.is_empty())
    }

    /// Merges a commit into the checked-out branch. A failed merge may stay unfinished.
    pub fn merge_in(&mut self, commit: &str, message: &str) -> Result<ProgramOutput> {
        let command = "merge --quiet --ff --no-edit --no-verify --no-autostash --no-gpg-sign";
        let args = ["-m", message, "--end-of-options", commit];
        self.run_as_author(command, &args, None, LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_everything_but_the_mailbox() {
        let except = MAILBOX.map(|folder| format!(":(exclude,top,literal){folder}"));
        assert_eq!(WORK_ONLY[1..], except);
    }
}
