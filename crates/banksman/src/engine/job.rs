//! Job specs: everything that a keeper needs to know, built once before its job starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use banksman_core::failure::{Deliverable, FailureClass};
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::{AgentRole, Field};
use banksman_core::lifecycle::expr::Value;
use banksman_core::machine::Task;
use banksman_core::policy::Action;
use banksman_core::receipt::TaskText;
use banksman_core::time::Instant;

use super::answers::answered;
use super::assignment::{self, Assignment, Assignments, branch_of};
use super::planning::{context_of, is_spike};
use super::policy::{allowed, allowed_in_words, guard, waited_for_permission};
use super::project::Settings;
use super::prompt::RenderedPrompt;
use super::run_start::ClaimedRun;
use super::steps::may_be_laid_out;
use super::submission::Submission;
use super::turn::with_causes;
use super::workers::{evaluator_of_run, judge_of_manual_step};
use super::{Engine, EngineConfig, EngineError, Project, Result, prompt, workers};
use crate::config::{Agents, EnvVars, WorkerSetup, token_of};
use crate::exec::agent::{AgentRequest, AgentSetup, AgentUsage, McpServer};
use crate::exec::job::{
    AgentWork, JobId, JobSpec, JobWork, LeaseConfig, RunLimits, Verification, Workspace,
};
use crate::exec::site::{JobStatus, Site, SiteError};
use crate::exec::worktree::names;
use crate::prompts::{BuiltInTemplate, PromptError, Prompts, built_in, for_role};
use crate::store::{PastRun, Store, StoreError, Stored};

/// Earlier runs whose failures the prompt of the next one lists.
pub(super) const RUNS_TOLD: i64 = 8;

/// The template for the run that joins the branches of a workflow.
const MERGER: &str = "merger";

/// Why there is no spec.
pub(super) enum SpecError {
    /// The task cannot have such a job at present, which is reported to the task.
    Impossible(String),
    /// The engine failed to make it.
    Engine(EngineError),
}

impl From<EngineError> for SpecError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for SpecError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<PromptError> for SpecError {
    fn from(error: PromptError) -> Self {
        Self::Impossible(with_causes(&error))
    }
}

/// The prompt of a run, and what the run takes over from earlier ones.
pub(super) struct Briefing {
    pub(super) prompt: RenderedPrompt,
    pub(super) schema: Option<Value>,
    /// The session that it resumes.
    pub(super) session: Option<String>,
    before: AgentUsage,
    /// The task's whole body.
    body: String,
    checks: Verification,
    /// The permissions of this task.
    allowed: Vec<Action>,
    /// Whether the last run only waited for one of them.
    waited_for_permission: bool,
}

#[derive(Clone, Copy)]
pub(super) struct JobSpecs<'a> {
    store: &'a Store,
    settings: Settings<'a>,
    config: &'a EngineConfig,
    assignments: Assignments<'a>,
}

