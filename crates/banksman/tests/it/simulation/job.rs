//! A job as the ground sees it: how far it is, and what is to happen to it when.

use std::path::PathBuf;

use banksman::exec::job::JobId;
use banksman_core::receipt::{EndCause, MergeReport, Receipt};
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use super::ground::Direction;
use super::lease::Lease;
use super::script::{Doing, Script};

/// A node by its number, and a job on it.
pub(super) type Key = (usize, JobId);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// There is a plan, and no keeper has ever taken it up.
    Unborn,
    /// Somebody else has the worktree.
    Waiting {
        until: Instant,
    },
    Working,
    Ended(Box<Receipt>),
    Unreadable,
    /// The keeper is gone; so many processes of the job are not.
    Lost {
        left: u32,
    },
    PutAway(Option<Box<Receipt>>),
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) doing: Doing,
    pub(super) phase: Phase,
    pub(super) stop_asked: bool,
    pub(super) worktree: Option<PathBuf>,
    pub(super) script: Script,
    /// What it answers if it comes to its end.
    pub(super) answer: Option<Value>,
    pub(super) began: Instant,
    pub(super) takes: Span,
    pub(super) done_at: Instant,
    pub(super) dies_at: Option<Instant>,
    /// The one commit that a merge is for, where it is for one.
    pub(super) wanted: Option<String>,
    /// When a merge moves the base, if it has not yet.
    pub(super) lands_at: Option<Instant>,
    pub(super) landed: Option<MergeReport>,
    pub(super) ending: Option<(Instant, EndCause)>,
    pub(super) lease: Option<Lease>,
    pub(super) grace: Span,
    /// Notices nothing in time.
    pub(super) is_slow: bool,
    /// It was asleep with its machine, and cannot have done anything in time.
    pub(super) has_slept: bool,
    pub(super) makes_progress: bool,
    pub(super) head_before: u32,
}

impl Job {
    pub(super) fn follow(&mut self, direction: Direction) {
        let Direction { script, answer, dies, takes, makes_progress } = direction;
        self.dies_at = dies.then(|| self.began.plus(Span(takes.0 * 6 / 10)));
        self.done_at = self.began.plus(takes);
        (self.script, self.answer, self.takes) = (script, answer, takes);
        self.makes_progress = makes_progress;
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. } | Phase::Working)
    }

    pub(super) fn touches_worktree(&self) -> bool {
        match self.phase {
            Phase::Working => true,
            Phase::Lost { left } => left > 0,
            Phase::Unborn
            | Phase::Waiting { .. }
            | Phase::Ended(_)
            | Phase::Unreadable
            | Phase::PutAway(_) => false,
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        let own = match self.phase {
            Phase::Waiting { until } => until,
            Phase::Working => self.done_at,
            Phase::Unborn
            | Phase::Ended(_)
            | Phase::Unreadable
            | Phase::Lost { .. }
            | Phase::PutAway(_) => return None,
        };
        let ending = self.ending.as_ref().map(|(at, _)| *at);
        let renewal = self.lease.filter(|_| ending.is_none()).map(|lease| self.renews_at(lease));
        [Some(own), self.dies_at, self.lands_at, ending, renewal].into_iter().flatten().min()
    }

    /// One that is slow does not notice that its lease runs out.
    pub(super) fn renews_at(&self, lease: Lease) -> Instant {
        if self.is_slow { lease.next } else { lease.due_at() }
    }
}
