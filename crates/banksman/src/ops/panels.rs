//! Who sits on the panel that a task is in, and what each of them does. It only reads: the engine
//! holds panels, and nothing here decides anything about one.

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{Field, Purpose};
use banksman_core::panel::summary::line;
use banksman_core::time::Instant;

use super::OpsError;
use crate::store::{Store, Stored};

/// What is shown of why an answer did not count, in bytes.
const MISSED_BYTES: usize = 300;

/// A review that is not answered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReview {
    pub task: TaskId,
    pub reviewer: String,
    pub doing: ReviewerStatus,
    /// Why its last answer did not count, in one line, if it is asked again.
    pub missed: Option<String>,
    /// Whether there is a run that can be looked at.
    pub was_asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewerStatus {
    /// Until its time for an answer is over.
    Reading { run: RunId, until: Option<Instant> },
    /// It is asked again at this time.
    Resting { until: Option<Instant> },
    /// It waits for a worker.
    Queued,
}

/// Whether the task waits for the word of others.
pub fn is_at_panel(parent: &Stored) -> bool {
    parent.activity() == Some(Activity::Panel)
}

/// Whether a part of a task is there to judge it, and not to do some of its work.
pub fn is_review(child: &Stored) -> bool {
    child.lifecycle.purpose == Purpose::Review
}

/// The name of the reviewer.
pub fn reviewer(review: &Stored) -> &str {
    review.text(Field::Reviewer).unwrap_or("reviewer")
}

/// The unanswered reviews of the panel that the task is in now, in the order of their creation.
pub(super) fn open_reviews(store: &Store, parent: &Stored) -> Result<Vec<PendingReview>, OpsError> {
    if !is_at_panel(parent) {
        return Ok(Vec::new());
    }
    let mut open = Vec::new();
    for review in store.children(parent.task.id)? {
        let is_of_this_stay =
            is_review(&review) && review.number(Field::AskedAt) == Some(parent.task.entered);
        if is_of_this_stay && !review.state().terminal {
            open.push(open_review(store, &review)?);
        }
    }
    Ok(open)
}

fn open_review(store: &Store, review: &Stored) -> Result<PendingReview, OpsError> {
    let task = &review.task;
    let is_ready = task.rank(&review.lifecycle).is_some();
    let until = match (is_ready, task.not_before) {
        (true, _) => None,
        (false, Some(at)) => Some(at),
        (false, None) => store.timers_of(task.id)?.first().map(|timer| timer.due),
    };
    let doing = match (task.run(), is_ready) {
        (Some(run), _) => ReviewerStatus::Reading { run, until },
        (None, true) => ReviewerStatus::Queued,
        (None, false) => ReviewerStatus::Resting { until },
    };
    Ok(PendingReview {
        task: task.id,
        reviewer: reviewer(review).to_owned(),
        doing,
        missed: missed(review),
        was_asked: task.epoch > 0,
    })
}

/// Why the last answer of a reviewer did not count.
pub fn missed(review: &Stored) -> Option<String> {
    let why = review.text(Field::Diagnostic).filter(|_| review.task.epoch > 0)?;
    // What comes after the first line is what the agent has said about it.
    Some(line(why.trim().lines().next().unwrap_or_default(), MISSED_BYTES))
}