impl<'a> JobSpecs<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        let (settings, assignments) = (engine.settings(), Assignments::new(engine));
        Self { store: engine.store, settings, config: engine.config, assignments }
    }

    /// The job of a claimed run.
    pub(super) fn run(
        &self,
        ClaimedRun { stored, run, worker, key }: &ClaimedRun,
        now: Instant,
    ) -> Result<JobSpec, SpecError> {
        let Some(setup) = workers::claimed(&self.config.workers, worker) else {
            let reason = format!("there is no worker `{worker}` on this machine any more");
            return Err(SpecError::Impossible(reason));
        };
        let project = self.settings.project_of(self.store, stored)?;
        if project.is_none() && !stored.task.project.is_empty() {
            return Err(SpecError::Impossible(self.without_repository(&stored.task)?));
        }
        let agents = self.settings.of(project.as_ref());
        let lease = stored.task.lease.as_ref();
        let Some(lease) = lease.filter(|lease| lease.epoch == run.epoch) else {
            return Err(SpecError::Impossible("its lease is gone".to_owned()));
        };
        let assignment = self.assignments.of(stored)?;
        let (place, token) = ((project.as_ref(), agents), token_of(key));
        let mut work = self.agent_work(stored, &setup, place, &assignment)?;
        if let Some(command) = assignment::command(stored, &assignment) {
            work = running(command, work);
        } else {
            work.ask.mcp = Some(self.tools(&token));
        }
        let workspace =
            project.as_ref().map(|project| self.workspace(stored, project, &assignment));
        Ok(JobSpec {
            job: run.to_string(),
            task: run.task.to_string(),
            workspace: workspace.transpose()?,
            work: JobWork::Agent(Box::new(work)),
            lease: Some(LeaseConfig {
                expires_at: lease.expires_at,
                ttl_ms: agents.limits.lease.0,
                left_ms: lease.expires_at.since(now).0,
                renew: self.renew(*run, agents),
                key: key.clone(),
            }),
            limits: RunLimits { wall_ms: wall(&assignment, agents), ..limits(agents) },
            env: environment(&stored.task, Some(&token)),
            pass: agents.pass.clone(),
        })
    }

    /// Why nothing can be done for a task whose project has no repository.
    fn without_repository(&self, task: &Task) -> Result<String, StoreError> {
        let name = &task.project;
        Ok(match self.store.project(name)? {
            None => format!("no folder is set up as the project `{name}`; set it up there first"),
            Some(folder) => format!(
                "`{folder}`, the folder of the project `{name}`, is no git repository with a \
                 branch; `git init` and a first commit make it one"
            ),
        })
    }

    fn agent_work(
        &self,
        stored: &Stored,
        worker: &WorkerSetup,
        (project, agents): (Option<&Project>, &Agents),
        assignment: &Assignment,
    ) -> Result<AgentWork, SpecError> {
        // A workflow has work of its own only where its branches conflict.
        let role = if stored.is_workflow() { MERGER } else { role_of(stored) };
        let briefing = self.briefing(stored, Some(worker), (project, agents), assignment, role)?;
        let prompts = prompts_of(project);
        let workers = &self.config.workers;
        let evaluator =
            evaluator_of_run(workers, agents, worker, (&stored.task, &briefing.checks), &prompts)?;
        let root = project.map(|project| self.settings.worktree_of(stored, project)).transpose()?;
        let root = root.map(|path| path.display().to_string()).unwrap_or_default();
        let guard = guard(worker, agents, root, briefing.allowed).map_err(SpecError::Impossible)?;
        Ok(AgentWork {
            command: None,
            ask: AgentRequest {
                prompt: briefing.prompt.text,
                session: briefing.session,
                schema: briefing.schema,
                lenient: stored.is_review(),
                mcp: None,
                cost_micros: agents.budgets.run.cost_micros,
                guard: Some(Box::new(guard)),
            },
            counts_earlier: briefing.waited_for_permission,
            shows_changes: matches!(assignment, Assignment::Review(review) if review.round == 0),
            before: briefing.before,
            nudge: prompt::nudge(&prompts)?.text,
            join: assignment::joins(assignment, stored)
                .then(|| prompt::join(&prompts))
                .transpose()?
                .map(|prompt| prompt.text),
            about: TaskText { title: stored.task.title.clone(), body: briefing.body.clone() },
            expects: expects(stored),
            commit_message: commit_message(&stored.task),
            evaluator,
            setup: worker.agent.clone(),
            checks: briefing.checks,
        })
    }

    /// The tools of a run. An agent need not pass its own environment on to them.
    fn tools(&self, token: &str) -> McpServer {
        let folder = (EnvVars::RUN_FOLDER.to_owned(), "{folder}".to_owned());
        McpServer {
            name: "banksman".to_owned(),
            command: self.config.program.display().to_string(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([folder, (EnvVars::TOKEN.to_owned(), token.to_owned())]),
        }
    }

    /// The prompt of a run, and everything that depends on the same facts. `prompts render` shows
    /// it too.
    pub(super) fn briefing(
        &self,
        stored: &Stored,
        worker: Option<&WorkerSetup>,
        (project, agents): (Option<&Project>, &Agents),
        assignment: &Assignment,
        role: &str,
    ) -> Result<Briefing, SpecError> {
        let past = self.store.past_runs(stored.task.id, RUNS_TOLD)?;
        let with_body = self.store.task(stored.task.id)?;
        let earlier: Vec<&PastRun> =
            past.iter().filter(|past| past.epoch < stored.task.epoch).collect();
        let resumed =
            worker.and_then(|worker| resumable(&earlier, worker, &self.config.agents.node));
        let template = template_of(stored, role);
        let brief = prompt::Brief {
            task: &with_body.task,
            role,
            template,
            fields: &stored.task.fields,
            past: &earlier,
            resumes: resumed.is_some(),
            answered: answered(self.store, stored.task.id, &earlier)?,
            context: context_of(self.store, stored)?,
        };
        let checks = assignment::checks(stored, assignment, agents, project);
        let base = project.map_or("HEAD", |project| project.base.as_str());
        let mut prompt =
            assignment::prompt(assignment, &prompts_of(project), &brief, &checks, base)?;
        let allowed = allowed(self.store, stored)?;
        prompt.text += &allowed_in_words(&allowed);
        Ok(Briefing {
            prompt,
            allowed,
            waited_for_permission: waited_for_permission(&earlier),
            schema: assignment::schema(assignment).or_else(|| of_template(assignment, template)),
            session: resumed.and_then(|past| past.session.clone()),
            before: before(&earlier, resumed),
            body: with_body.task.body,
            checks,
        })
    }

    /// Our own program, told to renew the lease of a run. The store's address is in the keeper's
    /// environment.
    fn renew(&self, run: RunId, agents: &Agents) -> Vec<String> {
        let program = self.config.program.display().to_string();
        let ttl = agents.limits.lease.to_string();
        vec![program, "renew".to_owned(), run.to_string(), "--ttl".to_owned(), ttl]
    }

    /// A check or a merge.
    pub(super) fn activity(&self, stored: &Stored, job: JobId) -> Result<JobSpec, SpecError> {
        if stored.is_driven_by_person() {
            return self.inspection(stored, job);
        }
        let Some(project) = self.settings.project_of(self.store, stored)? else {
            return Err(SpecError::Impossible(self.without_repository(&stored.task)?));
        };
        let assignment = self.assignments.of(stored)?;
        let checks = assignment::checks(stored, &assignment, &project.agents, Some(&project));
        let does = stored.state().does.as_ref();
        let work = if let Some(does) = does.filter(|does| does.activity == Activity::Merge) {
            let commit = stored.text(Field::PrHead).map(str::to_owned);
            if does.only_checks() {
                JobWork::FindMerge { commit }
            } else {
                JobWork::Merge { checks, message: commit_message(&stored.task), commit }
            }
        } else {
            // A manual step is checked after its signal; what it left uncommitted is part of its
            // work.
            let is_step = matches!(assignment, Assignment::Step(_));
            let message = is_step.then(|| commit_message(&stored.task));
            let checks = Verification { signal: None, even_unchanged: true, ..checks };
            let judge = judge_of_manual_step(&self.config.workers, stored, &project, &checks)?;
            JobWork::Check { checks, message, judge }
        };
        Ok(self.spec(stored, job, &project, &assignment, work)?)
    }

    /// The check of a step whose workflow a person drives, in the folder where they did it. A
    /// criterion in prose is left to its gate.
    fn inspection(&self, stored: &Stored, job: JobId) -> Result<JobSpec, SpecError> {
        let task = &stored.task;
        let folder = match stored.text(Field::DoneIn) {
            Some(folder) => Some(folder.to_owned()),
            None => self.store.project(&task.project)?,
        };
        let Some(folder) = folder.map(PathBuf::from) else {
            let name = &task.project;
            let reason = format!("no folder is known for the project `{name}`");
            return Err(SpecError::Impossible(reason));
        };
        let project = self.settings.find(&task.project)?;
        let agents = self.settings.of(project.as_ref());
        let assignment = self.assignments.of(stored)?;
        let checks = assignment::checks(stored, &assignment, agents, project.as_ref());
        let checks = Verification { criterion: None, signal: None, ..checks };
        Ok(job_spec(task, job, None, JobWork::Inspect { folder, checks }, agents))
    }

    /// Only the worktree of a task, for a person who works there.
    pub(super) fn lay_out(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
    ) -> Result<JobSpec> {
        let checks =
            Verification { mailbox: Some(project.path.clone()), ..Verification::default() };
        let work = JobWork::Check { checks, message: None, judge: None };
        self.spec(stored, job, project, &self.assignments.of(stored)?, work)
    }

    /// Checks what the remote shows of a task's branch.
    pub(super) fn look(&self, stored: &Stored, job: JobId, project: &Project) -> Result<JobSpec> {
        self.spec(stored, job, project, &self.assignments.of(stored)?, JobWork::Poll)
    }

    /// None for a task that never had a worktree.
    pub(super) fn clean_up(&self, stored: &Stored, job: JobId) -> Result<Option<JobSpec>> {
        // A workflow merges in one, and a manual step has one, both without a run.
        let without_run = stored.is_workflow() || may_be_laid_out(stored);
        if stored.task.epoch == 0 && !without_run {
            return Ok(None);
        }
        let Some(project) = self.settings.project_of(self.store, stored)? else { return Ok(None) };
        let assignment = self.assignments.of(stored)?;
        self.spec(stored, job, &project, &assignment, JobWork::CleanUp).map(Some)
    }

    fn spec(
        &self,
        stored: &Stored,
        job: JobId,
        project: &Project,
        assignment: &Assignment,
        work: JobWork,
    ) -> Result<JobSpec> {
        let workspace = Some(self.workspace(stored, project, assignment)?);
        Ok(job_spec(&stored.task, job, workspace, work, &project.agents))
    }

    fn workspace(
        &self,
        stored: &Stored,
        project: &Project,
        assignment: &Assignment,
    ) -> Result<Workspace> {
        let home = &self.config.agents.home;
        let worktrees = &project.agents.worktrees;
        let worktree = self.settings.worktree_of(stored, project)?;
        Ok(Workspace {
            task: stored.task.id.to_string(),
            repo: project.path.clone(),
            worktree,
            branch: branch_of(stored, &project.agents)?,
            merges_in: self.assignments.produces(stored, assignment, project)?,
            left_out: self.assignments.left_out(stored, &project.agents)?,
            retry: assignment::feedback_globs(assignment),
            base: project.base.clone(),
            since: assignment::since(self.store, stored)?,
            has_begun: assignment::has_begun(self.store, stored)?,
            remote: project.remote.clone(),
            setup: worktrees.setup.clone(),
            spare: names::spare_folder(home),
        })
    }
}

