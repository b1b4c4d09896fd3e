//! Assignments: what an agent is asked to do, the schema of its answer, the checks that verify it,
//! and the branches it starts from.

use std::collections::BTreeSet;

use banksman_core::failure::FailureClass;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, SettingName};
use banksman_core::lifecycle::expr::Value;
use banksman_core::lifecycle::{Outcome, StateKind};
use banksman_core::machine::Task;
use banksman_core::panel::Panel;
use banksman_core::time::{Instant, Span};
use banksman_core::workflow::assignment::in_worktree;
use banksman_core::workflow::{Criterion, Signal, Workflow};

use super::panel::reviews::round_of;
use super::panel::{PanelHandler, prompts};
use super::planning::{self, Planning, is_planning};
use super::steps::{StepTask, may_be_laid_out, workflow_of};
use super::{Engine, Project, Result, prompt};
use crate::config::Agents;
use crate::exec::job::{LeftOut, Verification};
use crate::exec::worktree::names;
use crate::prompts::{PromptError, Prompts};
use crate::store::runs::{PAST_RUNS, PastRun};
use crate::store::{Store, Stored};

/// Where gates put their feedback.
const FEEDBACK: &str = ".workflow/";

/// A task with the context that its prompt needs.
pub(super) enum Assignment {
    /// A task by itself.
    Plain,
    Step(Box<StepContext>),
    /// A review for a panel.
    Review(Box<ReviewContext>),
    /// A plan for the task.
    Plan(Box<Planning>),
}

/// A review with the task that it is about.
pub(super) struct ReviewContext {
    pub(super) reviewer: String,
    pub(super) brief: String,
    /// Of the debate; 0 is the first pass, in which no reviewer sees the others' verdicts.
    pub(super) round: usize,
    pub(super) timeout: Option<Span>,
    /// The task under review, with its body.
    pub(super) parent: Stored,
    /// The same task as a step of its workflow, where it is one.
    pub(super) gate: Option<Box<StepContext>>,
    pub(super) panel: Panel,
}

/// A step with the workflow that it is part of.
pub(super) struct StepContext {
    pub(super) step: StepTask,
    pub(super) flow: Workflow,
    /// The step's own task.
    pub(super) stored: Stored,
}

#[derive(Clone, Copy)]
pub(super) struct Assignments<'a> {
    store: &'a Store,
    panels: PanelHandler<'a>,
}

