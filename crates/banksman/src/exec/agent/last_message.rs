//! Assembles an agent's last message from the chunks of its stream.

use banksman_core::limits::FINAL_TEXT_BYTES;
use serde_json::Value;

use super::{schema, text};

/// The most that is kept: a structured answer may be longer than the kept final text.
const MESSAGE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct LastMessage {
    id: String,
    text: String,
    /// The next chunk begins a new message.
    ended: bool,
}

impl LastMessage {
    /// Adds a chunk of a message. Another id begins a new message; for an agent without ids the
    /// caller uses [`Self::end`].
    pub(super) fn add(&mut self, id: &str, chunk: &str) {
        // Some agents open every message with an empty chunk, even one that they never fill.
        if chunk.is_empty() {
            return;
        }
        if self.ended || self.id != id {
            self.ended = false;
            self.text.clear();
            id.clone_into(&mut self.id);
        }
        self.text.push_str(chunk);
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
    pub(super) fn bounded(&self) -> String {
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
    fn chunks_of_one_message_are_joined() {
        let mut message = LastMessage::default();
        for (id, chunk) in [("a", "old"), ("b", ""), ("b", "{\"n\""), ("b", ": 1}\n"), ("c", "")] {
            message.add(id, chunk);
        }
        assert_eq!(message.bounded(), "{\"n\": 1}");
        assert_eq!(message.answer(), Some(json!({"n": 1})));
        message.end();
        assert_eq!(message.bounded(), "{\"n\": 1}", "an end alone takes nothing away");
        message.add("b", "new");
        assert_eq!(message.bounded(), "new");
    }

    #[test]
    fn an_endless_message_is_bounded_and_keeps_its_end() {
        let mut message = LastMessage::default();
        for _ in 0..5_000 {
            message.add("", &"é".repeat(500));
        }
        message.add("", r#"{"n": 2}"#);
        assert!(message.text.len() <= MESSAGE_BYTES);
        assert!(message.bounded().len() <= FINAL_TEXT_BYTES);
        assert_eq!(message.answer(), Some(json!({"n": 2})));
    }
}
