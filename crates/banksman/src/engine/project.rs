//! Projects: their repositories, their settings, and what follows from both for a task.

use std::path::PathBuf;

use super::assignment::{branch_of, place};
use super::{EngineError, Result};
use crate::config::Agents;
use crate::exec::mailbox::Mailbox;
use crate::exec::worktree::names;
use crate::store::Stored;

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
