//! Leave for actions: asking for it on behalf of an agent that no keeper watches, and giving it.

use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::lifecycle::contract::Trigger;
use banksman_core::machine::Actor;
use banksman_core::policy::{ALLOW, Action, PermissionRequest, Policy, PolicyGuard, Rank};
use banksman_core::time::Instant;
use serde_json::{Map, Value};

use super::OpsError;
use super::decisions::{self, AnswerRequest, AnswerResult, DecisionError, DecisionRef};
use crate::store::query::Decision;
use crate::store::{Applied, Store};

/// The move that asks people, where a lifecycle has it for the system.
/// Answers that let the work go on, the clearest first.
const GOES_ON: [&str; 6] = ["approve", "allow", "yes", "resume", "unblock", "retry"];

/// What came of asking.
#[derive(Debug, Clone)]
pub enum PermissionResult {
    /// It needs no leave, or has it already.
    GoOn,
    /// A person is asked.
    Waits { request: Box<PermissionRequest>, applied: Box<Applied> },
}

/// Asks for leave as somebody who works on a task through this program: the system moves the task
/// to where people are asked, because not every role may do so by itself.
pub fn ask(
    store: &Store,
    policy: Policy,
    (id, actor): (TaskId, &Actor),
    (action, words): (&Action, &str),
    now: Instant,
) -> Result<PermissionResult, OpsError> {
    let now = store.now(now)?;
    let grants = store.grants(id)?;
    let rank: Rank = actor.role.parse().unwrap_or(Rank::Specialist);
    let allowed = grants.into_iter().flat_map(|grant| grant.actions).collect();
    let guard = PolicyGuard { policy, rank, allowed, root: String::new() };
    let Some(request) = guard.stops(std::slice::from_ref(action)) else {
        return Ok(PermissionResult::GoOn);
    };
    let request = request.with_words(&format!("{words} ({actor})"));
    let applied = escalate(store, id, &Actor::system(), &request.to_string(), now)?;
    Ok(PermissionResult::Waits { request: Box::new(request), applied: Box::new(applied) })
}

/// Asks people about a task, with words.
pub fn escalate(
    store: &Store,
    id: TaskId,
    actor: &Actor,
    words: &str,
    now: Instant,
) -> Result<Applied, OpsError> {
    let stored = store.task(id)?;
    let place = decisions::place_for_words(&stored, actor, Trigger::Escalate.name(), now);
    let fields = place.map(|field| (field, Value::from(words)));
    let request = super::tasks::MoveRequest {
        trigger: Some(Trigger::Escalate.to_string()),
        fields: Map::from_iter(fields),
        ..super::tasks::MoveRequest::default()
    };
    super::tasks::move_task(store, id, actor, &request, now)
}

/// What a person has allowed, and how the task went on.
#[derive(Debug, Clone)]
pub struct PermissionGranted {
    pub decision: DecisionId,
    pub actions: Vec<Action>,
    /// None where no answer of the question lets the work go on by itself.
    pub answered: Option<Box<AnswerResult>>,
}

/// Gives leave for what a question asks for, exactly that, and lets the task go on.
pub fn allow(
    store: &Store,
    actor: &Actor,
    which: DecisionRef,
    note: Option<&str>,
    now: Instant,
) -> Result<PermissionGranted, OpsError> {
    let now = store.now(now)?;
    decisions::only_a_person(actor)?;
    let decision = decisions::find(store, which)?;
    let actions = asked_by(store, &decision)?;
    if decision.settled.is_some() {
        return Err(decisions::settled(store, &decision)?);
    }
    let word = GOES_ON.into_iter().find(|word| decision.offers.iter().any(|(own, _)| own == word));
    // Once for each question, whoever says it how often.
    store.note(decision.task, actor, ALLOW, &format!("{ALLOW}-{}", decision.id), now)?;
    let answer = |word: &str| AnswerRequest {
        which: DecisionRef::Decision(decision.id),
        word: word.to_owned(),
        note: note.map(str::to_owned),
        fields: Map::new(),
        seen: None,
        key: None,
    };
    let answered = word.map(|word| decisions::answer(store, actor, &answer(word), now));
    let answered = answered.transpose()?.map(Box::new);
    Ok(PermissionGranted { decision: decision.id, actions, answered })
}

fn asked_by(store: &Store, decision: &Decision) -> Result<Vec<Action>, OpsError> {
    let opened = store.record(decision.task, decision.seq)?;
    let texts = opened.iter().flat_map(|entry| entry.record.fields.values());
    let found = texts.filter_map(Value::as_str).find_map(PermissionRequest::parse_actions);
    found.ok_or_else(|| DecisionError::NothingToAllow(decision.id).into())
}
