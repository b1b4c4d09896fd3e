//! Symbols and colours of state kinds, and times and amounts as people read them. Colour never
//! carries meaning alone.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use banksman_core::lifecycle::{State, StateKind};
use banksman_core::receipt::MergedAs;
use banksman_core::time::{Instant, Span};
use jiff::tz::TimeZone;

use super::output::{Cell, ToCell, sanitize};
use crate::store::Stored;
use crate::store::query::Progress;

/// As long as git shows it.
const SHORT_COMMIT: usize = 7;

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symbols {
    Unicode,
    Ascii,
}

impl Symbols {
    pub(crate) fn of(self, kind: StateKind) -> &'static str {
        let (unicode, ascii, _) = look(kind);
        self.pick(unicode, ascii)
    }

    pub(crate) fn arrow(self) -> &'static str {
        self.pick("→", "->")
    }

    /// For a task that will be retried: it is neither running nor failed.
    pub(crate) fn retrying(self) -> &'static str {
        self.pick("↻", "~")
    }

    /// Success or failure.
    pub(crate) fn success(self, is_success: bool) -> &'static str {
        self.of(if is_success { StateKind::Done } else { StateKind::Failed })
    }

    /// Separates alternative commands.
    pub(crate) fn or(self) -> &'static str {
        self.pick(" · ", " | ")
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }

    pub(crate) fn symbol_cell(self, kind: StateKind) -> Cell {
        Cell { text: self.of(kind).to_owned(), style: style(kind) }
    }

    pub(crate) fn retrying_cell(self) -> Cell {
        Cell { text: self.retrying().to_owned(), style: style(StateKind::Blocked) }
    }
}

/// The name of a state in the colour of its kind.
pub(crate) fn state_cell(state: &State) -> Cell {
    Cell { style: style(state.kind), ..state.name.to_cell() }
}

pub(crate) fn style(kind: StateKind) -> Style {
    look(kind).2
}

/// Follows the state of a task of which somebody says more than is proven.
pub(super) fn unproven(stored: &Stored) -> String {
    let Some(name) = stored.overridden_by() else { return String::new() };
    let what = if stored.state().kind == StateKind::Done { "marked done" } else { "facts given" };
    format!(" ({what} by {}, without proof)", sanitize(&name))
}

/// Where merged work is, and what to type where others cannot see it yet.
pub(super) fn merged_as(merged: &MergedAs) -> String {
    let MergedAs { base, head, remote } = merged;
    let base = sanitize(base);
    let short: String = head.chars().take(SHORT_COMMIT).collect();
    let pushed = remote.as_ref().map(|remote| {
        let remote = sanitize(remote);
        format!("; nothing was pushed: `git push {remote} {base}`")
    });
    format!("merged into `{base}` at {}{}", sanitize(&short), pushed.unwrap_or_default())
}

/// The symbol of a kind with and without UTF-8, and its style.
fn look(kind: StateKind) -> (&'static str, &'static str, Style) {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match kind {
        StateKind::Queued => ("◌", "o", Style::new()),
        StateKind::Working => ("●", "*", color(AnsiColor::Blue)),
        StateKind::Reviewing => ("◎", "@", color(AnsiColor::Cyan)),
        StateKind::Waiting => ("!", "!", color(AnsiColor::Yellow).bold()),
        StateKind::Blocked => ("⚠", "#", color(AnsiColor::Yellow)),
        StateKind::Parked => ("‖", "=", Style::new().dimmed()),
        StateKind::Done => ("✓", "+", color(AnsiColor::Green)),
        StateKind::Failed => ("✗", "x", color(AnsiColor::Red)),
        StateKind::Cancelled => ("–", "-", Style::new().dimmed()),
    }
}

/// A point in time in the reader's time zone.
pub(crate) fn local(instant: Instant) -> String {
    formatted(instant, "%Y-%m-%d %H:%M:%S")
}

/// A text for people, with the times that it names in the reader's time zone.
pub(crate) fn with_local_times(text: &str) -> String {
    let is_of_time = |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | 'T' | 'Z');
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !is_of_time(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let time = word.trim_end_matches(['.', ':', '-']);
        let is_time = time.len() >= SHORTEST_TIME && time.ends_with('Z');
        let parsed = time.parse::<Instant>().ok().filter(|_| is_time);
        told.push_str(before);
        told.push_str(&parsed.map_or_else(|| time.to_owned(), local));
        told.push_str(&word[time.len()..]);
        rest = after;
    }
    told + rest
}

