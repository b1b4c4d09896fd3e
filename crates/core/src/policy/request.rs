//! A request for a permission: text for people, precise enough to be parsed again from the history.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Action, Assessment, Rank, RiskClass};
use crate::text::line;

/// How much of an action's text is shown in a reason, in bytes.
const SHOWN_BYTES: usize = 300;
/// How much an agent may add in its own words, in bytes.
const WORDS_BYTES: usize = 1_500;
/// A longer command can be requested but not granted, because nobody could see what they agree to.
/// It also keeps the first line of a request complete wherever only the beginning of a text is
/// stored.
pub(super) const ACTION_BYTES: usize = 2_000;

/// Actions that an agent requests a permission for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRequest {
    pub class: RiskClass,
    pub actions: Vec<Action>,
    /// Why each of them has its class.
    pub reasons: Vec<String>,
    /// What the agent says about it.
    pub words: String,
}

impl PermissionRequest {
    pub(super) fn new(rank: Rank, blocked: Vec<(Action, Assessment)>) -> Self {
        let class =
            blocked.iter().map(|(_, verdict)| verdict.class).max().unwrap_or(RiskClass::Green);
        let mut reasons: Vec<String> = Vec::new();
        for finding in blocked.iter().flat_map(|(_, verdict)| &verdict.findings) {
            let by = finding.rule.as_ref().map(|(name, place)| format!(" (rule {name}, {place})"));
            let what = line(&finding.what, SHOWN_BYTES);
            let reason =
                format!("{} `{what}`: {}{}", finding.class, finding.why, by.unwrap_or_default());
            if finding.class == class && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons.truncate(10);
        reasons.push(format!("requested by an agent with the rank {rank}"));
        let actions = blocked.into_iter().map(|(action, _)| action).collect();
        Self { class, actions, reasons, words: String::new() }
    }

    /// Adds what the agent says about it.
    #[must_use]
    pub fn with_words(mut self, words: &str) -> Self {
        words[..words.floor_char_boundary(WORDS_BYTES)].trim().clone_into(&mut self.words);
        self
    }

    /// Parses the actions that a text requests, if it begins with a request. Its first line
    /// contains all of them, so a person who reads the text sees the request before anything else.
    pub fn parse_actions(text: &str) -> Option<Vec<Action>> {
        let line = text.lines().next()?;
        let (class, mut rest) = line.split_once(": ")?;
        class.parse::<RiskClass>().ok()?;
        let mut actions = Vec::new();
        loop {
            let (word, after) = rest.split_once(' ')?;
            let mut values = serde_json::Deserializer::from_str(after).into_iter::<String>();
            let what = values.next()?.ok()?;
            if what.len() > ACTION_BYTES {
                return None;
            }
            let more = &after[values.byte_offset()..];
            actions.push(match word {
                "run" => Action::Run(what),
                "write" => Action::Write(what),
                "read" => Action::Read(what),
                "use" => Action::Use(what),
                _ => return None,
            });
            match more.strip_prefix("; ") {
                Some(more) => rest = more,
                None => return more.is_empty().then_some(actions),
            }
        }
    }
}

impl fmt::Display for PermissionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = |action: &Action| {
            let (word, what) = action.parts();
            // JSON escapes line breaks and terminal control characters.
            serde_json::to_string(what).map(|what| format!("{word} {what}"))
        };
        let actions: Result<Vec<String>, _> = self.actions.iter().map(action).collect();
        let actions = actions.map_err(|_| fmt::Error)?;
        write!(f, "{}: {}", self.class, actions.join("; "))?;
        for reason in &self.reasons {
            write!(f, "\n- {reason}")?;
        }
        if !self.words.is_empty() {
            write!(f, "\nThe agent says: {}", self.words)?;
        }
        Ok(())
    }
}
