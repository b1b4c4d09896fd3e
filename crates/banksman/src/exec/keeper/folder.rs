//! The folder of one job: the names of its files, and how each is read and written.
//!
//! A file that others read is replaced as a whole, so no reader sees a partial one. Only the lock
//! tells whether a job is alive: a lock cannot outlive its holder, a process id can.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use banksman_core::limits::{REPORTS, REPORTS_BYTES};
use banksman_core::receipt::{AgentReport, Receipt};
use banksman_core::time::Instant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::files::{self, AtPath, FileError, fault, sync_folder};
use super::super::job::JobSpec;
use super::status::KeeperStatus;

type Result<T, E = FileError> = std::result::Result<T, E>;

/// The agent's standard output and standard error, and its reports: one [`AgentReport`] per line.
pub const OUT_FILE: &str = "out.jsonl";
pub const ERR_FILE: &str = "err.log";
pub const REPORTS_FILE: &str = "reports.jsonl";

/// The largest file of a job: a receipt with the ends of all its logs is much smaller.
const JSON_BYTES: u64 = 16 * 1024 * 1024;

/// Identifies a keeper; written before the keeper starts anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperStart {
    pub pid: i32,
    /// When the process started, in kernel ticks; with the pid it identifies one process.
    pub process_start: u64,
    pub at: Instant,
    /// The value of [`super::MARKER`] in the environment of everything that the job starts.
    pub marker: String,
    /// The job's control group, if the system allows one.
    pub cgroup: Option<PathBuf>,
}

/// A request to end the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopRequest {
    pub by: String,
}

/// `HOME/runs/JOB`.
#[derive(Debug, Clone)]
pub struct JobFolder(PathBuf);

impl JobFolder {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn lock_path(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub fn keeper_log(&self) -> PathBuf {
        self.0.join("keeper.log")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The working folder of a job without a repository, apart from the job's own files.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn spec(&self) -> Result<Option<JobSpec>> {
        self.read_renamed("job.json", "plan.json")
    }

    pub fn write_spec(&self, spec: &JobSpec) -> Result<()> {
        replace(&self.0.join("job.json"), &json(spec))
    }

    pub fn begun(&self) -> Result<Option<KeeperStart>> {
        read_json(&self.0.join("keeper.json"))
    }

    pub fn write_begun(&self, begun: &KeeperStart) -> Result<()> {
        replace(&self.0.join("keeper.json"), &json(begun))
    }

    pub fn status(&self) -> Result<Option<KeeperStatus>> {
        self.read_renamed("heartbeat.json", "beat.json")
    }

    pub fn write_status(&self, status: &KeeperStatus) -> Result<()> {
        replace(&self.0.join("heartbeat.json"), &json(status))
    }

    /// A job that an earlier build started has the former name.
    fn read_renamed<T: DeserializeOwned>(&self, name: &str, former: &str) -> Result<Option<T>> {
        match read_json(&self.0.join(name))? {
            None => read_json(&self.0.join(former)),
            found => Ok(found),
        }
    }

    pub fn stop(&self) -> Result<Option<StopRequest>> {
        read_json(&self.0.join("stop"))
    }

    pub fn write_stop(&self, stop: &StopRequest) -> Result<()> {
        replace(&self.0.join("stop"), &json(stop))
    }

    pub fn receipt(&self) -> Result<Option<Receipt>> {
        read_json(&self.0.join("receipt.json"))
    }

    /// The receipt is on disk, complete and under its name, when this returns.
    pub fn write_receipt(&self, receipt: &Receipt) -> Result<()> {
        let path = self.0.join("receipt.json");
        let (file, draft) = files::write_draft(&path, &json(receipt)).at("write", &path)?;
        file.sync_all().and_then(|()| fs::rename(&draft, &path)).at("write", &path)?;
        sync_folder(&self.0)
    }

    /// Creates the marker in the one folder that the control plane watches.
    pub fn mark_ended(&self) -> Result<()> {
        let (Some(name), Some(home)) = (self.0.file_name(), self.0.ancestors().nth(2)) else {
            return Ok(());
        };
        let marker = home.join("ended").join(name);
        File::create(&marker).map(drop).at("create", &marker)
    }

    pub fn reports_bytes(&self) -> u64 {
        // A missing file means no reports.
        fs::metadata(self.file(REPORTS_FILE)).map_or(0, |meta| meta.len())
    }

    /// The agent's reports. Unknown lines are skipped: the agent can write to this file itself.
    pub fn reports(&self) -> Vec<AgentReport> {
        let text = files::read_plain(&self.file(REPORTS_FILE), REPORTS_BYTES).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).take(REPORTS).collect()
    }

    /// Writes a file for the agent next to the job spec. Only a plain name stays inside the folder.
    pub fn write_file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.0.join(name);
        let is_plain = Path::new(name).file_name().is_some_and(|plain| plain == name);
        if !is_plain {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a plain file name");
            return Err(fault("write", &path, source));
        }
        replace(&path, text.as_bytes())
    }

    /// Takes the lock if it is free. The lock is released when the file and all its duplicates are
    /// closed.
    pub fn try_lock(&self) -> Result<Option<File>> {
        self.open_locked(File::try_lock)
    }

    /// Whether a keeper runs or is being started. Takes a shared lock, so that concurrent checks do
    /// not see each other.
    pub fn is_locked(&self) -> Result<bool> {
        if !self.0.is_dir() {
            return Ok(false);
        }
        self.open_locked(File::try_lock_shared).map(|lock| lock.is_none())
    }

    fn open_locked(
        &self,
        lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<File>> {
        let path = self.lock_path();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).at("open", &path)?;
        match lock(&file) {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(fault("lock", &path, source)),
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("our own types have string keys and cannot fail")
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let read = files::if_exists(files::read_plain(path, JSON_BYTES)).at("read", path)?;
    let Some(text) = read else { return Ok(None) };
    serde_json::from_slice(&text).map(Some).map_err(|error| fault("parse", path, error.into()))
}

fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, bytes).at("write", path)
}