impl<'a> Assignments<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, panels: PanelHandler::new(engine) }
    }

    pub(super) fn of(&self, stored: &Stored) -> Result<Assignment> {
        if is_planning(stored) {
            return Ok(Assignment::Plan(Box::new(planning::planning(self.store, stored)?)));
        }
        if let Some(step) = StepTask::of(stored)? {
            return Ok(self
                .step(stored.clone(), step)?
                .map_or(Assignment::Plain, Assignment::Step));
        }
        let Some(parent) = stored.task.parent.filter(|_| stored.is_review()) else {
            return Ok(Assignment::Plain);
        };
        let parent = self.store.task(parent)?;
        Ok(Assignment::Review(Box::new(self.review(stored, parent)?)))
    }

    fn review(&self, review: &Stored, parent: Stored) -> Result<ReviewContext> {
        let timeout = review.lifecycle.time(SettingName::AnswerTimeout);
        let round = round_of(review);
        let step = StepTask::of(&parent)?;
        let mut panel = self.panels.panel_of(&parent, step.as_ref())?;
        // A reviewer whose debate round starts late sees no more than the others.
        panel
            .assignments
            .iter_mut()
            .for_each(|review| review.replies.truncate(round.saturating_sub(1)));
        let gate = match step {
            Some(step) => self.step(parent.clone(), step)?,
            None => None,
        };
        Ok(ReviewContext {
            reviewer: review.reviewer().to_owned(),
            brief: review.text(Field::Brief).unwrap_or_default().to_owned(),
            round,
            timeout,
            panel,
            gate,
            parent,
        })
    }

    pub(super) fn step(&self, stored: Stored, step: StepTask) -> Result<Option<Box<StepContext>>> {
        let Some(parent) = stored.task.parent else { return Ok(None) };
        let flow = workflow_of(&self.store.task(parent)?)?;
        Ok(flow.map(|flow| Box::new(StepContext { step, flow, stored })))
    }

    /// Branches whose work a task starts from: those of the steps that it needs, of the task that
    /// it reviews, or of all steps of the workflow that it is.
    pub(super) fn produces(
        &self,
        stored: &Stored,
        assignment: &Assignment,
        project: &Project,
    ) -> Result<Vec<String>> {
        let agents = &project.agents;
        let own = branch_of(stored, agents)?;
        let from: Vec<Stored> = match assignment {
            Assignment::Review(review) => vec![review.parent.clone()],
            Assignment::Step(_) => {
                let needs = self.store.needs(stored.task.id)?;
                self.worked_on(needs.iter().map(|need| need.task).collect())?
            }
            Assignment::Plain if stored.is_workflow() => {
                self.worked_on(self.last_steps(stored)?)?
            }
            Assignment::Plain | Assignment::Plan(_) => Vec::new(),
        };
        let branches = from.iter().map(|step| branch_of(step, agents));
        let mut branches = branches.collect::<Result<Vec<String>>>()?;
        if stored.is_workflow() {
            // What others have merged meanwhile is joined here, not in their checkout. And it
            // begins somewhere even if all its steps were skipped.
            branches.push(project.base.clone());
        }
        branches.retain(|branch| *branch != own);
        branches.sort();
        branches.dedup();
        Ok(branches)
    }

    /// The steps that no other step needs: their branches hold the work of all.
    fn last_steps(&self, parent: &Stored) -> Result<Vec<TaskId>> {
        let needs = self.store.needs_of_children(parent.task.id)?;
        let needed: BTreeSet<TaskId> = needs.into_values().flatten().collect();
        let parts =
            self.store.all_children(parent.task.id)?.into_iter().map(|subtask| subtask.task.id);
        Ok(parts.filter(|id| !needed.contains(id)).collect())
    }

    /// The steps whose branches hold the work of these steps. A skipped step has none, and the
    /// branch of a step that no agent has worked on does not exist: the steps that it needs stand
    /// in for it. They also stand beside a step that a person let pass after its last run failed,
    /// because that may have left their work out.
    fn worked_on(&self, steps: Vec<TaskId>) -> Result<Vec<Stored>> {
        let (mut open, mut seen, mut found) = (steps, BTreeSet::new(), Vec::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let step = self.store.task(id)?;
            let is_skipped = step.flag(Field::Skipped);
            if is_skipped || !self.has_succeeded(&step)? {
                open.extend(self.store.needs(id)?.iter().map(|need| need.task));
            }
            // A manual step leaves a branch without a run; a branch that is missing is skipped.
            if !is_skipped && (step.task.epoch > 0 || may_be_laid_out(&step)) {
                found.push(step);
            }
        }
        Ok(found)
    }

    fn has_succeeded(&self, step: &Stored) -> Result<bool> {
        let past = self.store.past_runs(step.task.id, 1)?;
        Ok(past.last().is_some_and(|run| run.outcome == Some(Outcome::Succeeded)))
    }

    /// The work of steps of its workflow that people go on without.
    pub(super) fn left_out(&self, stored: &Stored, agents: &Agents) -> Result<LeftOut> {
        let mut left_out = LeftOut::default();
        let is_step = StepTask::of(stored)?.is_some();
        let parent = stored.task.parent.filter(|_| is_step);
        let Some(parent) = parent.or(stored.is_workflow().then_some(stored.task.id)) else {
            return Ok(left_out);
        };
        let steps = self.store.all_children(parent)?;
        let (skipped, others): (Vec<&Stored>, Vec<&Stored>) =
            steps.iter().partition(|step| step.flag(Field::Skipped));
        for step in skipped {
            let past = self.store.past_runs(step.task.id, PAST_RUNS)?;
            left_out.commits.extend(past.into_iter().filter_map(|run| run.head));
            left_out.commits.extend(step.text(Field::PrHead).map(str::to_owned));
            left_out.shared.entry(branch_of(step, agents)?).or_default();
        }
        for step in others.iter().filter(|step| step.state().kind == StateKind::Done) {
            if left_out.shared.is_empty() {
                break;
            }
            let shared = left_out.shared.get_mut(&branch_of(step, agents)?);
            let head = step.text(Field::PrHead).map(str::to_owned);
            shared.into_iter().for_each(|commits| commits.extend(head.clone()));
        }
        left_out.commits.sort();
        left_out.commits.dedup();
        Ok(left_out)
    }
}

