//! Which run has started this program, told by the processes above it.
//!
//! A keeper adopts whatever its agent leaves behind, so a process that was started in a run stays
//! below its keeper, whatever it does to its environment, its session or its parents. Only Linux
//! tells of processes in `/proc`; elsewhere nothing is found here.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process;

/// Processes that are looked at on the way up. Nobody nests them this deep by chance, and each is a
/// few small files.
const ANCESTORS: usize = 4_096;
/// How often the way up is begun anew.
const LOOKS: usize = 3;
/// What is read of a command line: that of a keeper is its name, a word and a path.
const COMMAND_LINE_BYTES: u64 = 16 * 1024;
/// The hidden command of a keeper. Its one argument is the folder of its job, which is named like
/// the job.
const KEEPER: &str = "keeper";
/// What Linux adds to the name of a program whose file was replaced, as an update does.
const REPLACED: &[u8] = b" (deleted)";
/// A run whose name cannot be read is a run all the same.
const NAMELESS: &str = "unknown";

/// The job of the nearest keeper above this process.
pub(super) fn run() -> Option<String> {
    let own = executable(process::id())?;
    // One of them may end during the look, and then somebody else has become the parent.
    (0..LOOKS).find_map(|_| look(&own).ok()).flatten()
}

/// An error means that the way up could not be followed to its end.
fn look(own: &Path) -> io::Result<Option<String>> {
    let mut pid = parent(process::id())?;
    for _ in 0..ANCESTORS {
        // Number 0 is above the first process, and above those that were put into a container from
        // outside.
        if pid == 0 {
            return Ok(None);
        }
        if executable(pid).is_some_and(|of| of == own)
            && let Some(folder) = kept_by(&command_line(pid)?)
        {
            let job = folder.file_name().and_then(OsStr::to_str);
            return Ok(Some(job.unwrap_or(NAMELESS).to_owned()));
        }
        pid = parent(pid)?;
    }
    // Only somebody who hides builds such a tower.
    Ok(Some(NAMELESS.to_owned()))
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

/// The name comes second, in brackets, and may itself hold anything; the state and the parent
/// follow it.
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

/// The folder of a keeper's job, if this is the command line of one.
fn kept_by(line: &[u8]) -> Option<&Path> {
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
        let folder = |line: &'static [u8]| kept_by(line).and_then(Path::file_name);
        assert_eq!(folder(b"banksman\0keeper\0/home/runs/r1.2\0"), Some(OsStr::new("r1.2")));
        assert_eq!(folder(b"banksman\0add\0keeper\0/x\0"), None);
        assert_eq!(folder(b"banksman\0keeper"), None);
    }
}
