//! Reviews: each is a task of its own, with a lease, a run and retries like any other. This module
//! creates them and makes the record that `core::panel` decides on. Nothing is decided here.

use banksman_core::closed;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{Field, Purpose, SettingName};
use banksman_core::lifecycle::expr::Value;
use banksman_core::lifecycle::{Setting, StateKind};
use banksman_core::limits;
use banksman_core::machine::{Actor, NewTask};
use banksman_core::panel::{DebateReply, FirstPass, Panel, Rationale, ReviewAssignment, Verdict};
use banksman_core::text::line;
use banksman_core::time::{Instant, Span};
use serde::Deserialize;

use super::roster::role_of_panel;
use crate::config::Panels;
use crate::engine::{Result, definition_for};
use crate::store::{Add, IdempotencyKey, NewChild, Stored};

/// The part of a state's timeout that is left to ask a person: at the timeout itself the lifecycle
/// moves on.
const LAST_PART: i64 = 30;
/// The part of a task's title that the titles of its reviews repeat, in bytes.
const TITLE_BYTES: usize = 400;
/// An answer in a line, in bytes.
const LINE_BYTES: usize = 200;

/// The schema shapes the answers of agents; one that does not fit is no verdict.
const UNREADABLE: &str = "its answer cannot be read";

/// A review to create.
pub(super) struct Invitation {
    pub(super) reviewer: String,
    pub(super) brief: String,
    pub(super) tags: Vec<String>,
    /// 0 is the first pass.
    pub(super) round: usize,
}

#[derive(Deserialize)]
struct VerdictAnswer {
    verdict: Verdict,
    #[serde(flatten)]
    opinion: Rationale,
}

#[derive(Deserialize)]
struct ReplyAnswer {
    response: Response,
    #[serde(default)]
    rationale: String,
}

closed! {
    enum Response {
        Withdraw = "WITHDRAW",
        Maintain = "MAINTAIN",
    }
}

pub(in crate::engine) fn round_of(review: &Stored) -> usize {
    let round = review.value(Field::Round).and_then(Value::as_u64);
    round.and_then(|round| usize::try_from(round).ok()).unwrap_or_default()
}

/// The same reviewer in a round of the debate: a review of its own, so that it begins with a fresh
/// session and has its own time.
pub(super) fn again(review: &Stored, round: usize) -> Invitation {
    Invitation {
        reviewer: review.reviewer().to_owned(),
        brief: review.text(Field::Brief).unwrap_or_default().to_owned(),
        tags: review.task.tags.clone(),
        round,
    }
}

pub(super) fn child(parent: &Stored, review: &Invitation, panels: &Panels) -> Result<NewChild> {
    let task = &parent.task;
    let (answer, patience) = match review.round {
        0 => (panels.verdict_timeout, panels.total_timeout),
        1.. => (panels.reply_timeout, panels.round_timeout),
    };
    let settings = [
        (SettingName::AnswerTimeout, Setting::Time(answer)),
        (SettingName::Patience, Setting::Time(patience)),
        (SettingName::MaxMisses, Setting::Number(f64::from(panels.retries + 1))),
        (SettingName::FirstRest, Setting::Time(panels.first_retry)),
        (SettingName::SecondRest, Setting::Time(panels.second_retry)),
    ];
    let overrides: Overrides =
        settings.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    let fields = [
        (Field::AskedAt, Value::from(task.entered)),
        (Field::Reviewer, Value::from(review.reviewer.as_str())),
        (Field::Brief, Value::from(review.brief.as_str())),
        (Field::Round, Value::from(review.round)),
        (Field::Role, Value::from(role_of_panel(parent))),
    ];
    let fields = fields.into_iter().map(|(field, value)| (field.to_string(), value)).collect();
    let what = if review.round == 0 { "reviews" } else { "debates" };
    let new = NewTask {
        title: format!("{} {what} {}", review.reviewer, line(&task.title, TITLE_BYTES)),
        project: task.project.clone(),
        batch: task.batch.clone(),
        tags: review.tags.clone(),
        // Work that is nearly finished goes before work that has not begun.
        priority: task.priority.saturating_add(1).min(limits::PRIORITY),
        parent: Some(task.id),
        fields,
        ..NewTask::default()
    };
    let key = format!("review-{}-{}-{}-{}", task.id, task.entered, review.round, review.reviewer);
    let definition = definition_for(Purpose::Review, overrides)?;
    let (actor, key) = (Actor::system(), Some(IdempotencyKey::new(&key, &key)));
    let add = Add { new, definition, needs: Vec::new(), actor, key, arrival: None };
    Ok(NewChild { add, parent: None, after: Vec::new(), own_batch: None })
}

