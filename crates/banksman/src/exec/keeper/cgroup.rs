//! A control group of its own for each job, where the system lets us make one: then nothing that
//! the job starts can hide.
//!
//! Not having one is no fault: outside Linux, in many containers and in most login sessions it
//! cannot be had, and [`super::tree`] finds the processes by other means.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PROCESSES: &str = "cgroup.procs";

/// The group that the keeper lives in together with everything that it starts.
pub(super) struct Cgroup {
    folder: PathBuf,
    /// Where the keeper came from.
    outside: PathBuf,
}

impl Cgroup {
    /// Where the group would be; none where there can be none. It is put on record before it is
    /// made, so that it is found and removed whatever happens to the keeper.
    pub(super) fn planned(name: &str) -> Option<Self> {
        let outside = own_folder()?;
        Some(Self { folder: outside.join(name), outside })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the group and enters it, so that every child is born inside.
    pub(super) fn enter(self) -> Option<Self> {
        fs::create_dir(&self.folder).ok()?;
        if !self.folder.join("cgroup.kill").exists() || enter(&self.folder).is_err() {
            self.leave();
            return None;
        }
        Some(self)
    }

    /// Kills everything in the group at once, the keeper excepted.
    pub(super) fn kill(&self) -> io::Result<()> {
        enter(&self.outside)?;
        let killed = kill_all(&self.folder);
        enter(&self.folder)?;
        killed
    }

    /// The group goes with its last process; one that cannot go yet is removed when the job is put
    /// away.
    pub(super) fn leave(self) {
        if enter(&self.outside).is_ok() {
            remove(&self.folder);
        }
    }
}

/// Kills everything in the group of a keeper that is gone.
pub(in crate::exec) fn kill_all(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.kill"), "1")
}

pub(in crate::exec) fn processes(folder: &Path) -> Vec<i32> {
    let list = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(in crate::exec) fn remove(folder: &Path) {
    // It is busy while a process of it is not yet reaped, and an empty group costs next to nothing.
    drop(fs::remove_dir(folder));
}

fn enter(folder: &Path) -> io::Result<()> {
    fs::write(folder.join(PROCESSES), "0")
}

/// The folder of the group that this process is in; none without a version 2 hierarchy.
fn own_folder() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(mount_point).map(|mount| mount.join(own))
}

/// From a line such as `31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw`.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (mount, source) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    (source.starts_with("cgroup2 ") && root == "/").then(|| PathBuf::from(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_version_2_hierarchy_counts() {
        let whole = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(whole), Some(PathBuf::from("/sys/fs/cgroup")));
        let part = "31 23 0:26 /docker/7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(part), None);
        let old = "31 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";
        assert_eq!(mount_point(old), None);
        assert_eq!(mount_point("31"), None);
    }
}
