//! A repository with a check that fails, a store, workers with real agents, and the real program to
//! drive them.
//!
//! The program is called as cron would call it: a pulse, and the next one when a job has ended. It
//! gets an environment of its own and nothing of ours.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use banksman::exec::agent::AgentSetup;
use banksman_core::receipt::Receipt;
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::super::cases::Agent;
use super::super::model_server::{ModelServer, Recorded, Reply};
use super::super::run::program as program_of;

const LIFECYCLE: &str = include_str!("lifecycle.yaml");
/// It says what is wrong, so that a prompt can be searched for it.
const CHECK: &str =
    "[ \"$(cat answer.txt)\" = right ] || { echo \"the answer is $(cat answer.txt)\"; exit 1; }\n";
pub(super) const TASK: &str = "t1";
pub(super) const TITLE: &str = "Write the right answer into answer.txt";
/// No job takes a tenth of it, on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(240);
/// Each takes up the end of at least one job, and no case has more than a handful.
const PULSES: usize = 20;

/// What a case wants to be different.
#[derive(Default)]
pub(super) struct Wishes {
    /// Settings of the project.
    pub(super) settings: String,
    /// Of the program itself. They win over those that the worker's agent needs.
    pub(super) env: BTreeMap<String, String>,
    /// More files of the repository.
    pub(super) files: Vec<(&'static str, &'static str)>,
    /// What makes the first task, in place of adding one that is to be done.
    pub(super) first: Vec<&'static str>,
    /// A second worker by the name of ada, who only reviews, and what its model says.
    pub(super) ada: Option<(&'static Agent, Vec<Reply>)>,
}

pub(super) struct Harness {
    folder: TempDir,
    pub(super) server: ModelServer,
    /// Of the second worker.
    pub(super) adas: Option<ModelServer>,
    env: BTreeMap<String, String>,
    /// Variables that the worker's agent is to get.
    pub(super) passed: Vec<String>,
}

impl Harness {
    /// None, said loudly, when the agent is not installed. The scenario is told the worktree of the
    /// task.
    pub(super) fn new(
        agent: &Agent,
        wishes: Wishes,
        scenario: impl FnOnce(&Path) -> Vec<Reply>,
    ) -> Self {
        let program = program_of(agent.program);
        let folder = TempDir::with_prefix("banksman-whole-").unwrap();
        let server = ModelServer::start(scenario(&folder.path().join("work-t1")));
        let home = folder.path().join("kim");
        fs::create_dir(&home).unwrap();
        let setup = (agent.setup)(&program, &server, &home);
        let mut harness = Self {
            env: environment(folder.path()),
            passed: setup.env.keys().cloned().collect(),
            folder,
            server,
            adas: None,
        };
        harness.env.extend(setup.env.clone());
        let mut workers = worker("kim", agent, &setup);
        if let Some((agent, scenario)) = wishes.ada {
            let program = program_of(agent.program);
            let server = harness.adas.insert(ModelServer::start(scenario));
            let setup = (agent.setup)(&program, server, &home);
            harness.env.extend(setup.env.clone());
            workers += &format!("{}roles = [\"reviewer\"]\n", worker("ada", agent, &setup));
        }
        harness.env.extend(wishes.env);
        let settings = format!(
            "lifecycle = \"live\"\n\n{}\n[worktrees]\npath = \"{{repo_parent}}/work-{{task}}\"\n\n\
             [verify]\ncommands = [\"sh check.sh\"]\n\n{workers}",
            wishes.settings,
        );
        harness.lay_out(&settings, &wishes.files);
        harness.ok(&["init", "--name", "site"]);
        if wishes.first.is_empty() {
            assert_eq!(harness.ok(&["add", "-q", TITLE]), format!("{TASK}\n"));
        } else {
            harness.ok(&wishes.first);
        }
        harness
    }

