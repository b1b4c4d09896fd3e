//! Checks on the remote whether a step's branch has a pull request.
//!
//! An agent's claim is only a hint: it gives the forge some time to publish the pull request and
//! proves nothing. The keeper only reads the remote, a bounded number of times.

use std::time::Duration;

use banksman_core::failure::pr_link;
use banksman_core::receipt::{Evidence, ObservedSignal};

use super::super::git::{Git, PullRequest};
use super::super::job::{JobResult, Workspace};
use super::super::process::{Result, RunError};
use super::Keeper;
use super::stages::{is_success, no_worktree};
use super::status::Stage;

/// Seconds between checks after an agent has named its pull request: forges publish one shortly
/// after they create it.
const PUBLISH_WAITS: [u32; 4] = [1, 2, 4, 8];
/// Retries for a remote that does not answer, if the agent has not named a pull request.
const UNNAMED_RETRIES: usize = 2;
/// The longest that a stop request waits for an answer.
const INTERRUPT_CHECK: Duration = Duration::from_secs(1);

impl Keeper {
    /// Checks after an agent's run. In a repository without a remote, the branch stands for its
    /// pull request.
    pub(super) fn check_pull_request(
        &mut self,
        place: Option<&Workspace>,
        evidence: &Evidence,
    ) -> Result<ObservedSignal> {
        let branch = place.map_or("", |workspace| &workspace.branch);
        let reading = self.receipt.reading.as_ref();
        let named = self.named_pull_request(branch);
        let detail = format!("of a pull request for `{branch}`");
        let seen = |found, note| ObservedSignal { found, detail, note, failed: false };
        let Some(workspace) = place else { return Ok(seen(false, None)) };
        let Some(remote) = &workspace.remote else { return Ok(seen(evidence.commits > 0, None)) };
        // The signal of an unsuccessful run does not matter.
        if evidence.commits == 0 || !is_success(reading) {
            return Ok(seen(false, None));
        }
        let heads = self.own_heads(workspace, evidence)?;
        let pull = self.published(workspace, &heads, named.is_some())?;
        let note = match &pull {
            Some(pull) => Some(self.describe_pull(workspace, pull)),
            None => named.map(|link| {
                format!(
                    "the agent named {link}, but `{remote}` shows no pull request with the newest \
                     commit"
                )
            }),
        };
        Ok(seen(pull.is_some(), note))
    }

    /// The pull request that the agent claims to have opened.
    fn named_pull_request(&self, branch: &str) -> Option<String> {
        pr_link(&self.receipt.reading.as_ref()?.text, &self.spec.task, branch)
    }

    /// The web page of the pull request that the agent names, if the remote has it. A remote that
    /// does not answer leaves the work what it is: commits on a branch.
    pub(super) fn find_pull_request(&mut self, workspace: &Workspace, evidence: &mut Evidence) {
        let named = self.named_pull_request(&workspace.branch).filter(|_| evidence.commits > 0);
        let (Some(named), Some(remote)) = (named, &workspace.remote) else { return };
        let heads = self.own_heads(workspace, evidence);
        match heads.and_then(|heads| self.published(workspace, &heads, true)) {
            Ok(Some(pull)) => {
                let page = Git::at(self, &workspace.repo).web_link(remote, &pull);
                evidence.pull_request = Some(page.ok().flatten().unwrap_or(named));
            }
            Ok(None) => evidence.notes.push(format!("`{remote}` has no pull request like {named}")),
            Err(error) => evidence.notes.push(format!("{named} was not looked for: {error}")),
        }
    }

    /// The agent's newest commit, and the commit that Banksman made of uncommitted files, which
    /// nobody has pushed.
    fn own_heads(&mut self, workspace: &Workspace, evidence: &Evidence) -> Result<Vec<String>> {
        let mut heads = Vec::new();
        if let Some(ours) = &evidence.committed {
            let mut git = Git::at(self, &workspace.repo);
            heads.extend(git.commit_of(&format!("{ours}^"))?);
        }
        heads.push(evidence.head.clone());
        heads.retain(|head| *head != evidence.base);
        Ok(heads)
    }

    fn published(
        &mut self,
        Workspace { repo, remote, base, branch, .. }: &Workspace,
        heads: &[String],
        is_named: bool,
    ) -> Result<Option<PullRequest>> {
        let Some(remote) = remote.as_deref() else { return Ok(None) };
        let retries = if is_named { PUBLISH_WAITS.len() } else { UNNAMED_RETRIES };
        let mut waits = PUBLISH_WAITS.into_iter().take(retries);
        loop {
            let found = Git::at(self, repo).pull_request(remote, (base, branch), heads);
            if matches!(&found, Ok(Some(_)) | Err(RunError::Interrupted))
                || (!is_named && found.is_ok())
            {
                return found;
            }
            let Some(wait) = waits.next() else { return found };
            for _ in 0..wait {
                self.pause(INTERRUPT_CHECK);
                if self.interrupt.is_some() {
                    return Err(RunError::Interrupted);
                }
            }
        }
    }

    /// The name and, if the remote's address gives one, the link of a pull request.
    fn describe_pull(&mut self, workspace: &Workspace, pull: &PullRequest) -> String {
        let remote = workspace.remote.as_deref().unwrap_or_default();
        let link = Git::at(self, &workspace.repo).web_link(remote, pull);
        let link = link.ok().flatten().map(|link| format!(" ({link})"));
        format!("pull request {}{}", pull.number, link.unwrap_or_default())
    }

    /// Checks once for a manual step, without a worktree.
    pub(super) fn poll_pull_request(&mut self, place: Option<&Workspace>) -> JobResult<()> {
        let workspace = place.ok_or_else(no_worktree)?;
        self.status_file.status.stage = Stage::Evidence;
        self.receipt.evidence = Some(self.look_once(workspace)?);
        Ok(())
    }

    /// The evidence's head is that of the pull request.
    fn look_once(&mut self, workspace: &Workspace) -> Result<Evidence> {
        let Workspace { repo, remote, base, branch, merges_in, .. } = workspace;
        let detail = format!("of a pull request for `{branch}`");
        let none = ObservedSignal { found: false, detail, note: None, failed: false };
        let unseen = Evidence { signal: Some(none.clone()), ..Evidence::default() };
        let Some(remote) = remote else { return Ok(unseen) };
        let mut git = Git::at(self, repo);
        let local = |name: &String| format!("refs/heads/{name}");
        let Some(head) = git.commit_of(&local(branch))? else { return Ok(unseen) };
        let mut others: Vec<String> = merges_in.iter().map(local).collect();
        others.extend([local(base), format!("refs/remotes/{remote}/{base}")]);
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let others = git.refs(&others)?;
        let commits = git.count(&others.values().map(String::as_str).collect::<Vec<_>>(), &head)?;
        if commits == 0 {
            return Ok(unseen);
        }
        let found = git.pull_request(remote, (base, branch), &[head])?;
        let Some(pull) = found else { return Ok(unseen) };
        let note = Some(self.describe_pull(workspace, &pull));
        let signal = Some(ObservedSignal { found: true, note, ..none });
        Ok(Evidence { head: pull.commit, commits, signal, ..Evidence::default() })
    }
}
