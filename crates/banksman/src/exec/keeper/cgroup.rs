//! A control group for each job, where the system allows one: no process of the job can escape it.
//!
//! A missing control group is not an error: outside Linux, in many containers and in most login
//! sessions there is none, and [`super::tree`] finds the processes by other means.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PROCESSES: &str = "cgroup.procs";

/// The group of the keeper and everything that it starts.
pub(super) struct Cgroup {
    folder: PathBuf,
    /// The group that the keeper came from.
    outside: PathBuf,
}

impl Cgroup {
    /// The group to create; none where groups are unavailable. The keeper records the path before
    /// it creates the group, so that recovery finds and removes the group whatever happens to the
    /// keeper.
    pub(super) fn planned(name: &str) -> Option<Self> {
        let outside = own_folder()?;
        Some(Self { folder: outside.join(name), outside })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the group and enters it, so that every child starts inside.
    pub(super) fn enter(self) -> Option<Self> {
        fs::create_dir(&self.folder).ok()?;
        if !self.folder.join("cgroup.kill").exists() || enter(&self.folder).is_err() {
            self.leave();
            return None;
        }
        Some(self)
    }

    /// Kills everything in the group at once, except the keeper.
    pub(super) fn kill(&self) -> io::Result<()> {
        enter(&self.outside)?;
        let killed = kill_all(&self.folder);
        enter(&self.folder)?;
        killed
    }

    /// Removes the group. If a process remains in it, the removal of the job removes the group.
    pub(super) fn leave(self) {
        if enter(&self.outside).is_ok() {
            remove(&self.folder);
        }
    }
}

/// Kills everything in the group of a dead keeper.
pub(in crate::exec) fn kill_all(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.kill"), "1")
}

pub(in crate::exec) fn processes(folder: &Path) -> Vec<i32> {
    // A group that is gone has no processes.
    let list = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

pub(in crate::exec) fn remove(folder: &Path) {
    // The group is busy until its last process is reaped, and an empty group costs almost nothing.
    drop(fs::remove_dir(folder));
}

fn enter(folder: &Path) -> io::Result<()> {
    fs::write(folder.join(PROCESSES), "0")
}

/// The folder of this process's group; none without a cgroup v2 hierarchy.
fn own_folder() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(mount_point).map(|mount| mount.join(own))
}

/// Parses a line such as `31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw`.
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
