//! What a task keeps of its panels: the names of the fields, and of what is in them. The engine
//! writes it, and prompts and surfaces read it, so that it has one spelling. It holds no logic.
//!
//! Whoever reads must not rely on the shape: people and workers may bring the same fields along.

/// A list: what came of each seat.
pub const VERDICTS: &str = "verdicts";
/// A list: what nobody has taken back.
pub const CONCERNS: &str = "concerns";
/// What a panel could not settle, in words for the person who does.
pub const SUMMARY: &str = "review_summary";
/// What somebody has said against work that its reviewers were content with. It is a veto, and
/// nobody else is asked.
pub const OBJECTION: &str = "objection";

/// The fields in which there are voices.
pub const VOICES: [&str; 2] = [VERDICTS, CONCERNS];

/// Of a verdict and of a concern: who it is of.
pub const REVIEWER: &str = "reviewer";
/// Of a verdict: the word itself, or how the seat stands without one.
pub const VERDICT: &str = "verdict";
pub const RATIONALE: &str = "rationale";
pub const SUGGESTIONS: &str = "suggestions";
/// Of a verdict: why there is none, or why a concern is held no longer.
pub const WHY: &str = "why";
/// Of a concern: what it is.
pub const CONCERN: &str = "concern";
/// Of a concern: how it was defended. Of the answer in a debate: whether it stands.
pub const RESPONSE: &str = "response";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::panel::Rationale;

    /// The answer of a seat is shown by these names, too, while it is not on record yet.
    #[test]
    fn an_answer_has_the_same_names() {
        let opinion = json!(Rationale::default());
        for name in [RATIONALE, SUGGESTIONS] {
            assert!(opinion.get(name).is_some_and(|value| *value != Value::Null), "{name}");
        }
    }
}
