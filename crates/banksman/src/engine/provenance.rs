//! Whether a file that answers for a person can be a person's.
//!
//! A file does not say who wrote it. But when it came to be is known, and no program can set that
//! time; and the store knows which runs were at work by then, and since when there has been
//! something to judge. Decisions are people's, so what a run may have written is no answer, and
//! neither is what was there before the work was handed over, whoever wrote it.

use std::collections::BTreeSet;

use banksman_core::ids::RunId;
use banksman_core::machine::Actor;
use banksman_core::policy::REFUSED;
use banksman_core::time::{Instant, Span};

use super::signals::{FAIL, PASS, VETO};
use super::{Engine, EngineError};
use crate::clock;
use crate::exec::mailbox::SignalFile;
use crate::store::{HistoryEntry, NodeTime, Stored};

/// The clock of a file system may differ from that of the store, and its times are coarser.
const MARGIN: Span = Span(1_000);
/// Runs that a refusal names: their names fit into that of an actor.
const NAMED: usize = 4;

impl Engine<'_> {
    /// Why a person's answer in a file is not taken for one; none for one that is taken, and for
    /// what is no person's to say. The refusal is in the history of the task, once for each
    /// stay and for the same writers, whatever number of files they write.
    pub(super) fn doubt(
        &self,
        child: &Stored,
        actor: &Actor,
        trigger: &str,
        seen: &SignalFile,
        now: Instant,
    ) -> Result<Option<String>, EngineError> {
        if actor.role != Actor::human("").role {
            return Ok(None);
        }
        let written = self.written(seen)?;
        let runs = self.at_work_when_written(&child.task.project, &written)?;
        let (by, why) = if !runs.is_empty() {
            let names = listed(&runs);
            let why = format!("it was written while {names} worked");
            (Actor { role: "run".to_owned(), name: Some(names) }, why)
        } else if written.first() < self.judged_since(child)?.as_ref() {
            (actor.clone(), "it was written before there was anything to judge".to_owned())
        } else {
            return Ok(None);
        };
        let (task, stay) = (child.task.id, child.task.entered);
        let writer = by.name.as_deref().unwrap_or_default();
        self.store.note(task, &by, REFUSED, &format!("refused-file-{stay}-{writer}"), now)?;
        let instead = self.instead(child, trigger)?;
        Ok(Some(format!("it changes nothing: {why}; if it is yours, type: {instead}")))
    }

    /// When a file came to be, and then when it came to be where it is, by the clock of the store.
    pub(super) fn written(&self, seen: &SignalFile) -> Result<Vec<Instant>, EngineError> {
        let local = clock::now();
        let ahead = self.store.now(local)?.0 - local.0;
        Ok(seen.changed.iter().map(|at| Instant(at.min(&local).0 + ahead)).collect())
    }

    /// Runs of a project on this machine that can have written a file, or have put it where it is.
    fn at_work_when_written(
        &self,
        project: &str,
        written: &[Instant],
    ) -> Result<Vec<RunId>, EngineError> {
        let limits = &self.config.agents.limits;
        let mut runs = BTreeSet::new();
        for at in written {
            let when = NodeTime {
                node: &self.config.agents.node,
                from: Instant(at.0 - MARGIN.0),
                until: at.plus(MARGIN),
                // An agent whose run was stopped ends with its lease at the latest.
                lingers: Span(limits.lease.0 + limits.grace.0),
            };
            runs.extend(self.store.runs_at_work(project, &when)?);
        }
        Ok(runs.into_iter().collect())
    }

    /// Since when there has been something to judge: the step came from work to its gate, and is
    /// there, or has passed it, whoever was asked in between. None where nobody is to judge it.
    /// A file from before is from whoever worked on it. Here no margin is given: whoever says
    /// that he is done and that it is good does both within a moment, and a person who is
    /// refused for a file that came so soon after the step is told what to type.
    fn judged_since(&self, child: &Stored) -> Result<Option<Instant>, EngineError> {
        let lifecycle = &child.lifecycle;
        let is_judged = |state: &str| {
            let mut exits =
                lifecycle.find_state(state).into_iter().flat_map(|id| lifecycle.exits(id));
            exits.any(|row| [PASS, FAIL, VETO].contains(&row.trigger.as_str()))
        };
        if !is_judged(&child.state().name) {
            return Ok(None);
        }
        let history = self.store.latest_history(child)?;
        let from_work =
            |entry: &&HistoryEntry| !entry.record.from.as_deref().is_some_and(is_judged);
        Ok(history.iter().rev().find(from_work).map(|entry| entry.ts))
    }

    /// What a person types who means it.
    fn instead(&self, child: &Stored, trigger: &str) -> Result<String, EngineError> {
        let task = child.task.id;
        let passes = trigger == PASS;
        let last = self.store.last_decision(task)?.filter(|asked| asked.settled.is_none());
        let open = last.filter(|asked| asked.offers.iter().any(|(_, offer)| offer == trigger));
        Ok(match open {
            Some(asked) if passes => format!("banksman decisions approve {}", asked.id),
            Some(asked) => format!("banksman decisions changes {} '…'", asked.id),
            None if passes => format!("banksman workflow report {task} {trigger}"),
            None => format!("banksman workflow report {task} {trigger} --note '…'"),
        })
    }
}

fn listed(runs: &[RunId]) -> String {
    let names: Vec<String> = runs.iter().take(NAMED).map(RunId::to_string).collect();
    match runs.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
