//! Who sits on the panel that a task is in, and what each of them does. It only reads: the engine holds panels, and
//! nothing here decides anything about one.

use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::Activity;
use banksman_core::panel::summary::line;
use banksman_core::time::Instant;
use serde_json::Value;

use super::OpsError;
use crate::store::{Store, Stored};

/// The lifecycle of a seat.
pub(super) const SEAT: &str = "seat";
/// What is shown of why an answer did not count, in bytes.
const MISSED_BYTES: usize = 300;

/// A seat whose answer is awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSeat {
    pub task: TaskId,
    pub reviewer: String,
    pub doing: Doing,
    /// Why its last answer did not count, in one line, if it is asked again.
    pub missed: Option<String>,
    /// Whether there is a run that can be looked at.
    pub was_asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Until its time for an answer is over.
    Reading { run: RunId, until: Option<Instant> },
    /// It is asked again at this time.
    Resting { until: Option<Instant> },
    /// It waits for a worker.
    Queued,
}

/// Whether the task waits for the word of others.
#[must_use]
pub fn is_at_panel(whole: &Stored) -> bool {
    whole.activity() == Some(Activity::Panel)
}

/// Whether a part of a task is there to judge it, and not to do some of its work.
#[must_use]
pub fn is_seat(part: &Stored) -> bool {
    part.lifecycle.id == SEAT
}

/// Who reviews from a seat.
#[must_use]
pub fn reviewer(seat: &Stored) -> &str {
    seat.text("seat").unwrap_or("reviewer")
}

/// The seats of the panel that the task is in now whose answers are awaited, in the order in which they were made.
pub fn open_seats(store: &Store, whole: &Stored) -> Result<Vec<OpenSeat>, OpsError> {
    if !is_at_panel(whole) {
        return Ok(Vec::new());
    }
    let asked_at = |seat: &Stored| seat.task.fields.get("asked_at").and_then(Value::as_i64);
    let mut open = Vec::new();
    for seat in store.parts(whole.task.id)? {
        let is_of_this_stay = is_seat(&seat) && asked_at(&seat) == Some(whole.task.entered);
        if is_of_this_stay && !seat.state().terminal {
            open.push(open_seat(store, &seat)?);
        }
    }
    Ok(open)
}

fn open_seat(store: &Store, seat: &Stored) -> Result<OpenSeat, OpsError> {
    let task = &seat.task;
    let is_ready = task.rank(&seat.lifecycle).is_some();
    let until = match (is_ready, task.not_before) {
        (true, _) => None,
        (false, Some(at)) => Some(at),
        (false, None) => store.timers_of(task.id)?.first().map(|timer| timer.due),
    };
    let doing = match (task.run(), is_ready) {
        (Some(run), _) => Doing::Reading { run, until },
        (None, true) => Doing::Queued,
        (None, false) => Doing::Resting { until },
    };
    Ok(OpenSeat {
        task: task.id,
        reviewer: reviewer(seat).to_owned(),
        doing,
        missed: missed(seat),
        was_asked: task.epoch > 0,
    })
}

/// Why the last answer of a seat did not count.
#[must_use]
pub fn missed(seat: &Stored) -> Option<String> {
    let why = seat.text("diagnostic").filter(|_| seat.task.epoch > 0)?;
    // What comes after the first line is what the agent has said about it.
    Some(line(why.trim().lines().next().unwrap_or_default(), MISSED_BYTES))
}
