//! The status that a job publishes while it runs, for people who watch. No decision depends on it.

use std::time::{Duration, Instant as Moment};

use banksman_core::closed::closed;
use banksman_core::time::Instant;
use serde::{Deserialize, Serialize};

use super::folder::JobFolder;

/// People who watch a run need no finer resolution, and every write is a rename.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How much is shown of the last event.
pub(super) const SHOWN_BYTES: usize = 500;

closed! {
    /// The current stage of a job.
    #[derive(Default)]
    pub enum Stage {
        #[default]
        Prepare = "prepare",
        Agent = "agent",
        Evidence = "evidence",
        Evaluate = "evaluate",
        Merge = "merge",
        CleanUp = "clean_up",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeeperStatus {
    pub stage: Stage,
    /// The last thing that the agent wrote or did, truncated.
    pub last: String,
    pub last_output_at: Option<Instant>,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_micros: Option<i64>,
    pub agent_pid: Option<i32>,
    /// When the lease expires.
    pub expires_at: Option<Instant>,
    pub nudges: u32,
    /// Output that could not be written to the log.
    pub dropped_bytes: u64,
}

/// Writes the status when it has changed, at most once per interval.
pub(super) struct KeeperStatusWriter {
    pub(super) status: KeeperStatus,
    written_at: Moment,
    /// The last written status. Before the first one, the keeper's own file shows that it has
    /// started.
    written: KeeperStatus,
}

impl KeeperStatusWriter {
    pub(super) fn new(now: Moment) -> Self {
        Self { status: KeeperStatus::default(), written_at: now, written: KeeperStatus::default() }
    }

    /// When to write next; none if nothing has changed.
    pub(super) fn due_at(&self) -> Option<Moment> {
        (self.written != self.status).then(|| self.written_at + WRITE_INTERVAL)
    }

    pub(super) fn write_if_due(&mut self, folder: &JobFolder, now: Moment) {
        if self.due_at().is_some_and(|at| at <= now) {
            self.write(folder, now);
        }
    }

    pub(super) fn write(&mut self, folder: &JobFolder, now: Moment) {
        // A failed write only skips one update.
        drop(folder.write_status(&self.status));
        (self.written_at, self.written) = (now, self.status.clone());
    }
}
