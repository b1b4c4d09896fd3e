//! Steps of workflows that somebody drives by hand: where they say that one is done, and the look
//! at whether it is.
//!
//! The look is a keeper's job like any other check, so whoever says so, and by whatever means, is
//! believed as little as an agent. They work where they like: it needs no worktree, and it leaves
//! everything as it is.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::plan::{environment, limits};
use super::steps::is_driven_manually;
use super::{Engine, EngineError, assignment};
use crate::exec::job::{JobId, JobSpec, JobWork, Verification};
use crate::store::Stored;

/// The folder in which a step was done, and the machine that has it.
const DONE_IN: &str = "done_in";
const DONE_ON: &str = "done_on";
/// Whether more than a word shows that a step is done.
const PROOF: &str = "proof";

impl Engine<'_> {
    /// The look at a step of which somebody says that it is done, or why there can be none. A
    /// criterion in prose is left to its gate.
    pub(super) fn inspect_plan(
        &self,
        stored: &Stored,
        job: JobId,
    ) -> Result<Result<JobSpec, String>, EngineError> {
        let task = &stored.task;
        let said = stored.text(DONE_IN).map(str::to_owned);
        let folder = match said {
            Some(folder) => Some(folder),
            None => self.store.project(&task.project)?,
        };
        let Some(folder) = folder.map(PathBuf::from) else {
            let name = &task.project;
            return Ok(Err(format!("no folder is known for the project `{name}`")));
        };
        let project = self.projects.find(&task.project)?;
        let agents = project.as_ref().map_or(&self.config.agents, |project| &project.agents);
        let checks =
            assignment::checks(stored, &self.assignment(stored)?, agents, project.as_ref());
        let checks = Verification { criterion: None, signal: None, ..checks };
        Ok(Ok(JobSpec {
            job: job.to_string(),
            task: task.id.to_string(),
            workspace: None,
            work: JobWork::Inspect { folder, checks },
            lease: None,
            limits: limits(agents),
            env: environment(task, None),
            pass: agents.pass.clone(),
        }))
    }

    /// The machine that has what is to be looked at, where it is another one: a folder of the same
    /// name here would show nothing.
    pub(super) fn done_elsewhere<'s>(&self, stored: &'s Stored) -> Option<&'s str> {
        stored.text(DONE_ON).filter(|node| *node != self.config.agents.node)
    }

    /// What goes with a signal that was found on this machine.
    pub(super) fn done_here(&self, child: &Stored) -> Map<String, Value> {
        let is_looked_at = is_driven_manually(child) && child.flag(PROOF);
        let node = is_looked_at.then(|| (DONE_ON.to_owned(), json!(self.config.agents.node)));
        node.into_iter().collect()
    }
}
