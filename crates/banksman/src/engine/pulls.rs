//! Looks for the pull requests of manual steps on the remote.
//!
//! The looks are jobs, because a turn does not wait for a remote. The time alone decides when one
//! is due, so nothing has to be stored, and a look is not repeated after a crash.

use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::receipt::{EndCause, Receipt};
use banksman_core::time::{Instant, Span};

use super::assignment::branch_of;
use super::job::JobSpecs;
use super::project::Settings;
use super::signals::{agent, apply_signal, signal_notice};
use super::steps::StepTask;
use super::turn::Turn;
use super::{Engine, Project, Result};
use crate::exec::job::JobId;
use crate::exec::repo;
use crate::exec::site::{JobStatus, Site};
use crate::store::{Store, Stored};

/// From the start of a step, or from its last push, to the first look; each wait after it is twice
/// as long.
const FIRST_LOOK: Span = Span(10_000);
/// No wait between two looks is longer.
const LONGEST_WAIT: Span = Span(15 * 60_000);

pub(super) struct PullRequests<'a> {
    store: &'a Store,
    site: &'a dyn Site,
    settings: Settings<'a>,
    specs: JobSpecs<'a>,
}

impl<'a> PullRequests<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (settings, specs) = (engine.settings(), JobSpecs::new(engine));
        Self { store: engine.store, site: engine.site, settings, specs }
    }

    /// Begins a look if one is due, on the node that has the worktree.
    pub(super) fn look(&self, child: &Stored, project: &Project, turn: &mut Turn) -> Result<()> {
        let Some(remote) = &project.remote else { return Ok(()) };
        if !self.settings.worktree_of(child, project)?.join(".git").exists() {
            return Ok(());
        }
        let branch = branch_of(child, &project.agents)?;
        let log = repo::published_log(&project.path, remote, &branch);
        turn.report.watched.extend(log.and_then(|log| log.parent().map(Path::to_owned)));
        // A pull request usually follows a push.
        let pushed = repo::published_at(&project.path, remote, &branch);
        let pushed = pushed.filter(|at| *at <= turn.now).unwrap_or_default();
        let Looks { due, next } = looks(child.task.entered_at.max(pushed), turn.now);
        turn.look_at(next);
        let Some(due) = due else { return Ok(()) };
        let task = child.task.id;
        let job = JobId::Poll { task, due: due.0 / 1_000 };
        let looks_already =
            |job: &JobId| matches!(job, JobId::Poll { task: of, .. } if *of == task);
        if self.site.look(job)? == JobStatus::Absent && !self.site.jobs()?.iter().any(looks_already)
        {
            self.site.begin(&self.specs.look(child, job, project)?)?;
        }
        Ok(())
    }

    /// Applies what a look has seen. The same commit counts once: a pull request that was open
    /// before the step was sent back does not say that the step is done again.
    pub(super) fn end_poll(
        &self,
        task: TaskId,
        receipt: &Receipt,
        turn: &mut Turn,
    ) -> Result<String> {
        let child = self.store.task(task)?;
        let (Some(step), Some(mailbox)) =
            (StepTask::of(&child)?, self.settings.mailbox(&child.task.project)?)
        else {
            return Ok("stale".to_owned());
        };
        let (id, stay) = (&step.spec.id, child.task.entered);
        let evidence = receipt.evidence.as_ref().filter(|_| receipt.ended == EndCause::Completed);
        let now = turn.now;
        let (text, mark) = match evidence.map(|found| (found, found.signal.as_ref())) {
            None => {
                let text = format!("no pull request for {id} can be looked for: {}", receipt.ended);
                let mark = format!("{task}#{stay}-unseen");
                self.store.notice(signal_notice(task, text.clone(), &mark), now)?;
                (text, mark)
            }
            Some((found, Some(signal))) if signal.found => {
                let key = format!("pull-{task}-{}", found.head);
                let name = signal.note.as_deref().unwrap_or("a pull request");
                let mark = format!("{task}#{stay}-{}", found.head);
                let ask = (agent(), Trigger::Signal, Fields::new());
                let told = (format!("{name} for {id}"), mark.as_str());
                (apply_signal(self.store, task, ask, &key, told, now)?, mark)
            }
            Some(_) => return Ok("nothing yet".to_owned()),
        };
        turn.log(&mailbox, task, (&step.workflow, now), &text, &mark)?;
        Ok(text)
    }
}

/// The last look that is due, and when the next one is.
struct Looks {
    due: Option<Instant>,
    next: Instant,
}

fn looks(since: Instant, now: Instant) -> Looks {
    let (mut due, mut next, mut wait) = (None, since.plus(FIRST_LOOK), FIRST_LOOK);
    while next <= now && wait.0 < LONGEST_WAIT.0 {
        wait = Span((wait.0 * 2).min(LONGEST_WAIT.0));
        (due, next) = (Some(next), next.plus(wait));
    }
    if next <= now {
        let more = now.since(next).0 / LONGEST_WAIT.0;
        let last = next.plus(Span(more * LONGEST_WAIT.0));
        (due, next) = (Some(last), last.plus(LONGEST_WAIT));
    }
    Looks { due, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The looks of a time, as `up` would make them: woken when one is due.
    fn seconds(until: i64) -> Vec<i64> {
        let (mut now, mut made) = (Instant(0), Vec::new());
        while now.0 <= until * 1_000 {
            let Looks { due, next } = looks(Instant(0), now);
            made.extend(due.map(|at| at.0 / 1_000));
            assert!(next > now, "it would be looked for without end");
            now = next;
        }
        made
    }

    #[test]
    fn looks_become_rare_and_never_end() {
        let made = seconds(8_000);
        assert_eq!(
            made,
            [10, 30, 70, 150, 310, 630, 1_270, 2_170, 3_070, 3_970, 4_870, 5_770, 6_670, 7_570]
        );
        let day = 24 * 60 * 60;
        assert!(seconds(day).len() < 110);
        // A node that wakes up late makes the last look and not all that it missed.
        assert_eq!(looks(Instant(0), Instant(100_000)).due, Some(Instant(70_000)));
        let late = looks(Instant(0), Instant(5_000_000));
        assert_eq!((late.due, late.next), (Some(Instant(4_870_000)), Instant(5_770_000)));
    }
}
