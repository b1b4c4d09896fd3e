//! One run of a real agent: started as a keeper would start it, read by its adapter, and ended with
//! all its children.
//!
//! The agent gets a home, a repository and an environment of its own, and nothing of ours.
//! Processes are found by the folder of the run, which is in their environment, because agents put
//! the tools that they run into other sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use banksman::exec::agent::{
    AgentEvent, AgentKind, AgentRequest, AgentSetup, AgentUsage, Launch, McpServer, launch, reader,
};
use banksman_core::receipt::{AgentReport, ProcessExit, StreamSummary};
use banksman_core::time;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::mcp::session::{TOKEN, write_job_spec};

/// 2026-01-01, in milliseconds: before every reset time that a scenario tells.
const NOW: time::Instant = time::Instant(1_767_225_600_000);
const LINE_BYTES: u64 = 4 * 1024 * 1024;
/// No case takes a quarter of it, on a machine that does nothing else.
const LONGEST: Duration = Duration::from_secs(90);
/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(5);
/// Rounds of looking for processes that are to be gone: each kills what it finds, and what is left
/// can only be new.
const ROUNDS: usize = 200;

/// The program of an agent.
pub(super) fn program(kind: AgentKind) -> PathBuf {
    let folder = env::var_os("BANKSMAN_TEST_AGENTS").unwrap_or_default();
    let program = Path::new(&folder).join("bin").join(kind.as_str());
    assert!(
        program.exists(),
        "{} is not in BANKSMAN_TEST_AGENTS: run scripts/test, or set it to what scripts/agents prints",
        program.display()
    );
    program
}

/// Where an agent works.
pub(super) struct Site {
    folder: TempDir,
}

