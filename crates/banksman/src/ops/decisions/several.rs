//! One answer to several decisions.

use banksman_core::time::Instant;

use super::{AnswerRequest, AnswerResult, DecisionRef, InboxItem, answer, inbox};
use crate::ops::decisions::answer::synonyms;
use crate::ops::{OpsError, Session};

/// The open decisions that offer an action, matched as an answer would be; `escalated` says which
/// of them, if not all.
pub fn offering(
    session: &Session,
    project: Option<&str>,
    word: &str,
    escalated: Option<bool>,
    now: Instant,
) -> Result<Vec<DecisionRef>, OpsError> {
    let now = session.now(now)?;
    let offers = |item: &InboxItem| {
        let mut actions = item.decision.offers.iter().map(|(action, _)| action.as_str());
        actions.any(|action| action == word || synonyms(word).contains(&action))
    };
    let is_wanted = |item: &InboxItem| escalated.is_none_or(|wanted| item.escalated == wanted);
    let mut items = inbox(session, project)?;
    items.retain(|item| !item.is_snoozed(now) && offers(item) && is_wanted(item));
    Ok(items.iter().map(|item| DecisionRef::Decision(item.decision.id)).collect())
}

/// Answers one decision after the other. A refused answer does not stop the others.
pub fn answer_each<'a>(
    session: &'a Session,
    requests: &'a mut [AnswerRequest],
    now: Instant,
) -> impl Iterator<Item = (DecisionRef, Result<AnswerResult, OpsError>)> {
    requests.iter_mut().map(move |request| {
        let which = request.which;
        // An idempotency key covers one request, and each answer is one.
        request.key = request.key.as_ref().map(|key| format!("{key}/{which}"));
        (which, answer(session, request, now))
    })
}
