//! Areas: the parts of a repository that two tasks must not work on at the same time.
//!
//! They come from the first field of a task that names any: its target area, the paths that it
//! touches, the paths that it may change. All areas of a task count.
//!
//! An area is a guess about where work collides, not a fence: the real changes of a run are checked
//! against `allowed_paths` when it ends. A coarse area is better than a fine one, and none is
//! better than a wrong one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits;

/// A part of a repository that two tasks must not work on at the same time: a path prefix of whole
/// segments (`path:apps/web`, and `path:.` for the whole repository), or a name (`docser:global`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Area(pub String);

const PATH: &str = "path:";
const EVERYTHING: &str = "path:.";

/// Folders that group independent parts: the part below them is the area, not the folder itself.
/// `src` and `tests` are included because in a repository with one package nearly every task is
/// below them.
const GROUPS: [&str; 10] =
    ["apps", "assets", "crates", "docs", "ops", "packages", "scripts", "src", "templates", "tests"];

/// The areas of a task, sorted, none inside another, at most [`limits::AREAS`].
///
/// - A target area alone decides. With a slash it is a path, in full depth; `path:NAME` is a single
///   folder; everything else is a name that overlaps only with itself.
/// - A path counts up to its first wildcard segment, cut to its first segment, or to two below a
///   folder that groups independent parts.
/// - `**` in `touches` is the whole repository. In `allowed_paths` it names no area: it is a
///   permission, and often the default.
/// - Paths that lead out of the repository, and negated ones (`!docs`), name no area.
pub fn areas(target_area: Option<&str>, touches: &[String], allowed_paths: &[String]) -> Vec<Area> {
    if let Some(target) = target_area.and_then(of_target) {
        return vec![target];
    }
    let touched: BTreeSet<String> = touches.iter().filter_map(|path| of_path(path)).collect();
    if !touched.is_empty() {
        return bounded(&touched);
    }
    let allowed = allowed_paths.iter().filter_map(|path| of_path(path));
    bounded(&allowed.filter(|area| area != EVERYTHING).collect())
}

/// The first area of `a` that overlaps one of `b`: they are equal, or one path contains the other.
pub fn overlap<'a>(a: &'a [Area], b: &[Area]) -> Option<&'a Area> {
    a.iter().find(|mine| b.iter().any(|theirs| mine.meets(theirs)))
}

impl Area {
    fn meets(&self, other: &Self) -> bool {
        match (self.0.strip_prefix(PATH), other.0.strip_prefix(PATH)) {
            (Some(mine), Some(theirs)) => is_inside(mine, theirs) || is_inside(theirs, mine),
            (Some(_), None) | (None, Some(_)) => false,
            (None, None) => self.0 == other.0,
        }
    }
}

fn is_inside(inner: &str, outer: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    outer == "." || inner.strip_prefix(outer).is_some_and(below)
}

fn of_target(target: &str) -> Option<Area> {
    let target = target.trim();
    let path = target.strip_prefix(PATH).or_else(|| {
        let is_path = target.contains('/') && !target.contains(':');
        is_path.then_some(target)
    });
    match path {
        Some(path) => Some(Area(written(&fixed_segments(path)?))),
        None => (!target.is_empty()).then(|| Area(target.to_owned())),
    }
}

fn of_path(path: &str) -> Option<String> {
    let segments = fixed_segments(path)?;
    let depth = if segments.first().is_some_and(|first| GROUPS.contains(first)) { 2 } else { 1 };
    Some(written(&segments[..segments.len().min(depth)]))
}

/// The segments before the first wildcard; empty for the whole repository, `None` for a path that
/// names nothing inside it.
fn fixed_segments(path: &str) -> Option<Vec<&str>> {
    let path = path.trim();
    if path.is_empty() || path.starts_with('!') {
        return None;
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            wild if wild.contains(['*', '?', '[', '{']) => break,
            plain => segments.push(plain),
        }
    }
    Some(segments)
}

fn written(segments: &[&str]) -> String {
    if segments.is_empty() {
        return EVERYTHING.to_owned();
    }
    format!("{PATH}{}", segments.join("/"))
}

/// Too many areas are made coarser and never dropped: a task would collide where its area is
/// missing.
fn bounded(areas: &BTreeSet<String>) -> Vec<Area> {
    let mut areas = outermost(areas);
    if areas.len() > limits::AREAS {
        let first = |area: &String| area.split('/').next().unwrap_or(area).to_owned();
        areas = areas.iter().map(first).collect();
    }
    if areas.len() > limits::AREAS {
        areas = BTreeSet::from([EVERYTHING.to_owned()]);
    }
    areas.into_iter().map(Area).collect()
}

