//! Finds all processes of a job, including those that left their group or session, and signals
//! them.
//!
//! A living keeper is the subreaper of all its descendants, so none can escape it. After its death
//! the marker in their environment identifies them. Before it signals a process, this file opens it
//! and checks it again, because the kernel reuses pids. Without `/proc` it finds nothing, and
//! callers can only signal the process group.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, waitid};

/// How much of a process's environment is read. Linux gives a new process at most 6 MiB for
/// arguments and environment.
const ENVIRONMENT_BYTES: u64 = 6 * 1024 * 1024;
/// The most threads examined per process.
const THREADS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exec) struct Process {
    pub(in crate::exec) pid: Pid,
    parent: i32,
    /// With the pid it identifies one process forever.
    pub(in crate::exec) start: u64,
    /// CPU time of the process and its reaped children, in kernel ticks.
    ticks: u64,
    is_dead: bool,
}

/// All living descendants of this process, except `exempt` and its descendants.
///
/// A process without children has no descendants, and the kernel answers that without listing all
/// processes.
pub(super) fn descendants(exempt: Option<Pid>) -> Vec<Process> {
    let children = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, children) {
        Err(Errno::CHILD) => Vec::new(),
        Ok(_) | Err(_) => descendants_of(getpid(), exempt),
    }
}

/// All living descendants of `root`, except `exempt` and its descendants.
fn descendants_of(root: Pid, exempt: Option<Pid>) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_pid()];
    while let Some(parent) = open.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        let below = below.into_iter().filter(|process| Some(process.pid) != exempt);
        for process in below {
            open.push(process.pid.as_raw_pid());
            found.push(process);
        }
    }
    found.retain(|process| !process.is_dead);
    // The newest first: of processes that start each other, it is the one that starts the next.
    found.sort_by_key(|process| std::cmp::Reverse((process.start, process.pid.as_raw_pid())));
    found
}

/// The CPU use of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuUse {
    /// CPU time used. It may fall when one of them exits.
    pub(super) used: Duration,
    /// Whether one of them is running or runnable.
    pub(super) is_runnable: bool,
}

pub(super) fn cpu_use(processes: &[Process]) -> CpuUse {
    let ticks: u64 = processes.iter().map(|process| process.ticks).sum();
    let used = Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second());
    CpuUse { used, is_runnable: processes.iter().any(|process| has_runnable_thread(process.pid)) }
}

fn has_runnable_thread(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())) else {
        return false;
    };
    let is_runnable =
        |stat: &str| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    stats.take(THREADS).any(|stat| is_runnable(&stat))
}

/// All living processes with the marker in their environment, and their descendants.
pub(in crate::exec) fn marked(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let all = all();
    let has_marker = |process: &&Process| has_variable(process.pid, &wanted);
    let mut pids: BTreeSet<i32> =
        all.iter().filter(has_marker).map(|process| process.pid.as_raw_pid()).collect();
    // A child may have a lower pid than its parent, so repeat until nothing is added.
    loop {
        let more = all.iter().filter(|process| pids.contains(&process.parent));
        let more: Vec<i32> = more.map(|process| process.pid.as_raw_pid()).collect();
        let before = pids.len();
        pids.extend(more);
        if pids.len() == before {
            break;
        }
    }
    let is_found = |process: &Process| pids.contains(&process.pid.as_raw_pid());
    all.into_iter().filter(|process| is_found(process) && !process.is_dead).collect()
}

/// When a process started; none if it does not exist or the system cannot tell.
pub(in crate::exec) fn start_time(pid: i32) -> Option<u64> {
    read(Pid::from_raw(pid)?).filter(|process| !process.is_dead).map(|process| process.start)
}

/// The process with this pid, if it started at this time.
pub(in crate::exec) fn find_process(pid: i32, start: u64) -> Option<Process> {
    read(Pid::from_raw(pid)?).filter(|process| process.start == start && !process.is_dead)
}

/// Signals the process if the pid still belongs to it.
#[cfg(target_os = "linux")]
pub(in crate::exec) fn signal(process: &Process, signal: Signal) -> io::Result<()> {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let handle = pidfd_open(process.pid, PidfdFlags::empty())?;
    let now = read(process.pid).ok_or_else(gone)?;
    if now.start != process.start {
        return Err(gone());
    }
    Ok(pidfd_send_signal(&handle, signal)?)
}

#[cfg(not(target_os = "linux"))]
pub(in crate::exec) fn signal(process: &Process, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process(process.pid, signal)?)
}

fn has_variable(pid: Pid, wanted: &str) -> bool {
    let Ok(file) = File::open(format!("/proc/{}/environ", pid.as_raw_pid())) else { return false };
    let mut environment = Vec::new();
    let read = file.take(ENVIRONMENT_BYTES).read_to_end(&mut environment);
    read.is_ok() && environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
}

/// All processes; none without `/proc`.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    // A process that exits while they are listed is not there.
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| read(Pid::from_raw(pid)?)).collect()
}

fn read(pid: Pid) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    parse(pid, &stat)
}

/// Parses `/proc/PID/stat`. The second field is the name in parentheses, which may itself contain
/// parentheses and spaces.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| -> Option<u64> { fields.get(at)?.parse().ok() };
    // Indexes count from the state, which is field 3 in proc(5).
    let ticks = (11..=14).filter_map(number).sum();
    let is_dead = matches!(*fields.first()?, "Z" | "X" | "x");
    let parent = i32::try_from(number(1)?).ok()?;
    Some(Process { pid, parent, start: number(19)?, ticks, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) R (b) S 3 7 7 0 -1 0 1 1 1 1 10 20 30 40 20 0 1 0 999 1 1";
        let pid = Pid::from_raw(7).unwrap();
        let expected = Process { pid, parent: 3, start: 999, ticks: 100, is_dead: false };
        assert_eq!(parse(pid, stat), Some(expected));
        assert_eq!(parse(pid, "7 (a) S"), None);
        assert_eq!(parse(pid, ""), None);
    }

    #[test]
    fn a_child_is_a_descendant_until_it_exits() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let is_there = |exempt| descendants(exempt).iter().any(|process| process.pid == pid);
        assert!(is_there(None));
        assert!(!is_there(Some(pid)), "it does not belong to the job");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_there(None));
    }

    #[test]
    fn this_process_is_a_descendant_of_its_parent() {
        let (own, parent) = (getpid(), rustix::process::getppid().unwrap());
        assert!(descendants_of(parent, None).iter().any(|process| process.pid == own));
        assert_eq!(
            descendants_of(parent, Some(own)).iter().find(|process| process.pid == own),
            None
        );
        assert!(start_time(own.as_raw_pid()).is_some());
    }
}
