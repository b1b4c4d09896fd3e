//! Processes of a test: found by the test's own folder in their arguments or environment, and ended
//! by their ids.

use std::fs;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Nothing here takes long; what does is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<String>,
}

impl Process {
    pub(crate) fn is_keeper(&self) -> bool {
        self.args.get(1).is_some_and(|word| word == "keeper")
    }

    /// The run that it belongs to, if it was started by a keeper for a job.
    pub(crate) fn job(&self) -> Option<&str> {
        let marker = self.env.iter().find_map(|entry| entry.strip_prefix("BANKSMAN_RUN="))?;
        marker.split(':').next()
    }

    /// The agent itself, and not a program that it runs.
    pub(crate) fn is_agent(&self) -> bool {
        self.args.first().is_some_and(|word| word.ends_with("scripted-agent"))
    }

    pub(crate) fn is_alive(&self) -> bool {
        is_alive(self.pid)
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// It lives and does nothing any more.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on.
    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// It may have ended by itself meanwhile.
    fn signal(&self, signal: Signal) {
        if read(self.pid).is_some_and(|now| now.args == self.args) {
            let sent = kill_process(Pid::from_raw(self.pid).expect("a pid"), signal);
            assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
        }
    }
}

/// Living processes that name a folder in their arguments or their environment.
pub(crate) fn naming(folder: &str) -> Vec<Process> {
    let names = |texts: &[String]| texts.iter().any(|text| text.contains(folder));
    let entries = fs::read_dir("/proc").expect("a /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(read)
        .filter(|process| names(&process.args) || names(&process.env))
        .filter(Process::is_alive)
        .collect()
}

fn read(pid: i32) -> Option<Process> {
    let words = |file: &str| -> Option<Vec<String>> {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
        let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    Some(Process { pid, parent, args: words("cmdline")?, env: words("environ")? })
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// What a look has shown.
pub(crate) enum Seen {
    TheEnd,
    /// It is not over, and something has happened since the last look.
    AStep,
    Nothing,
}

/// Looks again and again, with a short rest.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_through(what, || if is_so() { Seen::TheEnd } else { Seen::Nothing });
}

/// The same for what takes many steps: each has as much time, so that a slow machine may take
/// longer for all of them.
pub(crate) fn wait_through(what: &str, mut look: impl FnMut() -> Seen) {
    let mut until = Instant::now() + PATIENCE;
    loop {
        match look() {
            Seen::TheEnd => return,
            Seen::AStep => until = Instant::now() + PATIENCE,
            Seen::Nothing => assert!(Instant::now() < until, "waited too long: {what}"),
        }
        rest();
    }
}

pub(crate) fn rest() {
    poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).expect("a rest");
}
