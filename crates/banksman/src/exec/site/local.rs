//! The jobs of this machine, in the folders of one home: `runs` for current jobs, `ended` for the
//! markers of ended ones, `past` for archived ones.
//!
//! A job is alive exactly while a process holds the lock on its folder. A keeper inherits the lock
//! as its standard input, so two keepers can never start for one job.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use banksman_core::ids::NotAnId;
use banksman_core::time::{Instant, Span};
use rustix::process::Signal;

use super::super::files::{AtPath, FileError, changed_at, fault, remove_if_exists};
use super::super::job::{JobId, JobSpec};
use super::super::keeper::{self, JobFolder, KeeperStart, MARKER, StopRequest, cgroup, tree};
use super::super::worktree::mark::{self, TaskWorktree};
use super::{JobStatus, Result, Site, SiteError};

/// People look at logs in the days after a run.
const PAST_AGE: Span = Span(14 * 24 * 60 * 60 * 1_000);
/// A busy node ends a few hundred runs a day, and listing this many folders takes milliseconds.
const PAST_COUNT: usize = 2_000;
/// The most folders removed at once. Pruning happens once per this many archived jobs, so there are
/// never more than this above the limit.
const PRUNED_AT_ONCE: usize = 50;
/// A status check holds the lock for microseconds.
const LOCK_TRIES: u32 = 25;
const BETWEEN_LOCK_TRIES: Duration = Duration::from_millis(2);
/// Rounds of SIGKILL before the site gives up.
const ROUNDS: u32 = 200;
/// A process that is being started shows no environment for a moment, so finding none once is not
/// enough.
const EMPTY_ROUNDS: u32 = 3;
/// Rounds of SIGTERM before that: git removes its locks after SIGTERM and leaves them after
/// SIGKILL.
const GENTLE_ROUNDS: u32 = 20;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(10);

pub struct LocalSite {
    home: PathBuf,
    /// The path of our own executable.
    program: PathBuf,
    /// Variables that keepers get in addition to our environment.
    env: Vec<(&'static str, String)>,
    /// Keepers that this process started and must reap.
    keepers: Mutex<Vec<(JobId, Child)>>,
    /// The number of jobs that this process has archived.
    put_away: AtomicUsize,
}

impl LocalSite {
    /// Creates the missing folders. `program` is the executable to start as a keeper.
    pub fn open(home: &Path, program: &Path) -> Result<Self> {
        for name in ["runs", "ended", "past"] {
            let folder = home.join(name);
            // Prompts, logs and run tokens are private.
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
            made.at("create", &folder)?;
        }
        let home = home.canonicalize().at("find", home)?;
        let (keepers, put_away) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        Ok(Self { home, program: program.to_owned(), env: Vec::new(), keepers, put_away })
    }

    /// Adds a variable that keepers get. It may be a secret: agents do not get it.
    #[must_use]
    pub fn with_env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// The folder of a current job, whether it exists or not.
    pub fn folder(&self, job: JobId) -> JobFolder {
        JobFolder::new(self.home.join("runs").join(job.to_string()))
    }

    /// The folder of an archived job.
    pub fn past_folder(&self, job: JobId) -> JobFolder {
        JobFolder::new(self.home.join("past").join(job.to_string()))
    }

    /// The folder of a current or archived job in this home, for readers: creates nothing.
    pub fn find(home: &Path, job: JobId) -> Option<JobFolder> {
        let folders = ["runs", "past"].map(|name| home.join(name).join(job.to_string()));
        folders.into_iter().find(|folder| folder.is_dir()).map(JobFolder::new)
    }

    /// The folder to watch: a file appears in it for every job that ends.
    pub fn ended_folder(&self) -> PathBuf {
        self.home.join("ended")
    }

    /// Whether another process started the keeper of some job: then that process, and not this one,
    /// gets SIGCHLD when the keeper dies.
    pub fn has_others_keepers(&self) -> Result<bool> {
        let jobs = self.jobs()?;
        let keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(jobs.iter().any(|job| keepers.iter().all(|(ours, _)| ours != job)))
    }

