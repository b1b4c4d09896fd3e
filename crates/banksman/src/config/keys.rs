//! The settings that exist: their names, what they may hold, and where else than in a file they can
//! be given.

use std::time::Duration;

use banksman_core::time::Span;

use super::environment::EnvVars;
use super::policy::RANKS;

/// Most connections of one process; PostgreSQL allows 100 in all unless it is told otherwise.
const MOST_CONNECTIONS: u64 = 100;
/// Longest timeout: what waits for longer has been forgotten.
const LONGEST: Span = Span(31 * 86_400_000);
/// A million dollars.
const MOST_MONEY: f64 = 1e6;

/// What a setting may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    OneOf(&'static [&'static str]),
    Time,
    /// A whole number in this range.
    Whole(u64, u64),
    /// Dollars.
    Money,
    /// A list of texts.
    List,
}

#[derive(Debug, Clone, Copy)]
pub struct SettingKey {
    pub name: &'static str,
    pub env: Option<&'static str>,
    pub flag: Option<&'static str>,
    pub(super) holds: Holds,
}

const fn key(
    name: &'static str,
    env: Option<&'static str>,
    flag: Option<&'static str>,
    holds: Holds,
) -> SettingKey {
    SettingKey { name, env, flag, holds }
}

pub const COLORS: &[&str] = &["auto", "always", "never"];

pub(super) const WINDOWS: &[&str] = &["none", "auto", "tmux", "tabby"];

pub(super) const AGENTS: &[&str] = &["claude", "codex", "opencode", "gemini", "acp", "command"];

/// Most agents of one machine, and the like: a bound against a slip of the finger.
const MANY: u64 = 10_000;
/// Tokens of a budget.
const MOST_TOKENS: u64 = 1_000_000_000_000;

const fn plain(name: &'static str, holds: Holds) -> SettingKey {
    key(name, None, None, holds)
}

/// Every setting, in the order in which they are listed.
pub const KEYS: [SettingKey; 52] = [
    key("store", Some(EnvVars::STORE), Some("--store"), Holds::Text),
    key("actor", Some(EnvVars::ACTOR), Some("--as"), Holds::Text),
    key("lifecycle", Some(EnvVars::LIFECYCLE), Some("--lifecycle"), Holds::Text),
    key("project", Some(EnvVars::PROJECT), Some("--project"), Holds::Text),
    key("home", Some(EnvVars::BANKSMAN_HOME), None, Holds::Text),
    key("node", Some(EnvVars::NODE), None, Holds::Text),
    key("color", Some(EnvVars::COLOR), Some("--color"), Holds::OneOf(COLORS)),
    plain("windows", Holds::OneOf(WINDOWS)),
    key("sqlite.busy_timeout", Some(EnvVars::SQLITE_BUSY_TIMEOUT), None, Holds::Time),
    key("postgres.statement_timeout", Some(EnvVars::POSTGRES_STATEMENT_TIMEOUT), None, Holds::Time),
    key(
        "postgres.connections",
        Some(EnvVars::POSTGRES_CONNECTIONS),
        None,
        Holds::Whole(1, MOST_CONNECTIONS),
    ),
    plain("limits.agents", Holds::Whole(0, MANY)),
    plain("limits.total", Holds::Whole(0, MANY)),
    plain("limits.lease", Holds::Time),
    plain("limits.run", Holds::Time),
    plain("limits.idle", Holds::Time),
    plain("limits.grace", Holds::Time),
    plain("limits.output", Holds::Whole(1, MANY)),
    plain("budget.task_runs", Holds::Whole(0, MANY)),
    plain("budget.task_tokens", Holds::Whole(0, MOST_TOKENS)),
    plain("budget.task_cost", Holds::Money),
    plain("budget.task_time", Holds::Time),
    plain("budget.day_runs", Holds::Whole(0, MANY)),
    plain("budget.day_tokens", Holds::Whole(0, MOST_TOKENS)),
    plain("budget.day_cost", Holds::Money),
    plain("budget.run_tokens", Holds::Whole(0, MOST_TOKENS)),
    plain("budget.run_cost", Holds::Money),
    plain("worktrees.path", Holds::Text),
    plain("worktrees.branch", Holds::Text),
    plain("worktrees.base", Holds::Text),
    plain("worktrees.setup", Holds::Text),
    plain("worktrees.warn_above", Holds::Whole(1, MANY)),
    plain("verify.commands", Holds::List),
    plain("verify.timeout", Holds::Time),
    plain("verify.allowed_paths", Holds::List),
    plain("verify.denied_paths", Holds::List),
    plain("evaluator.worker", Holds::Text),
    plain("evaluator.timeout", Holds::Time),
    plain("panel.reviewers", Holds::List),
    plain("panel.registry", Holds::Text),
    plain("panel.verdict_timeout", Holds::Time),
    plain("panel.retries", Holds::Whole(0, 2)),
    plain("panel.first_retry", Holds::Time),
    plain("panel.second_retry", Holds::Time),
    plain("panel.rounds", Holds::Whole(0, 10)),
    plain("panel.reply_timeout", Holds::Time),
    plain("panel.round_timeout", Holds::Time),
    plain("panel.whole", Holds::Time),
    plain("daily.folder", Holds::Text),
    plain("daily.owner", Holds::Text),
    plain("daily.settle", Holds::Time),
    plain("environment.pass", Holds::List),
];

