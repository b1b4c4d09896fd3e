//! Previews of prompts: what an agent would get for a task now. The machine decides on the
//! preview's claim as on a real one, and the prompt is built as for a run; nothing is written,
//! claimed or started.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::lifecycle::{Activity, Outcome, State};
use banksman_core::machine::{Actor, Claim, Event, StepResult, Task, WaitStatus, step, waits};
use banksman_core::panel::registry::Reviewer;
use banksman_core::panel::{FirstPass, Panel, ReviewAssignment};
use banksman_core::time::{Instant, Span};

use super::assignment::{Assignment, Assignments, ReviewContext};
use super::event::outcome;
use super::job::{JobSpecs, SpecError, role_of};
use super::panel::roster::{reviewers, role_of_panel};
use super::project::Settings;
use super::prompt::RenderedPrompt;
use super::steps::StepTask;
use super::{Engine, Project, Result, workers};
use crate::config::{Agents, WorkerSetup};
use crate::store::{Store, Stored};

/// Long enough for the claim not to expire during the preview.
const ON_PAPER: Span = Span(60 * 60_000);

/// The agent that the prompt is for, if the task leaves it open.
#[derive(Debug, Clone, Default)]
pub struct PreviewRequest {
    /// A role of an agent, or a reviewer.
    pub role: Option<String>,
    pub worker: Option<String>,
}

/// The prompt that an agent would get.
#[derive(Debug, Clone)]
pub struct PromptPreview {
    pub prompt: RenderedPrompt,
    /// The schema of the answer that it must give.
    pub schema: Option<Value>,
    /// The state in which it would work.
    pub state: String,
    pub role: String,
    pub worker: Option<String>,
    /// What may be different when the task is claimed, in sentences.
    pub open: Vec<String>,
}

pub(super) struct Previews<'a> {
    store: &'a Store,
    settings: Settings<'a>,
    workers: &'a [WorkerSetup],
    specs: JobSpecs<'a>,
    assignments: Assignments<'a>,
}

impl<'a> Previews<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self {
            store: engine.store,
            settings: engine.settings(),
            workers: &engine.config.workers,
            specs: JobSpecs::new(engine),
            assignments: Assignments::new(engine),
        }
    }

    /// The prompt that an agent would get now, or why none would get one.
    pub(super) fn render(
        &self,
        id: TaskId,
        request: &PreviewRequest,
        now: Instant,
    ) -> Result<Result<PromptPreview, String>> {
        match self.preview(id, request, now) {
            Ok(preview) => Ok(Ok(preview)),
            Err(SpecError::Impossible(reason)) => Ok(Err(reason)),
            Err(SpecError::Engine(error)) => Err(error),
        }
    }

    fn preview(
        &self,
        id: TaskId,
        request: &PreviewRequest,
        now: Instant,
    ) -> Result<PromptPreview, SpecError> {
        let stored = self.store.task(id)?;
        let candidates = self.candidates(request, &stored).map_err(SpecError::Impossible)?;
        let found =
            candidates.iter().find_map(|setup| Some((*setup, claim(&stored, *setup, now)?)));
        let (setup, mut claimed) =
            found.unwrap_or_else(|| (candidates.first().copied().flatten(), stored.clone()));
        if let Some(role) = &request.role {
            move_to_role(&mut claimed, role);
        }
        let mut open = Vec::new();
        if candidates.len() > 1 {
            let name = setup.map(|setup| setup.worker.name.as_str());
            open.push(format!("which worker takes it; this is for {}", name.unwrap_or("none")));
        }
        if stored.task.open_needs > 0 {
            open.push("what it waits for: those tasks may change the prompt".to_owned());
        }
        let project = self.settings.find(&stored.task.project)?;
        let agents = self.settings.of(project.as_ref());
        let assignment = self.assignment_for(&claimed, request, agents)?;
        let role = request.role.clone().unwrap_or_else(|| match &assignment {
            Assignment::Step(step) => step.step.spec.role.clone(),
            Assignment::Review(review) => review.reviewer.clone(),
            Assignment::Plain | Assignment::Plan(_) => role_of(&claimed).to_owned(),
        });
        let place: (Option<&Project>, &Agents) = (project.as_ref(), agents);
        let briefing = self.specs.briefing(&claimed, setup, place, &assignment, &role)?;
        if briefing.session.is_some() {
            open.push("it goes on in its session, as long as the same agent takes it".to_owned());
        }
        Ok(PromptPreview {
            prompt: briefing.prompt,
            schema: briefing.schema,
            state: claimed.state().name.clone(),
            worker: setup.map(|setup| setup.worker.name.clone()),
            role,
            open,
        })
    }

    /// The possible workers: the one that the request names or that has the task, otherwise all,
    /// and without any, none.
    fn candidates(
        &self,
        request: &PreviewRequest,
        stored: &Stored,
    ) -> Result<Vec<Option<&WorkerSetup>>, String> {
        if let Some(name) = &request.worker {
            let unknown = || format!("there is no worker `{name}` on this machine");
            return Ok(vec![Some(workers::find(self.workers, name).ok_or_else(unknown)?)]);
        }
        // The holder of a lease is `ROLE:WORKER`.
        let held = stored.task.lease.as_ref().map(|lease| lease.worker.as_str());
        let held = held.map(|held| held.rsplit_once(':').map_or(held, |(_, name)| name));
        if let Some(holder) = held.and_then(|held| workers::find(self.workers, held)) {
            return Ok(vec![Some(holder)]);
        }
        Ok(self.workers.iter().map(Some).chain([None]).collect())
    }

    /// The assignment of a run, or of the reviewer that the request names.
    fn assignment_for(
        &self,
        claimed: &Stored,
        request: &PreviewRequest,
        agents: &Agents,
    ) -> Result<Assignment, SpecError> {
        let panels = &agents.panels;
        let step = StepTask::of(claimed)?;
        let asked = reviewers(claimed, role_of_panel(claimed), step.as_ref(), panels);
        if let Some(role) = &request.role {
            let known = asked.iter().chain(&panels.named).find(|one| one.name == *role);
            if let Some(reviewer) = known {
                let review = self.first_pass(claimed, reviewer, &asked, agents)?;
                return Ok(Assignment::Review(Box::new(review)));
            }
            return Ok(self.assignments.of(claimed)?);
        }
        let state = claimed.state();
        match state.does.as_ref().map(|does| does.activity) {
            Some(Activity::Agent) => Ok(self.assignments.of(claimed)?),
            Some(Activity::Panel) => {
                let reviews = self.store.children(claimed.task.id)?;
                let reviews =
                    reviews.iter().filter(|review| review.value(Field::AskedAt).is_some());
                let open = reviews.filter(|review| !review.state().terminal);
                let open: Vec<String> = open.map(|review| review.task.id.to_string()).collect();
                let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
                Err(SpecError::Impossible(match open.as_slice() {
                    [] => format!(
                        "reviewers look at {} in {}; choose the role of one of them: {}",
                        claimed.task.id,
                        state.name,
                        names.join("|")
                    ),
                    some => format!(
                        "{} is in {}, where each reviewer is told something by a task of its own: {}",
                        claimed.task.id,
                        state.name,
                        some.join(", ")
                    ),
                }))
            }
            Some(
                Activity::Human
                | Activity::Check
                | Activity::PullRequest
                | Activity::Merge
                | Activity::Capture
                | Activity::Wait,
            )
            | None => Err(SpecError::Impossible(format!(
                "no agent works on {} in {}; choose a role, such as worker",
                claimed.task.id, state.name
            ))),
        }
    }

    /// A review in the first pass, as a panel that begins now would create it.
    fn first_pass(
        &self,
        parent: &Stored,
        reviewer: &Reviewer,
        asked: &[Reviewer],
        agents: &Agents,
    ) -> Result<ReviewContext> {
        let max_rounds = usize::try_from(agents.panels.rounds).unwrap_or_default();
        let mut with_body = self.store.task(parent.task.id)?;
        with_body.task.state = parent.task.state;
        let review = |one: &Reviewer| ReviewAssignment {
            reviewer: one.name.clone(),
            first_pass: FirstPass::Awaited,
            replies: Vec::new(),
        };
        let reviews = asked.iter().map(review).collect();
        let gate = match StepTask::of(parent)? {
            Some(step) => self.assignments.step(with_body.clone(), step)?,
            None => None,
        };
        Ok(ReviewContext {
            reviewer: reviewer.name.clone(),
            brief: reviewer.brief.clone(),
            round: 0,
            timeout: None,
            parent: with_body,
            gate,
            panel: Panel {
                assignments: reviews,
                round_deadlines: vec![],
                deadline: None,
                max_rounds,
            },
        })
    }
}

