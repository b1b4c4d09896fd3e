//! Finds the run that started this program by walking up its parent processes.
//!
//! A keeper adopts every orphan of its agent, so a process that was started in a run stays below
//! its keeper, whatever it does to its environment, session or parents. It reads `/proc`, so it
//! finds nothing on systems other than Linux.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process;

/// How many parents are followed. No real process tree is this deep, and each parent costs a few
/// small reads.
const ANCESTORS: usize = 4_096;
/// How often the walk is restarted.
const ATTEMPTS: usize = 3;
/// How much of a command line is read; a keeper's is its name, a word and a path.
const COMMAND_LINE_BYTES: u64 = 16 * 1024;
/// The hidden command of a keeper. Its one argument is the folder of its job, which is named after
/// the job.
pub const KEEPER: &str = "keeper";
/// What Linux appends to the path of an executable that was replaced, as by an update.
const REPLACED: &[u8] = b" (deleted)";
/// The name of a run whose name cannot be read.
const UNKNOWN: &str = "unknown";

/// The job of the nearest keeper above this process. Where the parents cannot be read although the
/// system has them, somebody hides them, and the process counts as part of a run.
pub(super) fn run() -> Option<String> {
    let hidden = || cfg!(target_os = "linux").then(|| UNKNOWN.to_owned());
    let Some(own) = executable(process::id()) else { return hidden() };
    // A parent may exit during the walk, and then the process has a new parent.
    (0..ATTEMPTS).find_map(|_| walk_up(&own).ok()).unwrap_or_else(hidden)
}

/// Fails if the walk could not be completed.
fn walk_up(own: &Path) -> io::Result<Option<String>> {
    let mut pid = parent(process::id())?;
    for _ in 0..ANCESTORS {
        // Pid 0 is above the first process, and above processes that were put into a container from
        // outside.
        if pid == 0 {
            return Ok(None);
        }
        if executable(pid).is_some_and(|of| of == own)
            && let Some(folder) = keeper_folder(&command_line(pid)?)
        {
            let job = folder.file_name().and_then(OsStr::to_str);
            return Ok(Some(job.unwrap_or(UNKNOWN).to_owned()));
        }
        pid = parent(pid)?;
    }
    // Only a process that hides builds such a deep tree; treat it as part of a run.
    Ok(Some(UNKNOWN.to_owned()))
}

fn executable(pid: u32) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?.into_os_string().into_vec();
    let path = path.strip_suffix(REPLACED).unwrap_or(&path).to_vec();
    Some(OsString::from_vec(path).into())
}

fn parent(pid: u32) -> io::Result<u32> {
    let stat = fs::read(format!("/proc/{pid}/stat"))?;
    parent_in(&stat).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name comes second, in brackets, and may contain anything; the state and the parent follow
/// it.
fn parent_in(stat: &[u8]) -> Option<u32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = stat.get(end + 1..)?.split(|byte| *byte == b' ').skip(2);
    std::str::from_utf8(rest.next()?).ok()?.parse().ok()
}

fn command_line(pid: u32) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"))?;
    file.take(COMMAND_LINE_BYTES).read_to_end(&mut line)?;
    Ok(line)
}

/// The folder of a keeper's job, if this is a keeper's command line.
fn keeper_folder(line: &[u8]) -> Option<&Path> {
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let (command, folder) = (words.next()?, words.next()?);
    (command == KEEPER.as_bytes()).then(|| Path::new(OsStr::from_bytes(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in(b"12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in(b"12 (a) R 9 (b\xff) S 7 12"), Some(7));
        assert_eq!(parent_in(b"12 (sh"), None);
    }

    #[test]
    fn a_keeper_is_known_by_its_command() {
        let folder = |line: &'static [u8]| keeper_folder(line).and_then(Path::file_name);
        assert_eq!(folder(b"banksman\0keeper\0/home/runs/r1.2\0"), Some(OsStr::new("r1.2")));
        assert_eq!(folder(b"banksman\0add\0keeper\0/x\0"), None);
        assert_eq!(folder(b"banksman\0keeper"), None);
    }
}
