//! Everything that a job needs to know, put together once before it begins.

use std::collections::BTreeMap;
use std::path::PathBuf;

use banksman_core::failure::{Deliverable, FailureClass};
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::machine::Task;
use banksman_core::policy::Action;
use banksman_core::time::Instant;
use serde_json::{Value, json};

use super::assignment::{self, Assignment, branch_of, place};
use super::collect::PR_HEAD;
use super::dispatch::ClaimedRun;
use super::planning::is_spike;
use super::policy::{allowed_in_words, guard, waited_for_permission};
use super::prompt::RenderedPrompt;
use super::steps::{is_driven_manually, may_be_laid_out, workflow_of};
use super::{Engine, EngineError, Project, prompt};
use crate::config::{Agents, WorkerSetup};
use crate::exec::agent::{AgentKind, AgentRequest, AgentSetup, McpServer, PriorUsage};
use crate::exec::job::{
    AgentWork, JobId, JobSpec, JobWork, LeaseConfig, RunLimits, Verification, Workspace,
};
use crate::exec::worktree::names;
use crate::prompts::{PromptError, Prompts, for_role};
use crate::store::{PastRun, Stored};

pub(super) type Known = BTreeMap<String, Option<Project>>;

/// What an agent is told, and what its run takes over from the ones before it.
pub(super) struct Briefing {
    pub(super) told: RenderedPrompt,
    pub(super) schema: Option<Value>,
    /// The session in which it goes on.
    pub(super) session: Option<String>,
    before: PriorUsage,
    /// All of the task's text.
    body: String,
    checks: Verification,
    /// What people have allowed on this task.
    allowed: Vec<Action>,
    /// Whether only that was missing.
    waited_for_permission: bool,
}

/// Runs whose failures the next one is told of.
pub(super) const TOLD: i64 = 8;

