//! Permissions for actions: asks for one on behalf of an agent that no keeper watches, and grants
//! one.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::{AnswerEffect, AnswerName, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::machine::Actor;
use banksman_core::policy::{Action, PermissionRequest, Policy, PolicyGuard, Rank};
use banksman_core::time::{Instant, Span};

use super::decisions::{self, AnswerRequest, AnswerResult, DecisionError, DecisionRef};
use super::principal::Operation;
use super::tasks::steered;
use super::{OpsError, Session};
use crate::store::query::Decision;
use crate::store::{Applied, Store};

/// The result of a request.
#[derive(Debug, Clone)]
pub enum PermissionResult {
    /// It needs no permission, or has it already.
    GoOn,
    /// A person is asked.
    Waits { request: Box<PermissionRequest>, applied: Box<Applied> },
}

/// Asks for permission on behalf of an agent that works on a task through this program: the system
/// moves the task to where people are asked, because not every role may do so.
pub fn ask(
    session: &Session,
    policy: Policy,
    id: TaskId,
    (action, words): (&Action, &str),
    now: Instant,
) -> Result<PermissionResult, OpsError> {
    let store = session.may_on(Operation::AskPermission, id)?;
    let (actor, now) = (session.actor(), store.now(now)?);
    let grants = store.grants(id)?;
    let rank: Rank = actor.role.parse().unwrap_or(Rank::Specialist);
    let allowed = grants.into_iter().flat_map(|grant| grant.actions).collect();
    let guard = PolicyGuard { policy, rank, allowed, root: String::new() };
    let Some(request) = guard.stops(std::slice::from_ref(action)) else {
        return Ok(PermissionResult::GoOn);
    };
    let request = request.with_words(&format!("{words} ({actor})"));
    let (asked, caller) = (request.to_string(), (&Actor::system(), session.epoch()));
    let applied = steered(store, id, caller, (Trigger::Escalate, Some(&asked)), now)?;
    Ok(PermissionResult::Waits { request: Box::new(request), applied: Box::new(applied) })
}

/// Asks people about a task, with words.
pub fn escalate(
    session: &Session,
    id: TaskId,
    words: &str,
    now: Instant,
) -> Result<Applied, OpsError> {
    let store = decisions::may_move(session, id, now)?;
    let caller = (&session.actor(), session.epoch());
    steered(store, id, caller, (Trigger::Escalate, Some(words)), now)
}

/// What a person has allowed, and how the task continues.
#[derive(Debug, Clone)]
pub struct PermissionGranted {
    pub decision: DecisionId,
    pub actions: Vec<Action>,
    /// None if no answer of the decision continues the work by itself.
    pub answered: Option<Box<AnswerResult>>,
}

/// Grants exactly what a decision asks for, and lets the task continue.
pub fn allow(
    session: &Session,
    which: DecisionRef,
    note: Option<&str>,
    grace: Span,
    now: Instant,
) -> Result<PermissionGranted, OpsError> {
    let store = decisions::may_answer(session, Some(which), now)?;
    let (actor, now) = (&session.actor(), store.now(now)?);
    let decision = decisions::find(store, which)?;
    let actions = asked_by(store, &decision)?;
    if decision.settled.is_some() {
        return Err(decisions::settled(store, &decision)?);
    }
    let effects = [AnswerEffect::Grants, AnswerEffect::Continues];
    let word = AnswerName::clearest(&decision.offers, &effects);
    // Where an answer of the decision grants the request, it does so when it takes effect.
    let grants = AnswerName::clearest(&decision.offers, &[AnswerEffect::Grants]).is_some();
    if !grants {
        decisions::record_permission(store, &decision, actor, now)?;
    }
    let answer = |word: &str| AnswerRequest {
        which: DecisionRef::Decision(decision.id),
        word: word.to_owned(),
        note: note.map(str::to_owned),
        fields: Fields::new(),
        seen: None,
        key: None,
        grace: if grants { grace } else { Span(0) },
    };
    let answered = word.map(|(word, _)| decisions::answer(session, &answer(word), now));
    let answered = answered.transpose()?.map(Box::new);
    Ok(PermissionGranted { decision: decision.id, actions, answered })
}

fn asked_by(store: &Store, decision: &Decision) -> Result<Vec<Action>, OpsError> {
    let opened = store.record(decision.task, decision.seq)?;
    let texts = opened.iter().flat_map(|entry| entry.record.fields.values());
    let found = texts.filter_map(Value::as_str).find_map(PermissionRequest::parse_actions);
    found.ok_or_else(|| DecisionError::NothingToAllow(decision.id).into())
}
