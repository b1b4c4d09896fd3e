//! What an agent is sent to do: its words, the shape of its answer, what proves it, and whose work it starts from.

use std::collections::BTreeSet;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::Setting;
use banksman_core::machine::Task;
use banksman_core::panel::Panel;
use banksman_core::time::Span;
use banksman_core::workflow::assignment::in_worktree;
use banksman_core::workflow::{Criterion, Flow, Signal};
use serde_json::Value;

use super::panel::seats::{ANSWER_TIMEOUT, SEAT, name_of, round_of};
use super::panel::words;
use super::planning::{self, Planning, is_planning};
use super::steps::{Step, flow_of, may_be_laid_out};
use super::{Engine, EngineError, Project, prompt};
use crate::config::Agents;
use crate::exec::plan::Checks;
use crate::exec::worktree::names;
use crate::prompts::{PromptError, Prompts};
use crate::store::Stored;

/// Where gates put their feedback.
const FEEDBACK: &str = ".workflow/";

/// A task in the light of what it is part of.
pub(super) enum Errand {
    /// A task by itself.
    Plain,
    Step(Box<Piece>),
    /// Somebody sits on a panel.
    Seat(Box<Sitting>),
    /// Somebody breaks the task down.
    Plan(Box<Planning>),
}

/// A seat of a panel with what it is about.
pub(super) struct Sitting {
    pub(super) reviewer: String,
    pub(super) brief: String,
    /// Of the debate; 0 is the first pass, which nobody is told about the others in.
    pub(super) round: usize,
    pub(super) timeout: Option<Span>,
    /// The task under review, with its body.
    pub(super) whole: Stored,
    /// The same as a step of its workflow, where it is one.
    pub(super) gate: Option<Box<Piece>>,
    pub(super) panel: Panel,
}

/// A step with the workflow that it is part of.
pub(super) struct Piece {
    pub(super) step: Step,
    pub(super) flow: Flow,
    /// The step's own task.
    pub(super) stored: Stored,
}

impl Engine<'_> {
    pub(super) fn errand(&self, stored: &Stored) -> Result<Errand, EngineError> {
        if is_planning(stored) {
            return Ok(Errand::Plan(Box::new(self.planning(stored)?)));
        }
        if let Some(step) = Step::of(stored) {
            return Ok(self.piece(stored.clone(), step)?.map_or(Errand::Plain, Errand::Step));
        }
        let is_seat = stored.lifecycle.id == SEAT;
        let Some(parent) = stored.task.parent.filter(|_| is_seat) else {
            return Ok(Errand::Plain);
        };
        let whole = self.store.detail(parent)?.stored;
        Ok(Errand::Seat(Box::new(self.sitting(stored, whole)?)))
    }

    fn sitting(&self, seat: &Stored, whole: Stored) -> Result<Sitting, EngineError> {
        let timeout = match seat.lifecycle.settings.get(ANSWER_TIMEOUT) {
            Some(Setting::Time(time)) => Some(*time),
            Some(Setting::Number(_) | Setting::Flag(_) | Setting::Text(_)) | None => None,
        };
        let round = round_of(seat);
        let step = Step::of(&whole);
        let mut panel = self.panel_of(&whole, step.as_ref())?;
        // Whoever begins a round later than another one knows no more than that one.
        panel.seats.iter_mut().for_each(|seat| seat.replies.truncate(round.saturating_sub(1)));
        let gate = match step {
            Some(step) => self.piece(whole.clone(), step)?,
            None => None,
        };
        Ok(Sitting {
            reviewer: name_of(seat).to_owned(),
            brief: seat.text("brief").unwrap_or_default().to_owned(),
            round,
            timeout,
            panel,
            gate,
            whole,
        })
    }

    pub(super) fn piece(
        &self,
        stored: Stored,
        step: Step,
    ) -> Result<Option<Box<Piece>>, EngineError> {
        let Some(parent) = stored.task.parent else { return Ok(None) };
        let flow = flow_of(&self.store.task(parent)?);
        Ok(flow.map(|flow| Box::new(Piece { step, flow, stored })))
    }

    /// Branches whose work a task starts from: those of the steps that it needs, of the task that it reviews, or of all steps of
    /// the workflow that it is.
    pub(super) fn brings(
        &self,
        stored: &Stored,
        errand: &Errand,
        agents: &Agents,
    ) -> Result<Vec<String>, EngineError> {
        let own = branch_of(stored, agents);
        let from: Vec<Stored> = match errand {
            Errand::Seat(sitting) => vec![sitting.whole.clone()],
            Errand::Step(_) => {
                let needs = self.store.needs(stored.task.id)?;
                self.worked_on(needs.iter().map(|need| need.task).collect())?
            }
            Errand::Plain if flow_of(stored).is_some() => {
                self.worked_on(self.last_steps(stored)?)?
            }
            Errand::Plain | Errand::Plan(_) => Vec::new(),
        };
        let mut branches: Vec<String> = from
            .iter()
            .map(|step| branch_of(step, agents))
            .filter(|branch| *branch != own)
            .collect();
        branches.sort();
        branches.dedup();
        Ok(branches)
    }

    /// The steps that no other one needs: their branches hold what all have made.
    fn last_steps(&self, whole: &Stored) -> Result<Vec<TaskId>, EngineError> {
        let needs = self.store.needs_of_parts(whole.task.id)?;
        let needed: BTreeSet<TaskId> = needs.into_values().flatten().collect();
        let parts = self.store.parts(whole.task.id)?.into_iter().map(|part| part.task.id);
        Ok(parts.filter(|id| !needed.contains(id)).collect())
    }

    /// A step that no agent has worked on, because a person did it or left it out, has no branch. In its place stand the steps that
    /// it needs.
    fn worked_on(&self, steps: Vec<TaskId>) -> Result<Vec<Stored>, EngineError> {
        let (mut open, mut seen, mut found) = (steps, BTreeSet::new(), Vec::new());
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let step = self.store.task(id)?;
            let has_run = step.task.epoch > 0;
            if !has_run {
                open.extend(self.store.needs(id)?.iter().map(|need| need.task));
            }
            // Whoever does a step by hand leaves a branch without a run; where there is none, nothing is brought.
            if has_run || may_be_laid_out(&step) {
                found.push(step);
            }
        }
        Ok(found)
    }
}