/// The length of `2026-03-01T10:00:00Z`.
const SHORTEST_TIME: usize = 20;

/// The time of day in the reader's time zone.
pub(crate) fn local_time(instant: Instant) -> String {
    formatted(instant, "%H:%M:%S")
}

fn formatted(instant: Instant, format: &str) -> String {
    match jiff::Timestamp::from_millisecond(instant.0) {
        Ok(timestamp) => timestamp.to_zoned(TimeZone::system()).strftime(format).to_string(),
        Err(_) => instant.to_string(),
    }
}

/// The progress of a task's children; zero counts are left out.
pub(crate) fn progress(children: Progress) -> String {
    let mut text = format!("{} of {} done", children.done, children.total);
    let counts = [
        (children.at_work, "running"),
        (children.blocked, "blocked"),
        (children.failed, "failed"),
        (children.cancelled, "cancelled"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

/// A count with its noun, such as `1 error` or `2 errors`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// A span in its largest unit, rounded down.
pub(crate) fn rough_span(span: Span) -> String {
    const UNITS: [(&str, i64); 3] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)];
    let unit = UNITS.iter().find(|(_, millis)| span.0 >= *millis);
    unit.map_or_else(|| "now".to_owned(), |(name, millis)| format!("{}{name}", span.0 / millis))
}

/// A span to the second below two minutes, else rounded to the nearest unit.
pub(crate) fn format_span(span: Span) -> String {
    match span.0.max(0) / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", (seconds + 30) / 60),
        seconds @ 7_200..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        seconds => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// Tokens in short form; empty for none.
pub(crate) fn format_tokens(tokens: i64) -> String {
    match tokens {
        ..=0 => String::new(),
        1..10_000 => tokens.to_string(),
        10_000..10_000_000 => format!("{}k", tokens / 1_000),
        10_000_000.. => format!("{}M", tokens / 1_000_000),
    }
}

/// Millionths of a dollar as dollars, rounded down to the cent; empty for none.
pub(crate) fn format_cost(micros: i64) -> String {
    match micros {
        ..=0 => String::new(),
        1..10_000 => "<$0.01".to_owned(),
        10_000.. => format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

/// Tokens and money, each only if there is any.
pub(crate) fn format_usage(tokens: i64, micros: i64) -> String {
    let tokens = Some(format_tokens(tokens)).filter(|text| !text.is_empty());
    let parts = [tokens.map(|tokens| format!("{tokens} tokens")), Some(format_cost(micros))];
    parts.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The first line of a text, cut to fit into a table.
pub(crate) fn first_line(text: &str) -> String {
    const CHARS: usize = 100;
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(CHARS) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_texts_for_people_are_local() {
        let at: Instant = "2026-03-01T10:00:00.250Z".parse().expect("a time");
        let told = with_local_times("paused until 2026-03-01T10:00:00.250Z: 3 of 4, v1.2-rc: Z");
        assert_eq!(told, format!("paused until {}: 3 of 4, v1.2-rc: Z", local(at)));
        for text in ["", "t12 is blocked", "10:00", "ä 2026-13-01T10:00:00Z.", "1-2-3TZ"] {
            assert_eq!(with_local_times(text), text);
        }
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            [0, 1_000, 119_999, 120_000, 7_200_000].map(|ms| format_span(Span(ms))),
            ["0 s", "1 s", "119 s", "2 min", "2 h"]
        );
        assert_eq!(
            [0, 9_999, 10_000, 1_234_567, 12_345_678].map(format_tokens),
            ["", "9999", "10k", "1234k", "12M"]
        );
        assert_eq!(
            [0, 9_999, 10_000, 12_345_678].map(format_cost),
            ["", "<$0.01", "$0.01", "$12.34"]
        );
        assert_eq!(first_line("one\ntwo"), "one");
        assert_eq!(first_line(&"ä".repeat(101)).chars().count(), 103);
    }
}
