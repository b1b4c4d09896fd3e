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
use self::failure::Failure;
use self::link::{Connector, Link};
use self::transaction::{Lost, Transaction};
use super::error::DbError;
use super::pool::{Borrowed, Pool};
use super::wake::{Waited, WakeMark, WakeSignal};
use super::{Access, Conn, Migration, Options, Result, run_job};

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

/// The result of one run of a job.
enum Attempt<T, E> {
    Done(Result<T, E>),
    Retry(DbError),
}

impl Postgres {
    pub(super) fn open(url: &str, options: &Options, migrations: &[Migration]) -> Result<Self> {
        let connector = Arc::new(open::connector(url, options)?);
        let (link, channel) = open::set_up(&connector, options, migrations)?;
        let links = Pool::new(options.connections, options.busy_timeout);
        links.borrow::<DbError>(|_| Ok(link))?.give_back();
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
        for failures in 1..TRIES {
            match self.attempt(access, &mut job) {
                Attempt::Done(result) => return result,
                Attempt::Retry(_) => self.pause(failures),
            }
        }
        match self.attempt(access, &mut job) {
            Attempt::Done(result) => result,
            Attempt::Retry(error) => Err(E::from(error)),
        }
    }

    fn attempt<T, E: From<DbError>>(
        &self,
        access: Access,
        job: &mut impl FnMut(&mut dyn Conn) -> Result<T, E>,
    ) -> Attempt<T, E> {
        let mut link = match self.borrow() {
            Ok(link) => link,
            Err(failure) => return self.answer(failure),
        };
        let mut transaction = Transaction::new(&mut link, access);
        let result = run_job(job, &mut transaction);
        // A job that makes an error of its own of a failure still has to run again if that helps.
        let failure = transaction.take_failure().filter(|lost| lost.is_retryable || result.is_ok());
        if result.is_err() || failure.is_some() {
            transaction.roll_back();
        }
        let attempt = match (result, failure) {
            (_, Some(failure)) => self.answer(failure),
            (Err(refusal), None) => Attempt::Done(Err(refusal)),
            (Ok(done), None) => self.keep(&mut transaction, access, done),
        };
        if !link.is_broken() {
            link.give_back();
        }
        attempt
    }

    fn keep<T, E: From<DbError>>(
        &self,
        transaction: &mut Transaction<'_>,
        access: Access,
        done: T,
    ) -> Attempt<T, E> {
        match transaction.commit() {
            Ok(()) => {
                if access == Access::Write && transaction.notifies() {
                    self.announcer.announce();
                }
                Attempt::Done(Ok(done))
            }
            Err(Lost::RolledBack(failure)) => self.answer(failure),
            // A read has nothing to lose.
            Err(Lost::Unknown(_)) if access == Access::Read => Attempt::Done(Ok(done)),
            Err(Lost::Unknown(error)) => {
                self.links.clear();
                Attempt::Done(Err(E::from(error)))
            }
        }
    }

    fn answer<T, E: From<DbError>>(&self, failure: Failure) -> Attempt<T, E> {
        if failure.is_disconnect() {
            // What broke one connection, such as a restart of the server, has most likely broken
            // the others.
            self.links.clear();
        }
        if failure.is_retryable {
            Attempt::Retry(failure.error)
        } else {
            Attempt::Done(Err(E::from(failure.error)))
        }
    }

    fn borrow(&self) -> Result<Borrowed<'_, Link>, Failure> {
        self.links.borrow(|idle| {
            if let Some(mut link) = idle {
                link.notice_close();
                if !link.is_broken() {
                    return Ok(link);
                }
            }
            Link::connect(&self.connector)
        })
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
