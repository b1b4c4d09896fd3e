//! Panels: one agent or several look at the work of another, in a state of a task or at the gate of a workflow's step. Everybody is asked
//! at once, what they have answered goes to `core::panel` as one record, and its answer is carried out.
//!
//! Nothing is decided here, and nothing is remembered but the seats: every look at a panel begins with them, so one that was cut off
//! goes on where it stood. Seats are in `seats`, who takes them in `roster`, what they are told in `words`.

pub(super) mod roster;
pub(super) mod seats;
pub(super) mod words;

use banksman_core::failure::Level;
use banksman_core::lifecycle::{Outcome, Since};
use banksman_core::machine::TimerKind;
use banksman_core::panel::on_record::{
    CONCERN, CONCERNS, OBJECTION, RATIONALE, RESPONSE, REVIEWER, SUGGESTIONS, SUMMARY, VERDICT,
    VERDICTS, WHY,
};
use banksman_core::panel::registry::Reviewer;
use banksman_core::panel::summary::{feedback, open_concerns, suggestions, unresolved};
use banksman_core::panel::{Next, Panel, Reply, Ruling, Seat, Standing, Word, next};
use banksman_core::schedule::could_serve;
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value, json};

use self::roster::{reviewers, role_of_panel};
use self::seats::{Invitation, SEAT, again, is_of_this_stay, name_of, part, record, round_of};
use super::parts::CLOSE;
use super::relay::{Did, LOOK_AGAIN};
use super::steps::{Step, is_driven_by_hand};
use super::{Engine, EngineError};
use crate::config::Panels;
use crate::store::{Part, Stored};

/// Whose question the facts of the last run can answer.
const EVALUATOR: &str = "evaluator";

/// What a run has to have reached for that.
const PROVEN: [Level; 2] = [Level::Observed, Level::Verified];

/// Why somebody is missing who was still reading.
const OVER_BEFORE: &str = "the panel was over before it answered";
/// Why a gate has failed: the reason that chooses the way back.
const FAILED_FOR: &str = "failed_for";

