//! Finds pull requests with plain git: forges publish the newest commit of each as a ref of the
//! repository.
//!
//! A published ref shows that somebody has opened a pull request, not that it is still open: a
//! closed one keeps its ref.

use std::collections::BTreeSet;
use std::path::Path;

use super::{FETCH, Git, KEEP_BYTES, SHORT, failure};
use crate::exec::process::{Result, RunError};

/// The parts of such ref names before and after the number.
const PUBLISHED: [(&str, &str, Forge); 3] = [
    ("refs/pull/", "/head", Forge::Pull),
    ("refs/merge-requests/", "/head", Forge::MergeRequest),
    ("refs/pull-requests/", "/from", Forge::PullRequests),
];

/// The forges, by how they name these refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forge {
    /// GitHub, Gitea, Forgejo.
    Pull,
    /// GitLab.
    MergeRequest,
    /// Bitbucket Server.
    PullRequests,
}

/// A pull request that a remote has published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    /// Its newest commit.
    pub commit: String,
    forge: Forge,
}

/// What a remote shows of one branch and of all pull requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct RemoteRefs {
    branch: Option<String>,
    pulls: Vec<PullRequest>,
}

impl Git<'_> {
    /// The newest pull request on a remote whose newest commit is one of these heads, or contains
    /// the first of them because somebody continued on the remote.
    pub fn pull_request(
        &mut self,
        remote: &str,
        (base, branch): (&str, &str),
        heads: &[String],
    ) -> Result<Option<PullRequest>> {
        let refs = self.list_refs(remote, branch)?;
        let newest = |matches: &dyn Fn(&PullRequest) -> bool| {
            refs.pulls.iter().filter(|pull| matches(pull)).max_by_key(|pull| pull.number).cloned()
        };
        if let Some(pull) = newest(&|pull| heads.contains(&pull.commit)) {
            return Ok(Some(pull));
        }
        let Some(published) = &refs.branch else { return Ok(None) };
        let Some(pull) = newest(&|pull| pull.commit == *published) else { return Ok(None) };
        let (Some(head), true) = (heads.first(), self.fetch(remote, base, branch)?.ok()) else {
            return Ok(None);
        };
        // The branch may have moved again since `ls-remote`; then the next check finds it.
        let is_here = self.commit_of(published)?.is_some();
        Ok((is_here && self.is_ancestor(head, published)?).then_some(pull))
    }

    fn list_refs(&mut self, remote: &str, branch: &str) -> Result<RemoteRefs> {
        let own = format!("refs/heads/{branch}");
        let globs = PUBLISHED.map(|(before, after, _)| format!("{before}*{after}"));
        let args: Vec<&str> =
            [remote, &own].into_iter().chain(globs.iter().map(String::as_str)).collect();
        let output = self.run("ls-remote --quiet --end-of-options", &args, None, FETCH)?;
        if output.cut {
            let detail = format!("it lists more than {} MiB of refs", KEEP_BYTES >> 20);
            return Err(RunError::failed(
                format!("looking for pull requests on `{remote}`"),
                detail,
            ));
        }
        if !output.ok() {
            return Err(failure(&format!("git ls-remote {remote}"), &output));
        }
        Ok(read(&output.stdout, &own))
    }

    /// The web page of a pull request, if the remote's address tells it.
    pub fn web_link(&mut self, remote: &str, pull: &PullRequest) -> Result<Option<String>> {
        let output = self.run_checked("ls-remote --get-url --end-of-options", &[remote], SHORT)?;
        Ok(link(output.stdout.trim(), pull))
    }
}

fn read(text: &str, own: &str) -> RemoteRefs {
    let mut refs = RemoteRefs::default();
    let mut numbers = BTreeSet::new();
    for (commit, name) in text.lines().filter_map(|line| line.split_once('\t')) {
        if name == own {
            refs.branch = Some(commit.to_owned());
        }
        let of = |(before, after, forge): (&str, &str, Forge)| {
            let number = name.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?;
            Some(PullRequest { number, commit: commit.to_owned(), forge })
        };
        let pull = PUBLISHED.into_iter().find_map(of);
        refs.pulls.extend(pull.filter(|pull| numbers.insert(pull.number)));
    }
    refs
}

