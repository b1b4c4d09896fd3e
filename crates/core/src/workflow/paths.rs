//! Checks names and paths of a workflow, and keeps the files of similar steps apart. It reads
//! nothing from disk.

use std::collections::BTreeMap;

use super::{Gate, Signal, Step};
use crate::lifecycle::problem::Problem;
use crate::limits;

/// Whether a text can be the id of a workflow, step or gate.
pub(super) fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty()
        && text.len() <= limits::NAME_BYTES
        && text.chars().all(fits)
        && text.chars().any(|c| c.is_ascii_alphanumeric())
}

/// An id as part of a file name: `build[linux,2]` becomes `build-linux-2`, `release/X-1` becomes
/// `release-X-1`.
pub fn file_name(id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let parts: Vec<&str> = id.split(|c| !fits(c)).filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// Why a text is not a path inside the repository; none if it is one.
pub(super) fn fault(path: &str) -> Option<&'static str> {
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.trim().is_empty() {
        Some("it is empty")
    } else if path.len() > limits::WORKFLOW_PATH_BYTES {
        Some("it is too long")
    } else if path.starts_with(['/', '\\', '~']) || drive {
        Some("it is not relative")
    } else if path.split(['/', '\\']).any(|segment| segment == "..") {
        Some("it leads out of the repository")
    } else if path.chars().any(char::is_control) {
        Some("it contains a control character")
    } else {
        None
    }
}

/// A normalised folder path, so that `phase-4/` and `./phase-4` are the same worktree.
pub(super) fn folder(path: &str) -> String {
    let segments = path.split('/').filter(|segment| !segment.is_empty() && *segment != ".");
    segments.collect::<Vec<_>>().join("/")
}

/// The path of an included file from the folder of the outermost one; none if it is outside of that
/// folder.
pub(super) fn beside(including: &str, path: &str) -> Option<String> {
    let folder = including.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut segments: Vec<&str> = folder.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    (!path.starts_with('/') && !segments.is_empty()).then(|| segments.join("/"))
}

/// What distinguishes a step from others of the same source lines: `linux-2` of `build[linux,2]`,
/// `release` of `release/X-1`.
fn step_suffix(id: &str) -> String {
    let (before, own) = id.rsplit_once('/').unwrap_or(("", id));
    let suffix = own.find('[').map_or("", |at| &own[at..]);
    file_name(&format!("{before}/{suffix}"))
}

/// Gives each step its own files for signals and feedback. Steps of one matrix, or of a file that
/// is included twice, come from the same lines and would otherwise read each other's files.
pub(super) fn make_files_unique(steps: &mut [Step]) -> Vec<Problem> {
    let shared = count(steps.iter().flat_map(names));
    for step in steps.iter_mut() {
        let own = step_suffix(&step.id);
        if !own.is_empty() {
            add_suffix(step, &own, |name| shared.get(name).is_some_and(|times| *times > 1));
        }
    }
    let left = count(steps.iter().flat_map(names));
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for step in steps.iter() {
        for name in names(step).into_iter().filter(|name| left[name] > 1) {
            if let Some(other) = seen.insert(name.clone(), &step.id) {
                let message = format!("`{other}` and `{}` would both write `{name}`", step.id);
                problems.push(Problem::in_line(step.line, message, "give each its own path"));
            }
        }
    }
    problems
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for name in names {
        *times.entry(name).or_insert(0) += 1;
    }
    times
}

/// The files that only this step may use, each once.
fn names(step: &Step) -> Vec<String> {
    let signal = match &step.signal {
        Signal::SentinelFile { path } => Some(path.clone()),
        Signal::GitCommit { .. } | Signal::PrCreation | Signal::StdoutExit => None,
    };
    let backs = step.gate.iter().flat_map(|gate| &gate.on_fail);
    let mut names: Vec<String> =
        backs.map(|back| back.retry_context_path.clone()).chain(signal).collect();
    names.sort();
    names.dedup();
    names
}

fn add_suffix(step: &mut Step, own: &str, is_shared: impl Fn(&str) -> bool) {
    if let Signal::SentinelFile { path } = &mut step.signal
        && is_shared(path)
    {
        let stem = path.rfind('.').filter(|at| !path[*at..].contains('/')).unwrap_or(path.len());
        path.insert_str(stem, &format!("-{own}"));
    }
    for back in step.gate.iter_mut().flat_map(|gate: &mut Gate| &mut gate.on_fail) {
        if is_shared(&back.retry_context_path) {
            back.retry_context_path =
                back.retry_context_path.replacen("{n}", &format!("{own}-{{n}}"), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_names_of_files() {
        assert_eq!(file_name("XG-1-2"), "XG-1-2");
        assert_eq!(file_name("a[x/y]/build[linux,2]"), "a-x-y-build-linux-2");
        assert_eq!(step_suffix("X-1"), "");
        assert_eq!(step_suffix("a[x]/build[linux,2]"), "a-x-linux-2");
        assert_eq!(step_suffix("release/X-1"), "release");
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["a", "a/b.md", ".workflow/x", "a..b/c", "src/**/*.rs"] {
            assert_eq!(fault(path), None, "{path}");
        }
        for path in ["", " ", "/a", "~/a", "C:\\a", "a/../../b", "..", "a\nb", "\\\\host"] {
            assert!(fault(path).is_some(), "{path}");
        }
        assert_eq!(folder("./phase-4//"), "phase-4");
    }

    #[test]
    fn an_included_path_is_relative_to_its_file() {
        assert_eq!(beside("main.yaml", "b.yaml").as_deref(), Some("b.yaml"));
        assert_eq!(beside("parts/a.yaml", "b.yaml").as_deref(), Some("parts/b.yaml"));
        assert_eq!(beside("parts/a.yaml", "../b.yaml").as_deref(), Some("b.yaml"));
        assert_eq!(beside("a.yaml", "../b.yaml"), None);
        assert_eq!(beside("a.yaml", "/b.yaml"), None);
    }
}
