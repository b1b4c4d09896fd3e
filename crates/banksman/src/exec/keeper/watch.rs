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

use super::Keeper;
use super::cgroup::Cgroup;
use super::child::{Child, Side, reap};
use super::heartbeat::KeeperStatus;
use super::lease::{Lease, Right, millis};
use super::tree::{self, Process};
use crate::clock;

const READ_BYTES: usize = 64 * 1024;
/// Reads from one pipe before the rest of the loop gets its turn.
const READS: usize = 8;
/// How often the keeper checks for stop requests even without a signal.
const TICK: Duration = Duration::from_secs(1);
/// How long processes that outlive their agent get to exit.
const LEFT_OVER_GRACE: Duration = Duration::from_secs(2);
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(25);
/// Rounds of SIGKILL, 25 ms apart, before the keeper gives up.
const ROUNDS: u32 = 200;
/// How long to read the last output of a child after all known processes have exited.
const DRAIN: Duration = Duration::from_secs(1);

/// Handles a child's output and decides when to end the child.
pub(super) trait Listener {
    fn hear(&mut self, side: Side, bytes: &[u8]);
    /// A reason to end the child. `exempt` does not belong to the job.
    fn verdict(&mut self, now: Moment, exempt: Option<Pid>) -> Option<EndCause>;
    /// When to ask again, at the latest.
    fn due_at(&self) -> Option<Moment>;
    fn show(&self, heartbeat: &mut KeeperStatus);
    /// Whether everything that the child started must end with it.
    fn takes_all_along(&self) -> bool;
}

/// How a child ended.
#[derive(Debug)]
pub(super) struct Tended {
    pub(super) exit: ProcessExit,
    /// Why the keeper ended it; none if it exited by itself.
    pub(super) ended: Option<EndCause>,
    pub(super) left_over: u32,
}

#[derive(Default)]
enum Phase {
    #[default]
    Working,
    /// SIGTERM was sent.
    Asked {
        kill_at: Moment,
        look_at: Moment,
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
    asked: BTreeSet<(i32, u64)>,
    left_over: BTreeSet<i32>,
}

impl ChildExit {
    /// Sends SIGTERM to each process once: some agents drop everything at the second one.
    fn ask(&mut self, members: &[Process]) {
        for member in members {
            if self.asked.insert((member.pid.as_raw_pid(), member.start)) {
                signal(member, Signal::TERM);
            }
        }
    }
}

impl Keeper {
    /// Watches a child until it and everything it started have exited.
    pub(super) fn tend(
        &mut self,
        mut child: Child,
        listener: &mut dyn Listener,
        deadline: Moment,
    ) -> Tended {
        let mut buffer = vec![0; READ_BYTES];
        let mut ending = ChildExit::default();
        loop {
            let now = clock::monotonic();
            let ended = self.look_around(now);
            if let Some((_, exit)) = ended.into_iter().find(|(pid, _)| *pid == child.pid) {
                child.exit = Some(exit);
            }
            child.write();
            let mut heard = false;
            child.read(&mut buffer, READS, &mut |side, bytes| {
                heard = true;
                listener.hear(side, bytes);
            });
            if heard {
                self.progressed = true;
                self.pulse.heartbeat.last_output_at = Some(clock::now());
            }
            listener.show(&mut self.pulse.heartbeat);
            ending.phase = self.advance(&mut ending, &mut child, listener, (now, deadline));
            let until = match ending.phase {
                Phase::Over => break,
                Phase::Working => listener.due_at().map_or(deadline, |due| due.min(deadline)),
                Phase::Asked { kill_at, look_at } => kill_at.min(look_at),
                Phase::Killing { next, .. } => next,
                Phase::Draining { until } => until,
            };
            self.wait(until, Some(&child));
        }
        let exit = child.exit.unwrap_or(ProcessExit { code: None, signal: None });
        let left_over = u32::try_from(ending.left_over.len()).unwrap_or(u32::MAX);
        Tended { exit, ended: ending.reason, left_over }
    }

    fn advance(
        &mut self,
        ending: &mut ChildExit,
        child: &mut Child,
        listener: &mut dyn Listener,
        (now, deadline): (Moment, Moment),
    ) -> Phase {
        match ending.phase {
            Phase::Working => {
                let exempt = self.renewing();
                let reason = self.interrupt.clone().or_else(|| listener.verdict(now, exempt));
                let reason = reason.or_else(|| (now >= deadline).then_some(EndCause::TimedOut));
                if child.exit.is_some() {
                    return self.after_its_end(ending, child, listener, now);
                }
                let Some(reason) = reason else { return Phase::Working };
                ending.reason = Some(reason);
                self.ask_to_end(ending, child, now, millis(self.plan.limits.grace_ms))
            }
            Phase::Asked { kill_at, look_at } => {
                if now >= kill_at || self.is_lost() {
                    return self.kill_once(child, 0, now);
                }
                if now < look_at {
                    return Phase::Asked { kill_at, look_at };
                }
                let members = self.members();
                if child.exit.is_some() && members.is_empty() {
                    return all_gone(child, now);
                }
                // A process that was started meanwhile has not got SIGTERM yet.
                ending.ask(&members);
                Phase::Asked { kill_at, look_at: now + BETWEEN_LOOKS }
            }
            Phase::Killing { round, next } if now >= next => self.kill_once(child, round, now),
            Phase::Killing { round, next } => Phase::Killing { round, next },
            Phase::Draining { until } if child.is_silent() || now >= until => Phase::Over,
            Phase::Draining { until } => Phase::Draining { until },
            Phase::Over => Phase::Over,
        }
    }