/// Tables whose entries people name themselves, and the settings of each entry.
pub(super) const NAMED: &[(&str, &[(&str, Holds)])] = &[
    (
        "workers",
        &[
            ("agent", Holds::OneOf(AGENTS)),
            ("command", Holds::List),
            ("model", Holds::Text),
            ("capabilities", Holds::List),
            ("roles", Holds::List),
            ("rank", Holds::OneOf(RANKS)),
            ("cost", Holds::Whole(1, 5)),
            ("speed", Holds::Whole(1, 5)),
            ("max_concurrent", Holds::Whole(1, MANY)),
            ("account", Holds::Text),
            ("pass", Holds::List),
        ],
    ),
    ("reviewers", &[("brief", Holds::Text), ("model", Holds::Text)]),
    ("accounts", &[("max_concurrent", Holds::Whole(1, MANY))]),
];

/// What a setting of this full name may hold; none when there is no such setting.
pub(super) fn holds(key: &str) -> Option<Holds> {
    let fixed = KEYS.iter().find(|known| known.name == key).map(|known| known.holds);
    fixed.or_else(|| {
        let mut parts = key.splitn(3, '.');
        let (table, name, setting) = (parts.next()?, parts.next()?, parts.next()?);
        let (_, settings) = NAMED.iter().find(|(known, _)| *known == table)?;
        let known = settings.iter().find(|(known, _)| *known == setting).map(|known| known.1);
        let variable = setting.strip_prefix("env.").filter(|_| table == "workers");
        let variable = variable.filter(|variable| is_variable(variable)).map(|_| Holds::Text);
        known.or(variable).filter(|_| is_name(name))
    })
}

/// A name of a worker or an account: it goes into tables, messages and the history.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// A value as a file or the environment gives it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Number(f64),
    Flag(bool),
    List(Vec<String>),
}

impl Raw {
    /// As a person would write it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(texts) => texts.join(", "),
        }
    }
}

impl Holds {
    /// Checks a value; the message says what is expected and never repeats the value, which may be
    /// a secret.
    pub(super) fn check(self, raw: &Raw) -> Result<(), String> {
        let on_one_line = |text: &String| !text.chars().any(char::is_control);
        let fits = match (self, raw) {
            (Self::Text, Raw::Text(text)) => on_one_line(text),
            (Self::OneOf(words), Raw::Text(text)) => words.contains(&text.as_str()),
            (Self::Time, Raw::Text(text)) => duration(text).is_some(),
            (Self::Whole(least, most), raw) => {
                whole(raw).is_some_and(|number| (least..=most).contains(&number))
            }
            (Self::Money, Raw::Number(number)) => (0.0..=MOST_MONEY).contains(number),
            (Self::List, Raw::List(texts)) => texts.iter().all(on_one_line),
            (Self::Text | Self::OneOf(_) | Self::Time | Self::Money | Self::List, _) => false,
        };
        if fits { Ok(()) } else { Err(format!("must be {}", self.describe())) }
    }

    fn describe(self) -> String {
        match self {
            Self::Text => "a text on one line".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::Time => format!("a span of time up to {LONGEST}, such as \"10s\""),
            Self::Whole(least, most) => format!("a number from {least} to {most}"),
            Self::Money => "an amount of dollars, such as 2.50".to_owned(),
            Self::List => "a list of texts, such as [\"cargo test\"]".to_owned(),
        }
    }
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    let span = text.parse::<Span>().ok().filter(|span| *span > Span(0) && *span <= LONGEST)?;
    u64::try_from(span.0).ok().map(Duration::from_millis)
}

/// The environment has texts only, so a number in a text is a number here.
pub(super) fn whole(raw: &Raw) -> Option<u64> {
    match raw {
        Raw::Text(text) => text.parse::<u64>().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and in range"
        )]
        Raw::Number(number) if number.fract() == 0.0 && (0.0..=1e15).contains(number) => {
            Some(*number as u64)
        }
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) => None,
    }
}