impl Engine<'_> {
    /// Whether the clean-up of a step's worktree is another one's: steps that share one end together, and the last of those that
    /// have worked there puts it away.
    pub(super) fn is_put_away_by_another(&self, stored: &Stored) -> Result<bool, EngineError> {
        let shares = Step::of(stored).is_some_and(|step| step.spec.worktree.is_some());
        let Some(parent) = stored.task.parent.filter(|_| shares) else { return Ok(false) };
        let here = place(stored);
        let has_worked = |step: &Stored| step.task.epoch > 0 || may_be_laid_out(step);
        let parts = self.store.parts(parent)?;
        let others = parts.iter().filter(|other| other.task.id > stored.task.id);
        Ok(others.filter(|other| has_worked(other)).any(|other| place(other) == here))
    }
}

/// The name by which a task's worktree is known, and what its branch is called after. Steps that name a worktree share it.
pub(super) fn place(stored: &Stored) -> (String, String) {
    let task = &stored.task;
    let shared = Step::of(stored).and_then(|step| step.spec.worktree);
    match (shared, task.parent) {
        (Some(name), Some(parent)) => {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
            let word: String = name.chars().map(plain).collect();
            (format!("{parent}-{}", word.trim_matches('-')), name)
        }
        (Some(_) | None, _) => (task.id.to_string(), task.title.clone()),
    }
}

pub(super) fn branch_of(stored: &Stored, agents: &Agents) -> String {
    let (id, title) = place(stored);
    names::branch_name(&agents.worktrees.branch, &id, &title)
}

/// The prompt of a run.
pub(super) fn prompt(
    errand: &Errand,
    prompts: &Prompts,
    brief: &prompt::Brief<'_>,
    checks: &Checks,
    base: &str,
) -> Result<prompt::Told, PromptError> {
    match errand {
        Errand::Plain => prompt::for_run(prompts, brief, checks),
        Errand::Step(piece) => prompt::for_step(prompts, piece, brief, checks),
        Errand::Seat(sitting) => words::for_seat(prompts, sitting, base),
        Errand::Plan(planning) => prompt::for_planner(prompts, planning, brief),
    }
}

/// The shape of the answer that a run must give, if it must give one.
pub(super) fn schema(errand: &Errand) -> Option<Value> {
    match errand {
        Errand::Plain | Errand::Step(_) => None,
        Errand::Seat(sitting) => Some(words::schema(sitting)),
        Errand::Plan(_) => planning::schema(),
    }
}

/// What proves the work. The project's checks are for finished work: a step that only writes failing tests is none, so the file says
/// itself what proves it.
pub(super) fn checks(
    stored: &Stored,
    errand: &Errand,
    agents: &Agents,
    project: Option<&Project>,
) -> Checks {
    let own = own_checks(&stored.task, agents);
    let piece = match errand {
        Errand::Plain => return own,
        Errand::Seat(_) | Errand::Plan(_) => {
            return Checks { timeout_ms: own.timeout_ms, ..Checks::default() };
        }
        Errand::Step(piece) => piece,
    };
    let spec = &piece.step.spec;
    let (mut commands, mut files, mut criterion) = (Vec::new(), Vec::new(), None);
    match &spec.criterion {
        Some(Criterion::Command(command)) => commands.push(command.clone()),
        Some(Criterion::File(path)) => files.push(in_worktree(spec.worktree.as_deref(), path)),
        Some(Criterion::Judged(words)) => criterion = Some(words.clone()),
        None => {}
    }
    let outputs = spec.outputs.iter().map(|path| in_worktree(spec.worktree.as_deref(), path));
    Checks {
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

/// What the task's own fields and the settings say.
fn own_checks(task: &Task, agents: &Agents) -> Checks {
    let verify = &agents.verify;
    let own = |name: &str| texts(task.fields.get(name));
    let or = |own: Vec<String>, other: &[String]| if own.is_empty() { other.to_vec() } else { own };
    let mut denied_paths = verify.denied_paths.clone();
    denied_paths.extend(own("denied_paths"));
    Checks {
        commands: or(own("verify"), &verify.commands),
        timeout_ms: verify.timeout.0,
        allowed_paths: or(own("allowed_paths"), &verify.allowed_paths),
        denied_paths,
        ..Checks::default()
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The inputs of a step that are feedback of gates: they are not in the repository's history, so they are copied.
pub(super) fn feedback_globs(errand: &Errand) -> Vec<String> {
    let piece = match errand {
        Errand::Plain | Errand::Plan(_) => None,
        Errand::Step(piece) => Some(piece),
        Errand::Seat(sitting) => sitting.gate.as_ref(),
    };
    let inputs = piece.into_iter().flat_map(|piece| &piece.step.spec.inputs);
    inputs.filter(|input| input.starts_with(FEEDBACK)).cloned().collect()
}

/// All that gates have said to a step so far.
pub(super) fn retry_context(piece: &Piece) -> &str {
    piece.stored.text("retry_context").unwrap_or_default()
}
