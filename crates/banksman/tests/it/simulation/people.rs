//! People: they answer, retry, unblock, cancel, pause and resume, and workers from outside come and
//! go.
//!
//! A refusal is an answer. What people do is never wrong here; what follows from it may be.

use banksman::store::batches::{BatchChange, BudgetChange, NewBound};
use banksman::store::{ClaimRequest, Store, StoreError, Stored};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::Type;
use banksman_core::lifecycle::{Lifecycle, Outcome, RoleId, StateActivity};
use banksman_core::machine::{Actor, Event, FactOverride, Finish, TransitionRequest};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value, json};

use super::chance::Chance;
use super::setup::BATCHES;

/// What people say to a plan, to a merge, and to a budget that is used up.
const YES: [&str; 3] = ["approve", "approve_merge", "go_on"];
const TAKE_BACK: &str = "take_back";

/// Lets somebody take one of the ways out that are open to people, if there is one. Answers with
/// what was tried.
pub(super) fn person_moves(
    store: &Store,
    id: TaskId,
    chance: &mut Chance,
    now: Instant,
) -> Result<String, StoreError> {
    let stored = store.task(id)?;
    let lifecycle = &stored.lifecycle;
    let ways: Vec<&str> = lifecycle
        .exits(stored.task.state)
        .filter(|row| row.timeout.is_none() && row.roles.contains(&RoleId::HUMAN))
        .map(|row| row.trigger.as_str())
        .collect();
    if ways.is_empty() {
        return Ok(format!("kim looks at {id}"));
    }
    let mut way = *chance.pick(&ways);
    // Most of what is shown to people is good enough for them.
    if let Some(yes) = ways.iter().find(|way| YES.contains(way)).filter(|_| chance.percent(50)) {
        way = yes;
    }
    if way == "cancel" && chance.percent(88) {
        // Giving up is nearly always possible and would leave nothing to be seen.
        return Ok(format!("kim thinks about {id}"));
    }
    takes(store, &stored, way, now)
}

pub(super) fn takes(
    store: &Store,
    stored: &Stored,
    way: &str,
    now: Instant,
) -> Result<String, StoreError> {
    let id = stored.task.id;
    // Where no branch stands for the pull request, somebody who merged it says so.
    let says_merged = way == "approve_merge" && stored.text(Field::PrHead).is_none();
    if says_merged && stored.lifecycle.has_field(Field::Merged) {
        let merged = Map::from_iter([(Field::Merged.name().to_owned(), json!(true))]);
        let (actor, reason) = (Actor::human("kim"), "seen on the forge".to_owned());
        let word = FactOverride { actor, fields: merged, reason };
        answer(store.apply(id, Event::Overridden(word), None, now).map(drop))?;
    }
    let ask = TransitionRequest {
        actor: Actor::human("kim"),
        to: None,
        trigger: Some(way.to_owned()),
        fields: given(stored),
        epoch: None,
        version: None,
    };
    let done = answer(store.apply(id, Event::Asked(ask), None, now).map(drop))?;
    Ok(format!("kim: {way} {id} {done}"))
}

/// Somebody says yes to what waits for one, or begins again what has failed of a plan.
pub(super) fn person_says_yes(
    store: &Store,
    id: TaskId,
    now: Instant,
) -> Result<Option<String>, StoreError> {
    let stored = store.task(id)?;
    let exits = stored.lifecycle.exits(stored.task.state).filter(|row| row.timeout.is_none());
    let ways: Vec<&str> = exits.map(|row| row.trigger.as_str()).collect();
    let is_asked = stored.flag(Field::ChildrenAsked);
    let is_yes = |way: &&&str| YES.contains(*way) || (is_asked && **way == "unblock");
    let Some(way) = ways.iter().find(is_yes) else { return Ok(None) };
    takes(store, &stored, way, now).map(Some)
}

/// Somebody takes back a yes whose merge is under way, once for each task so that all come to an
/// end.
pub(super) fn person_takes_back(
    store: &Store,
    stored: &Stored,
    now: Instant,
) -> Result<Option<String>, StoreError> {
    let is_looking = stored.state().does.as_ref().is_some_and(StateActivity::only_checks);
    let mut exits = stored.lifecycle.exits(stored.task.state);
    if is_looking || !exits.any(|row| row.trigger == TAKE_BACK) {
        return Ok(None);
    }
    let history = store.history(stored.task.id, 0)?;
    if history.iter().any(|entry| entry.record.trigger == TAKE_BACK) {
        return Ok(None);
    }
    takes(store, stored, TAKE_BACK, now).map(Some)
}

