//! Panels: one or several agents review the work of another, in a state of a task or at the gate of
//! a workflow's step. All are asked at once, `core::panel` decides on their answers as one record,
//! and this module carries out the ruling.
//!
//! Nothing is decided here, and only the reviews are stored: every turn reads them, so a turn that
//! was cut off loses nothing. Reviews are in `reviews`, the choice of reviewers in `roster`, their
//! prompts in `prompts`.

pub(super) mod prompts;
pub(super) mod reviews;
pub(super) mod roster;

use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use banksman_core::lifecycle::{Activity, StateKind};
use banksman_core::machine::{Effect, Event};
use banksman_core::panel::registry::Reviewer;
use banksman_core::panel::summary::{feedback, open_concerns, suggestions, unresolved};
use banksman_core::panel::{
    DebateReply, FirstPass, Panel, PanelAction, ReviewAssignment, ReviewStatus, Ruling, next,
};
use banksman_core::time::{Instant, Span};
use serde::Serialize;

use self::reviews::{Invitation, again, child, record, round_of};
use self::roster::{Players, doer_of, reviewers, role_of_panel};
use super::children::parent_of;
use super::event::{ask, outcome, report};
use super::project::Settings;
use super::relay::{EffectHandler, EffectResult, Handled, LOOK_AGAIN, is_wanted};
use super::steps::StepTask;
use super::turn::Turn;
use super::{Engine, Result, workers};
use crate::config::{Panels, WorkerSetup};
use crate::store::notices::{NewNotice, NoticeKind};
use crate::store::outbox::PendingEffect;
use crate::store::{NewChild, Store, StoreError, Stored};

/// Why the verdict of a reviewer that had not finished is missing.
const OVER_BEFORE: &str = "the panel was over before it answered";

/// What is said with the verdict of a worker on its own work.
const OWN_WORK: &str = "judged its own work, because no other worker could";

/// When a panel is looked at that has just begun.
const INVITED: Span = Span(1_000);

#[derive(Clone, Copy)]
pub(super) struct PanelHandler<'a> {
    store: &'a Store,
    settings: Settings<'a>,
    workers: &'a [WorkerSetup],
}

impl EffectHandler for PanelHandler<'_> {
    /// Starts or continues a panel. A task that has moved closes the reviews that it has left, and
    /// a review that has ended may advance its panel.
    fn handle(&self, effect: &PendingEffect, stored: &Stored, turn: &mut Turn) -> Handled {
        let starts = matches!(effect.effect, Effect::Start { .. });
        if starts && is_wanted(effect, stored) {
            return self.advance(stored, turn.now);
        }
        if starts || effect.effect == Effect::CloseReviews || effect.seq > 1 {
            self.close_reviews(stored, turn.now)?;
        }
        if effect.effect != Effect::TellParent || stored.state().kind == StateKind::Working {
            return Ok(EffectResult::Done);
        }
        let parent = parent_of(self.store, effect, stored)?;
        let at_panel = |parent: &Stored| {
            parent.activity() == Some(Activity::Panel) && parent.task.is_active(&parent.lifecycle)
        };
        if let Some(parent) = parent.filter(at_panel) {
            // The effect that started the panel knows when to try again.
            self.advance(&parent, turn.now)?;
        }
        Ok(EffectResult::Done)
    }
}

