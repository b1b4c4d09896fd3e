//! Runs git, set-up commands and checks to completion while the keeper's loop continues.

use std::collections::BTreeMap;

use banksman_core::receipt::EndCause;

use super::super::process::child::{Child, Side};
use super::super::process::{OutputTails, Program, ProgramOutput, Result, RunError, Runner};
use super::watch::Listener;
use super::{Keeper, MARKER};
use crate::clock;

impl Runner for Keeper {
    fn env(&self) -> &BTreeMap<String, String> {
        &self.spec.env
    }

    fn run(&mut self, program: &Program) -> Result<ProgramOutput> {
        if self.interrupt.is_some() {
            return Err(RunError::Interrupted);
        }
        let mut marked = program.clone();
        marked.env.insert(MARKER.to_owned(), self.marker.clone());
        let child = Child::start(&marked)
            .map_err(|source| RunError::Start { program: program.program.clone(), source })?;
        self.nothing_started = false;
        let started = clock::monotonic();
        let deadline = started + program.timeout;
        let mut tails = OutputTails::new(program.keep);
        let outcome =
            self.watch_child(child, &mut tails, self.wall.map_or(deadline, |w| w.min(deadline)));
        let timed_out = outcome.ended == Some(EndCause::TimedOut);
        if timed_out && self.wall.is_some_and(|wall| wall < deadline) {
            self.interrupt_for(EndCause::TimedOut);
        }
        if self.interrupt.is_some() {
            return Err(RunError::Interrupted);
        }
        let took = clock::monotonic().saturating_duration_since(started);
        Ok(tails.into_output(outcome.exit, timed_out, took))
    }
}

impl Listener for OutputTails {
    fn on_output(&mut self, side: Side, bytes: &[u8]) {
        self.push(side, bytes);
    }
}
