//! Decisions as JSON, in lists and with everything needed to answer, and answers.

use banksman_core::lifecycle::expr::{Fields, Type};
use banksman_core::machine::Spent;
use banksman_core::time::Instant;
use serde::Serialize;

use super::error::{ErrorDocument, FieldMessage};
use super::task::{Run, TransitionResponse};
use crate::ops::decisions::{self, DecisionDetail, InboxItem, ReviewerVerdict, WorkRecord};
use crate::store::answers::PendingAnswer;
use crate::store::query::{Decision as DecisionRow, DecisionEnd};

/// The open decisions.
#[derive(Debug, Serialize)]
pub struct Inbox<'a> {
    pub decisions: Vec<Decision<'a>>,
    /// How many are hidden.
    pub snoozed: usize,
}

documents! {
    /// A decision in the inbox.
    Decision<'a>(item: &'a InboxItem) {
        /// What a person has answered, until it takes effect.
        answer: Option<Pending<'a>> = item.decision.answer.as_ref().map(Pending::new),
        asks: &'a str = &item.decision.asks,
        deadline: Option<Instant> = item.decision.deadline,
        escalated: bool = item.escalated,
        id: String = item.decision.id.to_string(),
        lifecycle: &'a str = &item.stored.lifecycle.id,
        /// The actions that lead somewhere now, by role.
        offers: Vec<&'a str> = item.possible().map(|offer| offer.action.as_str()).collect(),
        opened_at: Instant = item.decision.opened_at,
        /// The task that it is a part of.
        parent: Option<String> = item.parent.as_ref().map(|(id, _)| id.to_string()),
        project: &'a str = &item.stored.task.project,
        /// What it is about, in the words of the agent or of whoever else asks.
        question: Option<&'a str> = item.decision.question.as_deref(),
        /// The version of the task when the decision was opened.
        seq: i64 = item.decision.seq,
        settled: Option<Settled<'a>> = item.decision.settled.as_ref().map(Settled::new),
        snoozed_until: Option<Instant> = item.decision.snoozed_until,
        state: &'a str = &item.stored.state().name,
        task: String = item.decision.task.to_string(),
        /// What happens at the deadline.
        then: Option<Consequence<'a>> = item.consequence.as_ref().map(Consequence::new),
        title: &'a str = &item.decision.title,
        /// The version of the task that was read; answer with `--seen VERSION`.
        version: i64 = item.stored.task.version,
    }

    Pending<'a>(answer: &'a PendingAnswer) {
        action: &'a str = &answer.given.action,
        by: &'a str = &answer.given.by,
        note: Option<&'a str> = answer.given.note.as_deref(),
        takes_effect_at: Instant = answer.due,
    }

    Settled<'a>(end: &'a DecisionEnd) {
        at: Instant = end.at,
        by: &'a str = &end.by,
        seq: i64 = end.seq,
    }

    Consequence<'a>(consequence: &'a decisions::Consequence) {
        to: &'a str = &consequence.to,
        trigger: &'a str = &consequence.trigger,
    }

    /// A decision with everything needed to answer it, the command that shows the changes, and what
    /// to do before the answer.
    Question<'a>(question: &'a DecisionDetail, command: Option<&'a str>, remedy: Option<String>) {
        #[serde(flatten)]
        decision: Decision<'a> = Decision::new(&question.item),
        actions: Vec<Offer<'a>> = question.item.offers.iter().map(Offer::new).collect(),
        body: &'a str = &question.detail.stored.task.body,
        diff: Option<&'a str> = command,
        fields: Fields = texts(question),
        first: Option<String> = remedy,
        opened_by: Option<String> =
            question.opened.as_ref().map(|entry| entry.record.actor.to_string()),
        runs: Vec<Run> =
            question.runs.iter().map(|run| Run::new(question.item.decision.task, run)).collect(),
        spent: Cost = Cost::new(&question.spent),
        verdicts: Vec<Verdict<'a>> = question.verdicts.iter().map(Verdict::new).collect(),
        work: Vec<Work<'a>> = question.work.iter().map(Work::new).collect(),
    }

    /// A record that a person judges, in words.
    Work<'a>(record: &'a WorkRecord) {
        lines: &'a [String] = &record.lines,
        name: &'a str = &record.name,
    }

    Offer<'a>(offer: &'a decisions::Offer) {
        action: &'a str = &offer.action,
        /// Its key in `triage`.
        key: Option<char> = offer.key,
        missing: Vec<FieldMessage> = offer.missing.iter().map(FieldMessage::from).collect(),
        needs_note: bool = offer.needs_words(),
        note_field: Option<&'a str> = offer.words.as_deref(),
        /// Whether the task would accept it, once it has what is missing.
        possible: bool = offer.is_possible,
        role: &'a str = offer.role.as_str(),
        to: &'a str = &offer.to,
        trigger: &'a str = &offer.trigger,
    }

    Cost(spent: &Spent) {
        cost_micros: i64 = spent.cost_micros,
        runs: i64 = spent.runs,
        tokens: i64 = spent.tokens,
    }

    Verdict<'a>(said: &'a ReviewerVerdict) {
        dissents: bool = said.dissents,
        suggestions: &'a [String] = &said.suggestions,
        verdict: &'a str = &said.verdict,
        who: &'a str = &said.who,
        words: &'a str = &said.words,
    }

    /// A decision that is hidden for a while.
    Snoozed(snoozed: &DecisionRow) {
        deadline: Option<Instant> = snoozed.deadline,
        decision: String = snoozed.id.to_string(),
        snoozed_until: Option<Instant> = snoozed.snoozed_until,
    }
}

/// The text fields of the task.
pub fn texts(question: &DecisionDetail) -> Fields {
    let stored = &question.detail.stored;
    let declared = &stored.lifecycle.fields;
    let is_text = |name: &str| declared.get(name).is_some_and(|field| field.kind == Type::Text);
    let fields = stored.task.fields.iter().filter(|(name, _)| is_text(name));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The result of an answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    Given {
        #[serde(flatten)]
        made: Box<TransitionResponse>,
        action: String,
        decision: String,
        replayed: bool,
        /// When the answer takes effect, if it has not yet.
        #[serde(rename = "takesEffectAt")]
        takes_effect_at: Option<Instant>,
    },
    Refused(ErrorDocument),
}

/// The results of one answer to several decisions.
#[derive(Debug, Serialize)]
pub struct Answers {
    pub answers: Vec<Answer>,
    pub refused: usize,
}