/// Everything that a way may ask for and a person may give.
pub(super) fn given(stored: &Stored) -> Map<String, Value> {
    let lifecycle = &stored.lifecycle;
    let words = ["reason", "feedback", "confirmation", "diagnostic", "question", "error", "note"];
    let more = [
        "unblock_condition",
        "pr_comments",
        "blockReason",
        "approvalRequest",
        "decisionNote",
        "clarification",
    ];
    let mut fields = Map::new();
    for name in words.into_iter().chain(more) {
        if may_give(lifecycle, name)
            && lifecycle.fields.get(name).is_some_and(|field| field.kind == Type::Text)
        {
            fields.insert(name.to_owned(), json!("a person says so"));
        }
    }
    let shaped = [
        ("assigneeIds", json!(["ada"])),
        ("reviewerIds", json!(["bob"])),
        ("workPlan", json!({ "bullets": ["one", "two", "three"] })),
        ("deliverable", json!({ "content": "it is done" })),
        (
            "reviewChecklist",
            json!({ "type": "plain", "items": [{ "name": "it runs", "completed": true }] }),
        ),
    ];
    for (name, value) in shaped {
        if may_give(lifecycle, name) {
            fields.insert(name.to_owned(), value);
        }
    }
    fields
}

fn may_give(lifecycle: &Lifecycle, name: &str) -> bool {
    let field = lifecycle.fields.get(name);
    let is_open = field.is_some_and(|field| field.may_be_given_by(RoleId::HUMAN));
    lifecycle.fields.contains_key(name) && is_open
}

/// Turns one of the switches.
pub(super) fn person_switches(
    store: &Store,
    chance: &mut Chance,
    now: Instant,
) -> Result<String, StoreError> {
    let batch = *chance.pick(&BATCHES);
    match chance.below(6) {
        0 => store.set_paused(true, "kim", now).map(|()| "kim pauses everything".to_owned()),
        1 | 2 => store.set_paused(false, "kim", now).map(|()| "kim resumes".to_owned()),
        3 => {
            let account = *chance.pick(&["plan-a", "plan-b"]);
            store.resume_account(account).map(|_| format!("kim resumes {account}"))
        }
        4 => {
            let runs = i64::try_from(1 + chance.below(6)).expect("a small number");
            let tokens = *chance.pick(&[NewBound::Most(3_500), NewBound::Lifted]);
            let at_once = u32::try_from(1 + chance.below(3)).expect("a small number");
            let budget =
                BudgetChange { runs: NewBound::Most(runs), tokens, ..BudgetChange::default() };
            let concurrency = Some(at_once);
            store.set_batch(batch, BatchChange { budget, concurrency, paused: None })?;
            Ok(format!("kim gives {batch} {runs} runs, {at_once} at once, tokens: {tokens:?}"))
        }
        _ => {
            let paused = chance.percent(50);
            let change = BatchChange { paused: Some(paused), ..BatchChange::default() };
            store.set_batch(batch, change).map(|_| format!("kim: {batch} paused: {paused}"))
        }
    }
}

/// Everything that a person has paused goes on.
pub(super) fn person_resumes_all(store: &Store, now: Instant) -> Result<(), StoreError> {
    store.set_paused(false, "kim", now)?;
    for batch in BATCHES {
        store.set_batch(batch, BatchChange { paused: Some(false), ..BatchChange::default() })?;
    }
    Ok(())
}

/// A worker that no node knows takes a task, and may or may not be heard of again.
pub(super) fn outsider_claims(
    store: &Store,
    held: &mut Vec<RunId>,
    now: Instant,
) -> Result<String, StoreError> {
    let actor = Actor { role: "worker".to_owned(), name: Some("outsider".to_owned()) };
    let claimed = store.claim(ClaimRequest::new(actor, Span(240_000)), now)?;
    let run = claimed.map(|claimed| claimed.run);
    held.extend(run);
    Ok(run.map_or_else(
        || "the outsider finds nothing".to_owned(),
        |run| format!("the outsider has {run}"),
    ))
}

/// It tells of an end, whether it still has the right to or not.
pub(super) fn outsider_ends(
    store: &Store,
    held: &mut Vec<RunId>,
    now: Instant,
) -> Result<String, StoreError> {
    let Some(run) = held.pop() else { return Ok("the outsider has nothing".to_owned()) };
    let finish = Finish {
        epoch: run.epoch,
        outcome: Outcome::Crashed,
        detail: format!("mark:{run}; it fell over"),
        fields: Map::new(),
        tokens: 5,
        cost_micros: 5,
        again_at: None,
    };
    let done = answer(store.apply(run.task, Event::Finished(finish), None, now).map(drop))?;
    Ok(format!("the outsider ends {run} {done}"))
}

fn answer(done: Result<(), StoreError>) -> Result<&'static str, StoreError> {
    match done {
        Ok(()) => Ok("(done)"),
        Err(StoreError::Rejected(_)) => Ok("(refused)"),
        Err(error) => Err(error),
    }
}
