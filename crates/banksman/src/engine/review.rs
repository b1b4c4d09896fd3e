//! Reviews: who answers for which panel. The facts answer for an evaluator; the one reviewer of a workflow's gate has its seat here, a
//! task of its own with a lease, a run and retries like any other; panels of several are in `panel`.

use std::sync::Arc;

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Activity, Outcome, Setting, builtin};
use banksman_core::limits;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::panel::summary::line;
use banksman_core::time::Instant;
use serde_json::{Map, Value, json};

use super::panel::SEAT;
use super::parts::CLOSE;
use super::relay::Did;
use super::steps::{BY_HAND, Step, text};
use super::{Engine, EngineError};
use crate::store::outbox::Pending;
use crate::store::{Add, Definition, Key, Part, Stored};

/// The lifecycle of a gate's seat.
const REVIEW: &str = "review";
/// Whose question the facts of the last run can answer.
const EVALUATOR: &str = "evaluator";
/// Of a task's title that the seat repeats, in bytes.
const TITLE_BYTES: usize = 400;

/// What a reviewer at a gate answers.
pub(super) const GATE_ANSWER: &str = include_str!("../../prompts/gate.schema.json");

impl Engine<'_> {
    /// Begins what a panel does: the facts answer for an evaluator, a seat is made for each reviewer.
    pub(super) fn convene(
        &self,
        effect: &Pending,
        stored: &Stored,
        now: Instant,
    ) -> Result<Did, EngineError> {
        let does = stored.lifecycle.state(stored.task.state).does.as_ref();
        let role = does.and_then(|does| does.role.as_deref()).unwrap_or_default();
        if role == EVALUATOR {
            return self.facts_answer(stored, now);
        }
        let Some(step) = Step::of(stored) else {
            return self.hold_panel(stored, now);
        };
        if text(stored, "driver") == Some(BY_HAND) {
            return Ok(Did::Done);
        }
        let seat = self.seat(effect, stored, &step)?;
        self.store.add_parts(&[seat], now)?;
        Ok(Did::Done)
    }

    fn facts_answer(&self, stored: &Stored, now: Instant) -> Result<Did, EngineError> {
        let past = self.store.past_runs(stored.task.id, 1)?;
        let proven = past.last().and_then(|run| run.level.as_deref());
        let (outcome, detail) = match proven {
            Some("verified" | "observed") => (Outcome::Approved, String::new()),
            Some(_) => (Outcome::Blocked, "nothing shows that the work is done".to_owned()),
            None => (Outcome::Unavailable, "there is no run whose facts could answer".to_owned()),
        };
        self.report(stored, outcome, detail, Map::new(), now)?;
        Ok(Did::Done)
    }

    fn seat(&self, effect: &Pending, stored: &Stored, step: &Step) -> Result<Part, EngineError> {
        let task = &stored.task;
        let gate = step.spec.gate.as_ref();
        let reviewer = gate.map_or("reviewer", |gate| gate.reviewer.as_str());
        let mut overrides = Overrides::new();
        if let Some(time) = gate.and_then(|gate| gate.timeout) {
            overrides.insert("verdict_timeout".to_owned(), Setting::Time(time));
        }
        let lifecycle = builtin::get(REVIEW, &overrides)
            .and_then(Result::ok)
            .expect("a test checks every lifecycle that ships with the program");
        let source = builtin::source(REVIEW).unwrap_or_default().to_owned();
        let definition = Definition { lifecycle: Arc::new(lifecycle), source, overrides };
        let fields = json!({ "asked_at": task.entered, "seat": reviewer });
        let new = NewTask {
            title: format!("Review {}", line(&task.title, TITLE_BYTES)),
            project: task.project.clone(),
            batch: task.batch.clone(),
            tags: vec![reviewer.to_owned()],
            // What is nearly finished goes before what is not begun.
            priority: task.priority.saturating_add(1).min(limits::PRIORITY),
            parent: Some(task.id),
            fields: fields.as_object().cloned().unwrap_or_default(),
            ..NewTask::default()
        };
        let key = format!("review-{}-{}-{reviewer}", task.id, effect.seq);
        let key = Some(Key::new(&key, &key));
        let actor = Actor::system();
        let add = Add { new, definition, needs: Vec::new(), actor, key, arrival: None };
        Ok(Part { add, parent: None, after: Vec::new() })
    }

    /// What the seats of a panel have answered, once that decides something.
    pub(super) fn count_votes(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        if Step::of(whole).is_none() {
            // When to look again is known to the effect that began the panel.
            return self.hold_panel(whole, now).map(|_| ());
        }
        let seats = self.store.parts(whole.task.id)?;
        let mine: Vec<&Stored> = seats.iter().filter(|seat| is_of_this_stay(seat, whole)).collect();
        let is_open = |seat: &&&Stored| !seat.lifecycle.state(seat.task.state).terminal;
        if mine.is_empty() || mine.iter().any(|seat| is_open(&seat)) {
            return Ok(());
        }
        let Some(seat) = mine.last() else { return Ok(()) };
        let Some(answer) = seat.task.fields.get("answer") else {
            let why = text(seat, "diagnostic").unwrap_or("it gave no verdict");
            let detail =
                format!("no verdict of the {}: {why}", text(seat, "seat").unwrap_or("reviewer"));
            return self.report(whole, Outcome::Unavailable, detail, Map::new(), now);
        };
        let word = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        let (summary, feedback) = (word("summary"), word("feedback"));
        let mut fields = Map::new();
        let (outcome, detail) = match word("verdict") {
            "pass" => (Outcome::Approved, summary),
            "fail" => {
                if !word("reason").is_empty() {
                    fields.insert("failed_for".to_owned(), json!(word("reason")));
                }
                (Outcome::Blocked, if feedback.is_empty() { summary } else { feedback })
            }
            _ => (Outcome::Escalated, if summary.is_empty() { feedback } else { summary }),
        };
        self.report(whole, outcome, detail.to_owned(), fields, now)
    }

    /// A task that has left its panel needs no verdict any more.
    pub(super) fn close_seats(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        if self.store.count_parts(whole.task.id)?.open() == 0 {
            return Ok(());
        }
        for seat in self.store.parts(whole.task.id)? {
            if is_seat(&seat) && !is_of_this_stay(&seat, whole) {
                self.ask_of(seat.task.id, CLOSE, [], now)?;
            }
        }
        Ok(())
    }
}

fn is_seat(part: &Stored) -> bool {
    part.lifecycle.id == REVIEW || part.lifecycle.id == SEAT
}

/// Whether the seat was made for the stay that the task is in.
pub(super) fn is_of_this_stay(seat: &Stored, whole: &Stored) -> bool {
    let does = whole.lifecycle.state(whole.task.state).does.as_ref();
    let asked_at = seat.task.fields.get("asked_at").and_then(Value::as_i64);
    does.is_some_and(|does| does.activity == Activity::Panel)
        && asked_at == Some(whole.task.entered)
}