    fn start_keeper(&self, job: JobId, folder: &JobFolder, lock: File) -> Result<()> {
        let log = folder.keeper_log();
        let opened = OpenOptions::new().append(true).create(true).open(&log);
        let out = opened.at("open", &log)?;
        let err = out.try_clone().at("open", &log)?;
        let mut command = Command::new(&self.program);
        command.arg(keeper::COMMAND).arg(folder.path()).current_dir(folder.path());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(lock).stdout(out).stderr(err);
        let spawned = command.spawn();
        let child = spawned.map_err(|source| SiteError::Keeper { job: job.to_string(), source })?;
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner).push((job, child));
        Ok(())
    }

    /// Takes the lock unless another process keeps it. `is_kept` returns true early if waiting is
    /// pointless.
    fn lock(
        folder: &JobFolder,
        is_kept: impl Fn(&JobFolder) -> Result<bool, FileError>,
    ) -> Result<Option<File>> {
        for _ in 1..LOCK_TRIES {
            if let Some(lock) = folder.try_lock()? {
                return Ok(Some(lock));
            }
            if is_kept(folder)? {
                return Ok(None);
            }
            thread::sleep(BETWEEN_LOCK_TRIES);
        }
        Ok(folder.try_lock()?)
    }

    fn reap(&self) {
        let mut keepers = self.keepers.lock().unwrap_or_else(PoisonError::into_inner);
        keepers.retain_mut(|(_, keeper)| matches!(keeper.try_wait(), Ok(None)));
    }

    fn names(&self, folder: &str) -> Result<Vec<JobId>> {
        let path = self.home.join(folder);
        let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let names = entries.at("list", &path)?.into_iter().map(|entry| entry.file_name());
        // A folder that is not named after a job is not ours.
        let mut jobs: Vec<JobId> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        jobs.sort();
        Ok(jobs)
    }

    fn remove_marker(&self, job: JobId) -> Result<(), FileError> {
        let marker = self.ended_folder().join(job.to_string());
        remove_if_exists(&marker).at("remove", &marker)
    }

    /// Keeps only the last archived poll of a task: there are many of them, and they share the
    /// space with the logs of runs.
    fn remove_older_polls(&self, job: JobId) -> Result<()> {
        let JobId::Poll { task, due } = job else { return Ok(()) };
        let is_older = |past: &JobId| match *past {
            JobId::Poll { task: of, due: at } => of == task && at < due,
            JobId::Run(_) | JobId::Activity { .. } | JobId::CleanUp { .. } => false,
        };
        let older = self.names("past")?.into_iter().filter(is_older);
        Ok(older.map(|past| self.past_folder(past)).try_for_each(|past| remove(past.path()))?)
    }

    fn prune(&self, now: Instant, at_most: usize) -> Result<()> {
        let past = self.home.join("past");
        let entries = fs::read_dir(&past).at("list", &past)?;
        // What is gone already needs no pruning.
        let aged = entries
            .flatten()
            .filter_map(|entry| Some((changed_at(&entry.metadata().ok()?), entry.path())));
        let mut aged: Vec<(Instant, PathBuf)> = aged.collect();
        aged.sort();
        let surplus = aged.len().saturating_sub(at_most);
        let is_expired = |at: usize, since: Instant| at < surplus || now.since(since) > PAST_AGE;
        let expired = aged.iter().enumerate().filter(|(at, (since, _))| is_expired(*at, *since));
        for (_, (_, path)) in expired.take(PRUNED_AT_ONCE) {
            remove(path)?;
        }
        Ok(())
    }
}

impl Site for LocalSite {
    fn begin_if(&self, spec: &JobSpec, may_begin: &mut dyn FnMut() -> bool) -> Result<()> {
        let job: JobId = spec.job.parse().map_err(|error: NotAnId| SiteError::Keeper {
            job: error.text.clone(),
            source: io::Error::new(io::ErrorKind::InvalidInput, error),
        })?;
        let folder = self.folder(job);
        let path = folder.path();
        fs::create_dir_all(path).at("create", path)?;
        let has_begun = |folder: &JobFolder| folder.begun().map(|begun| begun.is_some());
        let Some(lock) = Self::lock(&folder, has_begun)? else { return Ok(()) };
        // Do not start a second keeper: processes of the first may still run.
        if folder.begun()?.is_some() || folder.receipt()?.is_some() {
            return Ok(());
        }
        // A job that could not be prepared may start again; so may one with an unreadable receipt,
        // which counts as lost.
        let past = self.past_folder(job).receipt();
        if matches!(past, Ok(Some(receipt)) if !receipt.ended.failed_externally()) {
            return Ok(remove(path)?);
        }
        if !may_begin() {
            return Ok(());
        }
        folder.write_spec(spec)?;
        self.start_keeper(job, &folder, lock)
    }

