//! The keeper's one loop: while a child runs, it drains the pipes, renews the lease, and watches
//! limits and stop requests.
//!
//! It never waits for one thing alone. Whether a child exits by itself or is ended, everything that
//! it started ends with it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant as Moment};

use banksman_core::receipt::{EndCause, ProcessExit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::super::process::child::{Child, Side, reap};
use super::lease::{LeaseRenewal, LeaseState, millis};
use super::status::KeeperStatus;
use super::tree::{self, Process};
use super::{Keeper, log_error};
use crate::clock;

const READ_BYTES: usize = 64 * 1024;
/// Reads from one pipe before the rest of the loop gets its turn.
const READS: usize = 8;
/// How often the keeper checks for stop requests even without a signal.
const TICK: Duration = Duration::from_secs(1);
/// A keeper that runs this late was stopped, and most likely its agent with it. On a machine so
/// busy that it is late without that, it waits longer for a silent agent and nothing is lost.
const STOPPED: Duration = Duration::from_secs(1);
/// How long processes that outlive their agent get to exit.
const LEFT_OVER_GRACE: Duration = Duration::from_secs(2);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Rounds of SIGKILL, 25 ms apart, before the keeper gives up.
const ROUNDS: u32 = 200;
/// How long to read the last output of a child after all known processes have exited.
const DRAIN: Duration = Duration::from_secs(1);

/// Handles a child's output and decides when to end the child.
pub(super) trait Listener {
    fn on_output(&mut self, side: Side, bytes: &[u8]);
    /// A reason to end the child. `exempt` does not belong to the job.
    fn end_cause(&mut self, _now: Moment, _exempt: Option<Pid>) -> Option<EndCause> {
        None
    }
    /// When to ask again, at the latest.
    fn due_at(&self) -> Option<Moment> {
        None
    }
    /// Whether the child was seen at work without output since the last call.
    fn has_worked(&mut self) -> bool {
        false
    }
    fn update_status(&self, _status: &mut KeeperStatus) {}
    /// The keeper did not run for this time, so that it saw neither output nor silence in it. A
    /// deadline stays where it is: its clock rests by itself while the machine sleeps, and whoever
    /// stops the keeper gains no time.
    fn was_stopped(&mut self, _time: Duration) {}
    /// Whether everything that the child started must end with it.
    fn ends_descendants(&self) -> bool {
        false
    }
}

/// How a child ended.
#[derive(Debug)]
pub(super) struct ChildOutcome {
    pub(super) exit: ProcessExit,
    /// Why the keeper ended it; none if it exited by itself.
    pub(super) ended: Option<EndCause>,
}

#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Working,
    /// SIGTERM was sent.
    Terminating {
        kill_at: Moment,
        check_at: Moment,
    },
    Killing {
        round: u32,
        next: Moment,
    },
    /// All processes have exited; the rest of the pipes is read.
    Draining {
        until: Moment,
    },
    Over,
}

#[derive(Default)]
struct ChildExit {
    phase: Phase,
    reason: Option<EndCause>,
    /// The processes that got SIGTERM.
    terminated: BTreeSet<(i32, u64)>,
}

impl ChildExit {
    /// Sends SIGTERM to each process once: some agents drop everything at the second one.
    fn terminate(&mut self, job_processes: &[Process]) {
        for process in job_processes {
            if self.terminated.insert((process.pid.as_raw_pid(), process.start)) {
                signal(process, Signal::TERM);
            }
        }
    }
}

impl Keeper {
    /// Watches a child until it and everything it started have exited.
    pub(super) fn watch_child(
        &mut self,
        mut child: Child,
        listener: &mut dyn Listener,
        deadline: Moment,
    ) -> ChildOutcome {
        let mut buffer = vec![0; READ_BYTES];
        let mut child_exit = ChildExit::default();
        loop {
            let now = clock::monotonic();
            let stopped = self.stopped_time(now);
            if !stopped.is_zero() {
                listener.was_stopped(stopped);
            }
            let ended = self.tick(now);
            if let Some((_, exit)) = ended.into_iter().find(|(pid, _)| *pid == child.pid) {
                child.exit = Some(exit);
            }
            child.write();
            let mut had_output = false;
            child.read(&mut buffer, READS, &mut |side, bytes| {
                had_output = true;
                listener.on_output(side, bytes);
            });
            if had_output {
                self.progressed = true;
                self.status_file.status.last_output_at = Some(clock::now());
            }
            self.progressed |= listener.has_worked();
            listener.update_status(&mut self.status_file.status);
            child_exit.phase = self.advance(&mut child_exit, &mut child, listener, (now, deadline));
            let until = match child_exit.phase {
                Phase::Over => break,
                Phase::Working => listener.due_at().map_or(deadline, |due| due.min(deadline)),
                Phase::Terminating { kill_at, check_at } => kill_at.min(check_at),
                Phase::Killing { next, .. } => next,
                Phase::Draining { until } => until,
            };
            self.wait(until, Some(&child));
        }
        let exit = child.exit.unwrap_or(ProcessExit { code: None, signal: None });
        ChildOutcome { exit, ended: child_exit.reason }
    }