impl<'a> PanelHandler<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (store, workers) = (engine.store, &engine.config.workers);
        Self { store, settings: engine.settings(), workers }
    }

    /// Does the next step of a panel, and returns when to try again.
    fn advance(&self, parent: &Stored, now: Instant) -> Result<EffectResult> {
        let role = role_of_panel(parent);
        let step = StepTask::of(parent)?;
        if step.is_some() && parent.is_driven_by_person() {
            return Ok(EffectResult::Done);
        }
        if let Some(objection) = parent.text(Field::Objection) {
            let (outcome, detail) = (Ruling::Blocked.outcome(), objection.to_owned());
            report(self.store, parent, outcome, detail, Fields::new(), now)?;
            return Ok(EffectResult::Done);
        }
        let panels = self.panels_of(parent, step.as_ref())?;
        let assignments = self.reviews_of(parent)?;
        if assignments.is_empty() {
            let asked = reviewers(parent, role, step.as_ref(), &panels);
            return self.convene(parent, &asked, &panels, now);
        }
        let soon = now.plus(LOOK_AGAIN);
        // No worker can take a review of a paused batch, so its silence does not count, and no
        // reviewer is asked again.
        let is_paused = self.store.is_paused(parent.task.batch.as_deref())?;
        if is_paused && assignments.iter().any(|review| !review.state().terminal) {
            return Ok(EffectResult::Later(soon));
        }
        let panel = record(parent, &assignments, &panels);
        match next(&panel, now) {
            PanelAction::Wait { until } => {
                Ok(EffectResult::Later(until.map_or(soon, |until| until.min(soon))))
            }
            PanelAction::Debate { .. } if is_paused => Ok(EffectResult::Later(soon)),
            PanelAction::Debate { round } => {
                let holders = panel.assignments.iter().filter(|review| review.has_concern());
                let holders: Vec<&str> = holders.map(|review| review.reviewer.as_str()).collect();
                let first = assignments.iter().filter(|review| round_of(review) == 0);
                let invited = first.filter(|review| holders.contains(&review.reviewer()));
                let invited: Vec<Invitation> = invited.map(|review| again(review, round)).collect();
                self.invite(parent, &invited, &panels, now)?;
                let ends = now.plus(panels.round_timeout);
                Ok(EffectResult::Later(ends.min(soon)))
            }
            PanelAction::Decide { ruling, reason } => {
                self.rule(parent, &assignments, &panel, (ruling, reason), now)?;
                Ok(EffectResult::Done)
            }
        }
    }

    /// Asks all reviewers at once; none learns what the others say. If no worker could ever take a
    /// review, none is asked.
    fn convene(
        &self,
        parent: &Stored,
        asked: &[Reviewer],
        panels: &Panels,
        now: Instant,
    ) -> Result<EffectResult> {
        let players = Players::find(self.store, self.workers, parent, panels.own_work, now)?;
        let invited = asked.iter().map(|reviewer| Invitation {
            reviewer: reviewer.name.clone(),
            brief: reviewer.brief.clone(),
            tags: players.tags_of(reviewer),
            round: 0,
        });
        let invited: Vec<Invitation> = invited.collect();
        if !invited.iter().any(|review| players.could_serve(&review.tags)) {
            let detail = match asked {
                [] => "no reviewers are set up".to_owned(),
                some => players.missing(some),
            };
            let kind = NoticeKind::NoWorker;
            // Without a way out of the state, the panel starts when a worker is there.
            let is_told = self.unavailable(parent, detail, Fields::new(), kind, now)?;
            let later = EffectResult::Later(now.plus(LOOK_AGAIN));
            return Ok(if is_told { EffectResult::Done } else { later });
        }
        self.invite(parent, &invited, panels, now)?;
        // From then on the panel itself says when it is over, which may be soon.
        Ok(EffectResult::Later(now.plus(INVITED)))
    }

    /// Reports that nobody judges the work. People are told once about each run, with the reason.
    fn unavailable(
        &self,
        parent: &Stored,
        detail: String,
        fields: Fields,
        kind: NoticeKind,
        now: Instant,
    ) -> Result<bool> {
        let (id, epoch) = (parent.task.id, parent.task.epoch);
        let text = format!("nobody judges {id}: {detail}; its work is kept");
        let notice = NewNotice::alert(kind, Some(id), text).once(format!("unjudged-{id}-{epoch}"));
        let report = outcome(parent, Ruling::Unavailable.outcome(), detail, fields);
        let told = move |_: &_| Some(notice.clone());
        match self.store.apply_telling(id, Event::Reported(report), None, now, told) {
            Ok(_) => Ok(true),
            Err(StoreError::Rejected(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The settings of a panel. A gate may set the time for a verdict.
    fn panels_of(&self, parent: &Stored, step: Option<&StepTask>) -> Result<Panels> {
        let project = self.settings.find(&parent.task.project)?;
        let mut panels = self.settings.of(project.as_ref()).panels.clone();
        let gate = step.and_then(|step| step.spec.gate.as_ref());
        if let Some(timeout) = gate.and_then(|gate| gate.timeout) {
            (panels.verdict_timeout, panels.total_timeout) = (timeout, timeout);
        }
        Ok(panels)
    }

    /// The reviews of the panel that the task is in, in the order of their creation.
    fn reviews_of(&self, parent: &Stored) -> Result<Vec<Stored>> {
        let mut assignments = self.store.all_children(parent.task.id)?;
        assignments.retain(|review| review.is_asked_by(parent));
        Ok(assignments)
    }

    /// The task's present panel.
    pub(super) fn panel_of(&self, parent: &Stored, step: Option<&StepTask>) -> Result<Panel> {
        let (assignments, panels) = (self.reviews_of(parent)?, self.panels_of(parent, step)?);
        Ok(record(parent, &assignments, &panels))
    }

    fn invite(
        &self,
        parent: &Stored,
        invited: &[Invitation],
        panels: &Panels,
        now: Instant,
    ) -> Result<()> {
        let children = invited.iter().map(|review| child(parent, review, panels));
        let children: Vec<NewChild> = children.collect::<Result<_, _>>()?;
        self.store.add_children(&children, now)?;
        Ok(())
    }

    /// Reports the ruling to the task with all verdicts, and closes the reviews that are still
    /// open.
    fn rule(
        &self,
        parent: &Stored,
        assignments: &[Stored],
        panel: &Panel,
        (ruling, reason): (Ruling, String),
        now: Instant,
    ) -> Result<()> {
        let known = |field: Field| parent.lifecycle.has_field(field);
        let summary = match ruling {
            Ruling::Escalated | Ruling::Unresolved | Ruling::Unavailable => Some(unresolved(panel)),
            Ruling::Approved | Ruling::Blocked => None,
        };
        let detail = match (ruling, &summary) {
            (Ruling::Blocked, _) => feedback(panel),
            (_, Some(summary)) if !known(Field::ReviewSummary) => format!("{reason}\n\n{summary}"),
            (_, _) => reason.clone(),
        };
        let concerns = open_concerns(panel);
        let fields = [
            (Field::Verdicts, Some(value_of(&self.verdicts(parent, assignments, panel)?))),
            (Field::Concerns, Some(value_of(&concerns)).filter(|_| !concerns.is_empty())),
            (Field::ReviewSummary, summary.map(Value::from)),
            (Field::FailedFor, panel.block_reason().map(Value::from)),
        ];
        // The fields of an earlier panel do not apply to this one.
        let kept = |field: Field| parent.value(field).is_some();
        let fields = fields
            .into_iter()
            .filter(|(field, value)| known(*field) && (value.is_some() || kept(*field)));
        let fields: Fields =
            fields.map(|(field, value)| parent.entry(field, value.unwrap_or_default())).collect();
        let none = fields.keys().map(|name| (name.clone(), Value::Null)).collect();
        // A task without room for the texts still gets the ruling.
        let report = |detail: String, fields: Fields| match ruling {
            Ruling::Unavailable => self.unavailable(parent, detail, fields, NoticeKind::State, now),
            Ruling::Approved | Ruling::Blocked | Ruling::Escalated | Ruling::Unresolved => {
                report(self.store, parent, ruling.outcome(), detail, fields, now)
            }
        };
        if !report(detail, fields)? {
            report(reason, none)?;
        }
        for review in assignments.iter().filter(|review| !review.state().terminal) {
            ask(self.store, review, Trigger::Close, [], now)?;
        }
        Ok(())
    }

    /// Closes the reviews of a panel that the task has left.
    fn close_reviews(&self, parent: &Stored, now: Instant) -> Result<()> {
        if self.store.count_children(parent.task.id)?.open() == 0 {
            return Ok(());
        }
        for review in self.store.children(parent.task.id)? {
            let is_left = !review.state().terminal && !review.is_asked_by(parent);
            if review.is_review() && is_left {
                ask(self.store, &review, Trigger::Close, [], now)?;
            }
        }
        Ok(())
    }

    /// The verdicts, each with the worker, agent and model behind it.
    fn verdicts<'p>(
        &self,
        parent: &Stored,
        assignments: &[Stored],
        panel: &'p Panel,
    ) -> Result<Vec<RecordedVerdict<'p>>> {
        let doer = doer_of(self.store, parent)?;
        let first = assignments.iter().filter(|review| round_of(review) == 0);
        let mut verdicts = Vec::new();
        for ((review, given), suggested) in first.zip(&panel.assignments).zip(suggestions(panel)) {
            let past = self.store.past_runs(review.task.id, 1)?;
            let run = past.last();
            let setup = run.and_then(|run| workers::find(self.workers, &run.worker));
            let (rationale, why) = match &given.first_pass {
                FirstPass::Given(_, opinion) => (Some(opinion.rationale.as_str()), gave_up(given)),
                FirstPass::Missing { why } => (None, Some(why.as_str())),
                FirstPass::Awaited => (None, Some(OVER_BEFORE)),
            };
            verdicts.push(RecordedVerdict {
                reviewer: &given.reviewer,
                verdict: verdict_word(given),
                rationale,
                suggestions: suggested,
                why,
                warning: run.filter(|run| doer.as_ref() == Some(&run.worker)).map(|_| OWN_WORK),
                task: review.task.id.to_string(),
                worker: run.map(|run| run.worker.clone()),
                agent: run.and_then(|run| run.agent.clone()),
                model: setup.and_then(|setup| setup.agent.model.clone()),
            });
        }
        Ok(verdicts)
    }
}

/// An entry of the field `verdicts`.
#[derive(Serialize)]
struct RecordedVerdict<'a> {
    reviewer: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
    task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
}

/// Why a concern was withdrawn.
fn gave_up(review: &ReviewAssignment) -> Option<&str> {
    review.replies.iter().find_map(|reply| match reply {
        DebateReply::Withdraw { why } => Some(why.as_str()),
        DebateReply::Awaited | DebateReply::Maintain { .. } | DebateReply::Missing { .. } => None,
    })
}

fn verdict_word(review: &ReviewAssignment) -> &'static str {
    match review.status() {
        ReviewStatus::Given(verdict) => verdict.as_str(),
        ReviewStatus::Withdrawn => "WITHDRAWN",
        ReviewStatus::Waiting | ReviewStatus::Missing => "MISSING",
    }
}
