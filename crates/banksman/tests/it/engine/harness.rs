//! A folder with a repository, a home and scripted agents, and the program run in it; at its end
//! everything is looked at.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use banksman::store::conn::{Options, Target};
use banksman::store::{Store, Stored};
use banksman_core::ids::TaskId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::processes::{Process, naming, wait_until};
use crate::programs;
use crate::scripted::scripted_agent;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");
const LIFECYCLE: &str = include_str!("../../../demo/lifecycle.yaml");
/// Plays the script of the run, else that of its task, else `any`. Every start and every prompt is
/// written down.
const AGENT: &str = r#"run=${BANKSMAN_RUN%%:*}
cat >>"$2/prompts/$run"
echo "$run session=$BANKSMAN_SESSION" >>"$2/starts"
export SCRIPTED_STATE="$2/state" YARD="$2"
for name in "$run" "$BANKSMAN_TASK" any; do
    [ ! -f "$2/scripts/$name" ] || exec "$1" "$2/scripts/$name"
done
"#;
/// One commit of its own, told of, and a moment of thought around it.
const WORK: &str = r#"sleep 30
run echo "$BANKSMAN_RUN" >>"work-$BANKSMAN_TASK"
run git add -A && git commit -qm "work of ${BANKSMAN_RUN%%:*}" && echo "${BANKSMAN_RUN%%:*} $(git rev-parse HEAD)" >>"$YARD/commits"
sleep 30
success it is written
"#;
/// What ends a task in the lifecycle of the demo.
const ENDS: [&str; 3] = ["done", "failed", "cancelled"];

/// When this is set, the folder of a test that failed stays to be looked at.
const KEEP: &str = "BANKSMAN_KEEP_YARD";

pub(crate) struct Harness {
    folder: TempDir,
    /// As settings name it.
    store: String,
    settings: RefCell<BTreeMap<String, String>>,
}

impl Harness {
    /// With the settings that differ from those of most tests, as TOML.
    pub(crate) fn new(settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::with_prefix("banksman-harness-").expect("a folder");
        let store = folder.path().join("store.db").display().to_string();
        Self::at(folder, store, settings)
    }

    /// On a database that several machines share.
    pub(crate) fn on_postgres(url: &str, settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::with_prefix("banksman-harness-").expect("a folder");
        Self::at(folder, url.to_owned(), settings)
    }

