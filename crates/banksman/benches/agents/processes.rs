//! What processes use, as the system counts it in `/proc`.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};

#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    args: Vec<String>,
}

impl Process {
    pub(crate) fn is_keeper(&self) -> bool {
        self.args.get(1).is_some_and(|word| word == "keeper")
    }

    pub(crate) fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // One that has ended meanwhile needs no signal.
        if pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_err()) {
            eprintln!("the process {} had ended", self.pid);
        }
    }
}

/// Living processes with this folder in their arguments.
pub(crate) fn naming(folder: &str) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let read = |pid: u32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let args = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Some(Process { pid, args })
    };
    pids.filter_map(read).filter(|it| it.args.iter().any(|word| word.contains(folder))).collect()
}

/// The processor time of a process and of its children that have ended.
pub(crate) fn processor_time(pid: u32) -> Option<Duration> {
    times(pid).map(|times| times.own + times.of_children)
}

/// Processor times of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) own: Duration,
    /// Of its children that have ended and were waited for, and of theirs.
    pub(crate) of_children: Duration,
}

pub(crate) fn times(pid: u32) -> Option<Times> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    // The state is the first of the rest, and the four times stand at 11 to 14 after it.
    let ticks = rest.split(' ').skip(11).take(4).map(str::parse::<u64>);
    let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
    let [user, system, of_user, of_system] = *ticks.as_slice() else { return None };
    let time = |ticks: u64| Duration::from_millis(ticks * 1_000 / clock_ticks_per_second());
    Some(Times { own: time(user + system), of_children: time(of_user + of_system) })
}

/// The time that the threads of a process have run, which is counted more finely than in ticks.
/// Threads that have ended do not count.
pub(crate) fn run_time(pid: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |thread: fs::DirEntry| {
        let schedstat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    Some(threads.flatten().filter_map(of_thread).sum())
}

/// A figure of a process' memory in MB: `Rss` counts shared pages in full, `Pss` by the share.
pub(crate) fn megabytes(pid: u32, figure: &str) -> Option<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024.0 / 1_000_000.0)
}
