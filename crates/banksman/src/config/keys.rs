//! The settings that exist: their names, what they may hold, and where else than in a file they can be given.

use std::time::Duration;

use banksman_core::time::Span;

use super::environment::EnvVars;

/// Most connections of one process; PostgreSQL allows 100 in all unless it is told otherwise.
const MOST_CONNECTIONS: u64 = 100;
/// Longest timeout: what waits for longer has been forgotten.
const LONGEST: Span = Span(86_400_000);

/// What a setting may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    OneOf(&'static [&'static str]),
    Time,
    Connections,
}

#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub env: &'static str,
    pub flag: Option<&'static str>,
    pub(super) holds: Holds,
}

const fn key(
    name: &'static str,
    env: &'static str,
    flag: Option<&'static str>,
    holds: Holds,
) -> Key {
    Key { name, env, flag, holds }
}

pub const COLORS: &[&str] = &["auto", "always", "never"];

/// Every setting, in the order in which they are listed.
pub const KEYS: [Key; 8] = [
    key("store", EnvVars::STORE, Some("--store"), Holds::Text),
    key("actor", EnvVars::ACTOR, Some("--as"), Holds::Text),
    key("lifecycle", EnvVars::LIFECYCLE, Some("--lifecycle"), Holds::Text),
    key("project", EnvVars::PROJECT, Some("--project"), Holds::Text),
    key("color", EnvVars::COLOR, Some("--color"), Holds::OneOf(COLORS)),
    key("sqlite.busy_timeout", EnvVars::SQLITE_BUSY_TIMEOUT, None, Holds::Time),
    key("postgres.statement_timeout", EnvVars::POSTGRES_STATEMENT_TIMEOUT, None, Holds::Time),
    key("postgres.connections", EnvVars::POSTGRES_CONNECTIONS, None, Holds::Connections),
];

/// A value as a file or the environment gives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Number(f64),
    Flag(bool),
}

impl Raw {
    /// As a person would write it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}

impl Holds {
    /// Checks a value; the message says what is expected and never repeats the value, which may be a secret.
    pub(super) fn check(self, raw: &Raw) -> Result<(), String> {
        let fits = match (self, raw) {
            (Self::Text, Raw::Text(text)) => !text.chars().any(char::is_control),
            (Self::OneOf(words), Raw::Text(text)) => words.contains(&text.as_str()),
            (Self::Time, Raw::Text(text)) => duration(text).is_some(),
            (Self::Connections, raw) => connections(raw).is_some(),
            (Self::Text | Self::OneOf(_) | Self::Time, Raw::Number(_) | Raw::Flag(_)) => false,
        };
        if fits { Ok(()) } else { Err(format!("must be {}", self.describe())) }
    }

    fn describe(self) -> String {
        match self {
            Self::Text => "a text on one line".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Time => format!("a span of time up to {LONGEST}, such as \"10s\""),
            Self::Connections => format!("a number from 1 to {MOST_CONNECTIONS}"),
        }
    }
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    let span = text.parse::<Span>().ok().filter(|span| *span > Span(0) && *span <= LONGEST)?;
    u64::try_from(span.0).ok().map(Duration::from_millis)
}

/// The environment has texts only, so a number in a text is a number here.
pub(super) fn connections(raw: &Raw) -> Option<usize> {
    let number = match raw {
        Raw::Text(text) => text.parse::<u64>().ok()?,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and in range"
        )]
        Raw::Number(number) if number.fract() == 0.0 && (1.0..=1e6).contains(number) => {
            *number as u64
        }
        Raw::Number(_) | Raw::Flag(_) => return None,
    };
    usize::try_from(number).ok().filter(|_| (1..=MOST_CONNECTIONS).contains(&number))
}