    fn at(folder: TempDir, store: String, settings: &[(&str, &str)]) -> Self {
        let harness = Self { folder, store, settings: RefCell::default() };
        for name in ["prompts", "state", "scripts", "user", "repo/.banksman/lifecycles"] {
            fs::create_dir_all(harness.path(name)).expect("a folder");
        }
        fs::write(harness.path("agent.sh"), AGENT).expect("written");
        fs::write(harness.path("repo/.banksman/lifecycles/demo.yaml"), LIFECYCLE).expect("written");
        fs::write(harness.path("repo/README"), "the harness\n").expect("written");
        harness.script("any", WORK);
        harness.git(&["init", "--quiet", "--initial-branch=main"]);
        fs::write(harness.path("repo/.git/info/exclude"), "/.banksman/config.toml\n")
            .expect("written");
        harness.git(&["config", "user.name", "Kim"]);
        harness.git(&["config", "user.email", "kim@example.org"]);
        harness.git(&["add", "--all"]);
        harness.git(&["commit", "--quiet", "--message", "the beginning"]);
        let command = format!(
            "[\"sh\", {:?}, {:?}, {:?}]",
            harness.path("agent.sh").display().to_string(),
            scripted_agent().display().to_string(),
            harness.folder.path().display().to_string()
        );
        harness.set(&[
            ("lifecycle", "\"demo\""),
            ("limits.grace", "\"2s\""),
            ("workers.scripted.agent", "\"command\""),
            ("workers.scripted.command", &command),
            ("workers.scripted.max_concurrent", "16"),
        ]);
        harness.set(settings);
        harness.ok(&["init"]);
        harness
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The address of its store.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Changes settings of the project.
    /// A worker with the program of the usual one, and one role.
    pub(crate) fn add_worker(&self, name: &str, role: &str) {
        let settings = self.file("repo/.banksman/config.toml");
        let command =
            settings.lines().find_map(|line| line.strip_prefix("workers.scripted.command = "));
        self.set(&[
            (&format!("workers.{name}.agent"), "\"command\""),
            (&format!("workers.{name}.command"), command.expect("a command")),
            (&format!("workers.{name}.roles"), &format!("[\"{role}\"]")),
        ]);
    }

    pub(crate) fn set(&self, settings: &[(&str, &str)]) {
        let mut all = self.settings.borrow_mut();
        all.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let lines: Vec<String> =
            all.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        fs::write(self.path("repo/.banksman/config.toml"), lines.join("\n") + "\n")
            .expect("written");
    }

    /// What the agents of a task (`t1`), of one run (`r1.2`) or of all others (`any`) do.
    pub(crate) fn script(&self, name: &str, script: &str) {
        fs::write(self.path("scripts").join(name), script).expect("written");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_on("here", args)
    }

    /// The program as another machine runs it: with its own name and home.
    pub(crate) fn command_on(&self, node: &str, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        let home = self.path("user");
        command.current_dir(self.path("repo")).env_clear().stdin(Stdio::null()).args(args);
        command.env("PATH", programs::path()).env("LANG", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", &home).env("USER", "kim");
        command.env("XDG_CONFIG_HOME", home.join("config")).env("XDG_CONFIG_DIRS", &home);
        command.env("BANKSMAN_NODE", node).env("BANKSMAN_HOME", self.home(node));
        // Answers take effect at once, except where a test is about their grace period.
        command.env("BANKSMAN_STORE", &self.store).env("BANKSMAN_DECISIONS_GRACE", "0s");
        command
    }

    pub(crate) fn home(&self, node: &str) -> PathBuf {
        self.path(&format!("home-{node}"))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// Runs what must succeed and answers with its output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        text_of(args, &self.run(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).expect("a document")
    }

    pub(crate) fn pulse(&self) -> Value {
        self.json(&["pulse"])
    }

    pub(crate) fn add(&self, title: &str, more: &[&str]) -> TaskId {
        let id = self.ok(&[&["add", "--quiet", title], more].concat());
        id.trim().parse().expect("an id")
    }

    /// A running `up` of the machine `here`.
    pub(crate) fn up(&self) -> Up {
        self.up_on("here")
    }

    pub(crate) fn up_on(&self, node: &str) -> Up {
        Up::start(self.command_on(node, &["up"]), &self.path(&format!("up-{node}.log")))
    }

    /// A handle of its own on the store.
    pub(crate) fn open(&self) -> Store {
        let target: Target = self.store.parse().expect("a store");
        Store::open(&target, &Options::default()).expect("the store opens")
    }

    /// While agents begin and end, git may look at the record of a worktree that is just being
    /// written or removed; it takes offence at that, and a moment later no longer.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = self.git_command(args);
        let mut output = git.output().expect("git starts");
        wait_until("git can read every record", || {
            let is_in_motion = String::from_utf8_lossy(&output.stderr).contains(".git/worktrees/");
            if is_in_motion && !output.status.success() {
                output = git.output().expect("git starts");
            }
            !is_in_motion || output.status.success()
        });
        text_of(args, &output)
    }

    fn git_command(&self, args: &[&str]) -> Command {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path("repo")).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null");
        git
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The runs whose agents were started, in order, one for each start.
    pub(crate) fn starts(&self) -> Vec<String> {
        let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        self.file("starts").lines().map(first).collect()
    }

    /// Processes that work in this harness; the decoy of a test is one of them, too.
    pub(crate) fn processes(&self) -> Vec<Process> {
        naming(self.folder.path().to_str().expect("a name"))
    }

    pub(crate) fn agents(&self) -> Vec<Process> {
        self.processes().into_iter().filter(Process::is_agent).collect()
    }

    /// A child of a keeper that has not become its own program yet looks like the keeper and is
    /// none.
    pub(crate) fn keepers(&self) -> Vec<Process> {
        let mut keepers = self.processes();
        keepers.retain(Process::is_keeper);
        let pids: BTreeSet<i32> = keepers.iter().map(|keeper| keeper.pid).collect();
        keepers.retain(|keeper| !pids.contains(&keeper.parent));
        keepers
    }

    /// The one keeper at work. That of an earlier job may take a moment to be gone.
    pub(crate) fn only_keeper(&self) -> Process {
        let mut found = self.keepers();
        wait_until("one job is at work", || {
            found = self.keepers();
            found.len() == 1
        });
        found.remove(0)
    }

    /// Jobs that were not put away.
    pub(crate) fn jobs(&self, node: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.home(node).join("runs")) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    }

    /// Folders of tasks' worktrees; the spare ones are kept for the next tasks.
    pub(crate) fn worktrees(&self) -> Vec<String> {
        let listed = self.git(&["worktree", "list", "--porcelain"]);
        let paths = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
        let own = self.path("repo").display().to_string();
        paths.filter(|path| *path != own && !path.contains("/.spare/")).map(str::to_owned).collect()
    }

