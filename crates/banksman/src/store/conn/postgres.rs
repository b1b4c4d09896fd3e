//! The PostgreSQL driver: a small connection pool, one connection per transaction, and retries
//! where a retry can help.
//!
//! Any number of processes on any number of machines may use the same schema. A transaction never
//! runs again after its COMMIT was sent, unless the server reported a rollback.

mod announce;
mod failure;
mod link;
mod open;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{process, thread};

use self::announce::Announcer;
use self::link::{Connector, Link};
use self::transaction::Transaction;
use super::error::DbError;
use super::pool::Pool;
use super::wake::{Waited, WakeMark, WakeSignal};
use super::{Access, Conn, Migration, Options, Ran, Result, run_job};

/// How often a transaction runs before its failure is returned.
const TRIES: u32 = 5;

/// The pause after the first failure; each further one is four times as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// How often a waiter wakes to query while no notifications can arrive.
const CHECK_INTERVAL_WITHOUT_HINTS: Duration = Duration::from_millis(250);

pub(super) struct Postgres {
    links: Pool<Link>,
    connector: Arc<Connector>,
    pub(super) signal: Arc<WakeSignal>,
    announcer: Announcer,
    /// Counts pauses, from a start that differs between processes.
    pauses: AtomicU64,
}

impl Postgres {
    pub(super) fn open(url: &str, options: &Options, migrations: &[Migration]) -> Result<Self> {
        let connector = Arc::new(open::connector(url, options)?);
        let (link, channel) = open::set_up(&connector, options, migrations)?;
        let links = Pool::new(options.connections, options.busy_timeout);
        links.borrow(|_| Ok(link))?.give_back();
        let signal = Arc::new(WakeSignal::default());
        Ok(Self {
            links,
            announcer: Announcer::new(Arc::clone(&connector), channel, Arc::clone(&signal)),
            connector,
            signal,
            pauses: AtomicU64::new(process::id().into()),
        })
    }

    pub(super) fn transact<T, E: From<DbError>>(
        &self,
        access: Access,
        mut job: impl FnMut(&mut dyn Conn) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tries = 0;
        loop {
            tries += 1;
            let ended = self.attempt(access, &mut job);
            if let Err(DbError::Disconnected { .. } | DbError::CommitUnknown { .. }) = &ended {
                // What broke one connection, such as a restart of the server, has most likely
                // broken the others.
                self.links.clear();
            }
            match ended {
                Err(error) if error.is_retryable() && tries < TRIES => self.pause(tries),
                Err(error) => return Err(E::from(error)),
                Ok(result) => return result,
            }
        }
    }

    /// Runs the job once. An error means that the transaction is lost, whatever the job made of it.
    fn attempt<T, E: From<DbError>>(
        &self,
        access: Access,
        job: &mut impl FnMut(&mut dyn Conn) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        let mut lent = self.links.borrow(|idle| self.working(idle))?;
        let mut transaction = Transaction::new(&mut lent.link, access);
        let Ran { result, failure, notifies } = run_job(job, &mut transaction);
        // A job that makes an error of its own of a failure still has to run again if that helps.
        let failure = failure.filter(|failure| failure.is_retryable() || result.is_ok());
        let ended = match (result, failure) {
            (Ok(done), None) => transaction.commit().map(|()| Ok(done)),
            (result, failure) => {
                transaction.roll_back();
                failure.map_or(Ok(result), Err)
            }
        };
        if !lent.link.is_broken() {
            lent.give_back();
        }
        if notifies && access == Access::Write && matches!(ended, Ok(Ok(_))) {
            self.announcer.announce();
        }
        ended
    }

    /// The idle connection, if it still works, or a new one.
    fn working(&self, idle: Option<Link>) -> Result<Link> {
        if let Some(mut link) = idle {
            link.notice_close();
            if !link.is_broken() {
                return Ok(link);
            }
        }
        Link::connect(&self.connector)
    }

    /// The pause grows with each failure and varies, so that two transactions that conflicted once
    /// do not conflict again.
    fn pause(&self, failures: u32) {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let longest = FIRST_PAUSE * 4_u32.pow(failures - 1);
        let count = self.pauses.fetch_add(1, Ordering::Relaxed);
        let part = u32::from((count.wrapping_mul(GOLDEN) >> 56) as u8);
        thread::sleep(longest / 2 + longest * part / 512);
    }

    pub(super) fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        self.announcer.listen();
        self.signal.wait_and_check(mark, at_most, CHECK_INTERVAL_WITHOUT_HINTS, || {
            !self.announcer.is_listening()
        })
    }
}
