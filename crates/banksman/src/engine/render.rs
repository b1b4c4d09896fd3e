//! What an agent would be told about a task now. The claim is made on paper, by the machine that
//! makes real ones, and the words come from where a run gets them; nothing is written, claimed or
//! started.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::{Activity, Outcome, State};
use banksman_core::machine::{
    ActivityReport, Actor, Claim, Event, StepResult, Task, WaitStatus, step, waits,
};
use banksman_core::panel::registry::Reviewer;
use banksman_core::panel::{FirstPass, Panel, ReviewAssignment};
use banksman_core::time::{Instant, Span};
use serde_json::{Map, Value};

use super::assignment::{Assignment, ReviewContext};
use super::panel::roster::{reviewers, role_of_panel};
use super::plan::{TOLD, role_of};
use super::prompt::RenderedPrompt;
use super::steps::StepTask;
use super::{Engine, EngineError, Project};
use crate::config::{Agents, WorkerSetup};
use crate::store::Stored;

/// A claim on paper lasts long enough for nothing to run out while it is looked at.
const ON_PAPER: Span = Span(60 * 60_000);

/// Whose words are wanted, where it is not left to the task.
#[derive(Debug, Clone, Default)]
pub struct PreviewRequest {
    /// A part that an agent plays, or a reviewer.
    pub role: Option<String>,
    pub worker: Option<String>,
}

/// What an agent would be told.
#[derive(Debug, Clone)]
pub struct PromptPreview {
    pub told: RenderedPrompt,
    /// The shape of the answer that it must give.
    pub schema: Option<Value>,
    /// The state in which it would work.
    pub state: String,
    pub role: String,
    pub worker: Option<String>,
    /// What may be different when it is claimed, in sentences.
    pub open: Vec<String>,
}

