//! Renews the lease through a short-lived child, and gives the lease up in time if renewal fails.
//!
//! The child is our own program with the keeper's environment, so the keeper itself needs no store.
//! It never blocks the loop.

use std::time::{Duration, Instant as Moment};

use banksman_core::time::{Instant, Span};
use rustix::process::Signal;

use super::super::job::{LOST, LeaseConfig, RunLimits};
use super::super::process::child::Child;
use super::super::process::{OutputTails, ProgramOutput};
use super::log_error;
use crate::clock;
use crate::config::EnvVars;

/// A timestamp is short, and so is an error message.
const ANSWER_BYTES: usize = 4 * 1024;
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the lease still allows work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    Valid,
    /// It expires soon and could not be renewed: there is still time to end the agent properly.
    Expiring,
    /// Another run may have started already.
    Lost,
}

pub(super) struct LeaseRenewal {
    command: Vec<String>,
    key: String,
    ttl: Duration,
    /// Kept free before the expiry, for the agent's grace period and for clock differences.
    reserve: Duration,
    /// The expiry by the store's clock.
    pub(super) expires_at: Instant,
    /// The expiry by this machine's wall clock, which advances while the machine sleeps and may be
    /// wrong.
    wall_expires_at: Instant,
    /// The expiry by the monotonic clock.
    expires: Moment,
    next: Moment,
    tried_at: Moment,
    /// When it had to be looked at: later shows that the keeper was stopped, or the machine.
    looks_by: Moment,
    is_unconfirmed: bool,
    /// The renewing child and its output.
    renewal: Option<(Child, OutputTails)>,
    pub(super) state: LeaseState,
}

impl LeaseRenewal {
    pub(super) fn new(config: &LeaseConfig, limits: &RunLimits, now: Moment) -> Self {
        let ttl = millis(config.ttl_ms);
        // A grace period longer than the lease must not use it up.
        let reserve = millis(limits.grace_ms).min(ttl / 3) + ttl / 10;
        let wall = clock::now();
        // This machine's clock may be behind, so the remaining time by the store's clock counts as
        // well.
        let left_ms = config.expires_at.since(wall).0.min(config.left_ms);
        let left = millis(left_ms).min(ttl);
        // A lease that is about to expire, or seems to because clocks differ, must be renewed
        // before the job does anything.
        let is_unconfirmed = left <= reserve;
        Self {
            command: config.renew.clone(),
            key: config.key.clone(),
            ttl,
            reserve,
            expires_at: config.expires_at,
            wall_expires_at: after(wall, left),
            expires: if is_unconfirmed { now + reserve + ttl / 3 } else { now + left },
            next: if is_unconfirmed { now } else { now + left / 3 },
            tried_at: now,
            looks_by: now,
            is_unconfirmed,
            renewal: None,
            state: LeaseState::Valid,
        }
    }

    /// Whether the lease is not yet confirmed.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.is_unconfirmed && self.state == LeaseState::Valid
    }

    /// The renewing child, which does not belong to the job.
    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.renewal.as_mut().map(|(child, _)| child)
    }

    pub(super) fn readable(&self) -> Option<&Child> {
        self.renewal.as_ref().map(|(child, _)| child)
    }

    /// When the lease needs attention next.
    pub(super) fn due_at(&self) -> Moment {
        match &self.renewal {
            Some(_) => (self.tried_at + self.ttl / 3).min(self.deadline()),
            None => self.next.min(self.deadline()),
        }
    }

    /// Does whatever is due. Calls `progressed` only when a renewal starts.
    pub(super) fn renew_if_due(&mut self, now: Moment, progressed: &mut dyn FnMut() -> bool) {
        let was_stopped = now.saturating_duration_since(self.looks_by) >= self.retry_interval();
        if self.state != LeaseState::Valid {
            return;
        }
        self.collect_answer(now);
        // The wall clock shows that the machine slept; the monotonic clock does not.
        let slept = clock::now() >= self.wall_expires_at && now < self.expires;
        let is_due = now >= self.next || (slept && now >= self.tried_at + self.retry_interval());
        if self.renewal.is_none() && is_due && self.state == LeaseState::Valid {
            self.start_renewal(now, progressed());
        }
        if self.state == LeaseState::Valid && now >= self.deadline() {
            if was_stopped {
                self.ask_again(now);
            } else {
                self.state = LeaseState::Expiring;
            }
        }
        self.looks_by = self.due_at();
    }

    /// The lease ran out while the keeper could not renew it. If everything stood still, nobody has
    /// taken the run, and a healthy agent may go on; the store knows.
    fn ask_again(&mut self, now: Moment) {
        self.is_unconfirmed = true;
        self.expires = now + self.reserve + self.ttl / 3;
        self.next = now;
    }

    /// Ends the renewing child when the job is over.
    pub(super) fn stop_renewal(&mut self) {
        if let Some((child, _)) = self.renewal.take().filter(|(child, _)| child.exit.is_none()) {
            // The child is not reaped yet, so the pid is still its own; it leads a group with
            // everything it started.
            log_error(child.signal_group(Signal::KILL), "kill a lease renewal");
        }
    }

    fn start_renewal(&mut self, now: Moment, progressed: bool) {
        self.tried_at = now;
        let more: &[&str] = if progressed { &["--progressed"] } else { &[] };
        match Child::start_own(&self.command, more, (EnvVars::KEEPER_KEY, &self.key)) {
            Ok(child) => self.renewal = Some((child, OutputTails::new(ANSWER_BYTES))),
            Err(error) => self.failed(now, &format!("the command did not start: {error}")),
        }
    }

    fn collect_answer(&mut self, now: Moment) {
        let Some((child, tails)) = &mut self.renewal else { return };
        child.read(&mut [0; 1024], 4, &mut |side, bytes| tails.push(side, bytes));
        let Some(exit) = child.exit else {
            if now >= self.tried_at + self.ttl / 3 {
                self.stop_renewal();
                self.failed(now, "it timed out");
            }
            return;
        };
        if let Some((_, tails)) = self.renewal.take() {
            let took = now.saturating_duration_since(self.tried_at);
            self.handle_answer(&tails.into_output(exit, false, took), now);
        }
    }

    fn handle_answer(&mut self, answer: &ProgramOutput, now: Moment) {
        let text = answer.stdout.trim();
        match (answer.exit.code, text.parse::<Instant>()) {
            (Some(0), Ok(expires_at)) => {
                self.expires_at = expires_at;
                self.is_unconfirmed = false;
                // By our monotonic clock, from before the request: the store's clock may differ.
                self.expires = self.tried_at + self.ttl;
                self.wall_expires_at =
                    after(clock::now(), self.expires.saturating_duration_since(now));
                self.next = self.tried_at + self.ttl / 3;
            }
            (Some(0), Err(_)) if text == LOST => self.state = LeaseState::Lost,
            (code, _) => self.failed(now, &format!("exit {code:?}: {}", answer.stderr.trim())),
        }
    }

    fn failed(&mut self, now: Moment, why: &str) {
        log_error(Err(why), "renew the lease");
        self.next = now + self.retry_interval();
    }

    fn retry_interval(&self) -> Duration {
        RETRY_INTERVAL.min(self.ttl / 10)
    }

    /// After this moment the agent could not be ended before another run may start.
    fn deadline(&self) -> Moment {
        self.expires.checked_sub(self.reserve).unwrap_or(self.expires)
    }
}

fn after(at: Instant, left: Duration) -> Instant {
    at.plus(Span(i64::try_from(left.as_millis()).unwrap_or(i64::MAX)))
}

pub(super) fn millis(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}