fn outermost(areas: &BTreeSet<String>) -> BTreeSet<String> {
    if areas.contains(EVERYTHING) {
        return BTreeSet::from([EVERYTHING.to_owned()]);
    }
    let is_outermost = |area: &&String| {
        let mut around = area.match_indices('/').map(|(at, _)| &area[..at]);
        !around.any(|outer| areas.contains(outer))
    };
    areas.iter().filter(is_outermost).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    fn names(areas: &[Area]) -> Vec<&str> {
        areas.iter().map(|area| area.0.as_str()).collect()
    }

    #[test]
    fn touched_paths_name_areas() {
        let check = |touches: &[&str], expected: &[&str]| {
            assert_eq!(names(&areas(None, &texts(touches), &[])), expected, "{touches:?}");
        };
        check(&[], &[]);
        check(&["", "  ", "!docs/a", "../other", "a/../../b"], &[]);
        check(&["README.md"], &["path:README.md"]);
        check(&["web/src/login.ts"], &["path:web"]);
        check(&["./web//src", "/web/"], &["path:web"]);
        check(&["web/x/../../api"], &["path:api"]);
        check(&["apps/web/src/login.ts", "apps/api"], &["path:apps/api", "path:apps/web"]);
        check(
            &["crates/core/src/ids.rs", "src/main.rs"],
            &["path:crates/core", "path:src/main.rs"],
        );
        check(&["apps/*/src", "web/**"], &["path:apps", "path:web"]);
        check(&["apps/{web,api}/**"], &["path:apps"]);
        check(&["apps/we?", "docs/[ab]"], &["path:apps", "path:docs"]);
        check(&["apps/web/x", "apps", "apps-old/x"], &["path:apps", "path:apps-old"]);
        check(&["**", "web/x"], &["path:."]);
        check(&["."], &["path:."]);
        check(&["application/x"], &["path:application"]);
    }

    #[test]
    fn the_first_source_that_names_an_area_decides() {
        let check =
            |target: Option<&str>, touches: &[&str], allowed: &[&str], expected: &[&str]| {
                let found = areas(target, &texts(touches), &texts(allowed));
                assert_eq!(names(&found), expected, "{target:?} {touches:?} {allowed:?}");
            };
        check(Some("docser:global"), &["web/x"], &["api/x"], &["docser:global"]);
        check(Some(" login "), &["web/x"], &[], &["login"]);
        check(Some("path:./apps//web/src/"), &[], &[], &["path:apps/web/src"]);
        check(Some("apps/web/src/*.ts"), &[], &[], &["path:apps/web/src"]);
        check(Some("web/"), &[], &[], &["path:web"]);
        check(Some("path:**"), &[], &[], &["path:."]);
        check(Some("research:a/b"), &[], &[], &["research:a/b"]);
        check(Some(""), &["web/x"], &["api/x"], &["path:web"]);
        check(Some("path:../x"), &["web/x"], &[], &["path:web"]);
        check(None, &["!web"], &["api/x", "docs/b/c"], &["path:api", "path:docs/b"]);
        check(None, &[], &["**", "*.md"], &[]);
        check(None, &[], &["**", "api/**"], &["path:api"]);
    }

    #[test]
    fn too_many_areas_become_coarser() {
        let below_apps: Vec<String> = (0..65).map(|n| format!("apps/a{n}/x")).collect();
        assert_eq!(areas(None, &below_apps[..64], &[]).len(), 64);
        assert_eq!(names(&areas(None, &below_apps, &[])), ["path:apps"]);
        let at_the_root: Vec<String> = (0..65).map(|n| format!("a{n}/x")).collect();
        assert_eq!(names(&areas(None, &at_the_root, &[])), ["path:."]);
    }

    #[test]
    fn areas_overlap_when_one_is_inside_the_other() {
        let check = |a: &[&str], b: &[&str], expected: Option<&str>| {
            let (a, b) = (texts(a), texts(b));
            let (a, b): (Vec<Area>, Vec<Area>) =
                (a.into_iter().map(Area).collect(), b.into_iter().map(Area).collect());
            assert_eq!(overlap(&a, &b).map(|area| area.0.as_str()), expected, "{a:?} {b:?}");
        };
        check(&["path:apps"], &["path:apps"], Some("path:apps"));
        check(&["path:apps"], &["path:apps/web"], Some("path:apps"));
        check(&["path:apps/web"], &["path:apps"], Some("path:apps/web"));
        check(&["path:app"], &["path:apps"], None);
        check(&["path:apps/web"], &["path:apps/web2"], None);
        check(&["path:docs", "path:apps/web"], &["path:x", "path:apps"], Some("path:apps/web"));
        check(&["path:."], &["path:apps"], Some("path:."));
        check(&["path:apps"], &["path:."], Some("path:apps"));
        check(&["docser:global"], &["docser:global"], Some("docser:global"));
        check(&["docser:global"], &["docser:globals"], None);
        check(&["apps"], &["path:apps"], None);
        check(&["path:."], &["docser:global"], None);
        check(&[], &["path:."], None);
        check(&["path:."], &[], None);
    }
}
