//! Whether a file that answers for a person can be a person's.
//!
//! A file does not say who wrote it. But when it came to be is known, and no program can set that time; and the store knows which runs
//! were at work by then. Decisions are people's, so what a run may have written is no answer, whoever wrote it.

use std::collections::BTreeSet;

use banksman_core::ids::RunId;
use banksman_core::machine::Actor;
use banksman_core::policy::REFUSED;
use banksman_core::time::{Instant, Span};

use super::signals::PASS;
use super::{Engine, EngineError};
use crate::clock;
use crate::exec::mailbox::Seen;
use crate::store::{Stored, When};

/// The clock of a file system may differ from that of the store, and its times are coarser.
const MARGIN: Span = Span(1_000);
/// Runs that a refusal names: their names fit into that of an actor.
const NAMED: usize = 4;

impl Engine<'_> {
    /// Why a person's answer in a file is not taken for one; none for one that is taken, and for what is no person's to say. The
    /// refusal is in the history of the task, once for each stay and for the same runs, whatever number of files they write.
    pub(super) fn doubt(
        &self,
        part: &Stored,
        actor: &Actor,
        trigger: &str,
        seen: &Seen,
        now: Instant,
    ) -> Result<Option<String>, EngineError> {
        if actor.role != Actor::human("").role {
            return Ok(None);
        }
        let runs = self.at_work_when_written(&part.task.project, seen)?;
        if runs.is_empty() {
            return Ok(None);
        }
        let names = listed(&runs);
        let by = Actor { role: "run".to_owned(), name: Some(names.clone()) };
        let (task, stay) = (part.task.id, part.task.entered);
        self.store.note(task, &by, REFUSED, &format!("refused-file-{stay}-{names}"), now)?;
        let instead = self.instead(part, trigger)?;
        Ok(Some(format!(
            "it changes nothing: it was written while {names} worked; if it is yours, type: {instead}"
        )))
    }

    /// Runs of a project on this machine that can have written a file, or have put it where it is.
    fn at_work_when_written(&self, project: &str, seen: &Seen) -> Result<Vec<RunId>, EngineError> {
        let local = clock::now();
        let ahead = self.store.now(local)?.0 - local.0;
        let limits = &self.terms.agents.limits;
        let mut runs = BTreeSet::new();
        for changed in &seen.changed {
            let at = Instant(changed.min(&local).0 + ahead);
            let when = When {
                node: &self.terms.agents.node,
                from: Instant(at.0 - MARGIN.0),
                until: at.plus(MARGIN),
                // An agent whose run was stopped ends with its lease at the latest.
                lingers: Span(limits.lease.0 + limits.grace.0),
            };
            runs.extend(self.store.runs_at_work(project, &when)?);
        }
        Ok(runs.into_iter().collect())
    }

    /// What a person types who means it.
    fn instead(&self, part: &Stored, trigger: &str) -> Result<String, EngineError> {
        let task = part.task.id;
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
