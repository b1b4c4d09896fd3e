//! Everything that a job needs to know, put together once before it begins.

use std::collections::BTreeMap;

use banksman_core::failure::Expects;
use banksman_core::ids::RunId;
use banksman_core::lifecycle::Activity;
use banksman_core::machine::Task;
use serde_json::{Value, json};

use super::{Engine, EngineError, Project, prompt};
use crate::config::{Agents, WorkerSetup};
use crate::exec::agent::{Ask, Before, Kind, McpServer, Setup};
use crate::exec::plan::{
    AgentWork, Checks, Evaluator, JobId, LeaseTerms, Limits, Plan, Work, Workspace,
};
use crate::exec::worktree::names;
use crate::store::{PastRun, Stored};

type Known = BTreeMap<String, Option<Project>>;

/// Runs whose failures the next one is told of.
const TOLD: i64 = 8;

impl Engine<'_> {
    /// The plan of a run and its token, or why there can be none.
    pub(super) fn run_plan(
        &self,
        stored: &Stored,
        run: RunId,
        worker: &str,
        projects: &mut Known,
    ) -> Result<Result<(Plan, String), String>, EngineError> {
        let Some(setup) = self.worker(worker) else {
            return Ok(Err(format!("there is no worker `{worker}` on this machine any more")));
        };
        let project = self.project(&stored.task.project, projects)?.cloned();
        let agents = project.as_ref().map_or(&self.terms.agents, |project| &project.agents);
        let past = self.store.past_runs(stored.task.id, TOLD)?;
        let lease = stored.task.lease.as_ref();
        let Some(lease) = lease.filter(|lease| lease.epoch == run.epoch) else {
            return Ok(Err("its lease is gone".to_owned()));
        };
        let token = (self.terms.secret)();
        let work = match self.agent_work(stored, setup, agents, &past, run)? {
            Ok(work) => work,
            Err(reason) => return Ok(Err(reason)),
        };
        let workspace = project.as_ref().map(|project| self.workspace(&stored.task, project));
        let workspace = workspace.transpose()?;
        let plan = Plan {
            job: run.to_string(),
            task: run.task.to_string(),
            workspace,
            work: Work::Agent(Box::new(work)),
            lease: Some(LeaseTerms {
                expires_at: lease.expires_at,
                ttl_ms: agents.limits.lease.0,
                renew: self.renew(run, agents),
            }),
            limits: limits(agents),
            env: environment(&stored.task, Some(&token)),
            pass: passed(agents, Some(setup)),
        };
        Ok(Ok((plan, token)))
    }

    fn agent_work(
        &self,
        stored: &Stored,
        worker: &WorkerSetup,
        agents: &Agents,
        past: &[PastRun],
        run: RunId,
    ) -> Result<Result<AgentWork, String>, EngineError> {
        let Some(setup) = agent_setup(worker) else {
            return Ok(Err(format!("the agent `{}` is not known", worker.agent)));
        };
        let detail = self.store.detail(stored.task.id)?;
        let role = role_of(stored);
        let earlier: Vec<&PastRun> = past.iter().filter(|past| past.epoch < run.epoch).collect();
        let resumed = resumable(&earlier, worker, &self.terms.agents.node);
        let brief = prompt::Brief {
            task: &detail.stored.task,
            role,
            fields: &stored.task.fields,
            past: &earlier,
            resumes: resumed.is_some(),
        };
        let checks = checks(&stored.task, agents);
        let mcp = McpServer {
            name: "banksman".to_owned(),
            command: self.terms.program.display().to_string(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([("BANKSMAN_RUN_FOLDER".to_owned(), "{folder}".to_owned())]),
        };
        Ok(Ok(AgentWork {
            ask: Ask {
                prompt: prompt::for_run(&brief, &checks),
                session: resumed.and_then(|past| past.session.clone()),
                schema: None,
                mcp: Some(mcp),
                cost_micros: agents.budgets.run.cost_micros,
            },
            before: before(&earlier, resumed),
            nudge: prompt::nudge(),
            about: json!({ "title": stored.task.title, "body": detail.stored.task.body }),
            expects: expects(stored),
            commit_message: commit_message(&stored.task),
            evaluator: self.evaluator(agents),
            setup,
            checks,
        }))
    }

    fn evaluator(&self, agents: &Agents) -> Option<Evaluator> {
        let worker = self.worker(agents.evaluator.as_deref()?)?;
        Some(Evaluator {
            setup: agent_setup(worker)?,
            prompt: prompt::evaluator(),
            timeout_ms: agents.evaluator_timeout.0,
        })
    }

    /// Our own program, told to renew the lease of a run. The store's address is in the keeper's environment.
    fn renew(&self, run: RunId, agents: &Agents) -> Vec<String> {
        let program = self.terms.program.display().to_string();
        let ttl = agents.limits.lease.to_string();
        vec![program, "renew".to_owned(), run.to_string(), "--ttl".to_owned(), ttl]
    }

    /// A check or a merge, or why it cannot be.
    pub(super) fn activity_plan(
        &self,
        stored: &Stored,
        job: JobId,
        projects: &mut Known,
    ) -> Result<Result<Plan, String>, EngineError> {
        let Some(project) = self.project(&stored.task.project, projects)?.cloned() else {
            let name = &stored.task.project;
            return Ok(Err(format!("no repository is known for the project `{name}`")));
        };
        let checks = checks(&stored.task, &project.agents);
        let does = stored.lifecycle.state(stored.task.state).does.as_ref();
        let is_merge = does.is_some_and(|does| does.activity == Activity::Merge);
        let work = if is_merge {
            Work::Merge { checks, message: commit_message(&stored.task) }
        } else {
            Work::Check { checks }
        };
        self.job_plan(&stored.task, job, &project, work).map(Ok)
    }

    /// None for a task that never had a worktree.
    pub(super) fn clean_up_plan(
        &self,
        stored: &Stored,
        job: JobId,
        projects: &mut Known,
    ) -> Result<Option<Plan>, EngineError> {
        if stored.task.epoch == 0 {
            return Ok(None);
        }
        let project = self.project(&stored.task.project, projects)?.cloned();
        project.map(|project| self.job_plan(&stored.task, job, &project, Work::CleanUp)).transpose()
    }

    fn job_plan(
        &self,
        task: &Task,
        job: JobId,
        project: &Project,
        work: Work,
    ) -> Result<Plan, EngineError> {
        Ok(Plan {
            job: job.to_string(),
            task: task.id.to_string(),
            workspace: Some(self.workspace(task, project)?),
            work,
            lease: None,
            limits: limits(&project.agents),
            env: environment(task, None),
            pass: passed(&project.agents, None),
        })
    }

    pub(super) fn branch_of(&self, stored: &Stored) -> Result<String, EngineError> {
        let mut known = Known::new();
        let project = self.project(&stored.task.project, &mut known)?;
        let agents = project.map_or(&self.terms.agents, |project| &project.agents);
        Ok(branch(&stored.task, agents))
    }

    fn workspace(&self, task: &Task, project: &Project) -> Result<Workspace, EngineError> {
        let home = &self.terms.agents.home;
        let worktrees = &project.agents.worktrees;
        let id = task.id.to_string();
        let worktree = names::worktree_path(&worktrees.path, &project.path, home, &id);
        let worktree = worktree.map_err(|error| EngineError::Project {
            project: task.project.clone(),
            message: error.to_string(),
        })?;
        Ok(Workspace {
            repo: project.path.clone(),
            worktree,
            branch: branch(task, &project.agents),
            base: project.base.clone(),
            remote: project.remote.clone(),
            setup: worktrees.setup.clone(),
            spare: home.join("worktrees").join(".spare"),
        })
    }
}