/// A step without an agent: a shell runs its command, and its exit code is the result.
fn running(command: &str, work: AgentWork) -> AgentWork {
    let words = ["sh", "-c", &format!("exec 2>&1\n{command}")].map(str::to_owned);
    AgentWork {
        command: Some(command.to_owned()),
        setup: AgentSetup { command: words.into(), ..work.setup },
        ask: AgentRequest::default(),
        join: None,
        ..work
    }
}

/// A job without a lease.
fn job_spec(
    task: &Task,
    job: JobId,
    workspace: Option<Workspace>,
    work: JobWork,
    agents: &Agents,
) -> JobSpec {
    JobSpec {
        job: job.to_string(),
        task: task.id.to_string(),
        workspace,
        work,
        lease: None,
        limits: limits(agents),
        env: environment(task, None),
        pass: agents.pass.clone(),
    }
}

/// Whether another job of the task is still present. A job that waited for the other's worktree
/// would get it the moment the other's keeper dies, and would work beside processes that keeper
/// left; so it begins when the other's end is on record.
pub(super) fn has_other_job(site: &dyn Site, job: JobId) -> Result<bool, SiteError> {
    // A look at the remote touches no worktree.
    let touches = |other: &JobId| !matches!(other, JobId::Poll { .. });
    let others = site.jobs()?.into_iter().filter(|other| *other != job && touches(other));
    for other in others.filter(|other| other.task() == job.task()) {
        if site.look(other)? != JobStatus::Absent {
            return Ok(true);
        }
    }
    Ok(false)
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

/// What an agent gets for a task by itself: by what it has to hand in, otherwise by its role.
fn template_of(stored: &Stored, role: &str) -> &'static BuiltInTemplate {
    let spike = is_spike(stored).then(|| built_in("spike")).flatten();
    let submission = || Submission::of(stored).and_then(Submission::template);
    spike.or_else(submission).unwrap_or_else(|| for_role(role))
}