/// None for an address that is not a forge's, such as a folder. The part before the host may be a
/// secret.
fn link(address: &str, pull: &PullRequest) -> Option<String> {
    if Path::new(address).is_absolute() {
        return None;
    }
    let (host, path) = match address.split_once("://") {
        Some(("https" | "http" | "ssh" | "git+ssh", rest)) => rest.split_once('/')?,
        Some(_) => return None,
        None => address.split_once(':')?,
    };
    let is_web = address.starts_with("http");
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    // The port of ssh is not that of the web.
    let host = if is_web { host } else { host.split(':').next()? };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:".contains(c);
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    if host.is_empty() || path.is_empty() || ![host, path].iter().all(|it| it.chars().all(is_plain))
    {
        return None;
    }
    let scheme = if address.starts_with("http://") { "http" } else { "https" };
    let number = pull.number;
    let page = match pull.forge {
        Forge::Pull if host.contains("github") => format!("{path}/pull/{number}"),
        Forge::Pull => format!("{path}/pulls/{number}"),
        Forge::MergeRequest => format!("{path}/-/merge_requests/{number}"),
        Forge::PullRequests => {
            let (project, name) = path.strip_prefix("scm/").unwrap_or(path).rsplit_once('/')?;
            format!("projects/{project}/repos/{name}/pull-requests/{number}")
        }
    };
    Some(format!("{scheme}://{host}/{page}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(forge: Forge) -> PullRequest {
        PullRequest { number: 7, commit: "abc".to_owned(), forge }
    }

    #[test]
    fn only_pull_request_refs_are_read() {
        let text = "a1\trefs/heads/mine\na2\trefs/heads/x/refs/heads/mine\na3\trefs/pull/7/head\na4\trefs/pull/7/merge\n\
                    a5\trefs/merge-requests/12/head\na6\trefs/pull-requests/3/from\na7\trefs/pull/x/head\n\
                    a8\trefs/heads/refs/pull/9/head\nnonsense\n";
        let refs = read(text, "refs/heads/mine");
        assert_eq!(refs.branch.as_deref(), Some("a1"));
        let found: Vec<(u64, &str)> =
            refs.pulls.iter().map(|pull| (pull.number, pull.commit.as_str())).collect();
        assert_eq!(found, [(7, "a3"), (12, "a5"), (3, "a6")]);
    }

    #[test]
    fn a_web_link_contains_no_secrets() {
        use Forge::{MergeRequest, Pull, PullRequests};
        for (address, forge, expected) in [
            ("https://github.com/o/r.git", Pull, Some("https://github.com/o/r/pull/7")),
            ("https://kim:s3cret@github.com/o/r", Pull, Some("https://github.com/o/r/pull/7")),
            ("git@github.com:o/r.git", Pull, Some("https://github.com/o/r/pull/7")),
            ("ssh://git@codeberg.org:2222/o/r.git", Pull, Some("https://codeberg.org/o/r/pulls/7")),
            ("http://forge.test:3000/o/r/", Pull, Some("http://forge.test:3000/o/r/pulls/7")),
            (
                "git@gitlab.com:group/sub/r.git",
                MergeRequest,
                Some("https://gitlab.com/group/sub/r/-/merge_requests/7"),
            ),
            (
                "https://bb.test/scm/PR/r.git",
                PullRequests,
                Some("https://bb.test/projects/PR/repos/r/pull-requests/7"),
            ),
            ("/srv/git/r.git", Pull, None),
            ("../r.git", Pull, None),
            ("file:///srv/r.git", Pull, None),
            ("https://github.com/", Pull, None),
            ("https://evil.test/o/r\u{1b}[2J", Pull, None),
        ] {
            assert_eq!(link(address, &pull(forge)).as_deref(), expected, "{address}");
        }
    }
}