    fn advance(
        &mut self,
        child_exit: &mut ChildExit,
        child: &mut Child,
        listener: &mut dyn Listener,
        (now, deadline): (Moment, Moment),
    ) -> Phase {
        match child_exit.phase {
            Phase::Working => {
                let exempt = self.renewal_pid();
                let reason = self.interrupt.clone().or_else(|| listener.end_cause(now, exempt));
                let reason = reason.or_else(|| (now >= deadline).then_some(EndCause::TimedOut));
                if child.exit.is_some() {
                    return self.on_exit(child_exit, child, listener, now);
                }
                let Some(reason) = reason else { return Phase::Working };
                child_exit.reason = Some(reason);
                self.terminate_all(child_exit, child, now, millis(self.spec.limits.grace_ms))
            }
            Phase::Terminating { kill_at, check_at } => {
                if now >= kill_at || self.lease_is_lost() {
                    return self.kill_round(child, 0, now);
                }
                if now < check_at {
                    return child_exit.phase;
                }
                let job_processes = self.job_processes();
                if child.exit.is_some() && job_processes.is_empty() {
                    return finish_output(child, now);
                }
                // A process that was started meanwhile has not got SIGTERM yet.
                child_exit.terminate(&job_processes);
                Phase::Terminating { kill_at, check_at: now + POLL_INTERVAL }
            }
            Phase::Killing { round, next } if now >= next => self.kill_round(child, round, now),
            Phase::Draining { until } if child.is_silent() || now >= until => Phase::Over,
            waiting @ (Phase::Killing { .. } | Phase::Draining { .. } | Phase::Over) => waiting,
        }
    }

    /// Handles a child that exited by itself: counts the processes that it left behind and asks
    /// them to exit.
    fn on_exit(
        &mut self,
        child_exit: &mut ChildExit,
        child: &Child,
        listener: &dyn Listener,
        now: Moment,
    ) -> Phase {
        // A short helper such as git that has closed its pipes has left nothing that justifies
        // listing all processes.
        if child.is_silent() && !listener.ends_descendants() {
            return Phase::Over;
        }
        let job_processes = self.job_processes();
        self.count_left_over(job_processes.len());
        if job_processes.is_empty() {
            return finish_output(child, now);
        }
        let grace = millis(self.spec.limits.grace_ms).min(LEFT_OVER_GRACE);
        self.terminate_all(child_exit, child, now, grace)
    }

    fn terminate_all(
        &mut self,
        child_exit: &mut ChildExit,
        child: &Child,
        now: Moment,
        grace: Duration,
    ) -> Phase {
        if self.lease_is_lost() {
            return self.kill_round(child, 0, now);
        }
        let job_processes = self.job_processes();
        if job_processes.is_empty() {
            signal_group(child, Signal::TERM);
        }
        child_exit.terminate(&job_processes);
        Phase::Terminating { kill_at: now + grace, check_at: now + POLL_INTERVAL }
    }

    fn kill_round(&mut self, child: &Child, round: u32, now: Moment) -> Phase {
        let job_processes = self.job_processes();
        let is_gone = job_processes.is_empty() && child.exit.is_some();
        if is_gone || round >= ROUNDS {
            if !is_gone {
                eprintln!("{} {} processes survived SIGKILL", clock::now(), job_processes.len());
            }
            return finish_output(child, now);
        }
        if let Some(group) = self.cgroup.as_ref().filter(|_| round == 0) {
            log_error(group.kill(), "kill the control group");
        }
        if job_processes.is_empty() {
            signal_group(child, Signal::KILL);
        }
        job_processes.iter().for_each(|process| signal(process, Signal::KILL));
        Phase::Killing { round: round + 1, next: now + POLL_INTERVAL }
    }

    /// Ends the processes that the job's programs left behind.
    pub(super) fn sweep(&mut self) {
        if std::mem::replace(&mut self.nothing_started, true) {
            return;
        }
        let left = self.job_processes();
        self.count_left_over(left.len());
        left.iter().for_each(|process| signal(process, Signal::TERM));
        let kill_at = clock::monotonic() + LEFT_OVER_GRACE;
        for _ in 0..ROUNDS {
            let job_processes = self.job_processes();
            if job_processes.is_empty() {
                return;
            }
            if clock::monotonic() >= kill_at {
                job_processes.iter().for_each(|process| signal(process, Signal::KILL));
            }
            self.pause(POLL_INTERVAL);
        }
    }

