//! Signs and colours of the kinds of states, and times as people read them. A colour never stands
//! alone.

use anstyle::{AnsiColor, Style};
use banksman_core::lifecycle::StateKind;
use banksman_core::time::{Instant, Span};
use jiff::tz::TimeZone;

use super::output::Cell;
use crate::store::query::Progress;

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    Unicode,
    Ascii,
}

impl Signs {
    pub(crate) fn of(self, kind: StateKind) -> &'static str {
        let (unicode, ascii) = match kind {
            StateKind::Queued => ("◌", "o"),
            StateKind::Working => ("●", "*"),
            StateKind::Reviewing => ("◎", "@"),
            StateKind::Waiting => ("!", "!"),
            StateKind::Blocked => ("⚠", "#"),
            StateKind::Parked => ("‖", "="),
            StateKind::Done => ("✓", "+"),
            StateKind::Failed => ("✗", "x"),
            StateKind::Cancelled => ("–", "-"),
        };
        self.pick(unicode, ascii)
    }

    pub(crate) fn arrow(self) -> &'static str {
        self.pick("→", "->")
    }

    /// A task that is tried again by itself: it is neither at work nor has it failed.
    pub(crate) fn retrying(self) -> &'static str {
        self.pick("↻", "~")
    }

    /// Whether something went well.
    pub(crate) fn well(self, is_well: bool) -> &'static str {
        self.of(if is_well { StateKind::Done } else { StateKind::Failed })
    }

    /// Between commands of which one may be chosen.
    pub(crate) fn or(self) -> &'static str {
        self.pick(" · ", " | ")
    }

    fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }

    pub(crate) fn sign_cell(self, kind: StateKind) -> Cell {
        Cell { text: self.of(kind).to_owned(), style: style(kind) }
    }

    pub(crate) fn retrying_cell(self) -> Cell {
        Cell { text: self.retrying().to_owned(), style: style(StateKind::Blocked) }
    }
}

pub(crate) fn style(kind: StateKind) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match kind {
        StateKind::Queued => Style::new(),
        StateKind::Working => color(AnsiColor::Blue),
        StateKind::Reviewing => color(AnsiColor::Cyan),
        StateKind::Waiting => color(AnsiColor::Yellow).bold(),
        StateKind::Blocked => color(AnsiColor::Yellow),
        StateKind::Parked | StateKind::Cancelled => Style::new().dimmed(),
        StateKind::Done => color(AnsiColor::Green),
        StateKind::Failed => color(AnsiColor::Red),
    }
}

/// The word that the store keeps for a kind.
pub(crate) fn kind_named(name: &str) -> Option<StateKind> {
    StateKind::ALL.into_iter().find(|kind| kind.as_str() == name)
}

/// A point in time where the reader is.
pub(crate) fn local(instant: Instant) -> String {
    match jiff::Timestamp::from_millisecond(instant.0) {
        Ok(timestamp) => {
            timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        Err(_) => instant.to_string(),
    }
}

/// The time of day where the reader is.
pub(crate) fn local_time(instant: Instant) -> String {
    match jiff::Timestamp::from_millisecond(instant.0) {
        Ok(timestamp) => timestamp.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string(),
        Err(_) => instant.to_string(),
    }
}

/// How far the parts of a task are; what there is none of is left out.
pub(crate) fn progress(children: Progress) -> String {
    let mut text = format!("{} of {} done", children.done, children.total);
    let counts = [
        (children.at_work, "at work"),
        (children.held, "held up"),
        (children.failed, "failed"),
        (children.cancelled, "cancelled"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

/// The seats of panels that a table leaves out, and how to see them.
pub(crate) fn ended_reviewers(count: i64) -> String {
    let who = if count == 1 {
        "1 reviewer who has".to_owned()
    } else {
        format!("{count} reviewers who have")
    };
    format!("{who} come to an end (banksman list --all)")
}

/// A span as people say it: one unit, the largest that fits.
pub(crate) fn about(span: Span) -> String {
    const UNITS: [(&str, i64); 3] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)];
    let unit = UNITS.iter().find(|(_, millis)| span.0 >= *millis);
    unit.map_or_else(|| "now".to_owned(), |(name, millis)| format!("{}{name}", span.0 / millis))
}

/// How long something took or will take, to the second while that matters, else to the nearest
/// unit: of seven days that have just begun nobody says that six are left.
pub(crate) fn lasting(span: Span) -> String {
    match span.0.max(0) / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", (seconds + 30) / 60),
        seconds @ 7_200..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        seconds => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// Tokens in the shortest form that still tells amounts apart; empty for none.
pub(crate) fn amount(tokens: i64) -> String {
    match tokens {
        ..=0 => String::new(),
        1..10_000 => tokens.to_string(),
        10_000..10_000_000 => format!("{}k", tokens / 1_000),
        10_000_000.. => format!("{}M", tokens / 1_000_000),
    }
}

/// Millionths of a dollar as dollars; empty for nothing, and never less than the truth by more than
/// a cent.
pub(crate) fn money(micros: i64) -> String {
    match micros {
        ..=0 => String::new(),
        1..10_000 => "<$0.01".to_owned(),
        10_000.. => format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

/// The first line of a text, cut to what fits into a table.
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
    fn amounts_are_short() {
        assert_eq!(
            [0, 1_000, 119_999, 120_000, 7_200_000].map(|ms| lasting(Span(ms))),
            ["0 s", "1 s", "119 s", "2 min", "2 h"]
        );
        assert_eq!(
            [0, 9_999, 10_000, 1_234_567, 12_345_678].map(amount),
            ["", "9999", "10k", "1234k", "12M"]
        );
        assert_eq!([0, 9_999, 10_000, 12_345_678].map(money), ["", "<$0.01", "$0.01", "$12.34"]);
        assert_eq!(first_line("one\ntwo"), "one");
        assert_eq!(first_line(&"ä".repeat(101)).chars().count(), 103);
    }
}