/// Whether another step cleans up the worktree: steps that share one end together, and the last of
/// those that have worked there does it.
pub(super) fn is_cleaned_up_by_another(store: &Store, stored: &Stored) -> Result<bool> {
    let shares = StepTask::of(stored)?.is_some_and(|step| step.spec.worktree.is_some());
    let Some(parent) = stored.task.parent.filter(|_| shares) else { return Ok(false) };
    let here = place(stored)?;
    let has_worked = |step: &Stored| step.task.epoch > 0 || may_be_laid_out(step);
    let steps = store.all_children(parent)?;
    let later = steps.iter().filter(|other| other.task.id > stored.task.id && has_worked(other));
    let places = later.map(place).collect::<Result<Vec<_>>>()?;
    Ok(places.contains(&here))
}

/// The name of a task's worktree, and the text that its branch is named after. Steps that name a
/// worktree share it.
pub(super) fn place(stored: &Stored) -> Result<(String, String)> {
    let task = &stored.task;
    let shared = StepTask::of(stored)?.and_then(|step| step.spec.worktree);
    Ok(match (shared, task.parent) {
        (Some(name), Some(parent)) => {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let word: String = name.chars().map(plain).collect();
            (format!("{parent}-{}", word.trim_matches('-')), name)
        }
        (Some(_) | None, _) => (task.id.to_string(), task.title.clone()),
    })
}

/// Since when the task exists that a worktree and its branch are made for.
pub(super) fn since(store: &Store, stored: &Stored) -> Result<Instant> {
    let Task { id, parent, created_at, .. } = &stored.task;
    match parent.filter(|_| place(stored).is_ok_and(|(name, _)| name != id.to_string())) {
        Some(parent) => Ok(store.task(parent)?.task.created_at),
        None => Ok(*created_at),
    }
}

/// Whether an earlier run has worked in a task's worktree, so that its branch was made for it. A
/// run that ended before that is none. Work without runs leaves nothing in the store to tell by.
pub(super) fn has_begun(store: &Store, stored: &Stored) -> Result<bool> {
    if stored.is_workflow() || may_be_laid_out(stored) {
        return Ok(true);
    }
    let here = place(stored)?;
    let parent = stored.task.parent.filter(|_| here.0 != stored.task.id.to_string());
    let sharing = match parent {
        Some(parent) => store.all_children(parent)?,
        None => vec![stored.clone()],
    };
    for task in sharing {
        if place(&task)? != here {
            continue;
        }
        let runs = store.past_runs(task.task.id, PAST_RUNS)?;
        let is_before = |run: &PastRun| {
            matches!(run.class, None | Some(FailureClass::Unusable | FailureClass::Env))
        };
        let worked =
            |run: &PastRun| run.head.is_some() || (run.outcome.is_some() && !is_before(run));
        if may_be_laid_out(&task) || runs.iter().any(worked) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn branch_of(stored: &Stored, agents: &Agents) -> Result<String> {
    let (id, title) = place(stored)?;
    Ok(names::branch_name(&agents.worktrees.branch, &id, &title))
}

/// The prompt of a run.
pub(super) fn prompt(
    assignment: &Assignment,
    prompts: &Prompts,
    brief: &prompt::Brief<'_>,
    checks: &Verification,
    base: &str,
) -> Result<prompt::RenderedPrompt, PromptError> {
    match assignment {
        Assignment::Plain => prompt::for_run(prompts, brief, checks),
        Assignment::Step(step) => prompt::for_step(prompts, step, brief, checks),
        Assignment::Review(review) => prompts::for_review(prompts, review, base),
        Assignment::Plan(planning) => prompt::for_planner(prompts, planning, brief),
    }
}

/// The command that does a step instead of an agent.
pub(super) fn command<'a>(stored: &Stored, assignment: &'a Assignment) -> Option<&'a str> {
    let Assignment::Step(step) = assignment else { return None };
    step.step.spec.run.as_deref().filter(|_| stored.flag(Field::RunsCommand))
}

