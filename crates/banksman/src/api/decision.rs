//! Decisions as JSON, in lists and with everything needed to answer.

use banksman_core::lifecycle::expr::Type;
use banksman_core::machine::FieldError;
use banksman_core::time::Instant;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::dto::Run;
use crate::ops::decisions::{DecisionDetail, InboxItem, Lapse, Offer, ReviewerVerdict};

/// A decision in the inbox.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    pub id: String,
    pub task: String,
    pub title: String,
    pub project: String,
    pub lifecycle: String,
    pub state: String,
    pub asks: String,
    /// The actions that the decision offers.
    pub offers: Vec<String>,
    pub escalated: bool,
    pub opened_at: Instant,
    pub deadline: Option<Instant>,
    /// What happens at the deadline.
    pub then: Option<Value>,
    pub snoozed_until: Option<Instant>,
    /// The version of the task when the decision was opened.
    pub seq: i64,
    /// The version of the task that was read; answer with `--seen VERSION`.
    pub version: i64,
    pub settled: Option<Value>,
}

impl From<&InboxItem> for Decision {
    fn from(item: &InboxItem) -> Self {
        let InboxItem { decision, stored, escalated, lapse } = item;
        let then = |lapse: &Lapse| json!({ "to": lapse.to, "trigger": lapse.trigger });
        let settled = decision.settled.as_ref();
        Self {
            id: decision.id.to_string(),
            task: decision.task.to_string(),
            title: decision.title.clone(),
            project: stored.task.project.clone(),
            lifecycle: stored.lifecycle.id.clone(),
            state: stored.state().name.clone(),
            asks: decision.asks.clone(),
            offers: decision.offers.iter().map(|(action, _)| action.clone()).collect(),
            escalated: *escalated,
            opened_at: decision.opened_at,
            deadline: decision.deadline,
            then: lapse.as_ref().map(then),
            snoozed_until: decision.snoozed_until,
            seq: decision.seq,
            version: stored.task.version,
            settled: settled.map(|end| json!({ "at": end.at, "by": end.by, "seq": end.seq })),
        }
    }
}

/// A decision with everything needed to answer it.
#[must_use]
pub fn question(question: &DecisionDetail, diff: Option<&str>) -> Value {
    let DecisionDetail { item, detail, opened, offers, verdicts, runs, spent, .. } = question;
    let task = &detail.stored.task;
    let mut document = json!(Decision::from(item));
    document["actions"] = offers.iter().map(offer).collect();
    document["openedBy"] = json!(opened.as_ref().map(|entry| entry.record.actor.to_string()));
    document["body"] = json!(task.body);
    document["fields"] = json!(texts(question));
    document["verdicts"] = verdicts.iter().map(verdict).collect();
    document["spent"] =
        json!({ "runs": spent.runs, "tokens": spent.tokens, "costMicros": spent.cost_micros });
    document["runs"] = runs.iter().map(|run| json!(Run::of(task.id, run))).collect();
    document["diff"] = json!(diff);
    document
}

/// The text fields of the task.
#[must_use]
pub fn texts(question: &DecisionDetail) -> Map<String, Value> {
    let stored = &question.detail.stored;
    let declared = &stored.lifecycle.fields;
    let is_text = |name: &str| declared.get(name).is_some_and(|field| field.kind == Type::Text);
    let fields = stored.task.fields.iter().filter(|(name, _)| is_text(name));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn offer(offer: &Offer) -> Value {
    let missing = |error: &FieldError| json!({ "field": error.field, "message": error.message });
    json!({
        "action": offer.action,
        "trigger": offer.trigger,
        "to": offer.to,
        "noteField": offer.words,
        "needsNote": offer.needs_words(),
        "missing": offer.missing.iter().map(missing).collect::<Vec<_>>(),
    })
}

fn verdict(verdict: &ReviewerVerdict) -> Value {
    json!({
        "who": verdict.who,
        "verdict": verdict.verdict,
        "words": verdict.words,
        "suggestions": verdict.suggestions,
        "dissents": verdict.dissents,
    })
}
