//! What a job says of itself while it runs, for people who watch. Nothing is ever decided by it.

use std::time::{Duration, Instant as Moment};

use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::folder::Folder;

/// Watching a run needs no finer picture, and every write is a rename.
const BETWEEN_BEATS: Duration = Duration::from_secs(1);
/// What is shown of the last thing that was seen.
pub(super) const SHOWN_BYTES: usize = 500;

/// Where a job has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    #[default]
    Prepare,
    Agent,
    Evidence,
    Evaluate,
    Merge,
    CleanUp,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Beat {
    pub stage: Stage,
    /// The last thing that the agent said or did, cut short.
    pub last: String,
    pub last_output_at: Option<Instant>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: Option<i64>,
    pub agent_pid: Option<i32>,
    /// Of the lease.
    pub expires_at: Option<Instant>,
    pub nudges: u32,
    /// Output that could not be written to the log.
    pub dropped_bytes: u64,
}

/// Writes the beat when it has changed, and not too often.
pub(super) struct Pulse {
    pub(super) beat: Beat,
    written_at: Moment,
    /// Before the first one there is nothing to be seen but that the keeper has begun, which its own file tells.
    written: Beat,
}

impl Pulse {
    pub(super) fn new(now: Moment) -> Self {
        Self { beat: Beat::default(), written_at: now, written: Beat::default() }
    }

    /// When it is to be written next; none when there is nothing new.
    pub(super) fn due_at(&self) -> Option<Moment> {
        (self.written != self.beat).then(|| self.written_at + BETWEEN_BEATS)
    }

    pub(super) fn write_if_due(&mut self, folder: &Folder, now: Moment) {
        if self.due_at().is_some_and(|at| at <= now) {
            self.write(folder, now);
        }
    }

    pub(super) fn write(&mut self, folder: &Folder, now: Moment) {
        // A beat that could not be written is only missed; the next one comes.
        drop(folder.write_beat(&self.beat));
        (self.written_at, self.written) = (now, self.beat.clone());
    }
}
