//! Removes worktrees that should be gone: the state of their task says so, and their clean-up did
//! not happen.
//!
//! It begins nothing but clean-ups, which save what they remove, and only for worktrees that were
//! made for a task.

use std::path::PathBuf;

use banksman_core::lifecycle::EntryEffect;

use super::job::{JobSpecs, has_other_job};
use super::turn::{Reconciler, Turn};
use super::{Engine, Result};
use crate::exec::job::{JobId, JobSpec};
use crate::exec::site::{JobStatus, Site};
use crate::exec::worktree::mark::TaskWorktree;
use crate::store::{Store, StoreError};

/// Clean-ups that one sweep starts; the next one continues.
const AT_ONCE: usize = 10;

pub(super) struct Sweep<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    specs: JobSpecs<'a>,
}

impl Reconciler for Sweep<'_> {
    /// Begins the clean-ups, each of which saves its worktree before it removes it.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        let repos = self.store.projects()?.into_iter().map(|(_, path)| PathBuf::from(path));
        let repos: Vec<PathBuf> = repos.collect();
        let mut begun = 0;
        for worktree in self.site.worktrees(&repos)? {
            let task = worktree.task;
            let is_begun = self.clean_up(worktree);
            begun += usize::from(turn.contain(Some(task), is_begun)? == Some(true));
            if begun == AT_ONCE {
                break;
            }
        }
        Ok(())
    }
}

impl<'a> Sweep<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, site: engine.site, specs: JobSpecs::new(engine) }
    }

    /// Begins the clean-up of a worktree if its task wants one, and returns whether it does.
    fn clean_up(&self, worktree: TaskWorktree) -> Result<bool> {
        let Some(spec) = self.clean_up_of(worktree)? else { return Ok(false) };
        self.site.begin(&spec)?;
        Ok(true)
    }

    /// The clean-up of a worktree, if its task wants one.
    fn clean_up_of(&self, worktree: TaskWorktree) -> Result<Option<JobSpec>> {
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
        if self.site.look(job)? != JobStatus::Absent || has_other_job(self.site, job)? {
            return Ok(None);
        }
        let Some(mut spec) = self.specs.clean_up(&stored, job)? else { return Ok(None) };
        let Some(workspace) = &mut spec.workspace else { return Ok(None) };
        let is_on_record = worktree.repo.as_ref() == Some(&workspace.repo);
        if !is_on_record && workspace.worktree != worktree.path {
            return Ok(None);
        }
        // The recorded path takes precedence over the template, which may have changed since.
        workspace.worktree = worktree.path;
        Ok(Some(spec))
    }
}