    /// Every commit that an agent told of is in a branch or a rescue ref, itself or rebased.
    pub(crate) fn assert_no_commit_lost(&self) {
        let kept = self.git(&["log", "--all", "--format=%H %s"]);
        let hashes: BTreeSet<&str> = kept.lines().filter_map(|line| line.get(..40)).collect();
        let subjects: BTreeSet<&str> = kept.lines().filter_map(|line| line.get(41..)).collect();
        for line in self.file("commits").lines() {
            let (run, hash) = line.split_once(' ').expect("a run and a commit");
            let subject = format!("work of {run}");
            assert!(
                hashes.contains(hash) || subjects.contains(subject.as_str()),
                "the commit {hash} of {run} is lost:\n{kept}"
            );
        }
    }

    /// The end of a test: the store is sound, no commit is lost, no task has ended twice, nothing
    /// is left over.
    pub(crate) fn assert_clean(&self, nodes: &[&str]) {
        self.ok(&["check"]);
        self.ok(&["audit", "verify"]);
        self.assert_no_commit_lost();
        let jobs: Vec<String> = nodes.iter().flat_map(|node| self.jobs(node)).collect();
        assert_eq!(jobs, Vec::<String>::new(), "jobs are left over");
        // A keeper's last word is there a moment before it is gone.
        wait_until("no process is left over", || self.processes().is_empty());
        for stored in self.tasks() {
            let entries = self.open().history(stored.task.id, 0).expect("a history");
            // A result that comes late is on record, too, and moves nothing.
            let moves = entries.iter().map(|entry| &entry.record);
            let moves = moves.filter(|record| record.from.as_deref() != Some(record.to.as_str()));
            let ends = moves.filter(|record| ENDS.contains(&record.to.as_str())).count();
            assert!(ends <= 1, "{} has ended {ends} times", stored.task.id);
        }
    }

    pub(crate) fn tasks(&self) -> Vec<Stored> {
        tasks(&self.open())
    }

    pub(crate) fn state(&self, id: TaskId) -> String {
        state(&self.open(), id)
    }

    /// Waits for the store, as a person would look at it.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut(&Store) -> bool) {
        let store = self.open();
        wait_until(&format!("{what}\n{}", self.folder.path().display()), || is_so(&store));
    }

    /// Waits until every task is over, its worktree is put away and nothing is at work.
    pub(crate) fn until_over(&self, nodes: &[&str]) {
        self.until("every task has ended", |store| tasks(store).iter().all(is_over));
        wait_until("everything is put away", || {
            nodes.iter().all(|node| self.jobs(node).is_empty()) && self.worktrees().is_empty()
        });
    }
}

impl Drop for Harness {
    /// A test that failed leaves nothing behind either, but tells what was going on.
    fn drop(&mut self) {
        if thread::panicking() {
            for node in ["here", "a", "b"] {
                eprintln!("{}", self.file(&format!("up-{node}.log")));
            }
            // Nothing in here may fail: a second panic would end the process before the first one
            // is told.
            for mut command in [self.command(&["list"]), self.git_command(&["worktree", "list"])] {
                match command.output() {
                    Ok(said) => eprintln!("{}", String::from_utf8_lossy(&said.stdout)),
                    Err(error) => eprintln!("{command:?}: {error}"),
                }
            }
            self.folder.disable_cleanup(env::var_os(KEEP).is_some());
        }
        for process in self.processes() {
            process.kill();
        }
    }
}

pub(crate) fn tasks(store: &Store) -> Vec<Stored> {
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let (page, next) = store.list(&Default::default(), before, 200).expect("a list");
        all.extend(page);
        before = next;
        if before.is_none() {
            return all;
        }
    }
}

pub(crate) fn state_of(stored: &Stored) -> &str {
    &stored.lifecycle.state(stored.task.state).name
}

pub(crate) fn state(store: &Store, id: TaskId) -> String {
    state_of(&store.task(id).expect("the task is there")).to_owned()
}

pub(crate) fn is_over(stored: &Stored) -> bool {
    ENDS.contains(&state_of(stored))
}

fn text_of(args: &[&str], output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {}\n{text}\n{said}", output.status);
    text.into_owned()
}

/// A process that works on the queue until it is ended.
pub(crate) struct Up {
    child: Child,
    log: PathBuf,
}

impl Up {
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let out = File::options().create(true).append(true).open(log).expect("a log");
        let err = out.try_clone().expect("a log");
        let child = command.stdout(out).stderr(err).spawn().expect("it starts");
        Self { child, log: log.to_owned() }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is gone");
    }

    /// Waits for what ends by itself, and answers with its exit code and all that it has said.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        (status.code(), fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Asks it to end, and answers with all that it has said.
    pub(crate) fn stop(mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it can be asked to end");
        let status = self.child.wait().expect("it ends");
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        assert!(status.success(), "{status}\n{said}");
        said
    }
}