    fn look(&self, job: JobId) -> Result<JobStatus> {
        let folder = self.folder(job);
        let receipt = |folder: &JobFolder| {
            folder.receipt().map_err(|error| SiteError::Receipt {
                job: job.to_string(),
                reason: error.source.to_string(),
            })
        };
        if let Some(receipt) = receipt(&folder)? {
            return Ok(JobStatus::Ended(Box::new(receipt)));
        }
        if folder.is_locked()? {
            return Ok(JobStatus::Running);
        }
        // The receipt may have arrived between the two checks; none arrives after the lock is free.
        match (receipt(&folder)?, folder.begun()?) {
            (Some(receipt), _) => Ok(JobStatus::Ended(Box::new(receipt))),
            (None, Some(_)) => Ok(JobStatus::Lost),
            (None, None) => match receipt(&self.past_folder(job)) {
                Ok(Some(receipt)) => Ok(JobStatus::Ended(Box::new(receipt))),
                // A job with an unreadable receipt was recorded as lost.
                Ok(None) | Err(_) => Ok(JobStatus::Absent),
            },
        }
    }

    fn ended(&self) -> Result<Vec<JobId>> {
        self.reap();
        let jobs = self.jobs()?;
        let known: BTreeSet<JobId> = jobs.iter().copied().collect();
        // A keeper may write its marker after its job was archived.
        for job in self.names("ended")?.into_iter().filter(|job| !known.contains(job)) {
            self.remove_marker(job)?;
        }
        let mut ended = Vec::new();
        for job in jobs {
            match self.look(job) {
                Ok(JobStatus::Absent | JobStatus::Running) => {}
                // One unreadable job must not hide the others; `look` reports the error.
                Ok(JobStatus::Ended(_) | JobStatus::Lost) | Err(_) => ended.push(job),
            }
        }
        Ok(ended)
    }

    fn jobs(&self) -> Result<Vec<JobId>> {
        self.names("runs")
    }

    fn worktrees(&self, repos: &[PathBuf]) -> Result<Vec<TaskWorktree>> {
        Ok(mark::worktrees(&self.home, repos).at("look for worktrees in", &self.home)?)
    }

    fn stop(&self, job: JobId, by: &str) -> Result<()> {
        let folder = self.folder(job);
        if !folder.is_locked()? {
            return Ok(());
        }
        folder.write_stop(&StopRequest { by: by.to_owned() })?;
        if let Some(begun) = folder.begun()? {
            // Makes the keeper check for a request now instead of at its next tick.
            signal_keeper(&begun, Signal::USR1);
        }
        Ok(())
    }

    fn kill_keeper(&self, job: JobId) -> Result<()> {
        let folder = self.folder(job);
        let Some(begun) = folder.begun()? else { return Ok(()) };
        signal_keeper(&begun, Signal::KILL);
        Ok(())
    }

    fn end_left_over(&self, job: JobId) -> Result<u32> {
        let folder = self.folder(job);
        let Some(begun) = folder.begun()? else { return Ok(0) };
        let Some(_lock) = Self::lock(&folder, |_| Ok(false))? else {
            let source = io::Error::from(io::ErrorKind::ResourceBusy);
            return Err(fault("end the processes of", folder.path(), source).into());
        };
        let mut found = BTreeSet::new();
        let mut empty_rounds = 0;
        for round in 0..GENTLE_ROUNDS + ROUNDS {
            let signal = if round < GENTLE_ROUNDS { Signal::TERM } else { Signal::KILL };
            let left = left_over(&begun, signal);
            empty_rounds = if left.is_empty() { empty_rounds + 1 } else { 0 };
            if empty_rounds == EMPTY_ROUNDS {
                break;
            }
            found.extend(left);
            thread::sleep(BETWEEN_ROUNDS);
        }
        if let Some(group) = &begun.cgroup {
            cgroup::remove(group);
        }
        Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
    }

