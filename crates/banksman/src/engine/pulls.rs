//! Pull requests of steps that are done by hand: when the remote is looked at, and what follows
//! from what it shows.
//!
//! The looks themselves are jobs, because no turn of the engine waits for a remote. When they are
//! due follows from the time alone, so that nothing has to be remembered and a look that was made
//! is not made again after a crash.

use std::path::Path;

use banksman_core::ids::TaskId;
use banksman_core::receipt::{EndCause, Receipt};
use banksman_core::time::{Instant, Span};
use serde_json::Map;

use super::assignment::branch_of;
use super::collect::how;
use super::signals::agent;
use super::steps::{SIGNAL, StepTask};
use super::{Engine, EngineError, Notice, Project, TurnReport};
use crate::exec::job::JobId;
use crate::exec::repo;
use crate::exec::site::JobStatus;
use crate::store::Stored;

/// From the beginning of a step, or from the last push, to the first look; each wait after it is
/// twice as long.
const FIRST_LOOK: Span = Span(10_000);
/// Until this.
const LONGEST_WAIT: Span = Span(15 * 60_000);

impl Engine<'_> {
    /// Begins a look if one is due, on the machine that has the worktree.
    pub(super) fn look_for_pull(
        &self,
        child: &Stored,
        project: &Project,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<(), EngineError> {
        let Some(remote) = &project.remote else { return Ok(()) };
        if !self.worktree_of(child, project)?.join(".git").exists() {
            return Ok(());
        }
        let branch = branch_of(child, &project.agents);
        let log = repo::published_log(&project.path, remote, &branch);
        pulse.watched.extend(log.and_then(|log| log.parent().map(Path::to_owned)));
        // Whoever has pushed is about to open it.
        let pushed = repo::published_at(&project.path, remote, &branch);
        let pushed = pushed.filter(|at| *at <= now).unwrap_or_default();
        let Looks { due, next } = looks(child.task.entered_at.max(pushed), now);
        pulse.look_at(next);
        let Some(due) = due else { return Ok(()) };
        let task = child.task.id;
        let job = JobId::Look { task, due: due.0 / 1_000 };
        let looks_already =
            |job: &JobId| matches!(job, JobId::Look { task: of, .. } if *of == task);
        if self.site.look(job)? == JobStatus::Absent && !self.site.jobs()?.iter().any(looks_already)
        {
            self.site.begin(&self.look_plan(child, job, project)?)?;
        }
        Ok(())
    }

    /// What a look has seen. The same commit counts once, whatever becomes of the step: what was
    /// opened before it was sent back does not say that it is done again.
    pub(super) fn end_look(
        &self,
        task: TaskId,
        receipt: &Receipt,
        now: Instant,
        pulse: &mut TurnReport,
    ) -> Result<String, EngineError> {
        let child = self.store.task(task)?;
        let (Some(step), Some(mailbox)) =
            (StepTask::of(&child), self.mailbox(&child.task.project)?)
        else {
            return Ok("came late".to_owned());
        };
        let (id, stay) = (&step.spec.id, child.task.entered);
        let evidence = receipt.evidence.as_ref().filter(|_| receipt.ended == EndCause::Completed);
        let (text, mark) = match evidence.map(|found| (found, found.signal.as_ref())) {
            None => {
                let text =
                    format!("no pull request for {id} can be looked for: {}", how(&receipt.ended));
                (text, format!("{task}#{stay}-unseen"))
            }
            Some((found, Some(signal))) if signal.found => {
                let key = format!("pull-{task}-{}", found.head);
                let what = self.obey(task, (agent(), SIGNAL, Map::new()), &key, now)?;
                let name = signal.note.as_deref().unwrap_or("a pull request");
                (format!("{name} for {id}: {what}"), format!("{task}#{stay}-{}", found.head))
            }
            Some(_) => return Ok("nothing yet".to_owned()),
        };
        // A folder that cannot be written must not hold up the other jobs that have ended.
        let (is_new, urgent, told) = match mailbox.record(&step.workflow, now, &text, &mark) {
            Ok(is_new) => (is_new, false, text.clone()),
            Err(error) => (true, true, error.to_string()),
        };
        if is_new {
            pulse.notices.push(Notice { task: Some(task), urgent, text: told });
        }
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
        // Who wakes up late makes the last one and not all that were missed.
        assert_eq!(looks(Instant(0), Instant(100_000)).due, Some(Instant(70_000)));
        let late = looks(Instant(0), Instant(5_000_000));
        assert_eq!((late.due, late.next), (Some(Instant(4_870_000)), Instant(5_770_000)));
    }
}
