//! The policy around a run: what it is told and held to, and whether its task goes in circles.

use banksman_core::failure::{Class, Judgement};
use banksman_core::fence::fence;
use banksman_core::lifecycle::Outcome;
use banksman_core::loops::{self, Turn};
use banksman_core::policy::{Action, Grant, Guard, Request};
use banksman_core::receipt::Receipt;

use super::{Engine, EngineError};
use crate::config::{Agents, WorkerSetup};
use crate::store::{PastRun, Stored};

impl Engine<'_> {
    /// What people have allowed on a task.
    pub(super) fn allowed(&self, stored: &Stored) -> Result<Vec<Action>, EngineError> {
        let grants = self.store.grants(stored.task.id)?;
        Ok(grants.into_iter().flat_map(|grant: Grant| grant.actions).collect())
    }

    /// A task that has gone to and fro without anything new is for a person, however well this run went.
    pub(super) fn look_for_a_loop(
        &self,
        stored: &Stored,
        receipt: &Receipt,
        judgement: Judgement,
        past: &[PastRun],
    ) -> Result<Judgement, EngineError> {
        let mut known = super::plan::Known::new();
        let project = self.project(&stored.task.project, &mut known)?;
        let agents = project.map_or(&self.terms.agents, |project| &project.agents);
        let Ok(policy) = agents.policy.read() else { return Ok(judgement) };
        let entries = self.store.whole_history(stored.task.id)?;
        let own = receipt.evidence.as_ref().map(|found| found.head.as_str());
        // A run begins with a record that says so by its epoch. Of the one that has just ended only its receipt knows more.
        let head_of = |epoch: i64| {
            let known = past.iter().find(|past| past.epoch == epoch)?;
            known.head.as_deref().or(own.filter(|_| epoch == stored.task.epoch))
        };
        let (mut epoch, mut head) = (0, None);
        let turns = entries.iter().map(|entry| {
            let began = entry.record.fields.get("epoch").and_then(serde_json::Value::as_i64);
            epoch = began.unwrap_or(epoch);
            let now = head_of(epoch);
            let brings = now.is_some() && now != head;
            head = now.or(head);
            Turn { record: &entry.record, brings }
        });
        let turns: Vec<Turn<'_>> = turns.collect();
        let is_done = judgement.outcome == Outcome::NeedsPerson;
        let Some(summary) =
            loops::back_and_forth(&turns, policy.loops.back_and_forth).filter(|_| !is_done)
        else {
            return Ok(judgement);
        };
        Ok(Judgement {
            outcome: Outcome::NeedsPerson,
            class: Some(Class::ModelLoop),
            detail: summary,
            ..judgement
        })
    }
}

/// What a run has to ask for first, or why that cannot be told.
pub(super) fn guard(
    worker: &WorkerSetup,
    agents: &Agents,
    root: String,
    allowed: Vec<Action>,
) -> Result<Guard, String> {
    let policy = agents.policy.read();
    let policy = policy.map_err(|problems| format!("its policy cannot be used: {problems}"))?;
    Ok(Guard { policy, rank: worker.rank, allowed, root })
}

/// What was allowed, for the prompt; nothing where nothing was.
pub(super) fn allowed_in_words(allowed: &[Action]) -> String {
    if allowed.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = allowed
        .iter()
        .map(|action| {
            let (word, what) = action.parts();
            format!("{word} {}", serde_json::Value::from(what))
        })
        .collect();
    format!(
        "\n\nA person has allowed exactly these actions on this task, and nothing beyond them. Anything that differs has to be asked \
         for again:\n{}\n",
        fence(&lines.join("\n"))
    )
}

/// Whether the last run had done its work and waited only for leave, which has been given.
pub(super) fn waited_for_leave(earlier: &[&PastRun]) -> bool {
    let Some(last) = earlier.last() else { return false };
    let asked = last.detail.as_deref().and_then(Request::asked_in).unwrap_or_default();
    last.class.as_deref() == Some(Class::Policy.as_str())
        && asked.iter().any(|action| matches!(action, Action::Write(_)))
}
