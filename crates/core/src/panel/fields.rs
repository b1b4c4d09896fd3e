//! The names of the task fields that store the result of a panel, and of the keys inside them. It
//! contains no logic.
//!
//! The engine writes them; prompts and the CLI read them. A reader must not rely on their shape,
//! because people and workers may set the same fields.

/// A list with the verdict of each reviewer.
pub const VERDICTS: &str = "verdicts";
/// A list of the concerns that were not withdrawn.
pub const CONCERNS: &str = "concerns";
/// What the panel left unresolved, worded for the person who decides.
pub const SUMMARY: &str = "review_summary";
/// A person's objection to work that its reviewers approved. It is a veto and ends the review.
pub const OBJECTION: &str = "objection";

/// The fields that the panel fills with one entry for each reviewer or concern.
pub const REVIEW_FIELDS: [&str; 2] = [VERDICTS, CONCERNS];

/// Of a verdict and of a concern: the name of the reviewer.
pub const REVIEWER: &str = "reviewer";
/// Of a verdict: the verdict itself, or the status of a review without one.
pub const VERDICT: &str = "verdict";
pub const RATIONALE: &str = "rationale";
pub const SUGGESTIONS: &str = "suggestions";
/// Of a verdict: why it is missing, or why the concern was withdrawn.
pub const WHY: &str = "why";
/// Of a concern: its text.
pub const CONCERN: &str = "concern";
/// Of a concern: how it was defended. Of a reply in a debate: whether the concern is maintained.
pub const RESPONSE: &str = "response";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::panel::Rationale;

    /// An answer that is not stored yet is shown with the same keys.
    #[test]
    fn an_answer_has_the_same_names() {
        let opinion = json!(Rationale::default());
        for name in [RATIONALE, SUGGESTIONS] {
            assert!(opinion.get(name).is_some_and(|value| *value != Value::Null), "{name}");
        }
    }
}
