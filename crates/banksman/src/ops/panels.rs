//! The reviewers of a task's panel, and what each of them is doing. It only reads: the engine runs
//! panels, and nothing here decides anything about one.

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::contract::Field;
use banksman_core::text::line;
use banksman_core::time::Instant;

use super::OpsError;
use crate::store::{Store, Stored};

/// How much of the reason why an answer did not count is shown, in bytes.
const MISSED_BYTES: usize = 300;

/// A review without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingReview {
    pub task: TaskId,
    pub reviewer: String,
    pub doing: ReviewerStatus,
    /// Why its last answer did not count, in one line, if the reviewer is asked again.
    pub missed: Option<String>,
    /// Whether it has a run to look at.
    pub was_asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewerStatus {
    /// Until its time limit is over.
    Reading { run: RunId, until: Option<Instant> },
    /// Asked again at this time.
    Resting { until: Option<Instant> },
    /// Waits for a worker.
    Queued,
}

/// The unanswered reviews of the task's present panel, in the order of their creation.
pub(super) fn open_reviews(store: &Store, parent: &Stored) -> Result<Vec<PendingReview>, OpsError> {
    if !parent.is_at_panel() {
        return Ok(Vec::new());
    }
    let mut open = Vec::new();
    for review in store.children(parent.task.id)? {
        if review.is_asked_by(parent) && !review.state().terminal {
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
        reviewer: review.reviewer().to_owned(),
        doing,
        missed: missed(review),
        was_asked: task.epoch > 0,
    })
}

/// Why the last answer of a reviewer did not count.
pub fn missed(review: &Stored) -> Option<String> {
    let why = review.text(Field::Diagnostic).filter(|_| review.task.epoch > 0)?;
    // Only the first line is ours; the agent's own words follow.
    Some(line(why.trim().lines().next().unwrap_or_default(), MISSED_BYTES))
}