impl Engine<'_> {
    /// What an agent would be told now, or why none would be told anything.
    pub fn render(
        &self,
        id: TaskId,
        wish: &PreviewRequest,
        now: Instant,
    ) -> Result<Result<PromptPreview, String>, EngineError> {
        let stored = self.store.task(id)?;
        let mut open = Vec::new();
        let candidates = match self.candidates(wish, &stored) {
            Ok(candidates) => candidates,
            Err(reason) => return Ok(Err(reason)),
        };
        let found =
            candidates.iter().find_map(|setup| Some((*setup, on_paper(&stored, *setup, now)?)));
        let (setup, mut claimed) =
            found.unwrap_or_else(|| (candidates.first().copied().flatten(), stored.clone()));
        if let Some(role) = &wish.role {
            lead_to(&mut claimed, role);
        }
        if candidates.len() > 1 {
            let name = setup.map(|setup| setup.worker.name.as_str());
            open.push(format!("which worker takes it; this is for {}", name.unwrap_or("none")));
        }
        if stored.task.open_needs > 0 {
            open.push("what it waits for: those tasks may change what it is told".to_owned());
        }
        let project = self.projects.find(&stored.task.project)?;
        let agents = project.as_ref().map_or(&self.config.agents, |project| &project.agents);
        let assignment = match self.assignment_for(&claimed, wish, agents)? {
            Ok(assignment) => assignment,
            Err(reason) => return Ok(Err(reason)),
        };
        let role = wish.role.clone().unwrap_or_else(|| match &assignment {
            Assignment::Step(step) => step.step.spec.role.clone(),
            Assignment::Review(review) => review.reviewer.clone(),
            Assignment::Plain | Assignment::Plan(_) => role_of(&claimed).to_owned(),
        });
        let past = self.store.past_runs(id, TOLD)?;
        let place: (Option<&Project>, &Agents) = (project.as_ref(), agents);
        let briefing = self.briefing(&claimed, setup, place, &assignment, &past, &role)?;
        Ok(briefing.map(|briefing| {
            if briefing.session.is_some() {
                open.push(
                    "it goes on in its session, as long as the same agent takes it".to_owned(),
                );
            }
            PromptPreview {
                told: briefing.told,
                schema: briefing.schema,
                state: claimed.state().name.clone(),
                worker: setup.map(|setup| setup.worker.name.clone()),
                role,
                open,
            }
        }))
    }

    /// For whom it may be: the one who was asked for or has it, else everybody, and at last nobody
    /// in particular.
    fn candidates(
        &self,
        wish: &PreviewRequest,
        stored: &Stored,
    ) -> Result<Vec<Option<&WorkerSetup>>, String> {
        if let Some(name) = &wish.worker {
            let unknown = || format!("there is no worker `{name}` on this machine");
            return Ok(vec![Some(self.worker(name).ok_or_else(unknown)?)]);
        }
        // A lease is held in the words `ROLE:WORKER`.
        let held = stored.task.lease.as_ref().map(|lease| lease.worker.as_str());
        let held = held.map(|held| held.rsplit_once(':').map_or(held, |(_, name)| name));
        if let Some(holder) = held.and_then(|held| self.worker(held)) {
            return Ok(vec![Some(holder)]);
        }
        Ok(self.config.workers.iter().map(Some).chain([None]).collect())
    }

    /// As what the words would be: as for a run, or for the reviewer that was asked for.
    fn assignment_for(
        &self,
        claimed: &Stored,
        wish: &PreviewRequest,
        agents: &Agents,
    ) -> Result<Result<Assignment, String>, EngineError> {
        let panels = &agents.panels;
        let asked =
            reviewers(claimed, role_of_panel(claimed), StepTask::of(claimed).as_ref(), panels);
        if let Some(role) = &wish.role {
            let known = asked.iter().chain(&panels.named).find(|one| one.name == *role);
            if let Some(reviewer) = known {
                let review = self.imagined(claimed, reviewer, &asked, agents)?;
                return Ok(Ok(Assignment::Review(Box::new(review))));
            }
            return self.assignment(claimed).map(Ok);
        }
        let state = claimed.state();
        match state.does.as_ref().map(|does| does.activity) {
            Some(Activity::Agent) => self.assignment(claimed).map(Ok),
            Some(Activity::Panel) => {
                let reviews = self.store.children(claimed.task.id)?;
                let reviews =
                    reviews.iter().filter(|review| review.task.fields.contains_key("asked_at"));
                let open = reviews.filter(|review| !review.state().terminal);
                let open: Vec<String> = open.map(|review| review.task.id.to_string()).collect();
                let names: Vec<&str> = asked.iter().map(|one| one.name.as_str()).collect();
                Ok(Err(match open.as_slice() {
                    [] => format!(
                        "reviewers look at {} in {}; say which one: --role {}",
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
            | None => Ok(Err(format!(
                "no agent works on {} in {}; say for whom: --role worker",
                claimed.task.id, state.name
            ))),
        }
    }

    /// A seat in the first pass, as a panel that begins now would make it.
    fn imagined(
        &self,
        parent: &Stored,
        reviewer: &Reviewer,
        asked: &[Reviewer],
        agents: &Agents,
    ) -> Result<ReviewContext, EngineError> {
        let most_rounds = usize::try_from(agents.panels.rounds).unwrap_or_default();
        let mut with_body = self.store.detail(parent.task.id)?.stored;
        with_body.task.state = parent.task.state;
        let review = |one: &Reviewer| ReviewAssignment {
            reviewer: one.name.clone(),
            first_pass: FirstPass::Awaited,
            replies: Vec::new(),
        };
        let reviews = asked.iter().map(review).collect();
        let gate = match StepTask::of(parent) {
            Some(step) => self.step(with_body.clone(), step)?,
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
                max_rounds: most_rounds,
            },
        })
    }
}

/// The task as it would be after its claim, as it is where somebody has claimed it; none where this
/// worker cannot.
fn on_paper(stored: &Stored, setup: Option<&WorkerSetup>, now: Instant) -> Option<Stored> {
    if stored.task.lease.is_some() {
        return Some(stored.clone());
    }
    // Words do not depend on when it may begin.
    let task = Task { open_needs: 0, not_before: None, ..stored.task.clone() };
    let roles = stored.lifecycle.roles.iter();
    let plays = |role: &&String| setup.is_none_or(|setup| setup.worker.plays(role));
    let claim = |role: &String| {
        let name = setup.map(|setup| setup.worker.name.clone());
        let actor = Actor { role: role.clone(), name };
        let claim = Event::Claimed(Claim { actor, expires_at: now.plus(ON_PAPER) });
        match step(&stored.lifecycle, &task, &claim, now) {
            Ok(StepResult::Step(claimed)) => Some(claimed.task),
            Ok(StepResult::Later(_) | StepResult::Ignored(_)) | Err(_) => None,
        }
    };
    let mut claimed = stored.clone();
    claimed.task = roles.filter(plays).find_map(claim)?;
    advance_on_paper(&mut claimed, now);
    Some(claimed)
}

/// Puts a task to where an agent plays this part, if its lifecycle has such a state and it is in
/// none of them.
fn lead_to(stored: &mut Stored, role: &str) {
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

/// Leads a task on whose wait is over, as a run's start does.
fn advance_on_paper(stored: &mut Stored, now: Instant) {
    let (task, lifecycle) = (&stored.task, &stored.lifecycle);
    if waits(lifecycle, task, now) != WaitStatus::Met {
        return;
    }
    let report = ActivityReport {
        entered: task.entered,
        outcome: Outcome::Met,
        detail: String::new(),
        fields: Map::new(),
        tokens: 0,
        cost_micros: 0,
    };
    if let Ok(StepResult::Step(moved)) = step(lifecycle, task, &Event::Reported(report), now) {
        stored.task = moved.task;
    }
}
