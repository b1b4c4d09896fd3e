//! What people have allowed, as the history of a task tells it. There is no other record of it that could be changed.

use serde_json::Value;

use super::{Action, Request};
use crate::lifecycle::{Activity, Lifecycle};
use crate::machine::{Actor, Record};

/// The trigger under which leave is on record where the lifecycle has no answer that says yes.
pub const ALLOW: &str = "allow";
/// The trigger under which an answer is on record that was refused.
pub const REFUSED: &str = "answer_refused";

/// Answers that say yes to what was asked. To unblock a task is none: it may also mean "find another way".
const YES: [&str; 4] = ["approve", "allow", "yes", "pass"];

/// What was allowed, by whom, and with which record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub actions: Vec<Action>,
    pub by: Actor,
    pub seq: i64,
}

/// Everything that people have allowed in a history, which is given from its beginning, with the numbers of its records.
pub fn grants<'r>(
    lifecycle: &Lifecycle,
    records: impl IntoIterator<Item = (i64, &'r Record)>,
) -> Vec<Grant> {
    let mut asked: Option<Vec<Action>> = None;
    let mut grants = Vec::new();
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
        }
        if moves {
            asked = if asks_people(lifecycle, &record.to) { request_in(record) } else { None };
        }
    }
    grants
}

/// The request that a question was opened with: a text of the move that begins with one.
fn request_in(record: &Record) -> Option<Vec<Action>> {
    record.fields.values().filter_map(Value::as_str).find_map(Request::asked_in)
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
