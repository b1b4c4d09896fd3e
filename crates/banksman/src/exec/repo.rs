//! Reads facts about a repository from its files, without running git.

use std::fs;
use std::path::{Path, PathBuf};

use banksman_core::time::Instant;

use super::files::changed_at;
use super::worktree::common_folder;
use crate::plain_file;

/// A larger file does not belong to git.
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;

/// The branch that work starts from if no setting names one: the remote's default, else `main` or
/// `master`, else the checked-out one. It does not change when somebody switches branches, unless
/// there is no other.
pub fn base_branch(repo: &Path) -> Option<String> {
    let git = common_folder(repo).ok()?;
    let packed = read(&git.join("packed-refs")).unwrap_or_default();
    let exists = |branch: &&str| {
        let name = format!("refs/heads/{branch}");
        git.join(&name).is_file()
            || packed.lines().any(|line| line.split(' ').nth(1) == Some(&name))
    };
    // Without the remote, nobody has published it.
    let published = remote(repo).and_then(|_| read(&git.join("refs/remotes/origin/HEAD")));
    let published =
        published.as_deref().and_then(|text| text.trim().strip_prefix("ref: refs/remotes/origin/"));
    let usual = || ["main", "master"].into_iter().find(exists);
    let current = || {
        let head = read(&git.join("HEAD"))?;
        head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
    };
    published.or_else(usual).map(str::to_owned).or_else(current)
}

/// The remote `origin`, if it exists.
pub fn remote(repo: &Path) -> Option<String> {
    let config = read(&common_folder(repo).ok()?.join("config"))?;
    let is_there = config.lines().any(|line| line.trim() == "[remote \"origin\"]");
    is_there.then(|| "origin".to_owned())
}

/// The newest commit on a branch since a time whose subject contains a mark, according to the
/// branch's reflog.
pub fn marked_commit(repo: &Path, branch: &str, mark: &str, since: Instant) -> Option<String> {
    let log = read(&common_folder(repo).ok()?.join("logs/refs/heads").join(branch))?;
    let is_marked = |line: &&str| {
        let Some((head, message)) = line.split_once('\t') else { return false };
        // The part before the message ends with a time in seconds and a zone.
        let seconds = head.rsplit(' ').nth(1).and_then(|word| word.parse::<i64>().ok());
        message.contains(mark) && seconds.is_some_and(|at| at >= since.0 / 1_000)
    };
    let line = log.lines().rev().find(is_marked)?;
    line.split(' ').nth(1).map(str::to_owned)
}

/// The reflog of a branch, to be watched.
pub fn branch_log(repo: &Path, branch: &str) -> Option<PathBuf> {
    Some(common_folder(repo).ok()?.join("logs/refs/heads").join(branch))
}

/// The reflog of a remote-tracking branch, to be watched.
pub fn published_log(repo: &Path, remote: &str, branch: &str) -> Option<PathBuf> {
    Some(common_folder(repo).ok()?.join("logs/refs/remotes").join(remote).join(branch))
}

/// When a branch was last pushed or fetched, by this machine's clock.
pub fn published_at(repo: &Path, remote: &str, branch: &str) -> Option<Instant> {
    Some(changed_at(&fs::metadata(published_log(repo, remote, branch)?).ok()?))
}

fn read(path: &Path) -> Option<String> {
    plain_file::read_text(path, MAX_FILE_BYTES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_base_does_not_follow_a_checkout() {
        let head = (".git/HEAD", "ref: refs/heads/topic\n");
        type Files<'a> = &'a [(&'a str, &'a str)];
        let table: [(Files<'_>, Option<&str>); 7] = [
            (&[head], Some("topic")),
            (&[head, (".git/refs/heads/main", "abc\n")], Some("main")),
            (&[head, (".git/packed-refs", "# pack-refs\nabc refs/heads/master\n")], Some("master")),
            (
                &[
                    head,
                    (".git/config", "[remote \"origin\"]\n"),
                    (".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/dev\n"),
                ],
                Some("dev"),
            ),
            (
                &[head, (".git/refs/remotes/origin/HEAD", "ref: refs/remotes/origin/dev\n")],
                Some("topic"),
            ),
            (&[(".git/HEAD", "0123abcd\n")], None),
            (&[], None),
        ];
        for (files, expected) in table {
            assert_eq!(base_branch(repo(files).path()).as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn a_worktree_leads_to_its_repository() {
        let folder = repo(&[
            ("main/.git/HEAD", "ref: refs/heads/main\n"),
            ("main/.git/refs/heads/main", "abc\n"),
            ("main/.git/config", "[remote \"origin\"]\n\turl = x\n"),
            ("main/.git/worktrees/side/commondir", "../..\n"),
            ("side/.git", "gitdir: ../main/.git/worktrees/side\n"),
        ]);
        let side = folder.path().join("side");
        assert_eq!(base_branch(&side).as_deref(), Some("main"));
        assert_eq!(remote(&side).as_deref(), Some("origin"));
        assert_eq!(remote(repo(&[(".git/config", "")]).path()), None);
    }
}
