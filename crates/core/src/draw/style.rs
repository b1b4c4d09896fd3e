//! Colours and signs of the state kinds. The picture is light by default, and dark if the reader's
//! system is.

use crate::lifecycle::StateKind;

/// The class that the style sheet uses for the picture itself.
const ANY_PICTURE: &str = ".banksman-drawing";

/// The style sheet for a picture of this class, so that two pictures on one page do not interfere.
pub(super) fn sheet(class: &str) -> String {
    // It uses no variables and no nesting, because small renderers support neither.
    include_str!("style.css").replace(ANY_PICTURE, &format!(".{class}"))
}

/// How a kind is shown where no style sheet is: as a character, as a path of 12 by 12 pixels, and
/// by the colours of Mermaid.
pub(super) struct Look {
    pub(super) sign: char,
    pub(super) path: &'static str,
    pub(super) colours: &'static str,
}

pub(super) fn look(kind: StateKind) -> Look {
    let (sign, path, colours) = match kind {
        StateKind::Queued => {
            ('○', "M1 2h10M1 6h10M1 10h10", "fill:#eef1f5,stroke:#5b6b7f,color:#1b2430")
        }
        StateKind::Working => ('▶', "M3 1l8 5l-8 5z", "fill:#dcebff,stroke:#1f5fbf,color:#10243f"),
        StateKind::Reviewing => (
            '◎',
            "M5 9a4 4 0 1 1 0-8a4 4 0 0 1 0 8zM8 8l4 4",
            "fill:#ece4ff,stroke:#6a3fc0,color:#25154a",
        ),
        StateKind::Waiting => (
            '☞',
            "M6 5a2 2 0 1 1 0-4a2 2 0 0 1 0 4zM1 12a5 5 0 0 1 10 0",
            "fill:#fff0c9,stroke:#9a6a00,color:#3d2a00",
        ),
        StateKind::Blocked => {
            ('⊟', "M1 1h10v10h-10zM1 6h10", "fill:#ffe2cc,stroke:#b3500a,color:#42200a")
        }
        StateKind::Parked => ('∥', "M3 1v10M9 1v10", "fill:#ececec,stroke:#707070,color:#2a2a2a"),
        StateKind::Done => ('✓', "M1 7l3 4l7-9", "fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a"),
        StateKind::Failed => {
            ('✗', "M1 1l10 10M11 1l-10 10", "fill:#ffdcdc,stroke:#b42323,color:#450d0d")
        }
        StateKind::Cancelled => (
            '⊘',
            "M6 11a5 5 0 1 1 0-10a5 5 0 0 1 0 10zM2 2l8 8",
            "fill:#f3eaea,stroke:#8a6a6a,color:#352727",
        ),
    };
    Look { sign, path, colours }
}
