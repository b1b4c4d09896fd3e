//! Who judges what the facts leave open: the end of a run, or a criterion in prose.

use super::plan::{agent_setup, prompts_of};
use super::{Engine, Project, prompt};
use crate::config::{Agents, WorkerSetup};
use crate::exec::job::{Evaluator, StepJudge, Verification};
use crate::prompts::{PromptError, Prompts};
use crate::store::Stored;

/// Roles of those who may say whether a criterion is met.
const JUDGES: [&str; 2] = ["evaluator", "reviewer"];

impl Engine<'_> {
    /// Who is asked about the end of a run. Without a worker that is named for it that is done for
    /// a criterion in prose only, because nothing else could tell whether that is met.
    pub(super) fn evaluator(
        &self,
        agents: &Agents,
        doer: &WorkerSetup,
        checks: &Verification,
        prompts: &Prompts,
    ) -> Result<Option<Evaluator>, PromptError> {
        let judge = || checks.criterion.as_ref().and_then(|_| self.judge_beside(Some(doer)));
        let worker = self.named_evaluator(agents).or_else(judge);
        worker.map_or(Ok(None), |worker| evaluator(worker, agents, prompts))
    }

    /// Who is asked about a step that no run has done. Nobody where there is no criterion in
    /// prose: then the facts leave nothing open.
    pub(super) fn judge_of_manual_step(
        &self,
        stored: &Stored,
        project: &Project,
        checks: &Verification,
    ) -> Result<Option<Box<StepJudge>>, PromptError> {
        let agents = &project.agents;
        let judge = || self.named_evaluator(agents).or_else(|| self.judge_beside(None));
        let worker = checks.criterion.as_ref().and_then(|_| judge());
        let prompts = prompts_of(Some(project));
        let evaluator = worker.map_or(Ok(None), |worker| evaluator(worker, agents, &prompts))?;
        let said = stored.text("note").unwrap_or_default().to_owned();
        Ok(evaluator.map(|evaluator| Box::new(StepJudge { evaluator, said })))
    }

    fn named_evaluator(&self, agents: &Agents) -> Option<&WorkerSetup> {
        agents.evaluator.as_deref().and_then(|name| self.worker(name))
    }

    /// A worker of this machine that may judge: rather another one than the one whose work it is.
    fn judge_beside(&self, doer: Option<&WorkerSetup>) -> Option<&WorkerSetup> {
        let may_judge = |setup: &&WorkerSetup| JUDGES.iter().any(|role| setup.worker.plays(role));
        let is_doer =
            |setup: &&WorkerSetup| doer.is_some_and(|doer| doer.worker.name == setup.worker.name);
        self.config.workers.iter().filter(may_judge).min_by_key(is_doer)
    }
}

/// None where the worker's agent is not known.
fn evaluator(
    worker: &WorkerSetup,
    agents: &Agents,
    prompts: &Prompts,
) -> Result<Option<Evaluator>, PromptError> {
    let Some(setup) = agent_setup(worker) else { return Ok(None) };
    let prompt = prompt::evaluator(prompts)?.text;
    Ok(Some(Evaluator { setup, prompt, timeout_ms: agents.evaluator_timeout.0 }))
}