    fn put_away(&self, job: JobId, now: Instant) -> Result<()> {
        let (from, to) = (self.folder(job), self.past_folder(job));
        if from.path().is_dir() {
            if to.path().is_dir() {
                remove(to.path())?;
            }
            // A keeper that was killed right after its receipt leaves an empty group.
            if let Some(group) = from.begun()?.and_then(|begun| begun.cgroup) {
                cgroup::remove(&group);
            }
            let moved = fs::rename(from.path(), to.path());
            moved.at("archive", from.path())?;
            self.remove_older_polls(job)?;
        }
        self.remove_marker(job)?;
        // Pruning lists every archived log, so it waits until there is something to remove.
        if self.put_away.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNED_AT_ONCE) {
            self.prune(now, PAST_COUNT)?;
        }
        Ok(())
    }
}

fn remove(folder: &Path) -> Result<(), FileError> {
    fs::remove_dir_all(folder).at("remove", folder)
}

/// Signals the remaining processes of a job without a keeper once and returns their pids.
fn left_over(begun: &KeeperStart, signal: Signal) -> Vec<i32> {
    let mut found = Vec::new();
    if let Some(group) = &begun.cgroup {
        found = cgroup::processes(group);
        let kills = signal == Signal::KILL && !found.is_empty();
        if kills && cgroup::kill_all(group).is_err() {
            // Their marker identifies them as well.
            found.clear();
        }
    }
    for process in tree::marked(MARKER, &begun.marker) {
        // A process that has exited meanwhile needs no signal.
        drop(tree::signal(&process, signal));
        found.push(process.pid.as_raw_pid());
    }
    found
}

/// Signals a keeper that still runs. The pid alone may belong to another process.
fn signal_keeper(begun: &KeeperStart, signal: Signal) {
    if let Some(process) = tree::find_process(begun.pid, begun.process_start) {
        // A keeper that has exited meanwhile needs no signal.
        drop(tree::signal(&process, signal));
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_oldest_surplus_logs_are_pruned_first() {
        let home = tempfile::tempdir().unwrap();
        let site = LocalSite::open(home.path(), Path::new("never-started")).unwrap();
        let past = |number: u64| home.path().join(format!("past/r{number}.1"));
        for number in 1..=60 {
            fs::create_dir(past(number)).unwrap();
            // A higher number is older.
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 - number);
            File::open(past(number)).unwrap().set_modified(at).unwrap();
        }
        let count = || fs::read_dir(home.path().join("past")).unwrap().count();
        site.prune(Instant(1_000_000), 58).unwrap();
        assert!(past(58).exists() && !past(59).exists() && !past(60).exists());
        site.prune(Instant(1_000_000), 1).unwrap();
        assert_eq!(count(), 58 - PRUNED_AT_ONCE);
        site.prune(Instant(1_000_000), 1).unwrap();
        assert!(count() == 1 && past(1).exists());
    }

    #[test]
    fn pruning_runs_once_per_batch() {
        let home = tempfile::tempdir().unwrap();
        let site = LocalSite::open(home.path(), Path::new("never-started")).unwrap();
        for number in 1..=PAST_COUNT + 2 * PRUNED_AT_ONCE {
            fs::create_dir(home.path().join(format!("past/c{number}.1"))).unwrap();
        }
        let count = || fs::read_dir(home.path().join("past")).unwrap().count();
        let job: JobId = "r1.1".parse().unwrap();
        // All were created just now, so none has expired.
        let now = changed_at(&fs::metadata(home.path()).unwrap());
        site.put_away(job, now).unwrap();
        assert_eq!(count(), PAST_COUNT + PRUNED_AT_ONCE);
        for _ in 1..PRUNED_AT_ONCE {
            site.put_away(job, now).unwrap();
        }
        assert_eq!(count(), PAST_COUNT + PRUNED_AT_ONCE, "nobody has looked");
        site.put_away(job, now).unwrap();
        assert_eq!(count(), PAST_COUNT);
    }
}