impl Engine<'_> {
    /// The plan of a run, or why there can be none.
    pub(super) fn run_plan(
        &self,
        ClaimedRun { stored, run, worker, token }: &ClaimedRun,
        projects: &mut Known,
        now: Instant,
    ) -> Result<Result<JobSpec, String>, EngineError> {
        let Some(setup) = self.worker(worker) else {
            return Ok(Err(format!("there is no worker `{worker}` on this machine any more")));
        };
        let project = self.project(&stored.task.project, projects)?.cloned();
        let agents = project.as_ref().map_or(&self.config.agents, |project| &project.agents);
        let past = self.store.past_runs(stored.task.id, TOLD)?;
        let lease = stored.task.lease.as_ref();
        let Some(lease) = lease.filter(|lease| lease.epoch == run.epoch) else {
            return Ok(Err("its lease is gone".to_owned()));
        };
        let assignment = self.assignment(stored)?;
        let work =
            self.agent_work(stored, setup, (project.as_ref(), agents), &assignment, &past)?;
        let work = match work {
            Ok(work) => work,
            Err(reason) => return Ok(Err(reason)),
        };
        let workspace =
            project.as_ref().map(|project| self.workspace(stored, project, &assignment));
        let workspace = workspace.transpose()?;
        let plan = JobSpec {
            job: run.to_string(),
            task: run.task.to_string(),
            workspace,
            work: JobWork::Agent(Box::new(work)),
            lease: Some(LeaseConfig {
                expires_at: lease.expires_at,
                ttl_ms: agents.limits.lease.0,
                left_ms: lease.expires_at.since(now).0,
                renew: self.renew(*run, agents),
            }),
            limits: RunLimits { wall_ms: wall(&assignment, agents), ..limits(agents) },
            env: environment(&stored.task, Some(token)),
            pass: agents.pass.clone(),
        };
        Ok(Ok(plan))
    }

    fn agent_work(
        &self,
        stored: &Stored,
        worker: &WorkerSetup,
        (project, agents): (Option<&Project>, &Agents),
        assignment: &Assignment,
        past: &[PastRun],
    ) -> Result<Result<AgentWork, String>, EngineError> {
        let Some(setup) = agent_setup(worker) else {
            return Ok(Err(format!("the agent `{}` is not known", worker.agent)));
        };
        let briefing = self.briefing(
            stored,
            Some(worker),
            (project, agents),
            assignment,
            past,
            role_of(stored),
        )?;
        let prompts = prompts_of(project);
        let told = |error: PromptError| error.to_string();
        let texts = briefing.and_then(|briefing| {
            let nudge = prompt::nudge(&prompts).map_err(told)?.text;
            let evaluator = self.evaluator(agents, worker, &briefing.checks, &prompts);
            Ok((briefing, nudge, evaluator.map_err(told)?))
        });
        let (briefing, nudge, evaluator) = match texts {
            Ok(texts) => texts,
            Err(reason) => return Ok(Err(reason)),
        };
        let root = project.map(|project| self.worktree_of(stored, project)).transpose()?;
        let root = root.map(|path| path.display().to_string()).unwrap_or_default();
        let guard = match guard(worker, agents, root, briefing.allowed) {
            Ok(guard) => guard,
            Err(reason) => return Ok(Err(reason)),
        };
        let mcp = McpServer {
            name: "banksman".to_owned(),
            command: self.config.program.display().to_string(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([("BANKSMAN_RUN_FOLDER".to_owned(), "{folder}".to_owned())]),
        };
        Ok(Ok(AgentWork {
            ask: AgentRequest {
                prompt: briefing.told.text,
                session: briefing.session,
                schema: briefing.schema,
                mcp: Some(mcp),
                cost_micros: agents.budgets.run.cost_micros,
                guard: Some(Box::new(guard)),
            },
            counts_earlier: briefing.waited_for_permission,
            before: briefing.before,
            nudge,
            about: json!({ "title": stored.task.title, "body": briefing.body }),
            expects: expects(stored),
            commit_message: commit_message(&stored.task),
            evaluator,
            setup,
            checks: briefing.checks,
        }))
    }

    /// What an agent is told, and all that depends on the same facts. `prompts render` asks here,
    /// too.
    pub(super) fn briefing(
        &self,
        stored: &Stored,
        worker: Option<&WorkerSetup>,
        (project, agents): (Option<&Project>, &Agents),
        assignment: &Assignment,
        past: &[PastRun],
        role: &str,
    ) -> Result<Result<Briefing, String>, EngineError> {
        let detail = self.store.detail(stored.task.id)?;
        let earlier: Vec<&PastRun> =
            past.iter().filter(|past| past.epoch < stored.task.epoch).collect();
        let resumed =
            worker.and_then(|worker| resumable(&earlier, worker, &self.config.agents.node));
        let brief = prompt::Brief {
            task: &detail.stored.task,
            role,
            fields: &stored.task.fields,
            past: &earlier,
            resumes: resumed.is_some(),
            context: self.context_of(stored)?,
        };
        let checks = assignment::checks(stored, assignment, agents, project);
        let base = project.map_or("HEAD", |project| project.base.as_str());
        let mut told =
            match assignment::prompt(assignment, &prompts_of(project), &brief, &checks, base) {
                Ok(told) => told,
                Err(error) => return Ok(Err(error.to_string())),
            };
        let allowed = self.allowed(stored)?;
        told.text += &allowed_in_words(&allowed);
        Ok(Ok(Briefing {
            told,
            allowed,
            waited_for_permission: waited_for_permission(&earlier),
            schema: assignment::schema(assignment).or_else(|| of_role(assignment, role)),
            session: resumed.and_then(|past| past.session.clone()),
            before: before(&earlier, resumed),
            body: detail.stored.task.body,
            checks,
        }))
    }

    /// Our own program, told to renew the lease of a run. The store's address is in the keeper's
    /// environment.
    fn renew(&self, run: RunId, agents: &Agents) -> Vec<String> {
        let program = self.config.program.display().to_string();
        let ttl = agents.limits.lease.to_string();
        vec![program, "renew".to_owned(), run.to_string(), "--ttl".to_owned(), ttl]
    }

    /// A check or a merge, or why it cannot be.
    pub(super) fn activity_plan(
        &self,
        stored: &Stored,
        job: JobId,
        projects: &mut Known,
    ) -> Result<Result<JobSpec, String>, EngineError> {
        if is_driven_manually(stored) {
            return self.inspect_plan(stored, job);
        }
        let Some(project) = self.project(&stored.task.project, projects)?.cloned() else {
            let name = &stored.task.project;
            return Ok(Err(format!("no repository is known for the project `{name}`")));
        };
        let assignment = self.assignment(stored)?;
        let checks = assignment::checks(stored, &assignment, &project.agents, Some(&project));
        let does = stored.state().does.as_ref();
        if let Some(does) = does.filter(|does| does.activity == Activity::Merge) {
            let commit = stored.text(PR_HEAD).map(str::to_owned);
            let work = if does.only_looks() {
                JobWork::FindMerge { commit }
            } else {
                JobWork::Merge { checks, message: commit_message(&stored.task), commit }
            };
            return self.job_plan(stored, job, &project, &assignment, work).map(Ok);
        }
        // A step that was done by hand is looked at after its word; what it left uncommitted is its
        // work, too.
        let by_hand = matches!(assignment, Assignment::Step(_));
        let message = by_hand.then(|| commit_message(&stored.task));
        let checks = Verification { signal: None, even_unchanged: true, ..checks };
        let judge = match self.judge_of_manual_step(stored, &project, &checks) {
            Ok(judge) => judge,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let work = JobWork::Check { checks, message, judge };
        self.job_plan(stored, job, &project, &assignment, work).map(Ok)
    }

    /// Only the worktree of a task, for somebody who works there by hand.
    pub(super) fn lay_out_plan(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
    ) -> Result<JobSpec, EngineError> {
        let checks =
            Verification { mailbox: Some(project.path.clone()), ..Verification::default() };
        let work = JobWork::Check { checks, message: None, judge: None };
        self.plan_of_work(stored, job, project, work)
    }

    /// A look at what the remote shows of a task's branch.
    pub(super) fn look_plan(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
    ) -> Result<JobSpec, EngineError> {
        self.plan_of_work(stored, job, project, JobWork::Look)
    }

    /// None for a task that never had a worktree.
    pub(super) fn clean_up_plan(
        &self,
        stored: &Stored,
        job: JobId,
        projects: &mut Known,
    ) -> Result<Option<JobSpec>, EngineError> {
        // A workflow merges in one, and a step may have been done by hand, both without a run.
        let without_run = workflow_of(stored).is_some() || may_be_laid_out(stored);
        if stored.task.epoch == 0 && !without_run {
            return Ok(None);
        }
        let project = self.project(&stored.task.project, projects)?.cloned();
        let plan = |project| self.plan_of_work(stored, job, &project, JobWork::CleanUp);
        project.map(plan).transpose()
    }

    /// For work that does not depend on what the task is part of; only its worktree does.
    fn plan_of_work(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
        work: JobWork,
    ) -> Result<JobSpec, EngineError> {
        self.job_plan(stored, job, project, &self.assignment(stored)?, work)
    }

    fn job_plan(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
        assignment: &Assignment,
        work: JobWork,
    ) -> Result<JobSpec, EngineError> {
        let task = &stored.task;
        Ok(JobSpec {
            job: job.to_string(),
            task: task.id.to_string(),
            workspace: Some(self.workspace(stored, project, assignment)?),
            work,
            lease: None,
            limits: limits(&project.agents),
            env: environment(task, None),
            pass: project.agents.pass.clone(),
        })
    }

    pub(super) fn branch_of(&self, stored: &Stored) -> Result<String, EngineError> {
        let mut known = Known::new();
        let project = self.project(&stored.task.project, &mut known)?;
        let agents = project.map_or(&self.config.agents, |project| &project.agents);
        Ok(branch_of(stored, agents))
    }

    pub(super) fn worktree_of(
        &self,
        stored: &Stored,
        project: &Project,
    ) -> Result<PathBuf, EngineError> {
        let (home, path) = (&self.config.agents.home, &project.agents.worktrees.path);
        let (id, _) = place(stored);
        names::worktree_path(path, &project.path, home, &id).map_err(|error| EngineError::Project {
            project: stored.task.project.clone(),
            message: error.to_string(),
        })
    }

    fn workspace(
        &self,
        stored: &Stored,
        project: &Project,
        assignment: &Assignment,
    ) -> Result<Workspace, EngineError> {
        let home = &self.config.agents.home;
        let worktrees = &project.agents.worktrees;
        let worktree = self.worktree_of(stored, project)?;
        Ok(Workspace {
            task: stored.task.id.to_string(),
            repo: project.path.clone(),
            worktree,
            branch: branch_of(stored, &project.agents),
            produces: self.produces(stored, assignment, &project.agents)?,
            retry: assignment::feedback_globs(assignment),
            base: project.base.clone(),
            remote: project.remote.clone(),
            setup: worktrees.setup.clone(),
            spare: names::spare_folder(home),
        })
    }
}

/// How long one attempt may take.
fn wall(assignment: &Assignment, agents: &Agents) -> i64 {
    let own = match assignment {
        Assignment::Step(step) => step.step.spec.timeout,
        Assignment::Review(review) => review.timeout,
        Assignment::Plan(planning) => planning.timeout,
        Assignment::Plain => None,
    };
    own.unwrap_or(agents.limits.run).0
}

/// The shape of the answer that the template of a role asks for.
fn of_role(assignment: &Assignment, role: &str) -> Option<Value> {
    match assignment {
        Assignment::Plain => for_role(role).schema.map(|schema| schema.value()),
        Assignment::Step(_) | Assignment::Review(_) | Assignment::Plan(_) => None,
    }
}

pub(super) fn prompts_of(project: Option<&Project>) -> Prompts {
    project.map_or_else(Prompts::default, |project| Prompts::of_project(&project.path))
}

/// Whose part an agent plays in the task's state.
pub(super) fn role_of(stored: &Stored) -> &str {
    let does = stored.state().does.as_ref();
    does.and_then(|does| does.role.as_deref()).unwrap_or("worker")
}

/// What a run in the task's state has to bring.
pub(super) fn expects(stored: &Stored) -> Deliverable {
    if is_spike(stored) {
        return Deliverable::Answer;
    }
    let does = stored.state().does.as_ref();
    does.map_or(Deliverable::Anything, |does| does.produces)
}

pub(super) fn agent_setup(worker: &WorkerSetup) -> Option<AgentSetup> {
    Some(AgentSetup {
        kind: agent_kind(&worker.agent)?,
        command: worker.command.clone(),
        model: worker.model.clone(),
        env: worker.env.clone(),
        pass: own_variables(worker),
    })
}

fn agent_kind(name: &str) -> Option<AgentKind> {
    AgentKind::ALL.into_iter().find(|kind| kind.as_str() == name)
}

/// The latest run whose session this worker can go on with: the same agent, on this machine, where
/// the work is.
fn resumable<'p>(earlier: &[&'p PastRun], worker: &WorkerSetup, node: &str) -> Option<&'p PastRun> {
    let last = earlier.last()?;
    let same = last.agent.as_deref() == Some(worker.agent.as_str())
        && last.node.as_deref() == Some(node)
        && !matches!(last.class, Some(FailureClass::Session | FailureClass::ModelLoop));
    (same && last.session.is_some()).then_some(*last)
}