fn branch(task: &Task, agents: &Agents) -> String {
    names::branch_name(&agents.worktrees.branch, &task.id.to_string(), &task.title)
}

/// Whose part an agent plays in the task's state.
fn role_of(stored: &Stored) -> &str {
    let does = stored.lifecycle.state(stored.task.state).does.as_ref();
    does.and_then(|does| does.role.as_deref()).unwrap_or("worker")
}

/// What a run in the task's state has to bring.
pub(super) fn expects(stored: &Stored) -> Expects {
    let does = stored.lifecycle.state(stored.task.state).does.as_ref();
    does.map_or(Expects::Anything, |does| does.brings)
}

fn agent_setup(worker: &WorkerSetup) -> Option<Setup> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == worker.agent)?;
    Some(Setup {
        kind,
        command: worker.command.clone(),
        model: worker.model.clone(),
        env: worker.env.clone(),
    })
}

/// The latest run whose session this worker can go on with: the same agent, on this machine, where the work is.
fn resumable<'p>(earlier: &[&'p PastRun], worker: &WorkerSetup, node: &str) -> Option<&'p PastRun> {
    let last = earlier.last()?;
    let same = last.agent.as_deref() == Some(worker.agent.as_str())
        && last.node.as_deref() == Some(node)
        && !matches!(last.class.as_deref(), Some("session" | "model_loop"));
    (same && last.session.is_some()).then_some(*last)
}

/// What the session had used up: all runs that shared it.
fn before(earlier: &[&PastRun], resumed: Option<&PastRun>) -> Before {
    let Some(resumed) = resumed else { return Before::default() };
    let shared = earlier.iter().filter(|past| past.session == resumed.session);
    shared.fold(Before::default(), |sum, past| Before {
        input_tokens: sum.input_tokens + past.input_tokens,
        output_tokens: sum.output_tokens + past.output_tokens,
        cost_micros: sum.cost_micros + past.cost_micros,
    })
}

fn checks(task: &Task, agents: &Agents) -> Checks {
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
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn limits(agents: &Agents) -> Limits {
    Limits {
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
        env.insert("BANKSMAN_TOKEN".to_owned(), token.to_owned());
    }
    env
}

/// Names of variables: those of everybody, those of the agent's provider, those of the worker.
fn passed(agents: &Agents, worker: Option<&WorkerSetup>) -> Vec<String> {
    let provider = worker.map_or(&[][..], |worker| provider_variables(&worker.agent));
    let own = worker.map(|worker| worker.pass.clone()).unwrap_or_default();
    let provider = provider.iter().map(|name| (*name).to_owned());
    agents.pass.iter().cloned().chain(provider).chain(own).collect()
}

fn provider_variables(agent: &str) -> &'static [&'static str] {
    const CLAUDE: &[&str] = &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CONFIG_DIR",
    ];
    const CODEX: &[&str] = &["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"];
    const GEMINI: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"];
    const ANY: &[&str] = &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];
    match agent {
        "claude" => CLAUDE,
        "codex" => CODEX,
        "gemini" => GEMINI,
        "opencode" | "acp" => ANY,
        _ => &[],
    }
}

fn commit_message(task: &Task) -> String {
    let title: String = task.title.chars().take(200).collect();
    format!("{title}\n\nTask: {}\n", task.id)
}
