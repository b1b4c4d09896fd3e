//! Worktrees that should be gone: the state of their task says so, and nobody took them away in
//! time.
//!
//! It begins nothing but clean-ups, which save what they take away, and only for worktrees that
//! were made for a task.

use std::collections::BTreeMap;
use std::path::PathBuf;

use banksman_core::lifecycle::EntryEffect;

use super::{Engine, EngineError, Project};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::JobStatus;
use crate::exec::worktree::mark::TaskWorktree;
use crate::store::StoreError;

/// Clean-ups that one sweep begins; the next one goes on.
const AT_ONCE: usize = 10;

impl Engine<'_> {
    /// Begins to put away what is left over, and answers how many worktrees that are. Each is saved
    /// before it goes.
    pub fn sweep(&self) -> Result<usize, EngineError> {
        let repos = self.store.projects()?.into_iter().map(|(_, path)| PathBuf::from(path));
        let repos: Vec<PathBuf> = repos.collect();
        let mut projects = BTreeMap::new();
        let mut begun = 0;
        for worktree in self.site.worktrees(&repos)? {
            if let Some(plan) = self.plan_for_left_over(worktree, &mut projects)? {
                self.site.begin(&plan)?;
                begun += 1;
            }
            if begun == AT_ONCE {
                break;
            }
        }
        Ok(begun)
    }

    /// How to put a worktree away, if it is time for that.
    fn plan_for_left_over(
        &self,
        worktree: TaskWorktree,
        projects: &mut BTreeMap<String, Option<Project>>,
    ) -> Result<Option<JobSpec>, EngineError> {
        let stored = match self.store.task(worktree.task) {
            Ok(stored) => stored,
            // Not ours to judge: another store may have used the folder.
            Err(StoreError::NoTask(_) | StoreError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let entry = &stored.state().on_entry;
        if !entry.contains(&EntryEffect::CleanUp) {
            return Ok(None);
        }
        let job = JobId::CleanUp { task: worktree.task, seq: stored.task.version };
        if self.site.look(job)? != JobStatus::Absent || self.is_in_the_way(job)? {
            return Ok(None);
        }
        let Some(mut plan) = self.clean_up_plan(&stored, job, projects)? else { return Ok(None) };
        let Some(workspace) = &mut plan.workspace else { return Ok(None) };
        let is_noted = worktree.repo.as_ref() == Some(&workspace.repo);
        if !is_noted && workspace.worktree != worktree.path {
            return Ok(None);
        }
        // A note counts more than a template, which may have been another one when the worktree was
        // made.
        workspace.worktree = worktree.path;
        Ok(Some(plan))
    }
}
