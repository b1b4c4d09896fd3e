//! The one thread that writes to an SQLite file: group commit.
//!
//! It takes the jobs that queued up during the last commit, runs them in one transaction and
//! commits once, because the commit (the flush to disk) is the expensive part. It never waits for a
//! group to fill, and never answers a job before the commit that includes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::transaction::Link;
use crate::store::conn::error::DbError;
use crate::store::conn::wake::{WakeFile, WakeSignal};
use crate::store::conn::{Conn, run_job};

/// The capacity of the queue; a caller that finds it full waits.
const QUEUE_JOBS: usize = 1024;

/// The most jobs in one commit, so that a commit stays small and its first job does not wait long.
const GROUP_JOBS: usize = 128;

/// A job with its types erased.
trait Job: Send {
    /// Runs the job. The result is kept until the group is committed or undone.
    fn run(&mut self, link: &mut Link) -> JobOutcome;

    /// Answers the caller: with the job's own result, or with the error that undid the whole group.
    fn answer(self: Box<Self>, undone: Option<DbError>);
}

/// What running a job led to.
struct JobOutcome {
    /// Neither the job nor the database refused.
    is_kept: bool,
    failure: Option<DbError>,
    notifies: bool,
}

struct Call<T, E, F> {
    job: F,
    result: Option<Result<T, E>>,
    caller: SyncSender<Result<T, E>>,
}

impl<T, E, F> Job for Call<T, E, F>
where
    T: Send,
    E: From<DbError> + Send,
    F: FnMut(&mut dyn Conn) -> Result<T, E> + Send,
{
    fn run(&mut self, link: &mut Link) -> JobOutcome {
        let ran = run_job(&mut self.job, link);
        let (failure, notifies) = (ran.failure.clone(), ran.notifies);
        let result = self.result.insert(ran.unless_lost());
        JobOutcome { is_kept: result.is_ok(), failure, notifies }
    }

    fn answer(self: Box<Self>, undone: Option<DbError>) {
        let Self { job, result, caller } = *self;
        // Drop what the job holds before the caller learns of its end, so that the caller's thread
        // outlives it.
        drop(job);
        let result = match (undone, result) {
            // Even a refusal is withdrawn with its group: it may depend on what another job of the
            // group wrote.
            (Some(error), _) => Err(E::from(error)),
            (None, Some(result)) => result,
            (None, None) => Err(E::from(DbError::Closed)),
        };
        // A caller waits for its answer, so a failed send means that its thread is gone.
        drop(caller.send(result));
    }
}

/// The handle of the writer thread, which ends when this is dropped.
pub(in crate::store::conn) struct Writer {
    jobs: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    pub(in crate::store::conn) counts: Arc<Counts>,
}

/// What shows how jobs share commits.
#[derive(Default)]
pub(in crate::store::conn) struct Counts {
    /// Jobs in the queue now.
    pub(in crate::store::conn) waiting: AtomicU64,
    pub(in crate::store::conn) commits: AtomicU64,
}