    fn lay_out(&self, settings: &str, more: &[(&str, &str)]) {
        let files = [
            ("check.sh", CHECK),
            ("answer.txt", "missing\n"),
            (".banksman/lifecycles/live.yaml", LIFECYCLE),
            (".banksman/config.toml", settings),
        ];
        for (name, text) in files.iter().chain(more) {
            let path = self.repo().join(name);
            fs::create_dir_all(path.parent().expect("it is below the repository")).unwrap();
            fs::write(path, text).unwrap();
        }
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a check that fails"]);
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn repo(&self) -> PathBuf {
        self.path("site")
    }

    /// Where runs are kept.
    pub(super) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(super) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=Kim", "-c", "user.email=kim@example.org"]).args(args);
        git.current_dir(self.repo()).env("HOME", self.path("kim"));
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
        command.args(args).current_dir(self.repo()).env_clear().envs(&self.env);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs what must succeed and answers with its output.
    pub(super) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "banksman {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}\n{text}"))
    }

    /// Pulses until the task is in this state; whatever ends meanwhile is taken up by the next one.
    pub(super) fn pulse_until(&self, state: &str) -> Value {
        self.pulse_until_of(TASK, state)
    }

    /// The same for a task that came of the first one.
    pub(super) fn pulse_until_of(&self, id: &str, state: &str) -> Value {
        for _ in 0..PULSES {
            self.ok(&["pulse"]);
            let task = self.json(&["show", id]);
            if task["state"] == state {
                return task;
            }
            self.wait_for_an_end(state);
        }
        panic!("it is not {state} after {PULSES} pulses:\n{}", self.story());
    }

    /// Pulses until this run is on record.
    pub(super) fn pulse_past(&self, run: &str) {
        for _ in 0..PULSES {
            self.ok(&["pulse"]);
            if self.home().join("past").join(run).exists() {
                return;
            }
            self.wait_for_an_end("on record");
        }
        panic!("{run} is not on record after {PULSES} pulses:\n{}", self.story());
    }

    fn wait_for_an_end(&self, state: &str) {
        let is_empty = |name: &str| names(&self.home().join(name)).is_empty();
        assert!(
            !is_empty("runs"),
            "nobody is at work, so it will never be {state}:\n{}",
            self.story()
        );
        self.wait_until("a job ends", || !is_empty("ended"));
    }

    /// The task is done, its work is in the main branch, and nothing is left of what was started
    /// for it.
    pub(super) fn assert_landed(&self) {
        self.pulse_until("done");
        assert_eq!(self.git(&["show", "main:answer.txt"]), "right\n", "{}", self.story());
        for _ in 0..PULSES {
            if names(&self.home().join("runs")).is_empty() {
                break;
            }
            self.wait_for_an_end("put away");
            self.ok(&["pulse"]);
        }
        assert_eq!(names(&self.home().join("runs")), [""; 0]);
        assert!(!self.path("work-t1").exists(), "its worktree is put away");
        assert_eq!(self.processes(), [], "no process is left over");
        self.ok(&["check"]);
        self.ok(&["audit", "verify"]);
    }

    /// The receipt of a run that is on record.
    pub(super) fn receipt(&self, run: &str) -> Receipt {
        let path = self.home().join("past").join(run).join("receipt.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{run} has no receipt: {error}\n{}", self.story());
        });
        serde_json::from_str(&text).unwrap()
    }

    /// What the model was asked in the conversation's request of this number.
    pub(super) fn asked(&self, number: usize) -> String {
        let turns: Vec<Recorded> = self.server.turns();
        let turn = turns.get(number);
        let turn =
            turn.unwrap_or_else(|| panic!("only {} requests:\n{}", turns.len(), self.story()));
        turn.body.to_string()
    }

    pub(super) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "waited too long until {what}\n{}", self.story());
            poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 })).expect("a rest");
        }
    }

    /// Everything that may explain a failure.
    pub(super) fn story(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.run(&["history", TASK]).stdout).into_owned();
        for folder in ["runs", "past"] {
            for job in names(&self.home().join(folder)) {
                for file in ["keeper.log", "err.log", "out.jsonl", "receipt.json"] {
                    let path = self.home().join(folder).join(&job).join(file);
                    let content = fs::read(path).unwrap_or_default();
                    let tail = &content[content.len().saturating_sub(3_000)..];
                    text += &format!("-- {job}/{file}\n{}\n", String::from_utf8_lossy(tail));
                }
            }
        }
        text
    }

    /// Processes whose environment names our folder: the keepers, the agents, and what these have
    /// started.
    fn processes(&self) -> Vec<Pid> {
        let folder = self.folder.path().as_os_str().as_encoded_bytes();
        let is_ours = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
            environment.is_ok_and(|all| all.windows(folder.len()).any(|part| part == folder))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw).filter(is_ours).collect()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        // A failed case may leave agents at work; each round ends those that the last one gave
        // birth to.
        for _ in 0..PULSES {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let sent = kill_process(pid, Signal::KILL);
                assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
            }
        }
    }
}

fn worker(name: &str, agent: &Agent, setup: &AgentSetup) -> String {
    let model = setup.model.as_ref().map(|model| format!("model = {model:?}\n"));
    format!(
        "[workers.{name}]\nagent = {:?}\ncommand = {:?}\npass = {:?}\naccount = \"plan\"\n{}",
        agent.kind.as_str(),
        setup.command,
        setup.env.keys().collect::<Vec<_>>(),
        model.unwrap_or_default(),
    )
}

fn environment(folder: &Path) -> BTreeMap<String, String> {
    let below = |name: &str| folder.join(name).display().to_string();
    BTreeMap::from(
        [
            // Where git and node are.
            ("PATH", env::var("PATH").expect("a PATH")),
            ("HOME", below("kim")),
            ("TMPDIR", below("kim")),
            ("USER", "kim".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("TERM", "dumb".to_owned()),
            ("XDG_CONFIG_HOME", below("kim/config")),
            ("XDG_CONFIG_DIRS", below("system")),
            ("BANKSMAN_NODE", "harness".to_owned()),
            ("BANKSMAN_DECISIONS_GRACE", "0s".to_owned()),
            ("BANKSMAN_HOME", below("home")),
            ("BANKSMAN_STORE", below("banksman.db")),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    )
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