impl Site {
    pub(super) fn new() -> Self {
        let site = Self { folder: TempDir::with_prefix("banksman-live-").unwrap() };
        for name in ["home", "repo", "r1.1", "tmp"] {
            fs::create_dir(site.path(name)).unwrap();
        }
        write_job_spec(&site.path("r1.1"));
        let made = Command::new("git").args(["init", "--quiet"]).arg(site.repo()).status().unwrap();
        assert!(made.success());
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.path("repo")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn run(&self) -> String {
        self.path("r1.1").to_str().expect("temporary folders have plain names").to_owned()
    }

    /// The tools of this run, as every agent of ours gets them.
    pub(super) fn tools(&self) -> McpServer {
        McpServer {
            name: "banksman".to_owned(),
            command: env!("CARGO_BIN_EXE_banksman").to_owned(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([
                ("BANKSMAN_RUN_FOLDER".to_owned(), self.run()),
                ("BANKSMAN_TOKEN".to_owned(), TOKEN.to_owned()),
            ]),
        }
    }

    pub(super) fn told(&self) -> Vec<AgentReport> {
        let text = fs::read_to_string(self.path("r1.1").join("reports.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) fn start(
        &self,
        setup: &AgentSetup,
        ask: &AgentRequest,
        before: AgentUsage,
    ) -> Running<'_> {
        let launch = launch(setup, ask);
        let run = self.run();
        for (name, content) in &launch.files {
            fs::write(self.path("r1.1").join(name), content).unwrap();
        }
        let mut child = self.command(&launch, &run).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (sender, events) = channel();
        let mut stdin = child.stdin.take().expect("it is a pipe");
        let prompt = launch.stdin.unwrap_or_default();
        thread::spawn(move || drop(stdin.write_all(prompt.as_bytes())));
        read_lines(child.stdout.take().expect("it is a pipe"), sender.clone(), Event::Out);
        read_lines(child.stderr.take().expect("it is a pipe"), sender.clone(), Event::Err);
        wait_for(child, sender);
        Running {
            site: self,
            pid,
            events,
            kind: setup.kind,
            before,
            seen: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn command(&self, launch: &Launch, run: &str) -> Command {
        let fill = |text: &String| text.replace("{folder}", run);
        let mut command = Command::new(fill(&launch.program));
        command.args(launch.args.iter().map(fill)).current_dir(self.repo()).process_group(0);
        command.env_clear();
        // Where node is, for the agents that need it.
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("TMPDIR", self.path("tmp"));
        command.env("LANG", "C.UTF-8").env("TZ", "UTC").env("TERM", "dumb");
        command.env("BANKSMAN_RUN_FOLDER", run).env("BANKSMAN_TOKEN", TOKEN);
        command.envs(launch.env.iter().map(|(name, value)| (name, fill(value))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The processes of this run, whoever their parents are.
    fn processes(&self) -> Vec<Pid> {
        let marker = format!("BANKSMAN_RUN_FOLDER={}", self.run());
        let is_ours = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
            environment
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == marker.as_bytes()))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw).filter(is_ours).collect()
    }

    /// Ends what is left of the run; answers how many processes that were. A process that is just
    /// replacing its program has no environment to be seen, so only a second look that finds
    /// nothing is believed.
    fn end_left_over(&self) -> usize {
        let mut found = BTreeSet::new();
        let mut is_quiet = false;
        for _ in 0..ROUNDS {
            let left = self.processes();
            if left.is_empty() && is_quiet {
                return found.len();
            }
            is_quiet = left.is_empty();
            for pid in left {
                found.insert(pid.as_raw_nonzero());
                assert_sent(kill_process(pid, Signal::KILL));
            }
            thread::yield_now();
        }
        panic!("processes do not end: {:?}", self.processes());
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let left = self.processes();
        for pid in &left {
            assert_sent(kill_process(*pid, Signal::KILL));
        }
        if !thread::panicking() {
            assert_eq!(left, [], "a run leaves no process behind");
        }
    }
}

enum Event {
    Out(String),
    Err(String),
    Exit(ExitStatus),
}

fn read_lines(from: impl Read + Send + 'static, to: Sender<Event>, event: fn(String) -> Event) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if to.send(event(text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

fn wait_for(mut child: Child, to: Sender<Event>) {
    thread::spawn(move || {
        let status = child.wait().expect("it is our child");
        drop(to.send(Event::Exit(status)));
    });
}

/// An agent at work.
pub(super) struct Running<'a> {
    site: &'a Site,
    pid: Pid,
    events: Receiver<Event>,
    kind: AgentKind,
    before: AgentUsage,
    seen: Vec<AgentEvent>,
    lines: Vec<String>,
}

/// What came of it.
pub(super) struct Ran {
    pub(super) reading: StreamSummary,
    pub(super) exit: ProcessExit,
    pub(super) seen: Vec<AgentEvent>,
    /// Processes that were still there when the agent itself had ended.
    pub(super) left_over: usize,
    /// Everything that it printed, for messages.
    pub(super) lines: Vec<String>,
}

impl Running<'_> {
    /// Kills the agent, as a keeper does at the end of its patience, and ends what it leaves.
    pub(super) fn kill(self) -> Ran {
        assert_sent(kill_process_group(self.pid, Signal::KILL));
        self.finish()
    }

    /// Reads to the end. An agent that its adapter calls hopeless is asked to end.
    pub(super) fn finish(mut self) -> Ran {
        let mut reader = reader(self.kind, self.before);
        let mut until = Instant::now() + LONGEST;
        let mut is_asked = false;
        let mut exit = None;
        let mut left_over = 0;
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Out(line)) => {
                    reader.line(&line, &mut self.seen);
                    self.lines.push(line);
                }
                Ok(Event::Err(line)) => {
                    reader.error_line(&line, &mut self.seen);
                    self.lines.push(format!("stderr: {line}"));
                }
                Ok(Event::Exit(status)) => {
                    exit = Some(status);
                    left_over = self.site.end_left_over();
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    assert_sent(kill_process_group(self.pid, Signal::KILL));
                    self.site.end_left_over();
                    assert!(is_asked, "it took too long\n{}", self.lines.join("\n"));
                    until = Instant::now() + LONGEST;
                }
            }
            let is_hopeless =
                self.seen.iter().any(|seen| matches!(seen, AgentEvent::Hopeless { .. }));
            if is_hopeless && !is_asked {
                is_asked = true;
                until = Instant::now() + GRACE;
                assert_sent(kill_process_group(self.pid, Signal::TERM));
            }
        }
        let status = exit.expect("the pipes close after the agent has ended");
        let exit = ProcessExit { code: status.code(), signal: status.signal() };
        let reading = reader.finish(exit, NOW);
        Ran { reading, exit, seen: self.seen, left_over, lines: self.lines }
    }
}

/// A process that is gone by now is all that is wanted.
fn assert_sent(sent: Result<(), Errno>) {
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
}

/// Asks for nothing but what the prompt says.
pub(super) fn ask(prompt: &str) -> AgentRequest {
    AgentRequest {
        prompt: prompt.to_owned(),
        session: None,
        schema: None,
        lenient: false,
        mcp: None,
        cost_micros: None,
        guard: None,
    }
}

pub(super) fn ask_for(prompt: &str, schema: Value) -> AgentRequest {
    AgentRequest { schema: Some(schema), ..ask(prompt) }
}

/// Whether the agent itself is still there.
pub(super) fn is_alive(running: &Running<'_>) -> bool {
    test_kill_process(running.pid).is_ok()
}
