//! Colours and signs of the picture. Light by default, dark where the reader's system is.

use super::super::Kind;

/// No variables and no nesting, because small renderers know neither.
pub(super) const STYLE: &str = include_str!("style.css");

/// A drawing of 12 by 12 for a kind of state.
pub(super) fn sign(kind: Kind, x: i64, y: i64) -> String {
    let shape = match kind {
        Kind::Queued => "M1 2h10M1 6h10M1 10h10",
        Kind::Working => "M3 1l8 5l-8 5z",
        Kind::Reviewing => "M5 9a4 4 0 1 1 0-8a4 4 0 0 1 0 8zM8 8l4 4",
        Kind::Waiting => "M6 5a2 2 0 1 1 0-4a2 2 0 0 1 0 4zM1 12a5 5 0 0 1 10 0",
        Kind::Blocked => "M1 1h10v10h-10zM1 6h10",
        Kind::Parked => "M3 1v10M9 1v10",
        Kind::Done => "M1 7l3 4l7-9",
        Kind::Failed => "M1 1l10 10M11 1l-10 10",
        Kind::Cancelled => "M6 11a5 5 0 1 1 0-10a5 5 0 0 1 0 10zM2 2l8 8",
    };
    format!("<path class=\"lc-sign\" transform=\"translate({x} {y})\" d=\"{shape}\"/>")
}
