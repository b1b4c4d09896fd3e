//! The engine's view of the ground, and the places at which an engine can fail.
//!
//! A crash is an unwinding that nobody between here and the simulation catches: whatever the engine
//! had in mind is gone.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::rc::Rc;

use banksman::config::Agents;
use banksman::engine::{EngineError, Project, Projects};
use banksman::exec::files::FileError;
use banksman::exec::job::{JobId, JobSpec};
use banksman::exec::site::{JobStatus, Site, SiteError};
use banksman::exec::worktree::mark::TaskWorktree;
use banksman_core::ids::TaskId;
use banksman_core::time::Instant;

use super::ground::Ground;
use super::job::Phase;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    CrashBefore,
    CrashAfter,
    ErrorBefore,
    ErrorAfter,
}

impl How {
    pub(super) const ALL: [Self; 4] =
        [Self::CrashBefore, Self::CrashAfter, Self::ErrorBefore, Self::ErrorAfter];
}

/// What an engine that crashes unwinds with.
pub(super) struct Crash;

/// The calls of an engine to the outside, and the one that fails.
#[derive(Debug, Default)]
pub(super) struct Calls {
    made: Cell<u32>,
    fails: Cell<Option<(u32, How)>>,
    has_failed: Cell<bool>,
}

impl Calls {
    pub(super) fn arm(&self, fails: Option<(u32, How)>) {
        self.made.set(0);
        self.has_failed.set(false);
        self.fails.set(fails);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    pub(super) fn made(&self) -> u32 {
        self.made.get()
    }

    fn call<T, E>(
        &self,
        fault: impl Fn() -> E,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let number = self.made.replace(self.made.get() + 1);
        let how = self.fails.get().filter(|(at, _)| *at == number).map(|(_, how)| how);
        self.has_failed.set(self.has_failed.get() || how.is_some());
        match how {
            Some(How::CrashBefore) => resume_unwind(Box::new(Crash)),
            Some(How::ErrorBefore) => return Err(fault()),
            Some(How::CrashAfter | How::ErrorAfter) | None => {}
        }
        let done = act();
        match how {
            Some(How::CrashAfter) => resume_unwind(Box::new(Crash)),
            Some(How::ErrorAfter) => Err(fault()),
            Some(How::CrashBefore | How::ErrorBefore) | None => done,
        }
    }
}

pub(super) struct SimSite {
    pub(super) node: usize,
    pub(super) ground: Rc<RefCell<Ground>>,
    pub(super) calls: Rc<Calls>,
}

impl SimSite {
    fn call<T>(
        &self,
        act: impl FnOnce(&mut Ground) -> Result<T, SiteError>,
    ) -> Result<T, SiteError> {
        let fault = || file("use", io::Error::other("a fault of the simulation"));
        self.calls.call(fault, || act(&mut self.ground.borrow_mut()))
    }

    fn phase(&self, ground: &Ground, job: JobId) -> Option<Phase> {
        ground.jobs.get(&(self.node, job)).map(|job| job.phase.clone())
    }

    fn listed(&self, ground: &Ground, fits: impl Fn(&Phase) -> bool) -> Vec<JobId> {
        let jobs = ground.jobs.iter().filter(|((node, _), _)| *node == self.node);
        jobs.filter(|(_, job)| fits(&job.phase)).map(|((_, id), _)| *id).collect()
    }
}

fn file(action: &'static str, source: io::Error) -> SiteError {
    FileError { action, path: PathBuf::from("the ground"), source }.into()
}

impl Site for SimSite {
    fn begin_if(
        &self,
        plan: &JobSpec,
        may_begin: &mut dyn FnMut() -> bool,
    ) -> Result<(), SiteError> {
        // Each machine has one engine here, so nobody comes between the two.
        if !may_begin() {
            return Ok(());
        }
        self.call(|ground| {
            let source = || io::Error::other("there are too many processes");
            let is_begun = ground.begin(self.node, plan);
            is_begun
                .then_some(())
                .ok_or_else(|| SiteError::Keeper { job: plan.job.clone(), source: source() })
        })
    }

