//! The settings of agents: workers, limits, budgets, worktrees, checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use banksman_core::policy::Rank;
use banksman_core::schedule::{Budget, COMMAND_WORKER, Worker};
use banksman_core::time::Span;

use super::environment::EnvVars as Var;
use super::home::Home;
use super::keys::Raw;
use super::panel::{Panels, panels};
use super::policy::PolicyFile;
use super::{ConfigError, Environment, Layers, Result};
use crate::exec::agent::{AgentKind, AgentSetup};

/// A role whose lane has a limit without a setting: all of its runs change the same documents.
const DOCSER: &str = "docser";

#[derive(Debug, Clone, PartialEq)]
pub struct Agents {
    pub home: Home,
    pub node: String,
    pub limits: AgentLimits,
    pub budgets: BudgetSettings,
    pub worktrees: Worktrees,
    pub verify: Verify,
    /// Sorted by name.
    pub workers: Vec<WorkerSetup>,
    /// The maximum number of concurrent runs, by account.
    pub accounts: BTreeMap<String, u32>,
    /// The maximum number of concurrent runs over all nodes, by the role as which they act.
    pub lanes: BTreeMap<String, u32>,
    /// The worker that judges a run when the facts leave its outcome open.
    pub evaluator: Option<String>,
    pub evaluator_timeout: Span,
    pub panels: Panels,
    pub policy: PolicyFile,
    /// Environment variables that every agent gets.
    pub pass: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentLimits {
    pub agents: u32,
    pub total: Option<u32>,
    pub lease: Span,
    pub run: Span,
    pub idle: Span,
    pub grace: Span,
    pub output_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSettings {
    pub task: Budget,
    pub day: Budget,
    pub run: Budget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktrees {
    pub path: String,
    pub branch: String,
    pub base: Option<String>,
    pub setup: Option<String>,
    pub warn_above: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verify {
    pub commands: Vec<String>,
    pub timeout: Span,
    pub allowed_paths: Vec<String>,
    pub denied_paths: Vec<String>,
}

/// One worker: what the scheduler needs to know, and how its agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSetup {
    pub worker: Worker,
    /// How much it is trusted.
    pub rank: Rank,
    pub agent: AgentSetup,
}

impl WorkerSetup {
    /// A worker of this agent with default values.
    pub fn of(name: &str, agent: AgentKind) -> Self {
        let capabilities = ["code", "docs", "refactor", "test"].map(str::to_owned);
        Self {
            worker: Worker {
                name: name.to_owned(),
                capabilities: BTreeSet::from(capabilities),
                roles: BTreeSet::new(),
                cost: 3,
                speed: 3,
                max_concurrent: 4,
                account: agent.to_string(),
                model: None,
            },
            rank: Rank::Specialist,
            agent: AgentSetup {
                kind: agent,
                command: vec![agent.to_string()],
                model: None,
                env: BTreeMap::new(),
                pass: agent.adapter().provider_variables.iter().map(ToString::to_string).collect(),
            },
        }
    }
}

impl WorkerSetup {
    /// Runs the commands of workflow steps; the step has the command.
    pub fn for_commands() -> Self {
        let setup = Self::of(COMMAND_WORKER, AgentKind::Command);
        let agent = AgentSetup { command: Vec::new(), pass: Vec::new(), ..setup.agent };
        Self { worker: Worker::for_commands(), agent, ..setup }
    }
}

impl Agents {
    /// The configured workers, else the agents whose programs are in a folder of `path`.
    pub fn workers_or_found(&self, path: &str) -> Vec<WorkerSetup> {
        if !self.workers.is_empty() {
            return self.workers.clone();
        }
        let is_found = |program: &str| {
            let folders = path.split(':').filter(|folder| !folder.is_empty());
            folders.map(|folder| Path::new(folder).join(program)).any(|file| file.is_file())
        };
        let found =
            AgentKind::ALL.into_iter().filter(|kind| kind.adapter().program.is_some_and(is_found));
        found.map(|kind| WorkerSetup::of(kind.as_str(), kind)).collect()
    }
}

/// `root` is the base of the project's relative paths.
pub(super) fn agents(layers: &Layers, root: &Path) -> Result<Agents> {
    Ok(Agents {
        home: PathBuf::from(layers.text_of("home")).into(),
        node: layers.text_of("node"),
        limits: AgentLimits {
            agents: narrow(layers.number("limits.agents")),
            total: Some(narrow(layers.number("limits.total"))).filter(|total| *total > 0),
            lease: layers.span("limits.lease"),
            run: layers.span("limits.run"),
            idle: layers.span("limits.idle"),
            grace: layers.span("limits.grace"),
            output_bytes: layers.number("limits.output") * 1024 * 1024,
        },
        budgets: BudgetSettings {
            task: Budget {
                time: Some(layers.span("budget.task_time")),
                ..budget(layers, "budget.task")
            },
            day: budget(layers, "budget.day"),
            run: budget(layers, "budget.run"),
        },
        worktrees: Worktrees {
            path: layers.text_of("worktrees.path"),
            branch: layers.text_of("worktrees.branch"),
            base: layers.given("worktrees.base"),
            setup: layers.given("worktrees.setup"),
            warn_above: narrow(layers.number("worktrees.warn_above")),
        },
        verify: Verify {
            commands: layers.list("verify.commands"),
            timeout: layers.span("verify.timeout"),
            allowed_paths: layers.list("verify.allowed_paths"),
            denied_paths: layers.list("verify.denied_paths"),
        },
        workers: names(layers, "workers")
            .map(|name| worker(layers, &name))
            .collect::<Result<_, _>>()?,
        accounts: most_at_once(layers, "accounts").collect(),
        lanes: [(DOCSER.to_owned(), 1)].into_iter().chain(most_at_once(layers, "lanes")).collect(),
        evaluator: layers.given("evaluator.worker"),
        evaluator_timeout: layers.span("evaluator.timeout"),
        panels: panels(layers, root)?,
        policy: PolicyFile::of(root)?,
        pass: layers.list("environment.pass"),
    })
}

fn worker(layers: &Layers, name: &str) -> Result<WorkerSetup> {
    let key = |setting: &str| format!("workers.{name}.{setting}");
    let text = |setting: &str| layers.given(&key(setting));
    let Some(kind) = text("agent").and_then(|agent| agent.parse().ok()) else {
        let message = format!("the worker `{name}` has no agent");
        let [first, ..] = AgentKind::NAMES;
        let known = AgentKind::NAMES.join(", ");
        let hint = format!("add `agent = \"{first}\"` or another of {known}");
        return Err(ConfigError::value(&layers.origin(&key("")), message, &hint));
    };
    let WorkerSetup { mut worker, rank, mut agent } = WorkerSetup::of(name, kind);
    let list = |setting: &str| layers.0.get(&key(setting)).map(|_| layers.list(&key(setting)));
    let number =
        |setting: &str| layers.0.get(&key(setting)).map(|_| narrow(layers.number(&key(setting))));
    if let Some(capabilities) = list("capabilities") {
        worker.capabilities = capabilities.into_iter().collect();
    }
    worker.roles = list("roles").unwrap_or_default().into_iter().collect();
    worker.cost = number("cost").unwrap_or(worker.cost);
    worker.speed = number("speed").unwrap_or(worker.speed);
    worker.max_concurrent = number("max_concurrent").unwrap_or(worker.max_concurrent);
    worker.account = text("account").unwrap_or(worker.account);
    agent.command = list("command").filter(|words| !words.is_empty()).unwrap_or(agent.command);
    agent.model = text("model");
    worker.model.clone_from(&agent.model);
    let rank = text("rank").and_then(|rank| rank.parse().ok()).unwrap_or(rank);
    agent.pass.extend(list("pass").unwrap_or_default());
    let prefix = key("env.");
    let variables =
        layers.0.iter().filter_map(|(key, (raw, _))| Some((key.strip_prefix(&prefix)?, raw)));
    agent.env = variables.map(|(name, raw)| (name.to_owned(), raw.text_of())).collect();
    Ok(WorkerSetup { worker, rank, agent })
}

/// How many runs each entry of a table allows at once.
fn most_at_once(layers: &Layers, table: &'static str) -> impl Iterator<Item = (String, u32)> {
    names(layers, table).map(move |name| {
        let most = layers.number(&format!("{table}.{name}.max_concurrent"));
        (name, narrow(most))
    })
}

/// The distinct entry names of a table.
pub(super) fn names(layers: &Layers, table: &str) -> impl Iterator<Item = String> {
    let prefix = format!("{table}.");
    let name = |key: &String| {
        let rest = key.strip_prefix(&prefix)?;
        rest.split_once('.').map(|(name, _)| name.to_owned())
    };
    layers.0.keys().filter_map(name).collect::<BTreeSet<_>>().into_iter()
}

fn budget(layers: &Layers, prefix: &str) -> Budget {
    let bound = |setting: &str| {
        let number = layers.number(&format!("{prefix}_{setting}"));
        i64::try_from(number).ok().filter(|number| *number > 0)
    };
    Budget {
        runs: bound("runs"),
        tokens: bound("tokens"),
        cost_micros: micros(layers, &format!("{prefix}_cost")),
        time: None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the check limits it to a million dollars")]
fn micros(layers: &Layers, key: &str) -> Option<i64> {
    match layers.0.get(key) {
        Some((Raw::Number(dollars), _)) if *dollars > 0.0 => Some((dollars * 1e6).round() as i64),
        Some(_) | None => None,
    }
}

pub(super) fn narrow(number: u64) -> u32 {
    u32::try_from(number).expect("the check limits numbers")
}

/// Beside the store.
pub(super) fn default_home(store: &str, environment: &Environment) -> String {
    let path = store.strip_prefix("sqlite:").unwrap_or(store);
    let beside = Path::new(path).parent().filter(|_| !path.is_empty() && !path.contains("://"));
    let data =
        || environment.folder(Var::XDG_DATA_HOME, ".local/share").map(|data| data.join("banksman"));
    beside
        .map(Path::to_owned)
        .or_else(data)
        .map(|home| home.display().to_string())
        .unwrap_or_default()
}

/// The machine's name, as the kernel reports it.
pub(super) fn host_name() -> String {
    // Outside Linux there is no such file.
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".to_owned() } else { name.chars().take(64).collect() }
}