    fn count_left_over(&mut self, processes: usize) {
        let sum = &mut self.receipt.left_over;
        *sum = sum.saturating_add(u32::try_from(processes).unwrap_or(u32::MAX));
    }

    /// All living processes of the job.
    pub(super) fn job_processes(&self) -> Vec<Process> {
        tree::descendants(self.renewal_pid())
    }

    fn renewal_pid(&self) -> Option<Pid> {
        self.lease.as_ref().and_then(LeaseRenewal::readable).map(|renewal| renewal.pid)
    }

    /// How long the keeper was stopped before now: by how much it runs later than it meant to, if
    /// that is worth mention.
    fn stopped_time(&mut self, now: Moment) -> Duration {
        let late = now.saturating_duration_since(self.runs_at);
        self.runs_at = now;
        if late < STOPPED { Duration::ZERO } else { late }
    }

    /// Whether another run may have started already.
    fn lease_is_lost(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.state == LeaseState::Lost)
    }

    /// Does what is due whatever the job is doing: reaps children, checks for a stop request,
    /// renews the lease, publishes the status. Returns the children that exited.
    pub(super) fn tick(&mut self, now: Moment) -> Vec<(Pid, ProcessExit)> {
        let mut ended = Vec::new();
        if self.wake.woken() || now >= self.next_tick {
            self.next_tick = now + TICK;
            ended = reap();
            self.check_stop_request();
        }
        if let Some(lease) = &mut self.lease {
            if let Some(child) = lease.child() {
                let exit = ended.iter().find(|(pid, _)| *pid == child.pid).map(|(_, exit)| *exit);
                child.exit = child.exit.or(exit);
            }
            let (folder, reported, progressed) =
                (&self.folder, &mut self.reported_bytes, &mut self.progressed);
            lease.renew_if_due(now, &mut || {
                let bytes = folder.reports_bytes();
                let reported = std::mem::replace(reported, bytes) != bytes;
                std::mem::take(progressed) || reported
            });
            self.status_file.status.expires_at = Some(lease.expires_at);
            match lease.state {
                LeaseState::Valid => {}
                LeaseState::Expiring | LeaseState::Lost => self.interrupt_for(EndCause::LeaseLost),
            }
        }
        self.status_file.write_if_due(&self.folder, now);
        ended
    }

    fn check_stop_request(&mut self) {
        if self.interrupt.is_some() {
            return;
        }
        if self.wake.termination_requested() {
            self.interrupt_for(EndCause::Stopped { by: "a signal to the keeper".to_owned() });
        }
        match self.folder.stop() {
            Ok(None) => {}
            Ok(Some(stop)) => self.interrupt_for(EndCause::Stopped { by: stop.by }),
            // An unreadable request still is one: nothing else writes this file.
            Err(error) => self.interrupt_for(EndCause::Stopped { by: error.to_string() }),
        }
    }

    /// Records why the job must end; the first reason stays.
    pub(super) fn interrupt_for(&mut self, reason: EndCause) {
        self.interrupt.get_or_insert(reason);
    }

    /// Sleeps until something happens or is due.
    pub(super) fn wait(&mut self, until: Moment, child: Option<&Child>) {
        let due = [
            Some(until),
            Some(self.next_tick),
            self.lease
                .as_ref()
                .filter(|lease| lease.state == LeaseState::Valid)
                .map(LeaseRenewal::due_at),
            self.status_file.due_at(),
        ];
        let until = due.into_iter().flatten().min().unwrap_or(until);
        self.runs_at = self.runs_at.max(until);
        let timeout = until.saturating_duration_since(clock::monotonic());
        let timeout = Timespec::try_from(timeout).expect("a tick fits");
        let renewal = self.lease.as_ref().and_then(LeaseRenewal::readable);
        let readable = child.into_iter().chain(renewal).flat_map(Child::readable);
        let mut fds: Vec<PollFd<'_>> =
            readable.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        fds.extend(child.and_then(Child::writable).map(|p| PollFd::new(p, PollFlags::OUT)));
        let waker = self.wake.fd();
        fds.push(PollFd::new(&waker, PollFlags::IN));
        // An interrupted wait is over; the loop checks everything anyway.
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => eprintln!("{} failed to poll: {error}", clock::now()),
        }
    }
}

/// Reads the rest of the pipes if an unknown process still has them open.
fn finish_output(child: &Child, now: Moment) -> Phase {
    if child.is_silent() { Phase::Over } else { Phase::Draining { until: now + DRAIN } }
}

/// Without a list of processes, only the child's own group is known.
fn signal_group(child: &Child, signal: Signal) {
    if child.exit.is_none() {
        log_error(child.signal_group(signal), "signal the agent");
    }
}

fn signal(process: &Process, signal: Signal) {
    // A process that has exited meanwhile needs no signal.
    drop(tree::signal(process, signal));
}