/// Whether the run may resolve conflicts between the branches that it starts from: the run of a
/// step, or of a workflow whose branches conflict at its end.
pub(super) fn joins(assignment: &Assignment, stored: &Stored) -> bool {
    match assignment {
        Assignment::Step(_) => true,
        Assignment::Plain => stored.is_workflow(),
        Assignment::Review(_) | Assignment::Plan(_) => false,
    }
}

/// The schema of the answer that a run must give, if it must give one.
pub(super) fn schema(assignment: &Assignment) -> Option<Value> {
    match assignment {
        Assignment::Plain | Assignment::Step(_) => None,
        Assignment::Review(review) => Some(prompts::schema(review)),
        Assignment::Plan(_) => planning::schema(),
    }
}

/// The checks of the work. The project's checks are for finished work, which a step that only
/// writes failing tests is not, so a step has its own.
pub(super) fn checks(
    stored: &Stored,
    assignment: &Assignment,
    agents: &Agents,
    project: Option<&Project>,
) -> Verification {
    let own = own_checks(&stored.task, agents);
    let step = match assignment {
        Assignment::Plain => return own,
        Assignment::Review(_) | Assignment::Plan(_) => {
            return Verification { timeout_ms: own.timeout_ms, ..Verification::default() };
        }
        Assignment::Step(step) => step,
    };
    let spec = &step.step.spec;
    let (mut commands, mut files, mut criterion) = (Vec::new(), Vec::new(), None);
    match &spec.criterion {
        Some(Criterion::Command(command)) => commands.push(command.clone()),
        Some(Criterion::File(path)) => files.push(in_worktree(spec.worktree.as_deref(), path)),
        Some(Criterion::Judged(words)) => criterion = Some(words.clone()),
        None => {}
    }
    // A person who drives the workflow has run it in their checkout.
    commands.extend(spec.run.clone().filter(|_| !stored.flag(Field::RunsCommand)));
    let outputs = spec.outputs.iter().map(|path| in_worktree(spec.worktree.as_deref(), path));
    Verification {
        commands,
        files,
        criterion,
        even_unchanged: true,
        outputs: outputs.collect(),
        signal: Some(spec.signal.clone()).filter(|signal| *signal != Signal::StdoutExit),
        mailbox: project.map(|project| project.path.clone()),
        ..own
    }
}

/// The checks in the task's fields and in the settings.
fn own_checks(task: &Task, agents: &Agents) -> Verification {
    let verify = &agents.verify;
    let own = |field: Field| texts(task.fields.get(field.name()));
    let or = |own: Vec<String>, other: &[String]| if own.is_empty() { other.to_vec() } else { own };
    let mut denied_paths = verify.denied_paths.clone();
    denied_paths.extend(own(Field::DeniedPaths));
    Verification {
        commands: or(own(Field::Verify), &verify.commands),
        timeout_ms: verify.timeout.0,
        allowed_paths: or(own(Field::AllowedPaths), &verify.allowed_paths),
        denied_paths,
        ..Verification::default()
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The inputs of a step that are feedback of gates: they are not in the repository's history, so
/// they are copied.
pub(super) fn feedback_globs(assignment: &Assignment) -> Vec<String> {
    let step = match assignment {
        Assignment::Plain | Assignment::Plan(_) => None,
        Assignment::Step(step) => Some(step),
        Assignment::Review(review) => review.gate.as_ref(),
    };
    let inputs = step.into_iter().flat_map(|step| &step.step.spec.inputs);
    inputs.filter(|input| input.starts_with(FEEDBACK)).cloned().collect()
}

/// The feedback of all gates to a step so far.
pub(super) fn retry_context(step: &StepContext) -> &str {
    step.stored.text(Field::RetryContext).unwrap_or_default()
}
