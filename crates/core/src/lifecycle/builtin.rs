//! The lifecycles that ship with the program.

use super::Lifecycle;
use super::check::{Overrides, check};
use super::problem::Problems;

/// Name and source of each, in the order in which they are listed.
pub const SOURCES: [(&str, &str); 9] = [
    ("autonomous", include_str!("builtin/autonomous.yaml")),
    ("leaf", include_str!("builtin/leaf.yaml")),
    ("mission", include_str!("builtin/mission.yaml")),
    ("step", include_str!("builtin/step.yaml")),
    ("workflow", include_str!("builtin/workflow.yaml")),
    ("seat", include_str!("builtin/seat.yaml")),
    ("judged", include_str!("builtin/judged.yaml")),
    ("supervised", include_str!("builtin/supervised.yaml")),
    ("allowance", include_str!("builtin/allowance.yaml")),
];

/// The source of a built-in lifecycle.
#[must_use]
pub fn source(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// A built-in lifecycle, checked with a project's overrides. `None`: there is none of that name.
#[must_use]
pub fn get(name: &str, overrides: &Overrides) -> Option<Result<Lifecycle, Problems>> {
    source(name).map(|source| check(source, &format!("built-in {name}"), overrides))
}