/// The schema of the answer that a template asks for.
fn of_template(assignment: &Assignment, template: &BuiltInTemplate) -> Option<Value> {
    match assignment {
        Assignment::Plain => template.schema.map(|schema| schema.value()),
        Assignment::Step(_) | Assignment::Review(_) | Assignment::Plan(_) => None,
    }
}

pub(super) fn prompts_of(project: Option<&Project>) -> Prompts {
    project.map_or_else(Prompts::default, |project| Prompts::of_project(&project.path))
}

/// The role of the agent in the task's state. An old lifecycle may name none.
pub(super) fn role_of(stored: &Stored) -> &str {
    let does = stored.state().does.as_ref();
    does.and_then(|does| does.role.as_deref()).unwrap_or(AgentRole::Worker.as_str())
}

/// What a run in the task's state must produce.
pub(super) fn expects(stored: &Stored) -> Deliverable {
    if is_spike(stored) {
        return Deliverable::Answer;
    }
    let does = stored.state().does.as_ref();
    does.map_or(Deliverable::Anything, |does| does.produces)
}

/// The latest run whose session this worker can resume: of the same agent, on this node.
fn resumable<'p>(earlier: &[&'p PastRun], worker: &WorkerSetup, node: &str) -> Option<&'p PastRun> {
    let last = earlier.last()?;
    let same = last.agent.as_deref() == Some(worker.agent.kind.as_str())
        && last.node.as_deref() == Some(node)
        && !matches!(last.class, Some(FailureClass::Session | FailureClass::ModelLoop));
    (same && last.session.is_some()).then_some(*last)
}

