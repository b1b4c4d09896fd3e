//! A sandbox in which agents really work: a git repository, a worker that is a shell script, and
//! ways to wait.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Moment};

use banksman::exec::job::JobId;
use banksman::exec::site::{JobStatus, LocalSite, Site};
use rustix::event::{Timespec, poll};
use serde_json::Value;

use super::sandbox::{PROGRAM, Ran, Sandbox};

/// Nothing here takes long; what does is broken.
const PATIENCE: Duration = Duration::from_secs(60);
const LIFECYCLE: &str = include_str!("../../../demo/lifecycle.yaml");

/// What an agent prints to say something, and to end well.
pub(super) const SAY: &str = r#"echo '{"type":"text","text":"laying bricks"}'"#;
pub(super) const DONE: &str = r#"echo '{"type":"result","status":"success","text":"the wall stands","usage":{"input_tokens":1200,"output_tokens":34,"cost_usd":0.05}}'"#;
/// A change that is committed.
pub(super) const WORK: &str = "echo brick >wall && git add wall && git commit -q -m wall";
/// Waits until the test opens the gate.
pub(super) const GATE: &str = r#"cat "$YARD/gate" >/dev/null"#;

pub(super) struct Harness {
    sandbox: Sandbox,
}

impl Deref for Harness {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with_settings("")
    }

    /// `settings` stand before the first table of the project's file.
    pub(super) fn with_settings(settings: &str) -> Self {
        let sandbox = Sandbox::empty();
        fs::remove_dir(sandbox.repo().join(".git")).unwrap();
        let agent = sandbox.path().join("agent.sh");
        let harness = sandbox.path().display();
        fs::write(
            &agent,
            format!("YARD='{harness}'; cat >/dev/null; . '{harness}/'$BANKSMAN_TASK\n"),
        )
        .unwrap();
        let config = format!(
            "lifecycle = \"demo\"\n{settings}\n[limits]\ngrace = \"1s\"\n\n[workers.ada]\nagent = \"command\"\n\
             command = [\"sh\", {:?}]\n",
            agent.display().to_string()
        );
        sandbox.file(".banksman/config.toml", config);
        sandbox.file(".banksman/lifecycles/demo.yaml", LIFECYCLE);
        let harness = Self { sandbox };
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Kim"],
            &["config", "user.email", "kim@example.org"],
            &["add", "-A"],
            &["commit", "-q", "-m", "Ground"],
        ] {
            harness.program("git", args);
        }
        harness.program("mkfifo", &[harness.gate().to_str().unwrap()]);
        harness.ok(&["init"]);
        harness
    }

    fn program(&self, name: &str, args: &[&str]) {
        let mut command = Command::new(name);
        self.prepare(&mut command);
        assert!(command.args(args).status().unwrap().success(), "{name} {args:?}");
    }

    fn gate(&self) -> PathBuf {
        self.path().join("gate")
    }

    /// Lets an agent go on that waits at the gate.
    pub(super) fn open_gate(&self) {
        fs::write(self.gate(), "go\n").unwrap();
    }

    /// A task whose agent plays this script.
    pub(super) fn task(&self, title: &str, script: &[&str]) -> String {
        let id = self.add(title);
        self.script(&id, script);
        id
    }

    pub(super) fn script(&self, id: &str, script: &[&str]) {
        fs::write(self.path().join(id), script.join("\n") + "\n").unwrap();
    }

    /// Where runs are.
    pub(super) fn runs(&self) -> PathBuf {
        self.home().join("data/banksman")
    }

    pub(super) fn site(&self) -> LocalSite {
        LocalSite::open(&self.runs(), Path::new(PROGRAM)).unwrap()
    }

    pub(super) fn pulse(&self) -> Value {
        self.json(&["pulse"])
    }

    /// Waits until a job has ended, without putting that on record.
    pub(super) fn wait_for_end(&self, job: &str) {
        let job: JobId = job.parse().unwrap();
        let site = self.site();
        self.until(&format!("{job} has ended"), || {
            matches!(site.look(job).unwrap(), JobStatus::Ended(_) | JobStatus::Lost)
        });
    }

    /// Pulses until the task is in this state.
    pub(super) fn pulse_until(&self, id: &str, state: &str) {
        self.until(&format!("{id} is in {state}"), || {
            self.pulse();
            self.json(&["show", id])["state"] == state
        });
    }

    /// Runs a task to the end of its first run, whatever comes of it.
    pub(super) fn first_run(&self, id: &str) {
        self.pulse();
        self.wait_for_end(&format!("r{}.1", &id[1..]));
        self.pulse();
    }

    /// Waits for what its agent says first.
    pub(super) fn wait_for_words(&self, run: &str) {
        let path = self.runs().join("runs").join(run).join("out.jsonl");
        self.until("the agent says something", || {
            fs::metadata(&path).is_ok_and(|file| file.len() > 0)
        });
    }

    pub(super) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let until = Moment::now() + PATIENCE;
        while !is_so() {
            assert!(Moment::now() < until, "waited too long: {what}\n{}", self.run(&["status"]));
            poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).unwrap();
        }
    }

    /// Starts the program with its output in pipes.
    pub(super) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    pub(super) fn finish_child(&self, child: Child) -> Ran {
        self.finish(child.wait_with_output().unwrap())
    }
}

impl Drop for Harness {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        let site = self.site();
        for job in site.jobs().unwrap_or_default() {
            drop(site.stop(job, "the test is over"));
            let until = Moment::now() + PATIENCE;
            while site.look(job).is_ok_and(|sight| sight == JobStatus::Running)
                && Moment::now() < until
            {
                poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }))
                    .unwrap_or_default();
            }
            drop(site.end_left_over(job));
        }
    }
}

/// Spans of time and hashes of commits differ from run to run.
pub(super) fn steady(ran: &Ran) -> String {
    let text = ran.without_padding();
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let line: Vec<&str> = line.split(' ').collect();
        let mut steady = Vec::new();
        for (at, word) in line.iter().enumerate() {
            let next = line.get(at + 1).copied().unwrap_or_default();
            let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let is_span = is_number && ["s", "min", "h"].contains(&next);
            let is_millis = next == "ms)" && word.trim_start_matches('(').parse::<u64>().is_ok();
            let is_head = at > 0 && line[at - 1] == "head";
            let is_process =
                at > 0 && ["process", "keeper", "agent"].contains(&line[at - 1]) && is_number;
            steady.push(match (is_span || is_process, is_millis, is_head) {
                (true, _, _) => "N".to_owned(),
                (_, true, _) => word.replace(|c: char| c.is_ascii_digit(), "").to_owned() + "N",
                (_, _, true) => "HEAD".to_owned(),
                (false, false, false) => (*word).to_owned(),
            });
        }
        words.push(steady.join(" "));
    }
    words.join("\n")
}
