//! Signs and colours of the kinds of states, and times as people read them. A colour never stands alone.

use anstyle::{AnsiColor, Style};
use banksman_core::lifecycle::Kind;
use banksman_core::time::{Instant, Span};
use jiff::tz::TimeZone;

use super::output::Cell;

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signs {
    Unicode,
    Ascii,
}

impl Signs {
    pub(crate) fn of(self, kind: Kind) -> &'static str {
        let (unicode, ascii) = match kind {
            Kind::Queued => ("◌", "o"),
            Kind::Working => ("●", "*"),
            Kind::Reviewing => ("◎", "@"),
            Kind::Waiting => ("!", "!"),
            Kind::Blocked => ("⚠", "#"),
            Kind::Parked => ("‖", "="),
            Kind::Done => ("✓", "+"),
            Kind::Failed => ("✗", "x"),
            Kind::Cancelled => ("–", "-"),
        };
        self.pick(unicode, ascii)
    }

    pub(crate) fn arrow(self) -> &'static str {
        self.pick("→", "->")
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

    pub(crate) fn sign_cell(self, kind: Kind) -> Cell {
        Cell { text: self.of(kind).to_owned(), style: style(kind) }
    }
}

pub(crate) fn style(kind: Kind) -> Style {
    let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
    match kind {
        Kind::Queued => Style::new(),
        Kind::Working => color(AnsiColor::Blue),
        Kind::Reviewing => color(AnsiColor::Cyan),
        Kind::Waiting => color(AnsiColor::Yellow).bold(),
        Kind::Blocked => color(AnsiColor::Yellow),
        Kind::Parked | Kind::Cancelled => Style::new().dimmed(),
        Kind::Done => color(AnsiColor::Green),
        Kind::Failed => color(AnsiColor::Red),
    }
}

/// The word that the store keeps for a kind.
pub(crate) fn kind_named(name: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.as_str() == name)
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

/// A span as people say it: one unit, the largest that fits.
pub(crate) fn about(span: Span) -> String {
    const UNITS: [(&str, i64); 3] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)];
    let unit = UNITS.iter().find(|(_, millis)| span.0 >= *millis);
    unit.map_or_else(|| "now".to_owned(), |(name, millis)| format!("{}{name}", span.0 / millis))
}
