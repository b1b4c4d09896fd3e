//! The list of settings: names, types, environment variables and flags.

use banksman_core::policy::Rank;
use banksman_core::time::Span;

use super::environment::EnvVars;
use super::panel::OwnWork;
use super::{Color, Windows};
use crate::exec::agent::AgentKind;

/// The maximum number of connections per process; PostgreSQL's default limit is 100 in total.
const MOST_CONNECTIONS: u64 = 100;
/// The longest timeout.
const LONGEST: Span = Span(31 * 86_400_000);
/// A million dollars.
const MOST_MONEY: f64 = 1e6;

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingType {
    Text,
    OneOf(&'static [&'static str]),
    Time,
    /// A time that may be zero, which turns something off.
    TimeOrZero,
    /// A whole number in this range.
    Whole(u64, u64),
    /// An amount in US dollars.
    Money,
    /// A list of strings.
    List,
}

#[derive(Debug, Clone, Copy)]
pub struct SettingKey {
    pub name: &'static str,
    pub env: Option<&'static str>,
    pub flag: Option<&'static str>,
    pub(super) setting_type: SettingType,
}

impl SettingKey {
    const fn env(self, name: &'static str) -> Self {
        Self { env: Some(name), ..self }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }
}

/// The limit of counts such as agents per machine; it only catches typos.
const MANY: u64 = 10_000;
/// The maximum token budget.
const MOST_TOKENS: u64 = 1_000_000_000_000;

const fn key(name: &'static str, setting_type: SettingType) -> SettingKey {
    SettingKey { name, env: None, flag: None, setting_type }
}

/// Every setting, in the order of the listing.
pub const KEYS: [SettingKey; 55] = [
    key("store", SettingType::Text).env(EnvVars::STORE).flag("--store"),
    key("actor", SettingType::Text).env("BANKSMAN_ACTOR").flag("--as"),
    key("lifecycle", SettingType::Text).env("BANKSMAN_LIFECYCLE").flag("--lifecycle"),
    key("project", SettingType::Text).env("BANKSMAN_PROJECT").flag("--project"),
    key("home", SettingType::Text).env(EnvVars::BANKSMAN_HOME),
    key("node", SettingType::Text).env(EnvVars::NODE),
    key("color", SettingType::OneOf(&Color::NAMES)).env("BANKSMAN_COLOR").flag("--color"),
    key("windows", SettingType::OneOf(&Windows::NAMES)),
    key("sqlite.busy_timeout", SettingType::Time).env("BANKSMAN_SQLITE_BUSY_TIMEOUT"),
    key("postgres.statement_timeout", SettingType::Time).env("BANKSMAN_POSTGRES_STATEMENT_TIMEOUT"),
    key("postgres.connections", SettingType::Whole(1, MOST_CONNECTIONS))
        .env("BANKSMAN_POSTGRES_CONNECTIONS"),
    key("limits.agents", SettingType::Whole(0, MANY)),
    key("limits.total", SettingType::Whole(0, MANY)),
    key("limits.lease", SettingType::Time),
    key("limits.run", SettingType::Time),
    key("limits.idle", SettingType::Time),
    key("limits.grace", SettingType::Time),
    key("limits.output", SettingType::Whole(1, MANY)),
    key("budget.task_runs", SettingType::Whole(0, MANY)),
    key("budget.task_tokens", SettingType::Whole(0, MOST_TOKENS)),
    key("budget.task_cost", SettingType::Money),
    key("budget.task_time", SettingType::Time),
    key("budget.day_runs", SettingType::Whole(0, MANY)),
    key("budget.day_tokens", SettingType::Whole(0, MOST_TOKENS)),
    key("budget.day_cost", SettingType::Money),
    key("budget.run_tokens", SettingType::Whole(0, MOST_TOKENS)),
    key("budget.run_cost", SettingType::Money),
    key("worktrees.path", SettingType::Text),
    key("worktrees.branch", SettingType::Text),
    key("worktrees.base", SettingType::Text),
    key("worktrees.setup", SettingType::Text),
    key("worktrees.warn_above", SettingType::Whole(1, MANY)),
    key("verify.commands", SettingType::List),
    key("verify.timeout", SettingType::Time),
    key("verify.allowed_paths", SettingType::List),
    key("verify.denied_paths", SettingType::List),
    key("evaluator.worker", SettingType::Text),
    key("evaluator.timeout", SettingType::Time),
    key("panel.reviewers", SettingType::List),
    key("panel.plan_reviewers", SettingType::List),
    key("panel.own_work", SettingType::OneOf(&OwnWork::NAMES)),
    key("panel.registry", SettingType::Text),
    key("panel.verdict_timeout", SettingType::Time),
    key("panel.retries", SettingType::Whole(0, 2)),
    key("panel.first_retry", SettingType::Time),
    key("panel.second_retry", SettingType::Time),
    key("panel.rounds", SettingType::Whole(0, 10)),
    key("panel.reply_timeout", SettingType::Time),
    key("panel.round_timeout", SettingType::Time),
    key("panel.timeout", SettingType::Time),
    key("decisions.grace", SettingType::TimeOrZero).env("BANKSMAN_DECISIONS_GRACE"),
    key("daily.folder", SettingType::Text),
    key("daily.owner", SettingType::Text),
    key("daily.settle", SettingType::Time),
    key("environment.pass", SettingType::List),
];

