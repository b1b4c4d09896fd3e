//! Provenance of signal files: whether a file that answers for a person can be a person's.
//!
//! A file does not name its writer. But no program can set the time of its creation, and the store
//! knows which runs were at work at that time, and since when there has been something to judge.
//! People decide, so a file that a run may have written is no answer, and neither is a file from
//! before the work was handed over.

use banksman_core::lifecycle::contract::Note;
use banksman_core::lifecycle::contract::Trigger;
use std::collections::BTreeSet;

use banksman_core::ids::RunId;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};

use super::{Engine, Result};
use crate::clock;
use crate::config::Agents;
use crate::exec::mailbox::SignalFile;
use crate::store::{HistoryEntry, NodeTime, Store, Stored};

/// The clock of a file system may differ from that of the store, and its times are coarser.
const MARGIN: Span = Span(1_000);
/// Runs that a refusal names: more would not fit into an actor's name.
const NAMED: usize = 4;

pub(super) struct Provenance<'a> {
    store: &'a Store,
    agents: &'a Agents,
}

impl<'a> Provenance<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, agents: &engine.config.agents }
    }

    /// Why a file is refused as a person's answer; none for a file that counts, or that is not
    /// about a person's decision. The history of the task has one record of it for each stay and
    /// the same runs, however many files they write.
    pub(super) fn reason_to_refuse(
        &self,
        child: &Stored,
        actor: &Actor,
        trigger: Trigger,
        seen: &SignalFile,
        now: Instant,
    ) -> Result<Option<String>> {
        if !actor.is_human() {
            return Ok(None);
        }
        let written = written(self.store, seen)?;
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
        let key = format!("refused-file-{stay}-{writer}");
        self.store.note(task, &by, Note::AnswerRefused, &key, now)?;
        let instead = self.instead(child, trigger)?;
        Ok(Some(format!("it changes nothing: {why}; if it is yours, {instead}")))
    }

    /// Runs of a project on this node that can have written a file, or moved it to its place.
    fn at_work_when_written(&self, project: &str, written: &[Instant]) -> Result<Vec<RunId>> {
        let limits = &self.agents.limits;
        let mut runs = BTreeSet::new();
        for at in written {
            let when = NodeTime {
                node: &self.agents.node,
                from: Instant(at.0 - MARGIN.0),
                until: at.plus(MARGIN),
                // An agent whose run was stopped ends with its lease at the latest.
                lingers: Span(limits.lease.0 + limits.grace.0),
            };
            runs.extend(self.store.runs_at_work(project, &when)?);
        }
        Ok(runs.into_iter().collect())
    }

    /// Since when there has been something to judge: since the step came from work to its gate, if
    /// it is there or has passed it. None where the state has nothing to judge. An older file is
    /// from whoever did the work. There is no margin here: an agent that reports its step and
    /// approves it does both within a moment, and a person who is refused for such a file is told
    /// what to type.
    fn judged_since(&self, child: &Stored) -> Result<Option<Instant>> {
        let lifecycle = &child.lifecycle;
        let is_judged = |state: &str| {
            let mut exits =
                lifecycle.find_state(state).into_iter().flat_map(|id| lifecycle.exits(id));
            exits.any(|row| {
                let known = Trigger::named(&row.trigger);
                matches!(known, Some(Trigger::Pass | Trigger::Fail | Trigger::Veto))
            })
        };
        if !is_judged(&child.state().name) {
            return Ok(None);
        }
        let history = self.store.latest_history(child)?;
        let from_work =
            |entry: &&HistoryEntry| !entry.record.from.as_deref().is_some_and(is_judged);
        Ok(history.iter().rev().find(from_work).map(|entry| entry.ts))
    }

    /// What a person does who means it.
    fn instead(&self, child: &Stored, trigger: Trigger) -> Result<String> {
        let task = child.task.id;
        let passes = trigger == Trigger::Pass;
        let last = self.store.last_decision(task)?.filter(|asked| asked.settled.is_none());
        let open =
            last.filter(|asked| asked.offers.iter().any(|(_, offer)| offer == trigger.name()));
        Ok(match open {
            Some(asked) if passes => format!("answer {} with approve", asked.id),
            Some(asked) => format!("answer {} with changes, and say which", asked.id),
            None if passes => format!("report {trigger} on {task}"),
            None => format!("report {trigger} on {task}, with a note"),
        })
    }
}

/// When a file was created, and then when it came to its place, by the clock of the store.
pub(super) fn written(store: &Store, seen: &SignalFile) -> Result<Vec<Instant>> {
    let local = clock::now();
    let ahead = store.now(local)?.0 - local.0;
    Ok(seen.changed.iter().map(|at| Instant(at.min(&local).0 + ahead)).collect())
}

fn listed(runs: &[RunId]) -> String {
    let names: Vec<String> = runs.iter().take(NAMED).map(RunId::to_string).collect();
    match runs.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
