//! Worktrees that should be gone: the state of their task says so, and nobody took them away in time.

use std::collections::BTreeMap;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::EntryEffect;

use super::{Engine, EngineError};
use crate::exec::plan::{JobId, Workspace};
use crate::exec::site::Sight;
use crate::store::StoreError;

/// Clean-ups that one sweep begins; the next one goes on.
const AT_ONCE: usize = 10;

impl Engine<'_> {
    /// Begins to put away what is left over, and answers how many worktrees that are. Each is saved before it goes.
    pub fn sweep(&self) -> Result<usize, EngineError> {
        let mut projects = BTreeMap::new();
        let mut begun = 0;
        for worktree in self.site.worktrees()? {
            let name = worktree.file_name().and_then(|name| name.to_str());
            let id = name.filter(|name| name.starts_with('t')).and_then(|name| name.parse().ok());
            let Some(id): Option<TaskId> = id else { continue };
            let stored = match self.store.task(id) {
                Ok(stored) => stored,
                // Not ours to judge: another store may have used the folder.
                Err(StoreError::NoTask(_) | StoreError::Corrupt { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let entry = &stored.lifecycle.state(stored.task.state).on_entry;
            if !entry.contains(&EntryEffect::CleanUp) {
                continue;
            }
            let job = JobId::CleanUp { task: id, seq: stored.task.version };
            if self.site.look(job)? != Sight::Absent {
                continue;
            }
            let plan = self.clean_up_plan(&stored, job, &mut projects)?;
            let is_it = |workspace: &Workspace| workspace.worktree == worktree;
            if let Some(plan) = plan.filter(|plan| plan.workspace.as_ref().is_some_and(is_it)) {
                self.site.begin(&plan)?;
                begun += 1;
            }
            if begun == AT_ONCE {
                break;
            }
        }
        Ok(begun)
    }
}
