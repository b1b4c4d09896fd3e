//! Workers: the agent of each, and the one that judges what the facts leave open.

use banksman_core::lifecycle::contract::{AgentRole, Field};
use banksman_core::machine::Task;
use banksman_core::schedule::COMMAND_WORKER;

use super::job::prompts_of;
use super::{Project, prompt};
use crate::config::{Agents, WorkerSetup};
use crate::exec::job::{Evaluator, StepJudge, Verification};
use crate::prompts::{PromptError, Prompts};
use crate::store::Stored;

/// Roles of workers that may say whether a criterion is met.
const JUDGES: [AgentRole; 2] = [AgentRole::Evaluator, AgentRole::Reviewer];

/// The worker that was claimed for, which may be the one that runs commands.
pub(super) fn claimed(workers: &[WorkerSetup], name: &str) -> Option<WorkerSetup> {
    let commands = || (name == COMMAND_WORKER).then(WorkerSetup::for_commands);
    find(workers, name).cloned().or_else(commands)
}

pub(super) fn find<'w>(workers: &'w [WorkerSetup], name: &str) -> Option<&'w WorkerSetup> {
    workers.iter().find(|setup| setup.worker.name == name)
}

/// The evaluator of a run. Without a worker that the settings name, only a criterion in prose has
/// one, because nothing else could tell whether it is met.
pub(super) fn evaluator_of_run(
    workers: &[WorkerSetup],
    agents: &Agents,
    doer: &WorkerSetup,
    (task, checks): (&Task, &Verification),
    prompts: &Prompts,
) -> Result<Option<Evaluator>, PromptError> {
    let judge = || checks.criterion.as_ref().and_then(|_| judge_beside(workers, Some(doer)));
    let worker = named_evaluator(workers, agents).or_else(judge);
    worker.map(|worker| evaluator(worker, agents, task, prompts)).transpose()
}

/// The judge of a step that no run has done. None without a criterion in prose: then the facts
/// leave nothing open.
pub(super) fn judge_of_manual_step(
    workers: &[WorkerSetup],
    stored: &Stored,
    project: &Project,
    checks: &Verification,
) -> Result<Option<Box<StepJudge>>, PromptError> {
    let agents = &project.agents;
    let judge = || named_evaluator(workers, agents).or_else(|| judge_beside(workers, None));
    let worker = checks.criterion.as_ref().and_then(|_| judge());
    let prompts = prompts_of(Some(project));
    let task = &stored.task;
    let evaluator = worker.map(|worker| evaluator(worker, agents, task, &prompts)).transpose()?;
    let said = stored.text(Field::Note).unwrap_or_default().to_owned();
    Ok(evaluator.map(|evaluator| Box::new(StepJudge { evaluator, said })))
}

fn named_evaluator<'w>(workers: &'w [WorkerSetup], agents: &Agents) -> Option<&'w WorkerSetup> {
    agents.evaluator.as_deref().and_then(|name| find(workers, name))
}

/// A worker of this node that may judge, if possible another one than did the work.
fn judge_beside<'w>(
    workers: &'w [WorkerSetup],
    doer: Option<&WorkerSetup>,
) -> Option<&'w WorkerSetup> {
    let may_judge =
        |setup: &&WorkerSetup| JUDGES.iter().any(|role| setup.worker.plays(role.as_str()));
    let is_doer =
        |setup: &&WorkerSetup| doer.is_some_and(|doer| doer.worker.name == setup.worker.name);
    workers.iter().filter(may_judge).min_by_key(is_doer)
}

fn evaluator(
    worker: &WorkerSetup,
    agents: &Agents,
    task: &Task,
    prompts: &Prompts,
) -> Result<Evaluator, PromptError> {
    let prompt = prompt::evaluator(prompts, task)?.text;
    let timeout_ms = agents.evaluator_timeout.0;
    Ok(Evaluator { setup: worker.agent.clone(), prompt, timeout_ms })
}