/// Tables whose entries users name, and the settings of each entry.
pub(super) const NAMED: &[(&str, &[(&str, SettingType)])] = &[
    (
        "workers",
        &[
            ("agent", SettingType::OneOf(&AgentKind::NAMES)),
            ("command", SettingType::List),
            ("model", SettingType::Text),
            ("capabilities", SettingType::List),
            ("roles", SettingType::List),
            ("rank", SettingType::OneOf(&Rank::NAMES)),
            ("cost", SettingType::Whole(1, 5)),
            ("speed", SettingType::Whole(1, 5)),
            ("max_concurrent", SettingType::Whole(1, MANY)),
            ("account", SettingType::Text),
            ("pass", SettingType::List),
        ],
    ),
    ("reviewers", &[("brief", SettingType::Text), ("model", SettingType::Text)]),
    ("accounts", &[("max_concurrent", SettingType::Whole(1, MANY))]),
    ("lanes", &[("max_concurrent", SettingType::Whole(1, MANY))]),
];

/// The type of the setting with this full name; none if there is no such setting.
pub(super) fn setting_type(key: &str) -> Option<SettingType> {
    let fixed = KEYS.iter().find(|known| known.name == key).map(|known| known.setting_type);
    fixed.or_else(|| {
        let mut parts = key.splitn(3, '.');
        let (table, name, setting) = (parts.next()?, parts.next()?, parts.next()?);
        let (_, settings) = NAMED.iter().find(|(known, _)| *known == table)?;
        let known = settings.iter().find(|(known, _)| *known == setting).map(|known| known.1);
        let variable = setting.strip_prefix("env.").filter(|_| table == "workers");
        let variable = variable.filter(|variable| is_variable(variable)).map(|_| SettingType::Text);
        known.or(variable).filter(|_| is_name(name))
    })
}

/// A valid name of a worker or an account: it appears in tables, messages and the history.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

fn is_variable(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// A value from a file or the environment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Number(f64),
    Flag(bool),
    List(Vec<String>),
}

impl Raw {
    /// As a user would write it.
    pub(super) fn text_of(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::List(texts) => texts.join(", "),
        }
    }
}

impl SettingType {
    /// Checks a value. The message says what is expected and never repeats the value, which may be
    /// a secret.
    pub(super) fn check(self, raw: &Raw) -> Result<(), String> {
        let on_one_line = |text: &String| !text.chars().any(char::is_control);
        let fits = match (self, raw) {
            (Self::Text, Raw::Text(text)) => on_one_line(text),
            (Self::OneOf(words), Raw::Text(text)) => words.contains(&text.as_str()),
            (Self::Time, Raw::Text(text)) => span(text).is_some_and(|span| span > Span(0)),
            (Self::TimeOrZero, Raw::Text(text)) => span(text).is_some(),
            (Self::Whole(least, most), raw) => {
                number(raw).is_some_and(|number| (least..=most).contains(&number))
            }
            (Self::Money, Raw::Number(number)) => (0.0..=MOST_MONEY).contains(number),
            (Self::List, Raw::List(texts)) => texts.iter().all(on_one_line),
            (Self::Text | Self::OneOf(_) | Self::Time | Self::TimeOrZero, _)
            | (Self::Money | Self::List, _) => false,
        };
        if fits { Ok(()) } else { Err(format!("must be {}", self.describe())) }
    }

    fn describe(self) -> String {
        match self {
            Self::Text => "a text on one line".to_owned(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
            Self::TimeOrZero => {
                format!("a time span of at most {LONGEST}, such as \"10s\" or \"0s\"")
            }
            Self::Time => format!("a time span of at most {LONGEST}, such as \"10s\""),
            Self::Whole(least, most) => format!("a number from {least} to {most}"),
            Self::Money => "an amount in dollars, such as 2.50".to_owned(),
            Self::List => "a list of texts, such as [\"cargo test\"]".to_owned(),
        }
    }
}

pub(super) fn span(text: &str) -> Option<Span> {
    text.parse::<Span>().ok().filter(|span| (Span(0)..=LONGEST).contains(span))
}

/// The environment has only strings, so a number in a string is accepted.
pub(super) fn number(raw: &Raw) -> Option<u64> {
    match raw {
        Raw::Text(text) => text.parse::<u64>().ok(),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is whole and in range"
        )]
        Raw::Number(number) if number.fract() == 0.0 && (0.0..=1e15).contains(number) => {
            Some(*number as u64)
        }
        Raw::Number(_) | Raw::Flag(_) | Raw::List(_) => None,
    }
}
