//! The lifecycles that ship with the program.

use super::Lifecycle;
use super::check::{Overrides, check};
use super::contract::Purpose;
use super::problem::Problems;

macro_rules! fragment {
    ($name:literal) => {
        include_str!(concat!("builtin/fragments/", $name, ".yaml"))
    };
}

/// A source with the fragment that it includes.
macro_rules! including {
    ([$($fragment:literal),+], $file:literal) => {
        concat!(include_str!($file), $("---\n", fragment!($fragment)),+)
    };
}

/// The fragments that every lifecycle may include.
pub const FRAGMENTS: [(&str, &str); 3] = [
    ("delivery", fragment!("delivery")),
    ("merging", fragment!("merging")),
    ("subtasks", fragment!("subtasks")),
];

/// Name and source of each, in the order in which they are listed.
pub const SOURCES: [(&str, &str); 9] = [
    ("autonomous", including!(["delivery", "subtasks"], "builtin/autonomous.yaml")),
    ("leaf", including!(["delivery"], "builtin/leaf.yaml")),
    ("mission", including!(["merging"], "builtin/mission.yaml")),
    ("step", include_str!("builtin/step.yaml")),
    ("workflow", include_str!("builtin/workflow.yaml")),
    ("review", include_str!("builtin/review.yaml")),
    ("judged", including!(["merging"], "builtin/judged.yaml")),
    ("supervised", including!(["merging"], "builtin/supervised.yaml")),
    ("budget", include_str!("builtin/budget.yaml")),
];

/// The source of a fragment that ships with the program.
pub fn fragment(name: &str) -> Option<&'static str> {
    FRAGMENTS.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// The source of a built-in lifecycle.
pub fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// The built-in lifecycle that the engine creates tasks of this purpose with, and its source.
///
/// An error if the lifecycle refuses the overrides.
///
/// # Panics
///
/// For a purpose that the engine creates no tasks of.
pub fn for_purpose(
    purpose: Purpose,
    overrides: &Overrides,
) -> Result<(Lifecycle, String), Problems> {
    let name = purpose.engine_lifecycle().expect("the engine creates tasks of this purpose");
    let source = source(name).expect("a test checks that each of them is built in");
    let lifecycle = check(source, &format!("built-in {name}"), overrides)?;
    Ok((lifecycle, source.to_owned()))
}

/// A built-in lifecycle, checked with a project's overrides; `None` if there is none of that name.
pub fn get(name: &str, overrides: &Overrides) -> Option<Result<Lifecycle, Problems>> {
    source(name).map(|source| check(source, &format!("built-in {name}"), overrides))
}
