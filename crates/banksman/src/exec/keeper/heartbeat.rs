//! What a job says of itself while it runs, for people who watch. Nothing is ever decided by it.

use std::time::{Duration, Instant as Moment};

use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::folder::JobFolder;

/// Watching a run needs no finer picture, and every write is a rename.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
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
pub struct KeeperStatus {
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
pub(super) struct KeeperStatusWriter {
    pub(super) heartbeat: KeeperStatus,
    written_at: Moment,
    /// Before the first one there is nothing to be seen but that the keeper has begun, which its
    /// own file tells.
    written: KeeperStatus,
}

impl KeeperStatusWriter {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            heartbeat: KeeperStatus::default(),
            written_at: now,
            written: KeeperStatus::default(),
        }
    }

    /// When it is to be written next; none when there is nothing new.
    pub(super) fn due_at(&self) -> Option<Moment> {
        (self.written != self.heartbeat).then(|| self.written_at + HEARTBEAT_INTERVAL)
    }

    pub(super) fn write_if_due(&mut self, folder: &JobFolder, now: Moment) {
        if self.due_at().is_some_and(|at| at <= now) {
            self.write(folder, now);
        }
    }

    pub(super) fn write(&mut self, folder: &JobFolder, now: Moment) {
        // A beat that could not be written is only missed; the next one comes.
        drop(folder.write_heartbeat(&self.heartbeat));
        (self.written_at, self.written) = (now, self.heartbeat.clone());
    }
}