/// The task after a claim by this worker, or as it is if it has been claimed; none if the worker
/// cannot claim it.
fn claim(stored: &Stored, setup: Option<&WorkerSetup>, now: Instant) -> Option<Stored> {
    if stored.task.lease.is_some() {
        return Some(stored.clone());
    }
    // The prompt does not depend on when it may begin.
    let task = Task { open_needs: 0, not_before: None, ..stored.task.clone() };
    let roles = stored.lifecycle.roles.iter();
    let plays = |role: &&String| setup.is_none_or(|setup| setup.worker.plays(role));
    let claimed_as = |role: &String| {
        let name = setup.map(|setup| setup.worker.name.clone());
        let actor = Actor { role: role.clone(), name };
        let claim = Event::Claimed(Claim { actor, expires_at: now.plus(ON_PAPER) });
        match step(&stored.lifecycle, &task, &claim, now) {
            Ok(StepResult::Step(claimed)) => Some(claimed.task),
            Ok(StepResult::Later(_) | StepResult::Ignored(_)) | Err(_) => None,
        }
    };
    let mut claimed = stored.clone();
    claimed.task = roles.filter(plays).find_map(claimed_as)?;
    end_wait(&mut claimed, now);
    Some(claimed)
}

/// Moves a task to a state in which an agent has this role, if its lifecycle has one and the task
/// is in none.
fn move_to_role(stored: &mut Stored, role: &str) {
    let plays = |state: &State| {
        let does = state.does.as_ref().filter(|does| does.activity == Activity::Agent);
        does.is_some_and(|does| does.role.as_deref() == Some(role))
    };
    if plays(stored.state()) {
        return;
    }
    let found = stored.lifecycle.states.iter().find(|state| plays(state));
    if let Some(state) = found.and_then(|state| stored.lifecycle.find_state(&state.name)) {
        stored.task.state = state;
    }
}

/// Moves a task whose wait is over, as the start of a run does.
fn end_wait(stored: &mut Stored, now: Instant) {
    let (task, lifecycle) = (&stored.task, &stored.lifecycle);
    if waits(lifecycle, task, now) != WaitStatus::Met {
        return;
    }
    let report = outcome(stored, Outcome::Met, String::new(), Fields::new());
    if let Ok(StepResult::Step(moved)) = step(lifecycle, task, &Event::Reported(report), now) {
        stored.task = moved.task;
    }
}
