//! Questions of earlier runs that people have answered. The next prompt tells them as questions and
//! answers; it never tells them as failures.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Outcome;
use banksman_core::lifecycle::contract::Field;
use banksman_core::machine::Actor;

use super::Result;
use crate::store::query::Decision;
use crate::store::{HistoryEntry, PastRun, Store};

/// Decisions that are searched for the answers.
const DECISIONS: i64 = 20;
/// The fields in which lifecycles keep a person's words.
const WORDS: [Field; 4] = [Field::Note, Field::Feedback, Field::PrComments, Field::Objection];

/// A question of a run, and what a person has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnsweredQuestion {
    /// The run's epoch.
    pub(super) epoch: i64,
    pub(super) question: String,
    pub(super) by: String,
    pub(super) action: String,
    /// The person's own words, if there were any.
    pub(super) words: Option<String>,
}

/// The questions of earlier runs that were answered, the oldest first.
pub(super) fn answered(
    store: &Store,
    task: TaskId,
    earlier: &[&PastRun],
) -> Result<Vec<AnsweredQuestion>> {
    let is_question = |run: &PastRun| run.outcome == Some(Outcome::NeedsPerson);
    let mut list = Vec::new();
    if !earlier.iter().any(|run| is_question(run)) {
        return Ok(list);
    }
    let decisions = store.decisions_of(task, DECISIONS)?;
    for (run, next) in earlier.iter().zip(earlier.iter().skip(1).map(Some).chain([None])) {
        let (Some(question), Some(ended)) = (&run.detail, run.ended_at) else { continue };
        let is_about = |decision: &&Decision| {
            let is_before_next = next.is_none_or(|next| decision.opened_at <= next.started_at);
            decision.opened_at >= ended && is_before_next
        };
        // An answer that was taken back was asked for again; the newest one counts.
        let asked = decisions.iter().find(is_about).filter(|_| is_question(run));
        let Some((decision, end)) = asked.and_then(|asked| Some((asked, asked.settled.as_ref()?)))
        else {
            continue;
        };
        let record = store.record(task, end.seq)?;
        if let Some((by, action, words)) = record.and_then(|record| said(decision, &record)) {
            let (epoch, question) = (run.epoch, question.clone());
            list.push(AnsweredQuestion { epoch, question, by, action, words });
        }
    }
    Ok(list)
}

/// Who answered, with which action, and in which words; none if the task moved on by itself.
fn said(decision: &Decision, entry: &HistoryEntry) -> Option<(String, String, Option<String>)> {
    let record = &entry.record;
    let Actor { name, role } = Some(&record.actor).filter(|actor| actor.is_human())?.clone();
    let offered = decision.offers.iter().rev().find(|(_, trigger)| *trigger == record.trigger);
    let action = offered.map_or(&record.trigger, |(action, _)| action);
    let words = WORDS.iter().find_map(|field| record.text(*field));
    Some((name.unwrap_or(role), action.clone(), words.map(str::to_owned)))
}

/// The questions with their answers, as the prompt tells them.
pub(super) fn in_words(answered: &[AnsweredQuestion]) -> String {
    let told = |AnsweredQuestion { question, by, action, words, .. }: &AnsweredQuestion| {
        let answer = words.as_deref().unwrap_or(action);
        format!("You asked: {question}\n{by} answered: {answer}")
    };
    answered.iter().map(told).collect::<Vec<_>>().join("\n")
}
