//! What people have allowed, as the history of a task tells it. There is no other record of it that
//! could be changed.

use serde_json::Value;

use super::{Action, PermissionRequest};
use crate::lifecycle::{Activity, Lifecycle};
use crate::machine::{Actor, Record};

/// The trigger under which leave is on record where the lifecycle has no answer that says yes.
pub const ALLOW: &str = "allow";
/// The trigger under which an answer is on record that was refused.
pub const REFUSED: &str = "answer_refused";

/// What a record has on it by which a run begins.
const CLAIMED: &str = "epoch";

/// Answers that say yes to what was asked. To unblock a task is none: it may also mean "find
/// another way".
const YES: [&str; 4] = ["approve", "allow", "yes", "pass"];

/// Answers that let the work go on without saying yes to anything, the clearest first.
const GOES_ON: [&str; 3] = ["resume", "unblock", "retry"];

/// What was allowed, by whom, and with which record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub actions: Vec<Action>,
    pub by: Actor,
    pub seq: i64,
}

/// Everything that people have allowed in a history, which is given from its beginning, with the
/// numbers of its records.
pub fn grants<'r>(
    lifecycle: &Lifecycle,
    records: impl IntoIterator<Item = (i64, &'r Record)>,
) -> Vec<Grant> {
    let mut asked: Option<Vec<Action>> = None;
    let mut grants = Vec::new();
    // Whether no agent has been at work since the last grant.
    let mut is_unused = false;
    for (seq, record) in records {
        let moves = record.from.as_deref() != Some(record.to.as_str());
        let is_person = record.actor.role == Actor::human("").role;
        let says_yes = record.trigger == ALLOW && !moves
            || moves
                && record
                    .from
                    .as_deref()
                    .is_some_and(|from| is_yes(lifecycle, from, &record.trigger));
        if let Some(actions) = asked.as_ref().filter(|_| is_person && says_yes) {
            grants.push(Grant { actions: actions.clone(), by: record.actor.clone(), seq });
            is_unused = true;
        }
        is_unused &= !record.fields.contains_key(CLAIMED);
        if moves {
            // Who brings the task back to a question, takes back what nobody has made use of.
            if is_person && is_unused && !says_yes && asks_people(lifecycle, &record.to) {
                grants.pop();
                is_unused = false;
            }
            asked = if asks_people(lifecycle, &record.to) { request_in(record) } else { None };
        }
    }
    grants
}

/// The answers to a question that a move has opened. Where the move asks for leave and the
/// lifecycle has no answer that gives it, there is one more: the work goes on, and with leave.
#[must_use]
pub fn with_permission(offers: &[(String, String)], opened: &Record) -> Vec<(String, String)> {
    let named = |words: &[&str]| {
        let find = |word: &&str| offers.iter().find(|(action, _)| action == word);
        words.iter().find_map(find)
    };
    let leave = named(&GOES_ON).filter(|_| named(&YES).is_none() && request_in(opened).is_some());
    let leave = leave.map(|(_, trigger)| (ALLOW.to_owned(), trigger.clone()));
    leave.into_iter().chain(offers.iter().cloned()).collect()
}

/// The request that a question was opened with: a text of the move that begins with one.
fn request_in(record: &Record) -> Option<Vec<Action>> {
    record.fields.values().filter_map(Value::as_str).find_map(PermissionRequest::asked_in)
}

fn asks_people(lifecycle: &Lifecycle, state: &str) -> bool {
    let state = lifecycle.find_state(state).map(|id| lifecycle.state(id));
    let does = state.and_then(|state| state.does.as_ref());
    does.is_some_and(|does| does.activity == Activity::Human)
}

/// Whether a move is an answer that its state offers as a yes.
fn is_yes(lifecycle: &Lifecycle, from: &str, trigger: &str) -> bool {
    let state = lifecycle.find_state(from).map(|id| lifecycle.state(id));
    let does = state.and_then(|state| state.does.as_ref());
    does.is_some_and(|does| {
        does.offers.iter().any(|(action, of)| of == trigger && YES.contains(&action.as_str()))
    })
}
