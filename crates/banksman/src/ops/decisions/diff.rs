//! Which changes a decision is about.

use banksman_core::failure::ProofLevel;
use banksman_core::lifecycle::contract::Field;

use super::DecisionDetail;
use crate::config::Agents;
use crate::store::runs::PastRun;

/// Where the changes can be reviewed.
#[derive(Debug, Clone)]
pub enum Diff {
    Commits { folder: String, base: String, head: String },
    PullRequest(String),
}

impl Diff {
    /// The pull request, or the commits that would be merged in its place, or those of the last run
    /// that made any.
    pub fn of(question: &DecisionDetail, settings: &Agents) -> Option<Self> {
        let stored = &question.detail.stored;
        // A run without a commit, such as a planner's, ends where it began.
        let has_commits = |run: &&PastRun| run.level != Some(ProofLevel::Claimed);
        let last =
            || question.runs.iter().rev().filter(has_commits).find_map(|run| run.head.clone());
        let head = stored.text(Field::PrHead).map(str::to_owned).or_else(last);
        let base = settings.worktrees.base.clone();
        let pr = stored.text(Field::PrUrl).filter(|_| stored.local_branch().is_none());
        match (pr, question.folder.clone(), head) {
            (Some(url), _, _) => Some(Self::PullRequest(url.to_owned())),
            (None, Some(folder), Some(head)) => Some(Self::Commits {
                folder,
                base: base.unwrap_or_else(|| "HEAD".to_owned()),
                head,
            }),
            (None, _, _) => None,
        }
    }

    /// The command that shows it.
    pub fn command(&self) -> String {
        match self {
            Self::Commits { folder, base, head } => {
                format!("git -C {folder} diff {base}...{head}")
            }
            Self::PullRequest(url) => format!("gh pr diff {url}"),
        }
    }
}