    /// Handles a child that exited by itself: counts the processes that it left behind and asks
    /// them to exit.
    fn after_its_end(
        &mut self,
        ending: &mut ChildExit,
        child: &Child,
        listener: &dyn Listener,
        now: Moment,
    ) -> Phase {
        // A short helper such as git that has closed its pipes has left nothing that justifies
        // listing all processes.
        if child.is_silent() && !listener.takes_all_along() {
            return Phase::Over;
        }
        let members = self.members();
        ending.left_over.extend(members.iter().map(|member| member.pid.as_raw_pid()));
        if members.is_empty() {
            return all_gone(child, now);
        }
        let grace = millis(self.plan.limits.grace_ms).min(LEFT_OVER_GRACE);
        self.ask_to_end(ending, child, now, grace)
    }

    fn ask_to_end(
        &mut self,
        ending: &mut ChildExit,
        child: &Child,
        now: Moment,
        grace: Duration,
    ) -> Phase {
        if self.is_lost() {
            return self.kill_once(child, 0, now);
        }
        let members = self.members();
        if members.is_empty() {
            signal_group(child, Signal::TERM);
        }
        ending.ask(&members);
        Phase::Asked { kill_at: now + grace, look_at: now + BETWEEN_LOOKS }
    }

    fn kill_once(&mut self, child: &Child, round: u32, now: Moment) -> Phase {
        let members = self.members();
        let is_gone = members.is_empty() && child.exit.is_some();
        if is_gone || round >= ROUNDS {
            if !is_gone {
                eprintln!("{} {} processes survived SIGKILL", clock::now(), members.len());
            }
            return all_gone(child, now);
        }
        if let Some(Err(error)) = self.cgroup.as_ref().filter(|_| round == 0).map(Cgroup::kill) {
            eprintln!("{} failed to kill the control group: {error}", clock::now());
        }
        if members.is_empty() {
            signal_group(child, Signal::KILL);
        }
        members.iter().for_each(|member| signal(member, Signal::KILL));
        Phase::Killing { round: round + 1, next: now + BETWEEN_LOOKS }
    }

    /// Ends the processes that the job's programs left behind.
    pub(super) fn sweep(&mut self) {
        if std::mem::replace(&mut self.is_swept, true) {
            return;
        }
        let left = self.members();
        self.left_over = self.left_over.saturating_add(u32::try_from(left.len()).unwrap_or(0));
        left.iter().for_each(|member| signal(member, Signal::TERM));
        let kill_at = clock::monotonic() + LEFT_OVER_GRACE;
        for _ in 0..ROUNDS {
            let members = self.members();
            if members.is_empty() {
                return;
            }
            if clock::monotonic() >= kill_at {
                members.iter().for_each(|member| signal(member, Signal::KILL));
            }
            self.pass(BETWEEN_LOOKS);
        }
    }

    /// All living processes of the job.
    pub(super) fn members(&self) -> Vec<Process> {
        tree::below_us(self.renewing())
    }

    fn renewing(&self) -> Option<Pid> {
        self.lease.as_ref().and_then(Lease::pid)
    }

    /// Whether another run may have started already.
    fn is_lost(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.right() == Right::Lost)
    }

    /// Does what is due whatever the job is doing: reaps children, checks for a stop request,
    /// renews the lease, publishes the status. Returns the children that exited.
    pub(super) fn look_around(&mut self, now: Moment) -> Vec<(Pid, ProcessExit)> {
        let mut ended = Vec::new();
        if self.wake.woken() || now >= self.next_tick {
            self.next_tick = now + TICK;
            ended = reap();
            self.look_for_a_stop();
        }
        if let Some(lease) = &mut self.lease {
            if let Some(child) = lease.child() {
                let exit = ended.iter().find(|(pid, _)| *pid == child.pid).map(|(_, exit)| *exit);
                child.exit = child.exit.or(exit);
            }
            let (folder, reported, progressed) =
                (&self.folder, &mut self.reported_bytes, &mut self.progressed);
            lease.go_on(now, &mut || {
                let bytes = folder.reports_bytes();
                let told = std::mem::replace(reported, bytes) != bytes;
                std::mem::take(progressed) || told
            });
            self.pulse.heartbeat.expires_at = Some(lease.expires_at);
            match lease.right() {
                Right::Held => {}
                Right::RunsOut | Right::Lost => self.interrupt_for(EndCause::LeaseLost),
            }
        }
        self.pulse.write_if_due(&self.folder, now);
        ended
    }

    fn look_for_a_stop(&mut self) {
        if self.interrupt.is_some() {
            return;
        }
        if self.wake.asked_to_end() {
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
            self.lease.as_ref().filter(|lease| lease.right() == Right::Held).map(Lease::due_at),
            self.pulse.due_at(),
        ];
        let until = due.into_iter().flatten().min().unwrap_or(until);
        let timeout = until.saturating_duration_since(clock::monotonic());
        let timeout = Timespec::try_from(timeout).expect("a tick fits");
        let renewing = self.lease.as_ref().and_then(Lease::readable);
        let readable = child.into_iter().chain(renewing).flat_map(Child::readable);
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
fn all_gone(child: &Child, now: Moment) -> Phase {
    if child.is_silent() { Phase::Over } else { Phase::Draining { until: now + DRAIN } }
}

/// Without a list of processes, only the child's own group is known.
fn signal_group(child: &Child, signal: Signal) {
    if child.exit.is_some() {
        return;
    }
    match rustix::process::kill_process_group(child.pid, signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => eprintln!("{} failed to signal the agent: {error}", clock::now()),
    }
}

fn signal(member: &Process, signal: Signal) {
    // A process that has exited meanwhile needs no signal.
    drop(tree::signal(member, signal));
}
