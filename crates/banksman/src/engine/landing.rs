//! The branch that stands for a pull request where there is no remote: it is merged when a person says so, while they wait.
//!
//! What was reviewed is merged, and nothing that came after it: a branch that has moved on since is for its reviewers again.

use banksman_core::ids::TaskId;
use banksman_core::receipt::MergeReport;

use super::plan::{Known, commit_message};
use super::{Engine, EngineError, errand};
use crate::config::Environment;
use crate::exec::git::Git;
use crate::exec::merge::merge;
use crate::exec::plan::{JobId, Work};
use crate::exec::process::Plain;
use crate::store::Stored;

/// How a branch is named that stands for a pull request.
const LOCAL: &str = "local:";
/// Runs among which the one is that the reviewers have looked at.
const LAST_RUNS: i64 = 20;
/// Files that a conflict names.
const PATHS: usize = 10;

/// The pull request that a branch stands for.
pub(super) fn local_pull_request(branch: &str) -> String {
    format!("{LOCAL}{branch}")
}

/// The branch that stands for the task's pull request, if one does.
#[must_use]
pub fn local_branch(stored: &Stored) -> Option<&str> {
    stored.text("pr_url")?.strip_prefix(LOCAL)
}

impl Engine<'_> {
    /// Merges the task's branch into its base, or says why not. Done again, it finds that everything is there.
    pub fn land(&self, id: TaskId) -> Result<Result<(), String>, EngineError> {
        let stored = self.store.task(id)?;
        let mut known = Known::new();
        let Some(project) = self.project(&stored.task.project, &mut known)?.cloned() else {
            let name = &stored.task.project;
            return Ok(Err(format!("no repository is known here for the project `{name}`")));
        };
        let errand = self.errand(&stored)?;
        let checks = errand::checks(&stored, &errand, &project.agents, Some(&project));
        let message = commit_message(&stored.task);
        let job = JobId::Activity { task: id, seq: stored.task.entered };
        let work = Work::Merge { checks: checks.clone(), message: message.clone() };
        let plan = self.job_plan(&stored, job, &project, &errand, work)?;
        let Some(workspace) = plan.workspace else {
            return Ok(Err("there is nothing to be merged".to_owned()));
        };
        let mut env = Environment::passed(&plan.pass);
        env.extend(plan.env);
        let runs = self.store.past_runs(id, LAST_RUNS)?;
        let reviewed = runs.iter().rev().find_map(|run| run.head.clone());
        let branch = &workspace.branch;
        let tip =
            Git::at(&mut Plain, &workspace.repo, &env).commit_of(&format!("refs/heads/{branch}"));
        match tip {
            Err(error) => return Ok(Err(error.to_string())),
            Ok(tip) if tip != reviewed => {
                return Ok(Err(format!("`{branch}` is not what was reviewed any more")));
            }
            Ok(_) => {}
        }
        Ok(match merge(&mut Plain, &workspace, &checks, &message, &env) {
            Ok(MergeReport::Merged { .. } | MergeReport::AlreadyIn { .. }) => Ok(()),
            Ok(MergeReport::Conflict { paths }) => {
                let named: Vec<&str> = paths.iter().take(PATHS).map(String::as_str).collect();
                Err(format!(
                    "`{branch}` and `{}` do not go together: {}",
                    workspace.base,
                    named.join(", ")
                ))
            }
            Ok(MergeReport::Rejected { check }) => {
                Err(format!("`{}` fails on what would be merged: {}", check.command, check.tail))
            }
            Err(error) => Err(error.to_string()),
        })
    }
}
