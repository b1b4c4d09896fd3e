//! The mailbox of a workflow around a run: removes old signals, copies feedback, reads the new
//! signal.

use std::path::Path;
use std::time::Duration;

use banksman_core::receipt::{Evidence, ObservedSignal};
use banksman_core::workflow::Signal;

use super::super::files::AtPath;
use super::super::git::Git;
use super::super::job::{JobResult, Verification, Workspace};
use super::super::mailbox::hide_from_git;
use super::super::process::Result;
use super::super::worktree::{common_folder, environment};
use super::mailbox::{self, SignalState};
use super::watch::POLL_INTERVAL;
use super::{Keeper, log_error};
use crate::clock;

/// A file that is being written is complete after this time, or never.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

impl Keeper {
    /// Prepares the mailbox before the agent starts. A signal from before the run proves nothing,
    /// so a failure to remove one is a fault.
    pub(super) fn clear_mailbox(&self, checks: &Verification, folder: &Path) -> JobResult<()> {
        if let Some(Signal::SentinelFile { path }) = &checks.signal {
            for root in roots(checks, folder) {
                mailbox::remove_signal(root, path).map_err(|error| {
                    let place = root.display();
                    environment(format!(
                        "failed to remove the old `{path}` from `{place}`: {error}"
                    ))
                })?;
            }
        }
        self.open_mailbox(checks, folder)
    }

    /// Copies feedback and hides the mailbox from git, for agents and for people who do a step
    /// manually.
    pub(super) fn open_mailbox(&self, checks: &Verification, folder: &Path) -> JobResult<()> {
        let (Some(workspace), Some(root)) = (&self.spec.workspace, &checks.mailbox) else {
            return Ok(());
        };
        for note in mailbox::copy_feedback(root, folder, &workspace.retry) {
            eprintln!("{} {note}", clock::now());
        }
        // Banksman never commits the mailbox; this protects the agent's commits.
        let common =
            common_folder(&workspace.repo).during("opening the repository", &workspace.repo)?;
        log_error(hide_from_git(&common), "hide the mailbox from git");
        Ok(())
    }

    /// Reads and removes the signal file, if the step uses one. The file must not stay in the
    /// worktree, where an agent would commit it or the next attempt would find it, nor in the
    /// repository, where it would count as a stale one.
    pub(super) fn take_signal_file(
        &mut self,
        checks: &Verification,
        folder: &Path,
    ) -> Option<ObservedSignal> {
        let Some(Signal::SentinelFile { path }) = &checks.signal else { return None };
        let seen = self.wait_for_signal_file(checks, folder, path);
        let read = roots(checks, folder).take(if seen.found { 2 } else { 1 });
        for root in read {
            let operation = format!("remove `{path}` from `{}`", root.display());
            log_error(mailbox::remove_signal(root, path), &operation);
        }
        Some(seen)
    }

    fn wait_for_signal_file(
        &mut self,
        checks: &Verification,
        folder: &Path,
        path: &str,
    ) -> ObservedSignal {
        let detail = format!("`{path}`");
        let until = clock::monotonic() + WRITE_TIMEOUT;
        loop {
            let mut why = None;
            let mut is_incomplete = false;
            for root in roots(checks, folder) {
                match mailbox::read_signal(root, path) {
                    SignalState::Complete { text, signal } => {
                        self.keep_signal_copy(checks, path, &text);
                        let (note, failed) = (signal.note, signal.failed);
                        return ObservedSignal { found: true, detail, note, failed };
                    }
                    SignalState::Incomplete => {
                        is_incomplete = true;
                        why.get_or_insert_with(|| "it is not a complete JSON value".to_owned());
                    }
                    SignalState::Unusable(reason) => why = why.or(Some(reason)),
                    SignalState::Missing => {}
                }
            }
            if !is_incomplete || clock::monotonic() >= until || self.interrupt.is_some() {
                return ObservedSignal { found: false, detail, note: why, failed: false };
            }
            self.pause(POLL_INTERVAL);
        }
    }

    fn keep_signal_copy(&self, checks: &Verification, path: &str, text: &[u8]) {
        let Some(root) = &checks.mailbox else { return };
        let kept = mailbox::keep_copy(root, path, &self.spec.job, text);
        log_error(kept, &format!("keep a copy of `{path}`"));
    }

    /// Checks the signals that are facts about the branch rather than files.
    pub(super) fn check_branch_signal(
        &mut self,
        place: Option<&Workspace>,
        checks: &Verification,
        evidence: &Evidence,
    ) -> Result<Option<ObservedSignal>> {
        match &checks.signal {
            None | Some(Signal::StdoutExit | Signal::SentinelFile { .. }) => Ok(None),
            Some(Signal::GitCommit { mark }) => {
                let detail = format!("`{mark}` in the message of a commit");
                let found = place.map(|workspace| self.is_marked(workspace, mark, evidence));
                let found = found.transpose()?.unwrap_or(false);
                Ok(Some(ObservedSignal { found, detail, note: None, failed: false }))
            }
            Some(Signal::PrCreation) => self.check_pull_request(place, evidence).map(Some),
        }
    }

    /// Whether one of the agent's own commits of this run contains the mark. Banksman's commit of
    /// uncommitted files does not count.
    fn is_marked(
        &mut self,
        workspace: &Workspace,
        mark: &str,
        evidence: &Evidence,
    ) -> Result<bool> {
        let mut git = Git::at(self, &workspace.worktree);
        let others = [evidence.head_before.as_str(), &evidence.base];
        let marked = git.commits_mentioning(mark, &others, &evidence.head, 2)?;
        Ok(marked.iter().any(|commit| Some(commit) != evidence.committed.as_ref()))
    }
}

/// Where a step may leave its signal: in its worktree and in the shared mailbox.
fn roots<'a>(checks: &'a Verification, folder: &'a Path) -> impl Iterator<Item = &'a Path> {
    std::iter::once(folder).chain(checks.mailbox.as_deref())
}
