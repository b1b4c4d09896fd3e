//! A home with jobs, agents that are shell scripts, and ways to wait for what happens.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use banksman::clock;
use banksman::exec::agent::{AgentKind, AgentRequest, AgentSetup, AgentUsage};
use banksman::exec::job::{
    AgentWork, JobId, JobSpec, JobWork, LeaseConfig, RunLimits, Verification,
};
use banksman::exec::keeper::{JobFolder, KeeperStart, MARKER};
use banksman::exec::site::{JobStatus, LocalSite, Site};
use banksman_core::failure::Deliverable;
use banksman_core::receipt::{Receipt, TaskText};
use banksman_core::time::Span;
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub(super) const PROGRAM: &str = env!("CARGO_BIN_EXE_banksman");
/// Nothing here takes long; what does is broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// The terminal event of a good run.
pub(super) const SUCCESS: &str =
    r#"echo '{"type":"result","status":"success","text":"all done","session":"s1"}'"#;
pub(super) const SESSION: &str = r#"echo '{"type":"session","id":"s1"}'"#;

pub(crate) struct World {
    home: TempDir,
    pub(super) site: LocalSite,
}

pub(super) fn job(name: &str) -> JobId {
    name.parse().expect("a job")
}

/// A job whose agent is a shell script, with limits that no test reaches by chance.
pub(crate) fn plan(name: &str, script: &str) -> JobSpec {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let setup = AgentSetup {
        kind: AgentKind::Command,
        command,
        model: None,
        env: BTreeMap::new(),
        pass: Vec::new(),
    };
    let ask = AgentRequest {
        prompt: "do it".to_owned(),
        session: None,
        schema: None,
        lenient: false,
        mcp: None,
        cost_micros: None,
        guard: None,
    };
    let work = AgentWork {
        join: None,
        command: None,
        counts_earlier: false,
        shows_changes: false,
        about: TaskText { title: "a job".to_owned(), ..TaskText::default() },
        expects: Deliverable::Anything,
        setup,
        ask,
        before: AgentUsage::default(),
        nudge: "go on".to_owned(),
        checks: Verification::default(),
        commit_message: String::new(),
        evaluator: None,
    };
    JobSpec {
        pass: Vec::new(),
        job: name.to_owned(),
        task: "t1".to_owned(),
        workspace: None,
        work: JobWork::Agent(Box::new(work)),
        lease: None,
        limits: RunLimits {
            wall_ms: 120_000,
            idle_ms: 120_000,
            grace_ms: 10_000,
            output_bytes: 1_000_000,
            tokens: None,
            cost_micros: None,
        },
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    }
}

pub(crate) fn agent(plan: &mut JobSpec) -> &mut AgentWork {
    let JobWork::Agent(work) = &mut plan.work else { panic!("not an agent's plan") };
    work
}

/// What only a renewal of the lease gets to know.
pub(super) const KEY: &str = "the-key-of-the-keeper";

/// A lease that runs from now on and is renewed by a shell script.
pub(super) fn lease(ttl_ms: i64, renew: &str) -> Option<LeaseConfig> {
    let renew = ["/bin/sh", "-c", renew, "renew"].map(str::to_owned).to_vec();
    let expires_at = clock::now().plus(Span(ttl_ms));
    Some(LeaseConfig { expires_at, ttl_ms, left_ms: ttl_ms, renew, key: KEY.to_owned() })
}

impl World {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let site = LocalSite::open(home.path(), Path::new(PROGRAM)).expect("a site");
        Self { home, site }
    }

    /// Another process' view of the same home.
    pub(super) fn another_site(&self) -> LocalSite {
        LocalSite::open(self.home.path(), Path::new(PROGRAM)).expect("a site")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(super) fn folder(&self, name: &str) -> JobFolder {
        self.site.folder(job(name))
    }

    pub(crate) fn file(&self, name: &str, file: &str) -> String {
        fs::read_to_string(self.folder(name).path().join(file)).unwrap_or_default()
    }

    /// Runs a job to its end.
    pub(crate) fn run(&self, plan: &JobSpec) -> Receipt {
        self.site.begin(plan).expect("the job begins");
        self.receipt(&plan.job)
    }

    /// Waits for the keeper to be gone and answers with what it left. Nothing of the job may live
    /// on.
    pub(super) fn receipt(&self, name: &str) -> Receipt {
        self.wait_for_the_keeper(name);
        let sight = self.site.look(job(name)).expect("the job is looked at");
        let JobStatus::Ended(receipt) = sight else {
            panic!("{sight:?}: {}", self.file(name, "keeper.log"));
        };
        if let Some(begun) = self.folder(name).begun().expect("readable") {
            assert_eq!(marked(&begun.marker), [0; 0], "left over by {name}");
        }
        *receipt
    }

    /// The lock is free when its holder is gone, whatever it died of.
    pub(super) fn wait_for_the_keeper(&self, name: &str) {
        let lock = File::open(self.folder(name).path().join("lock")).expect("a lock");
        wait_until("the keeper is gone", || lock.try_lock_shared().is_ok());
    }

    pub(super) fn begun(&self, name: &str) -> KeeperStart {
        let folder = self.folder(name);
        wait_until("the keeper has begun", || folder.begun().expect("readable").is_some());
        folder.begun().expect("readable").expect("it was there")
    }

    pub(super) fn wait_for_file(&self, name: &str) -> String {
        let path = self.path(name);
        wait_until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(&path).expect("it was there").trim().to_owned()
    }
}

impl Drop for World {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for job in self.site.jobs().unwrap_or_default() {
            let folder = self.site.folder(job);
            if let Ok(Some(begun)) = folder.begun() {
                if folder.is_locked().unwrap_or(false) {
                    kill(begun.pid, Signal::KILL);
                }
                drop(self.site.end_left_over(job));
            }
        }
    }
}

pub(super) fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("it can be signalled");
}

/// Looks again and again, with a short rest.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Moment::now() + PATIENCE;
    while !is_so() {
        assert!(Moment::now() < until, "waited too long: {what}");
        rest();
    }
}

fn rest() {
    poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 2_000_000 })).expect("a rest");
}

/// Living processes with this marker in their environment.
pub(super) fn marked(marker: &str) -> Vec<i32> {
    let wanted = format!("{MARKER}={marker}");
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("a /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(has).filter(|pid| is_alive(*pid)).collect()
}

pub(super) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
