//! Runs git, set-up commands and checks to completion while the keeper's loop continues.

use std::time::Instant as Moment;

use banksman_core::receipt::EndCause;
use rustix::process::Pid;

use super::super::process::{Output, Program, RunError, Runner};
use super::child::{Child, Side, Start};
use super::heartbeat::KeeperStatus;
use super::watch::Listener;
use super::{Keeper, MARKER};
use crate::clock;

impl Runner for Keeper {
    fn run(&mut self, program: &Program) -> Result<Output, RunError> {
        if self.interrupt.is_some() {
            return Err(RunError::Interrupted);
        }
        let mut env = program.env.clone();
        env.insert(MARKER.to_owned(), self.marker.clone());
        let start = Start {
            program: &program.program,
            args: &program.args,
            folder: &program.folder,
            env: &env,
            stdin: program.stdin.as_deref(),
        };
        let child = Child::start(&start)
            .map_err(|source| RunError::Start { program: program.program.clone(), source })?;
        self.nothing_started = false;
        let started = clock::monotonic();
        let deadline = started + program.timeout;
        let mut tails = OutputTails::new(program.keep);
        let outcome =
            self.watch_child(child, &mut tails, self.wall.map_or(deadline, |w| w.min(deadline)));
        self.left_over = self.left_over.saturating_add(outcome.left_over);
        let timed_out = outcome.ended == Some(EndCause::TimedOut);
        if timed_out && self.wall.is_some_and(|wall| wall < deadline) {
            self.interrupt_for(EndCause::TimedOut);
        }
        if self.interrupt.is_some() {
            return Err(RunError::Interrupted);
        }
        let millis = clock::monotonic().saturating_duration_since(started).as_millis();
        let (stdout, stderr) = (tails.out.text(), tails.err.text());
        Ok(Output {
            exit: outcome.exit,
            stdout,
            stderr,
            cut: tails.out.cut || tails.err.cut,
            timed_out,
            millis: i64::try_from(millis).unwrap_or(i64::MAX),
        })
    }
}

/// The tails of both output streams.
struct OutputTails {
    out: OutputTail,
    err: OutputTail,
}

impl OutputTails {
    fn new(keep: usize) -> Self {
        let tail = || OutputTail { keep, bytes: Vec::new(), cut: false };
        Self { out: tail(), err: tail() }
    }
}

struct OutputTail {
    keep: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl OutputTail {
    /// Buffers up to twice the kept size, so that each byte moves at most once.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > self.keep.saturating_mul(2) {
            self.trim();
        }
    }

    fn trim(&mut self) {
        let beyond = self.bytes.len().saturating_sub(self.keep);
        self.cut |= beyond > 0;
        self.bytes.drain(..beyond);
    }

    fn text(&mut self) -> String {
        self.trim();
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Listener for OutputTails {
    fn on_output(&mut self, side: Side, bytes: &[u8]) {
        match side {
            Side::Out => self.out.push(bytes),
            Side::Err => self.err.push(bytes),
        }
    }

    fn end_cause(&mut self, _now: Moment, _exempt: Option<Pid>) -> Option<EndCause> {
        None
    }

    fn due_at(&self) -> Option<Moment> {
        None
    }

    fn update_status(&self, _status: &mut KeeperStatus) {}

    fn ends_descendants(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_kept() {
        for size in 1..9 {
            let mut tail = OutputTail { keep: 4, bytes: Vec::new(), cut: false };
            b"0123456789".chunks(size).for_each(|chunk| tail.push(chunk));
            assert_eq!((tail.text().as_str(), tail.cut), ("6789", true), "{size} bytes each");
        }
        let mut tail = OutputTail { keep: 4, bytes: Vec::new(), cut: false };
        tail.push(b"0123");
        assert_eq!((tail.text().as_str(), tail.cut), ("0123", false));
    }
}
