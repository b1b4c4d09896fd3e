//! The keys inside the fields of a task that store the result of a panel. It contains no logic.
//!
//! The engine writes them; prompts and the CLI read them. A reader must not rely on their shape,
//! because people and workers may set the same fields.

/// Of a verdict and of a concern: the name of the reviewer.
pub const REVIEWER: &str = "reviewer";
/// Of a verdict: the verdict itself, or the status of a review without one.
pub const VERDICT: &str = "verdict";
pub const RATIONALE: &str = "rationale";
pub const SUGGESTIONS: &str = "suggestions";
/// Of a verdict: why it is missing, or why the concern was withdrawn.
pub const WHY: &str = "why";
/// Of a verdict: what speaks against relying on it.
pub const WARNING: &str = "warning";
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