/// What the session had used up: all runs that shared it.
fn before(earlier: &[&PastRun], resumed: Option<&PastRun>) -> PriorUsage {
    let Some(resumed) = resumed else { return PriorUsage::default() };
    let shared = earlier.iter().filter(|past| past.session == resumed.session);
    shared.fold(PriorUsage::default(), |sum, past| PriorUsage {
        input_tokens: sum.input_tokens + past.input_tokens,
        output_tokens: sum.output_tokens + past.output_tokens,
        cost_micros: sum.cost_micros + past.cost_micros,
    })
}

pub(super) fn limits(agents: &Agents) -> RunLimits {
    RunLimits {
        wall_ms: agents.limits.run.0,
        idle_ms: agents.limits.idle.0,
        grace_ms: agents.limits.grace.0,
        output_bytes: agents.limits.output_bytes,
        tokens: agents.budgets.run.tokens,
        cost_micros: agents.budgets.run.cost_micros,
    }
}

pub(super) fn environment(task: &Task, token: Option<&str>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("BANKSMAN_TASK".to_owned(), task.id.to_string())]);
    if let Some(token) = token {
        env.insert("BANKSMAN_TOKEN".to_owned(), token.to_owned());
    }
    env
}

/// Names of variables that only this worker's agent gets: those of its provider, and its own.
fn own_variables(worker: &WorkerSetup) -> Vec<String> {
    let provider =
        agent_kind(&worker.agent).map_or(&[][..], |kind| kind.adapter().provider_variables);
    let provider = provider.iter().map(|name| (*name).to_owned());
    provider.chain(worker.pass.iter().cloned()).collect()
}

fn commit_message(task: &Task) -> String {
    let title: String = task.title.chars().take(200).collect();
    format!("{title}\n\nTask: {}\n", task.id)
}