/// The reviews as one record. Time that does not count is added to all of the panel's times.
pub(super) fn record(parent: &Stored, reviews: &[Stored], panels: &Panels) -> Panel {
    let still = parent.task.uncounted;
    let mut panel = Panel {
        assignments: Vec::new(),
        round_deadlines: Vec::new(),
        deadline: Some(ends(parent, panels.total_timeout).plus(still)),
        max_rounds: 0,
    };
    for review in reviews {
        let reviewer = review.reviewer().to_owned();
        match round_of(review) {
            0 => panel.assignments.push(ReviewAssignment {
                reviewer,
                first_pass: first_pass(review),
                replies: Vec::new(),
            }),
            round => {
                if panel.round_deadlines.len() < round {
                    panel
                        .round_deadlines
                        .push(review.task.created_at.plus(panels.round_timeout).plus(still));
                }
                let own = panel.assignments.iter_mut().find(|known| known.reviewer == reviewer);
                own.into_iter().for_each(|own| own.replies.push(reply(review)));
            }
        }
    }
    if panel.assignments.len() > 1 {
        panel.max_rounds = usize::try_from(panels.rounds).unwrap_or_default();
    }
    panel
}

/// When a panel ends: after its own time, or shortly before the lifecycle moves on without it.
fn ends(parent: &Stored, most: Span) -> Instant {
    let exits = parent.lifecycle.exits(parent.task.state).filter_map(|row| row.timeout.as_ref());
    let bounds = exits.map(|bound| bound.time.0);
    let bound = bounds.min().map_or(most.0, |bound| bound - bound / LAST_PART);
    parent.task.entered_at.plus(Span(bound.min(most.0)))
}

/// The answer of a review, or why there will be none; `None` while it is awaited.
fn answer(review: &Stored) -> Option<Result<&Value, String>> {
    let why = || review.text(Field::Diagnostic).unwrap_or("it gave no answer");
    match review.state().kind {
        StateKind::Done => Some(review.value(Field::Answer).ok_or_else(|| why().to_owned())),
        StateKind::Failed => Some(Err(line(why(), limits::OPINION_TEXT_BYTES))),
        StateKind::Cancelled => Some(Err("its review was withdrawn".to_owned())),
        StateKind::Queued
        | StateKind::Working
        | StateKind::Reviewing
        | StateKind::Waiting
        | StateKind::Blocked
        | StateKind::Parked => None,
    }
}

/// A reviewer's answer in a line; none for an answer that cannot be read.
pub(in crate::engine) fn summary_line(answer: &Value) -> Option<String> {
    let given = VerdictAnswer::deserialize(answer)
        .map(|given| (given.verdict.as_str(), given.opinion.rationale))
        .or_else(|_| {
            ReplyAnswer::deserialize(answer).map(|given| (given.response.as_str(), given.rationale))
        });
    let (word, why) = given.ok()?;
    Some(line(&format!("{word}: {why}"), LINE_BYTES))
}

fn first_pass(review: &Stored) -> FirstPass {
    match answer(review) {
        None => FirstPass::Awaited,
        Some(Err(why)) => FirstPass::Missing { why },
        Some(Ok(answer)) => match VerdictAnswer::deserialize(answer) {
            Ok(given) => FirstPass::Given(given.verdict, given.opinion.bounded()),
            Err(_) => FirstPass::Missing { why: UNREADABLE.to_owned() },
        },
    }
}

fn reply(review: &Stored) -> DebateReply {
    match answer(review) {
        None => DebateReply::Awaited,
        Some(Err(why)) => DebateReply::Missing { why },
        Some(Ok(answer)) => match ReplyAnswer::deserialize(answer) {
            Ok(given) => {
                let why = line(&given.rationale, limits::OPINION_TEXT_BYTES);
                match given.response {
                    Response::Withdraw => DebateReply::Withdraw { why },
                    Response::Maintain => DebateReply::Maintain { why },
                }
            }
            Err(_) => DebateReply::Missing { why: UNREADABLE.to_owned() },
        },
    }
}
