//! What an agent's recorded event stream says, as JSON.

use banksman_core::receipt::StreamSummary;
use banksman_core::time::Instant;

documents! {
    Stream<'a>(seen: &'a StreamSummary, outcome_word: &'static str, reason: Option<String>) {
        /// In US dollars.
        cost: Option<f64> = seen.cost_micros.map(dollars),
        detail: Option<String> = reason,
        outcome: &'static str = outcome_word,
        resets_at: Option<Instant> = seen.resets_at,
        session: Option<&'a str> = seen.session.as_deref(),
        /// Whether the stream has an end.
        terminal: bool = seen.terminal.is_some(),
        text: &'a str = &seen.text,
        usage: Usage = Usage::new(seen),
    }

    Usage(seen: &StreamSummary) {
        input_tokens: i64 = seen.input_tokens,
        output_tokens: i64 = seen.output_tokens,
    }
}

#[expect(clippy::cast_precision_loss, reason = "no run costs billions of dollars")]
pub fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}