impl Engine<'_> {
    /// One look at a panel: as it stands, what comes next is done. Answers when to look again.
    pub(super) fn hold_panel(&self, whole: &Stored, now: Instant) -> Result<Did, EngineError> {
        let role = role_of_panel(whole);
        if role == EVALUATOR {
            return self.facts_answer(whole, now);
        }
        let step = Step::of(whole);
        if step.is_some() && is_driven_by_hand(whole) {
            return Ok(Did::Done);
        }
        if let Some(objection) = whole.text(OBJECTION) {
            self.report(whole, Ruling::Blocked.outcome(), objection.to_owned(), Map::new(), now)?;
            return Ok(Did::Done);
        }
        let panels = self.panels_of(whole, step.as_ref())?;
        let seats = self.seats_of(whole)?;
        if seats.is_empty() {
            let asked = reviewers(whole, role, step.as_ref(), &panels);
            return self.convene(whole, &asked, &panels, now);
        }
        let soon = now.plus(LOOK_AGAIN);
        // Nobody can take a seat of a paused batch, so no seat is blamed for its silence, and nobody is asked anew.
        let is_paused = self.store.is_paused(whole.task.batch.as_deref())?;
        if is_paused && seats.iter().any(|seat| !seat.state().terminal) {
            return Ok(Did::Later(soon));
        }
        let panel = record(whole, &seats, &panels, self.stood_still(whole)?);
        match next(&panel, now) {
            Next::Wait { until } => Ok(Did::Later(until.map_or(soon, |until| until.min(soon)))),
            Next::Debate { .. } if is_paused => Ok(Did::Later(soon)),
            Next::Debate { round } => {
                let holders = panel.seats.iter().filter(|seat| seat.holds_a_concern());
                let holders: Vec<&str> = holders.map(|seat| seat.reviewer.as_str()).collect();
                let first = seats.iter().filter(|seat| round_of(seat) == 0);
                let invited = first.filter(|seat| holders.contains(&name_of(seat)));
                let invited: Vec<Invitation> = invited.map(|seat| again(seat, round)).collect();
                self.invite(whole, &invited, &panels, now)?;
                let ends = now.plus(panels.round_timeout);
                Ok(Did::Later(ends.min(soon)))
            }
            Next::Decide { ruling, reason } => {
                self.rule(whole, &seats, &panel, (ruling, reason), now)?;
                Ok(Did::Done)
            }
        }
    }

    fn facts_answer(&self, stored: &Stored, now: Instant) -> Result<Did, EngineError> {
        let past = self.store.past_runs(stored.task.id, 1)?;
        let level = past.last().and_then(|run| run.level.as_deref());
        let proves = |level: &str| PROVEN.iter().any(|proven| proven.as_str() == level);
        let (outcome, detail) = match level {
            Some(level) if proves(level) => (Outcome::Approved, String::new()),
            Some(_) => (Outcome::Blocked, "nothing shows that the work is done".to_owned()),
            None => (Outcome::Unavailable, "there is no run whose facts could answer".to_owned()),
        };
        self.report(stored, outcome, detail, Map::new(), now)?;
        Ok(Did::Done)
    }

    /// Everybody is asked at once, and nobody is told what the others say. Where no worker could ever take a seat, nobody is.
    fn convene(
        &self,
        whole: &Stored,
        asked: &[Reviewer],
        panels: &Panels,
        now: Instant,
    ) -> Result<Did, EngineError> {
        let workers = self.reviewing_workers(now)?;
        let past = self.store.past_runs(whole.task.id, 1)?;
        let last = past.last().map(|run| run.worker.as_str());
        let invited = asked.iter().map(|reviewer| Invitation {
            reviewer: reviewer.name.clone(),
            brief: reviewer.brief.clone(),
            tags: self.tags_of(reviewer, last, &workers),
            round: 0,
        });
        let invited: Vec<Invitation> = invited.collect();
        if !invited.iter().any(|seat| could_serve(&seat.tags, &workers)) {
            let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
            let detail = match names.as_slice() {
                [] => "no reviewers are set up".to_owned(),
                some => format!("no reviewers: no worker can play {}", some.join(", ")),
            };
            self.report(whole, Ruling::Unavailable.outcome(), detail, Map::new(), now)?;
            return Ok(Did::Done);
        }
        self.invite(whole, &invited, panels, now)?;
        Ok(Did::Later(now.plus(LOOK_AGAIN)))
    }

    /// The settings of a panel. How long a verdict may take, the gate itself may say.
    fn panels_of(&self, whole: &Stored, step: Option<&Step>) -> Result<Panels, EngineError> {
        let project = self.projects.find(&whole.task.project)?;
        let agents = project.as_ref().map_or(&self.terms.agents, |project| &project.agents);
        let mut panels = agents.panels.clone();
        let gate = step.and_then(|step| step.spec.gate.as_ref());
        if let Some(timeout) = gate.and_then(|gate| gate.timeout) {
            (panels.verdict_timeout, panels.whole) = (timeout, timeout);
        }
        Ok(panels)
    }

    /// The seats of the panel that the task is in, in the order in which they were made.
    fn seats_of(&self, whole: &Stored) -> Result<Vec<Stored>, EngineError> {
        let mut seats = self.store.parts(whole.task.id)?;
        seats.retain(|seat| seat.lifecycle.id == SEAT && is_of_this_stay(seat, whole));
        Ok(seats)
    }

    /// The panel that a task is in, as it stands.
    pub(super) fn panel_of(
        &self,
        whole: &Stored,
        step: Option<&Step>,
    ) -> Result<Panel, EngineError> {
        let (seats, panels) = (self.seats_of(whole)?, self.panels_of(whole, step)?);
        Ok(record(whole, &seats, &panels, self.stood_still(whole)?))
    }

    /// For how long the bounds of the task's state have stood still, because its batch was paused.
    fn stood_still(&self, whole: &Stored) -> Result<Span, EngineError> {
        let timers = self.store.timers_of(whole.task.id)?;
        let late = timers.iter().filter_map(|timer| {
            let TimerKind::Bound(row) = timer.kind else { return None };
            let bound = whole.lifecycle.transitions.get(row as usize)?.bound.as_ref()?;
            let due = whole.task.entered_at.plus(bound.time);
            (bound.since == Since::Entry).then(|| timer.due.since(due))
        });
        Ok(late.max().map_or(Span(0), |late| Span(late.0.max(0))))
    }

    fn invite(
        &self,
        whole: &Stored,
        invited: &[Invitation],
        panels: &Panels,
        now: Instant,
    ) -> Result<(), EngineError> {
        let parts = invited.iter().map(|seat| part(whole, seat, panels));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        self.store.add_parts(&parts, now)?;
        Ok(())
    }

    /// The end of a panel goes to its task with all that was said, and whoever still reads is sent home.
    fn rule(
        &self,
        whole: &Stored,
        seats: &[Stored],
        panel: &Panel,
        (ruling, reason): (Ruling, String),
        now: Instant,
    ) -> Result<(), EngineError> {
        let known = |name: &str| whole.lifecycle.fields.contains_key(name);
        let summary = match ruling {
            Ruling::Escalated | Ruling::Unresolved | Ruling::Unavailable => Some(unresolved(panel)),
            Ruling::Approved | Ruling::Blocked => None,
        };
        let detail = match (ruling, &summary) {
            (Ruling::Blocked, _) => feedback(panel),
            (_, Some(summary)) if !known(SUMMARY) => format!("{reason}\n\n{summary}"),
            (_, _) => reason.clone(),
        };
        let concerns: Vec<Value> = open_concerns(panel)
            .into_iter()
            .map(|open| {
                json!({ REVIEWER: open.reviewer, CONCERN: open.concern, RESPONSE: open.response })
            })
            .collect();
        let told = [
            (VERDICTS, Some(json!(self.verdicts(seats, panel)?))),
            (CONCERNS, Some(json!(concerns)).filter(|_| !concerns.is_empty())),
            (SUMMARY, summary.map(Value::from)),
            (FAILED_FOR, panel.blocked_for().map(Value::from)),
        ];
        // What an earlier panel has left is not true of this one.
        let kept = |name: &str| whole.task.fields.contains_key(name);
        let told =
            told.into_iter().filter(|(name, value)| known(name) && (value.is_some() || kept(name)));
        let fields: Map<String, Value> =
            told.map(|(name, value)| (name.to_owned(), value.unwrap_or_default())).collect();
        let none = fields.keys().map(|name| (name.clone(), Value::Null)).collect();
        // A task without room for the words still has to hear the ruling.
        if !self.report(whole, ruling.outcome(), detail, fields, now)? {
            self.report(whole, ruling.outcome(), reason, none, now)?;
        }
        for seat in seats.iter().filter(|seat| !seat.state().terminal) {
            self.ask_of(seat.task.id, CLOSE, [], now)?;
        }
        Ok(())
    }

    /// A task that has left its panel needs no verdict any more.
    pub(super) fn close_seats(&self, whole: &Stored, now: Instant) -> Result<(), EngineError> {
        if self.store.count_parts(whole.task.id)?.open() == 0 {
            return Ok(());
        }
        for seat in self.store.parts(whole.task.id)? {
            let is_left = !seat.state().terminal && !is_of_this_stay(&seat, whole);
            if seat.lifecycle.id == SEAT && is_left {
                self.ask_of(seat.task.id, CLOSE, [], now)?;
            }
        }
        Ok(())
    }

    /// Who said what, and which worker, agent and model was behind it.
    fn verdicts(&self, seats: &[Stored], panel: &Panel) -> Result<Vec<Value>, EngineError> {
        let first = seats.iter().filter(|seat| round_of(seat) == 0);
        let mut verdicts = Vec::new();
        for ((seat, said), suggested) in first.zip(&panel.seats).zip(suggestions(panel)) {
            let past = self.store.past_runs(seat.task.id, 1)?;
            let run = past.last();
            let setup = run.and_then(|run| self.worker(&run.worker));
            let (rationale, why) = match &said.word {
                Word::Given(_, opinion) => (Some(opinion.rationale.as_str()), gave_up(said)),
                Word::Missing { why } => (None, Some(why.as_str())),
                Word::Awaited => (None, Some(OVER_BEFORE)),
            };
            let mut all = json!({
                REVIEWER: said.reviewer,
                VERDICT: standing(said),
                RATIONALE: rationale,
                SUGGESTIONS: (!suggested.is_empty()).then_some(suggested),
                WHY: why,
                "task": seat.task.id.to_string(),
                "worker": run.map(|run| run.worker.as_str()),
                "agent": run.and_then(|run| run.agent.as_deref()),
                "model": setup.and_then(|setup| setup.model.as_deref()),
            });
            all.as_object_mut().into_iter().for_each(|all| all.retain(|_, known| !known.is_null()));
            verdicts.push(all);
        }
        Ok(verdicts)
    }
}

/// Why a concern is held no longer.
fn gave_up(seat: &Seat) -> Option<&str> {
    seat.replies.iter().find_map(|reply| match reply {
        Reply::Withdraw { why } => Some(why.as_str()),
        Reply::Awaited | Reply::Maintain { .. } | Reply::Missing { .. } => None,
    })
}

fn standing(seat: &Seat) -> &'static str {
    match seat.standing() {
        Standing::Given(verdict) => verdict.as_str(),
        Standing::Withdrawn => "WITHDRAWN",
        Standing::Waiting | Standing::Silent => "MISSING",
    }
}
