//! Projects: their repositories, their settings, and what follows from both for a task.

use std::path::PathBuf;

use super::assignment::{branch_of, place, since};
use super::{EngineError, Result};
use crate::config::Agents;
use crate::exec::mailbox::Mailbox;
use crate::exec::worktree::beginning::beginning;
use crate::exec::worktree::names;
use crate::store::{Store, Stored};

/// A project's repository and the settings that hold in it.
#[derive(Debug, Clone)]
pub struct Project {
    pub path: PathBuf,
    /// The branch that work starts from and goes back to.
    pub base: String,
    pub remote: Option<String>,
    pub agents: Agents,
}

/// Finds projects. The real one reads their settings from their folders, once in a turn.
pub trait Projects {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError>;
}

/// Projects, and the settings for tasks that have none.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    pub(super) projects: &'a dyn Projects,
    pub(super) agents: &'a Agents,
}

impl<'a> Settings<'a> {
    pub(super) fn find(&self, name: &str) -> Result<Option<Project>> {
        self.projects.find(name)
    }

    /// The settings that hold in a project, or those of the node.
    pub(super) fn of<'s>(&self, project: Option<&'s Project>) -> &'s Agents
    where
        'a: 's,
    {
        project.map_or(self.agents, |project| &project.agents)
    }

    pub(super) fn mailbox(&self, project: &str) -> Result<Option<Mailbox>> {
        Ok(self.find(project)?.map(|project| Mailbox::new(&project.path)))
    }

    /// The project of a task. Its base is the branch that the task's work began from, whatever the
    /// repository calls its main branch now.
    pub(super) fn project_of(&self, store: &Store, stored: &Stored) -> Result<Option<Project>> {
        let Some(project) = self.find(&stored.task.project)? else { return Ok(None) };
        let spare = names::spare_folder(&self.agents.home);
        let begun = |task: &Stored| -> Result<Option<String>> {
            let worktree = self.worktree_of(task, &project)?;
            let begun = beginning(&spare, &worktree, since(store, task)?);
            Ok(begun.map(|begun| begun.base))
        };
        let mut base = begun(stored)?;
        for task in kin(store, stored)? {
            if base.is_none() {
                base = begun(&task)?;
            }
        }
        let base = base.unwrap_or_else(|| project.base.clone());
        Ok(Some(Project { base, ..project }))
    }

    pub(super) fn branch_of(&self, stored: &Stored) -> Result<String> {
        let project = self.find(&stored.task.project)?;
        branch_of(stored, self.of(project.as_ref()))
    }

    pub(super) fn worktree_of(&self, stored: &Stored, project: &Project) -> Result<PathBuf> {
        let (home, path) = (&self.agents.home, &project.agents.worktrees.path);
        let (id, _) = place(stored)?;
        names::worktree_path(path, &project.path, home, &id).map_err(|error| EngineError::Project {
            project: stored.task.project.clone(),
            message: error.to_string(),
        })
    }
}

/// Tasks whose work goes to the same base: the parent, and all steps of a workflow.
fn kin(store: &Store, stored: &Stored) -> Result<Vec<Stored>> {
    let mut kin = Vec::new();
    if let Some(parent) = stored.task.parent {
        kin.push(store.task(parent)?);
    }
    let flow = [Some(stored), kin.first()].into_iter().flatten().find(|task| task.is_workflow());
    let steps = flow.map(|flow| store.all_children(flow.task.id)).transpose()?;
    kin.extend(steps.unwrap_or_default());
    Ok(kin)
}
