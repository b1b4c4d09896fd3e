//! Reads the permissions that people have granted from the history of a task. No other record of
//! them exists, so nothing else can be tampered with.

use super::{Action, PermissionRequest};
use crate::lifecycle::contract::{AnswerEffect, AnswerName, Note};
use crate::lifecycle::expr::Value;
use crate::lifecycle::{Activity, Lifecycle, StateActivity};
use crate::machine::{Actor, Record};

/// A granted permission: the actions, the person, and the number of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub actions: Vec<Action>,
    pub by: Actor,
    pub seq: i64,
}

/// Everything that people have granted in a history. The records come with their numbers, from the
/// beginning.
pub fn grants<'r>(
    lifecycle: &Lifecycle,
    records: impl IntoIterator<Item = (i64, &'r Record)>,
) -> Vec<Grant> {
    let mut asked: Option<Vec<Action>> = None;
    let mut grants = Vec::new();
    // Whether no agent has run since the last grant.
    let mut is_unused = false;
    for (seq, record) in records {
        let moves = record.from.as_deref() != Some(record.to.as_str());
        let is_person = record.actor.is_human();
        let from = record.from.as_deref().unwrap_or_default();
        let grants_request = if moves {
            is_granting(lifecycle, from, &record.trigger)
        } else {
            record.trigger == Note::Allow.as_str()
        };
        if let Some(actions) = asked.as_ref().filter(|_| is_person && grants_request) {
            grants.push(Grant { actions: actions.clone(), by: record.actor.clone(), seq });
            is_unused = true;
        }
        is_unused &= record.epoch().is_none();
        if moves {
            // A person who moves the task back to a decision revokes a grant that no run has used.
            if is_person && is_unused && !grants_request && is_human_state(lifecycle, &record.to) {
                grants.pop();
                is_unused = false;
            }
            asked = if is_human_state(lifecycle, &record.to) { request_in(record) } else { None };
        }
    }
    grants
}

/// The answers to the decision that a record opened. If the record requests a permission and no
/// answer of the lifecycle grants it, `allow` is added: it continues the work and grants the
/// permission.
pub fn with_permission(offers: &[(String, String)], opened: &Record) -> Vec<(String, String)> {
    let grants = AnswerName::clearest(offers, &[AnswerEffect::Grants]);
    let continues = AnswerName::clearest(offers, &[AnswerEffect::Continues]);
    let continues = continues.filter(|_| grants.is_none() && request_in(opened).is_some());
    let permission = continues.map(|(_, trigger)| (AnswerName::Allow.to_string(), trigger.clone()));
    permission.into_iter().chain(offers.iter().cloned()).collect()
}

/// The request that opened a decision: a field that begins with one.
fn request_in(record: &Record) -> Option<Vec<Action>> {
    record.fields.values().filter_map(Value::as_str).find_map(PermissionRequest::parse_actions)
}

fn activity_of<'l>(lifecycle: &'l Lifecycle, state: &str) -> Option<&'l StateActivity> {
    lifecycle.find_state(state).and_then(|id| lifecycle.state(id).does.as_ref())
}

fn is_human_state(lifecycle: &Lifecycle, state: &str) -> bool {
    activity_of(lifecycle, state).is_some_and(|does| does.activity == Activity::Human)
}

/// Whether the trigger is an answer of the state that grants a request.
fn is_granting(lifecycle: &Lifecycle, from: &str, trigger: &str) -> bool {
    let grants = |(action, of): &(String, String)| {
        let effect = AnswerName::named(action).map(|name| name.detail().effect);
        of == trigger && effect == Some(AnswerEffect::Grants)
    };
    activity_of(lifecycle, from).is_some_and(|does| does.offers.iter().any(grants))
}