    fn look(&self, job: JobId) -> Result<JobStatus, SiteError> {
        self.call(|ground| match self.phase(ground, job) {
            None | Some(Phase::Unborn | Phase::PutAway(None)) => Ok(JobStatus::Absent),
            Some(Phase::Waiting { .. } | Phase::Working) => Ok(JobStatus::Running),
            Some(Phase::Ended(receipt) | Phase::PutAway(Some(receipt))) => {
                Ok(JobStatus::Ended(receipt))
            }
            Some(Phase::Lost { .. }) => Ok(JobStatus::Lost),
            Some(Phase::Unreadable) => {
                let reason = "it makes no sense".to_owned();
                Err(SiteError::Receipt { job: job.to_string(), reason })
            }
        })
    }

    fn ended(&self) -> Result<Vec<JobId>, SiteError> {
        self.call(|ground| {
            Ok(self.listed(ground, |phase| {
                matches!(phase, Phase::Ended(_) | Phase::Unreadable | Phase::Lost { .. })
            }))
        })
    }

    fn jobs(&self) -> Result<Vec<JobId>, SiteError> {
        self.call(|ground| Ok(self.listed(ground, |phase| !matches!(phase, Phase::PutAway(_)))))
    }

    fn stop(&self, job: JobId, by: &str) -> Result<(), SiteError> {
        self.call(|ground| {
            ground.stop(self.node, job, by);
            Ok(())
        })
    }

    fn end_left_over(&self, job: JobId) -> Result<u32, SiteError> {
        self.call(|ground| match ground.jobs.get_mut(&(self.node, job)) {
            Some(found) if found.is_live() => {
                Err(file("end the processes of", io::Error::from(io::ErrorKind::ResourceBusy)))
            }
            Some(found) => match &mut found.phase {
                Phase::Lost { left } => Ok(std::mem::take(left)),
                Phase::Unborn
                | Phase::Waiting { .. }
                | Phase::Working
                | Phase::Ended(_)
                | Phase::Unreadable
                | Phase::PutAway(_) => Ok(0),
            },
            None => Ok(0),
        })
    }

    fn worktrees(&self, _: &[PathBuf]) -> Result<Vec<TaskWorktree>, SiteError> {
        self.call(|ground| {
            let ours = ground.worktrees.iter().filter(|(node, _)| *node == self.node);
            let path = |task| PathBuf::from(format!("/srv/node{}/worktrees/{task}", self.node));
            let of_task = |(_, task): &(usize, TaskId)| TaskWorktree {
                task: *task,
                path: path(*task),
                repo: None,
            };
            Ok(ours.map(of_task).collect())
        })
    }

    fn put_away(&self, job: JobId, _: Instant) -> Result<(), SiteError> {
        self.call(|ground| {
            let Some(found) = ground.jobs.get_mut(&(self.node, job)) else { return Ok(()) };
            let left = match &found.phase {
                Phase::Ended(receipt) => Some(Some(receipt.clone())),
                Phase::Unborn | Phase::Unreadable => Some(None),
                Phase::Lost { left } if *left > 0 => {
                    let what = format!("{job} is put away while {left} of its processes are left");
                    ground.breaks(what);
                    Some(None)
                }
                Phase::Lost { .. } => Some(None),
                Phase::PutAway(_) => None,
                Phase::Waiting { .. } | Phase::Working => {
                    ground.breaks(format!("{job} is put away while it is at work"));
                    None
                }
            };
            if let (Some(left), Some(found)) = (left, ground.jobs.get_mut(&(self.node, job))) {
                found.phase = Phase::PutAway(left);
            }
            Ok(())
        })
    }
}

/// One project with a repository; no other name has one.
pub(super) struct SimProjects {
    pub(super) agents: Agents,
    pub(super) calls: Rc<Calls>,
}

impl Projects for SimProjects {
    fn find(&self, name: &str) -> Result<Option<Project>, EngineError> {
        let fault = || EngineError::Project {
            project: name.to_owned(),
            message: "a fault of the simulation".to_owned(),
        };
        self.calls.call(fault, || {
            Ok((name == "site").then(|| Project {
                path: PathBuf::from("/srv/site"),
                base: "main".to_owned(),
                remote: None,
                agents: self.agents.clone(),
            }))
        })
    }
}
