//! A folder with a home, a store and an agent that is a shell script; an engine on it in this
//! process, and the program.
//!
//! There is no repository, so no worktree is made: git's time is not ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use banksman::clock;
use banksman::config::{self, Agents, Environment, Flags};
use banksman::engine::{Engine, EngineConfig, EngineError, Project, Projects, TurnReport};
use banksman::exec::site::LocalSite;
use banksman::store::conn::{Options, Target};
use banksman::store::{Add, Definition, Store};
use banksman_core::failure::RetryPolicy;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::machine::{Actor, NewTask};
use tempfile::TempDir;

use crate::frame::Fault;
use crate::processes::naming;

/// The program that cargo built along with the benchmark.
const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");
const LIFECYCLE: &str = include_str!("../../demo/lifecycle.yaml");
/// Threads that fill the store: they share commits.
const FILLERS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Place {
    folder: TempDir,
    pub(crate) store: Store,
    site: LocalSite,
    terms: EngineConfig,
    definition: Definition,
}

/// No project has a repository.
struct NoProjects;

impl Projects for NoProjects {
    fn find(&self, _: &str) -> Result<Option<Project>, EngineError> {
        Ok(None)
    }
}

impl Place {
    /// With an agent that runs this shell script, and so many of them at once.
    pub(crate) fn new(script: &str, agents: u32, of_the_worker: u32) -> Result<Self, Fault> {
        let folder = tempfile::Builder::new().prefix("banksman-bench.").tempdir()?;
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".banksman"))?;
        let agent = folder.path().join("agent.sh");
        fs::write(&agent, script)?;
        let settings = format!(
            "limits.agents = {agents}\n[workers.scripted]\nagent = \"command\"\nmax_concurrent = {of_the_worker}\n\
             command = [\"sh\", {:?}]\n",
            agent.display().to_string()
        );
        fs::write(project.join(".banksman/config.toml"), settings)?;
        let address = folder.path().join("store.db").display().to_string();
        let flags = Flags::from([("store", address.clone())]);
        let config = config::resolve(&flags, &Environment::default(), &project)?;
        let agents = Agents {
            home: folder.path().to_owned().into(),
            node: "bench".to_owned(),
            ..config.agents
        };
        let target: Target = address.parse()?;
        let store = Store::open(&target, &Options::default())?;
        let site = LocalSite::open(&agents.home, Path::new(PROGRAM))?;
        let overrides = Overrides::new();
        let lifecycle = check(LIFECYCLE, "the benchmark's lifecycle", &overrides)
            .map_err(|problems| problems.to_string())?;
        let source = LIFECYCLE.to_owned();
        Ok(Self {
            folder,
            store,
            site: site.with_env("BANKSMAN_STORE", &address),
            terms: EngineConfig {
                workers: agents.workers.clone(),
                agents,
                program: PROGRAM.into(),
                policy: RetryPolicy::default(),
                secret: clock::secret,
                awake: clock::awake,
            },
            definition: Definition { lifecycle: Arc::new(lifecycle), source, overrides },
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds tasks that are ready.
    pub(crate) fn add(&self, tasks: usize) -> Result<(), Fault> {
        let new = || Add {
            new: NewTask {
                title: "Measure it".to_owned(),
                project: "project".to_owned(),
                ..NewTask::default()
            },
            definition: self.definition.clone(),
            needs: Vec::new(),
            actor: Actor::human("kim"),
            key: None,
            arrival: None,
        };
        thread::scope(|scope| {
            let fillers: Vec<_> = (0..FILLERS)
                .map(|filler| {
                    scope.spawn(move || {
                        (filler..tasks)
                            .step_by(FILLERS)
                            .try_for_each(|_| self.store.add(new(), clock::now()).map(|_| ()))
                    })
                })
                .collect();
            for filler in fillers {
                filler.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })
    }

    /// One turn in this process.
    pub(crate) fn turn(&self) -> Result<TurnReport, Fault> {
        let engine = Engine::new(&self.store, &self.site, &NoProjects, &self.terms);
        Ok(engine.pulse(clock::now())?)
    }

    /// The program with settings of this folder only.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("BANKSMAN_STORE", self.path("store.db"))
            .env("BANKSMAN_HOME", self.folder.path())
            .env("BANKSMAN_NODE", "bench")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    pub(crate) fn up(&self) -> Result<Child, Fault> {
        Ok(self.command(&["up"]).spawn()?)
    }

    /// Runs the program to its end; what it has to say against that is the fault.
    pub(crate) fn succeed(&self, words: &[&str]) -> Result<(), Fault> {
        let output = self.command(words).stderr(Stdio::piped()).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("`{}`: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Makes the project a repository with one commit.
    pub(crate) fn make_repository(&self) -> Result<(), Fault> {
        let git = |words: &[&str]| -> Result<(), Fault> {
            let mut command = Command::new("git");
            command.arg("-C").arg(self.path("project")).args(words).stdout(Stdio::null());
            let status = command.status()?;
            if status.success() { Ok(()) } else { Err(format!("git {words:?}: {status}").into()) }
        };
        fs::write(self.path("project").join("README.md"), "measured\n")?;
        git(&["init", "--quiet", "--initial-branch=main"])?;
        git(&["config", "user.name", "bench"])?;
        git(&["config", "user.email", "bench@localhost"])?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message=first"])
    }

    pub(crate) fn is_over(&self, id: TaskId) -> Result<bool, Fault> {
        let stored = self.store.task(id)?;
        Ok(stored.lifecycle.state(stored.task.state).terminal)
    }
}

impl Drop for Place {
    /// Ends what the agents' script leaves at work, by the folder that only they name.
    fn drop(&mut self) {
        for process in naming(&self.folder.path().display().to_string()) {
            process.kill();
        }
    }
}

/// Looks again until it is so.
pub(crate) fn wait_until(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, Fault>,
) -> Result<(), Fault> {
    let until = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > until {
            return Err(format!("waited too long: {what}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
