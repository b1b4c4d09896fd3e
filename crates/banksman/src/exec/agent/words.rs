//! Assembles an agent's last message from the chunks of its stream.

use banksman_core::limits::FINAL_TEXT_BYTES;
use serde_json::Value;

use super::{schema, text};

/// The most that is kept: a structured answer may be longer than the kept final text.
const MESSAGE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Words {
    message: String,
    text: String,
    /// The next chunk begins a new message.
    ended: bool,
}

impl Words {
    /// Adds a chunk of a message. Another id begins a new message; for an agent without ids the
    /// caller uses [`Self::end`].
    pub(super) fn add(&mut self, message: &str, piece: &str) {
        // Some agents open every message with an empty chunk, even one that they never fill.
        if piece.is_empty() {
            return;
        }
        if self.ended || self.message != message {
            self.ended = false;
            self.text.clear();
            message.clone_into(&mut self.message);
        }
        self.text.push_str(piece);
        if self.text.len() > MESSAGE_BYTES {
            let from = self.text.ceil_char_boundary(self.text.len() - MESSAGE_BYTES / 2);
            self.text.drain(..from);
        }
    }

    /// Completes the message: the next chunk begins a new one.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    /// The last message, bounded.
    pub(super) fn last(&self) -> String {
        text::cut(self.text(), FINAL_TEXT_BYTES)
    }

    pub(super) fn answer(&self) -> Option<Value> {
        schema::answer_in(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_of_one_message_are_put_together() {
        let mut words = Words::default();
        for (message, piece) in
            [("a", "old"), ("b", ""), ("b", "{\"n\""), ("b", ": 1}\n"), ("c", "")]
        {
            words.add(message, piece);
        }
        assert_eq!(words.last(), "{\"n\": 1}");
        assert_eq!(words.answer(), Some(json!({"n": 1})));
        words.end();
        assert_eq!(words.last(), "{\"n\": 1}", "an end alone takes nothing away");
        words.add("b", "new");
        assert_eq!(words.last(), "new");
    }

    #[test]
    fn an_endless_message_is_bounded_and_keeps_its_end() {
        let mut words = Words::default();
        for _ in 0..5_000 {
            words.add("", &"é".repeat(500));
        }
        words.add("", r#"{"n": 2}"#);
        assert!(words.text.len() <= MESSAGE_BYTES);
        assert!(words.last().len() <= FINAL_TEXT_BYTES);
        assert_eq!(words.answer(), Some(json!({"n": 2})));
    }
}
