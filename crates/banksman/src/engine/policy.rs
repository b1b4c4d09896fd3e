//! The policy of a run: the actions it must ask for, the permissions it has, and whether its task
//! loops.

use banksman_core::failure::{Classification, FailureClass};
use banksman_core::fence::fence;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::Value;
use banksman_core::loops::{self, LoopSample};
use banksman_core::policy::{Action, Grant, PermissionRequest, PolicyGuard};
use banksman_core::receipt::Receipt;
use banksman_core::schedule::Ineligible;
use banksman_core::time::Instant;

use super::event::by_name;
use super::project::Settings;
use super::{EngineError, Result};
use crate::config::{Agents, WorkerSetup};
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::{OverBudget, PastRun, Store, StoreError, Stored};

/// Records that are searched for a loop: twice as many as the longest loop that a policy may ask
/// for.
const LOOKED_BACK: i64 = 400;

/// The permissions of a task.
pub(super) fn allowed(store: &Store, stored: &Stored) -> Result<Vec<Action>> {
    let grants = store.grants(stored.task.id)?;
    Ok(grants.into_iter().flat_map(|grant: Grant| grant.actions).collect())
}

/// A task that has used up its own budget asks a person for more, if its lifecycle can ask. If not,
/// it stays in the queue, and `why` tells.
pub(super) fn ask_for_budget(store: &Store, over: &OverBudget, now: Instant) -> Result<()> {
    let stored = store.task(over.task)?;
    let question = stored.lifecycle.budget_question(stored.task.state);
    let Some((trigger, field)) = question else { return Ok(()) };
    let spent: Vec<String> = over.limits.iter().map(Ineligible::detail).collect();
    let text = format!("Over budget: {}", spent.join("; "));
    let words = format!("{text}. Letting it continue raises the budget by the same amount.");
    let ask = by_name(trigger, [(field.to_owned(), Value::from(words))]);
    let notice = NewNotice::alert(NoticeKind::OverBudget, Some(over.task), text);
    match store.ask_for_budget(&stored, ask, over.used, notice, now) {
        // The task has moved on, or its guards forbid the transition.
        Ok(_) | Err(StoreError::Rejected(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Escalates a task that goes back and forth without anything new to a person, even if this run
/// went well.
pub(super) fn escalate_loops(
    store: &Store,
    settings: Settings<'_>,
    (stored, receipt): (&Stored, &Receipt),
    classification: &Classification,
    past: &[PastRun],
) -> Result<Option<Classification>> {
    let name = &stored.task.project;
    let project = settings.find(name)?;
    let policy = settings.of(project.as_ref()).policy.read().map_err(|problems| {
        let message = format!("its policy cannot be read, so loops are not found: {problems}");
        EngineError::Project { project: name.clone(), message }
    })?;
    let recent = stored.task.version.saturating_sub(LOOKED_BACK);
    let entries = store.history(stored.task.id, recent)?;
    let own = receipt.evidence.as_ref().map(|found| found.head.as_str());
    // A run begins with a record that has its epoch. Only the receipt knows the head of the run
    // that has just ended.
    let head_of = |epoch: i64| {
        let known = past.iter().find(|past| past.epoch == epoch)?;
        known.head.as_deref().or(own.filter(|_| epoch == stored.task.epoch))
    };
    let (mut epoch, mut head) = (0, None);
    let turns = entries.iter().map(|entry| {
        epoch = entry.record.epoch().unwrap_or(epoch);
        let now = head_of(epoch);
        // A planner commits nothing: its result is a changed plan.
        let has_planned = entry.record.fields.contains_key(Field::Plan.name());
        let has_new_work = has_planned || (now.is_some() && now != head);
        head = now.or(head);
        LoopSample { record: &entry.record, has_new_work }
    });
    let turns: Vec<LoopSample<'_>> = turns.collect();
    let is_done = classification.outcome == Outcome::NeedsPerson;
    let found = loops::back_and_forth(&turns, policy.loops.back_and_forth).filter(|_| !is_done);
    Ok(found.map(|summary| Classification {
        outcome: Outcome::NeedsPerson,
        class: Some(FailureClass::ModelLoop),
        detail: summary,
        ..classification.clone()
    }))
}

/// The guard of a run, or why its policy cannot be used.
pub(super) fn guard(
    worker: &WorkerSetup,
    agents: &Agents,
    root: String,
    allowed: Vec<Action>,
) -> Result<PolicyGuard, String> {
    let policy = agents.policy.read();
    let policy = policy.map_err(|problems| format!("its policy cannot be used: {problems}"))?;
    Ok(PolicyGuard { policy: policy.clone(), rank: worker.rank, allowed, root })
}

/// The permissions as a part of the prompt; empty if there are none.
pub(super) fn allowed_in_words(allowed: &[Action]) -> String {
    if allowed.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = allowed
        .iter()
        .map(|action| {
            let (word, what) = action.parts();
            format!("{word} {}", Value::from(what))
        })
        .collect();
    format!(
        "\n\nA person has allowed exactly these actions on this task, and nothing beyond them. Anything that differs has to be asked \
         for again:\n{}\n",
        fence(&lines.join("\n"))
    )
}

/// Whether the last run had done its work and only a permission was missing, which has been given.
pub(super) fn waited_for_permission(earlier: &[&PastRun]) -> bool {
    let Some(last) = earlier.last() else { return false };
    let asked =
        last.detail.as_deref().and_then(PermissionRequest::parse_actions).unwrap_or_default();
    last.class == Some(FailureClass::Policy)
        && asked.iter().any(|action| matches!(action, Action::Write(_)))
}