/// The usage of a session: of all runs that shared it.
fn before(earlier: &[&PastRun], resumed: Option<&PastRun>) -> AgentUsage {
    let Some(resumed) = resumed else { return AgentUsage::default() };
    let shared = earlier.iter().filter(|past| past.session == resumed.session);
    let used = shared.map(|past| AgentUsage {
        input_tokens: past.input_tokens,
        output_tokens: past.output_tokens,
        cost_micros: Some(past.cost_micros),
    });
    used.fold(AgentUsage::default(), AgentUsage::plus)
}

fn limits(agents: &Agents) -> RunLimits {
    RunLimits {
        wall_ms: agents.limits.run.0,
        idle_ms: agents.limits.idle.0,
        grace_ms: agents.limits.grace.0,
        output_bytes: agents.limits.output_bytes,
        tokens: agents.budgets.run.tokens,
        cost_micros: agents.budgets.run.cost_micros,
    }
}

fn environment(task: &Task, token: Option<&str>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("BANKSMAN_TASK".to_owned(), task.id.to_string())]);
    if let Some(token) = token {
        env.insert(EnvVars::TOKEN.to_owned(), token.to_owned());
    }
    env
}

fn commit_message(task: &Task) -> String {
    let title: String = task.title.chars().take(200).collect();
    format!("{title}\n\nTask: {}\n", task.id)
}