impl Writer {
    pub(super) fn start(
        link: Link,
        signal: Arc<WakeSignal>,
        wake_file: Arc<WakeFile>,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_JOBS);
        let counts = Arc::new(Counts::default());
        let writer_thread = WriterThread { link, signal, wake_file, counts: Arc::clone(&counts) };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer_thread.serve(&receiver))?;
        Ok(Self { jobs: Some(sender), thread: Some(thread), counts })
    }

    pub(in crate::store::conn) fn write<T, E, F>(&self, job: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: FnMut(&mut dyn Conn) -> Result<T, E> + Send + 'static,
    {
        let (caller, answer) = sync_channel(1);
        let call = Box::new(Call { job, result: None, caller });
        let jobs = self.jobs.as_ref().ok_or(DbError::Closed)?;
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        if jobs.send(call).is_err() {
            return Err(E::from(DbError::Closed));
        }
        answer.recv().unwrap_or(Err(E::from(DbError::Closed)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let Some(thread) = self.thread.take() else {
            return;
        };
        // The last handle may be dropped inside a job, on the writer's own thread, which cannot
        // join itself.
        if thread.thread().id() != thread::current().id() {
            // The callers already got a panic of the writer as `Closed`.
            drop(thread.join());
        }
    }
}

/// What the writer's thread owns.
struct WriterThread {
    link: Link,
    signal: Arc<WakeSignal>,
    wake_file: Arc<WakeFile>,
    counts: Arc<Counts>,
}

impl WriterThread {
    fn serve(mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut group = Vec::with_capacity(GROUP_JOBS);
        while let Ok(first) = jobs.recv() {
            group.push(first);
            while group.len() < GROUP_JOBS {
                let Ok(next) = jobs.try_recv() else { break };
                group.push(next);
            }
            self.counts.waiting.fetch_sub(group.len() as u64, Ordering::Relaxed);
            self.run_group(&mut group);
        }
    }

    /// Runs jobs from the front of the group until all are answered.
    fn run_group(&mut self, group: &mut Vec<Box<dyn Job>>) {
        let mut undo = Undo::Group;
        // Each iteration answers at least one job, except the one that switches to savepoints.
        while !group.is_empty() {
            let ended = match self.link.control("BEGIN IMMEDIATE") {
                Ok(()) => self.run_begun(group, undo),
                Err(error) => GroupOutcome::Undone { ran: group.len(), error },
            };
            if self.link.is_in_transaction() {
                // If even this fails, the next BEGIN fails as well and says why.
                drop(self.link.control("ROLLBACK"));
            }
            match ended {
                GroupOutcome::Done => group.drain(..).for_each(|job| job.answer(None)),
                GroupOutcome::Undone { ran, error } => {
                    group.drain(..ran).for_each(|job| job.answer(Some(error.clone())));
                }
                GroupOutcome::NeedsSavepoints => undo = Undo::Member,
            }
        }
    }

    fn run_begun(&mut self, group: &mut [Box<dyn Job>], undo: Undo) -> GroupOutcome {
        let (mut keeps, mut notifies) = (false, false);
        let is_alone = group.len() == 1;
        for (index, job) in group.iter_mut().enumerate() {
            match self.run_member(job.as_mut(), undo) {
                Ok(ran) if ran.is_kept => {
                    keeps = true;
                    notifies |= ran.notifies;
                }
                Ok(_) if self.link.wrote && undo == Undo::Group && !is_alone => {
                    return GroupOutcome::NeedsSavepoints;
                }
                Ok(_) => {}
                Err(error) => return GroupOutcome::Undone { ran: index + 1, error },
            }
        }
        if !keeps {
            return GroupOutcome::Done;
        }
        if let Err(error) = self.link.control("COMMIT") {
            return GroupOutcome::Undone { ran: group.len(), error };
        }
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        if notifies {
            self.signal.raise();
            // Other processes check by themselves if they get no hint.
            drop(self.wake_file.touch());
        }
        GroupOutcome::Done
    }

    /// Runs one job. An error means that the whole transaction is lost.
    fn run_member(&mut self, job: &mut dyn Job, undo: Undo) -> Result<JobOutcome, DbError> {
        if undo == Undo::Member {
            self.link.control("SAVEPOINT job")?;
        }
        self.link.wrote = false;
        let ran = job.run(&mut self.link);
        if !self.link.is_in_transaction() {
            // SQLite rolled the transaction back by itself.
            let ended = || io::Error::other("a job ended the transaction");
            return Err(ran
                .failure
                .unwrap_or_else(|| DbError::other("keep a transaction open", ended())));
        }
        if undo == Undo::Member {
            if !ran.is_kept {
                self.link.control("ROLLBACK TO job")?;
            }
            self.link.control("RELEASE job")?;
        }
        Ok(ran)
    }
}

/// What can be undone while a group runs.
///
/// A savepoint per job costs about as much as the job and is needed only if a job is refused after
/// it wrote, which is rare. A group therefore runs without savepoints first, and only a group that
/// needs them runs again with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undo {
    Group,
    Member,
}

/// How a run of a group ended. Unless it was committed, the transaction still has to be rolled
/// back.
enum GroupOutcome {
    /// Each job's own result stands.
    Done,
    /// The first `ran` jobs took part and all lost their changes.
    Undone { ran: usize, error: DbError },
    /// One job must be undone alone, so the group must run again with savepoints.
    NeedsSavepoints,
}
