//! The forms in which people and programs write durations, days, dates and times of day.
//!
//! Each function consumes what it understands from the cursor, or leaves the cursor unchanged.

use jiff::civil::{Time, Weekday};

use super::scan::{Cursor, TimeToken};
use crate::time::{Instant, Span};

/// Hours, minutes and seconds are three parts; nobody writes more than six.
const SPAN_PARTS: usize = 6;

/// Seconds or milliseconds since 1970, which will have ten and thirteen digits for centuries.
pub(super) fn epoch(cursor: &mut Cursor<'_>) -> Option<Instant> {
    cursor.attempt(|ahead| {
        let digits = ahead.digits()?;
        match digits.len() {
            10 => digits.parse::<i64>().ok()?.checked_mul(1_000).map(Instant),
            13 => digits.parse().ok().map(Instant),
            _ => None,
        }
    })
}

/// `2 hours 5 minutes`, `1h12m3.5s`, `37s`; with `seconds`, also a number of seconds without a
/// unit.
pub(super) fn span(cursor: &mut Cursor<'_>, seconds: bool) -> Option<Span> {
    let mut ahead = *cursor;
    let mut millis: Option<i64> = None;
    for _ in 0..SPAN_PARTS {
        let mut part = ahead;
        part.skip_while(2, |token| token.is_any("and") || token == TimeToken::Sign(','));
        let Some(amount) = part.thousandths() else {
            break;
        };
        let Some(unit) = part.word().and_then(unit_millis) else {
            if seconds && millis.is_none() && !part.next_is_sign(':') {
                millis = Some(amount);
                ahead = part;
            }
            break;
        };
        // Rounded up: a retry that is a fraction too early is rejected again.
        let more = amount.saturating_mul(unit).saturating_add(999) / 1_000;
        millis = Some(millis.unwrap_or(0).saturating_add(more));
        ahead = part;
    }
    *cursor = ahead;
    millis.map(Span)
}

fn unit_millis(word: &str) -> Option<i64> {
    match word.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => Some(1),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1_000),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60_000),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3_600_000),
        "d" | "day" | "days" => Some(86_400_000),
        "w" | "week" | "weeks" => Some(7 * 86_400_000),
        _ => None,
    }
}

/// A day given by name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Day {
    Tomorrow,
    Named(Weekday),
}

pub(super) fn day(cursor: &mut Cursor<'_>) -> Option<Day> {
    const DAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";
    if cursor.skip_while(1, |token| token.is_any("today")) == 1 {
        return None;
    }
    cursor.attempt(|ahead| {
        let word = ahead.word()?.to_ascii_lowercase();
        if word == "tomorrow" {
            return Some(Day::Tomorrow);
        }
        Weekday::from_monday_zero_offset(place_of(&word, DAYS)?).ok().map(Day::Named)
    })
}

/// The place of a name in a list of them; its first three letters stand for it.
fn place_of(word: &str, names: &str) -> Option<i8> {
    let place = names.split(' ').position(|name| name == word || name[..3] == *word)?;
    i8::try_from(place).ok()
}

/// `2026-11-20`, `Nov 20th, 2026`, `20 Nov 2026`, `Nov 20`: month and day, and the year if it is
/// given.
pub(super) fn date(cursor: &mut Cursor<'_>) -> Option<((i8, i8), Option<i16>)> {
    cursor.attempt(|ahead| {
        if let Some(year) = year(ahead) {
            let month = ahead.sign('-').then(|| ahead.small())??;
            let day = ahead.sign('-').then(|| ahead.small())??;
            return Some(((month, day), Some(year)));
        }
        let (month, day) = match month(ahead) {
            Some(month) => {
                ahead.sign('.');
                (month, day_of_month(ahead)?)
            }
            None => {
                let day = day_of_month(ahead)?;
                (month(ahead)?, day)
            }
        };
        let year = ahead.attempt(|behind| {
            behind.sign(',');
            year(behind)
        });
        Some(((month, day), year))
    })
}

fn year(cursor: &mut Cursor<'_>) -> Option<i16> {
    cursor.attempt(|ahead| ahead.digits().filter(|digits| digits.len() == 4)?.parse().ok())
}

fn month(cursor: &mut Cursor<'_>) -> Option<i8> {
    const MONTHS: &str =
        "january february march april may june july august september october november december";
    cursor.attempt(|ahead| {
        let word = ahead.word()?.to_ascii_lowercase();
        let word = if word == "sept" { "september" } else { &word };
        Some(place_of(word, MONTHS)? + 1)
    })
}

fn day_of_month(cursor: &mut Cursor<'_>) -> Option<i8> {
    let day = cursor.small()?;
    cursor.skip_while(1, |token| token.is_any("st nd rd th"));
    Some(day)
}

/// `5pm`, `5:30 p.m.`, `17:30`, `17:30:05`, `noon`. A bare number could mean anything.
pub(super) fn clock(cursor: &mut Cursor<'_>) -> Option<Time> {
    if cursor.skip_while(1, |token| token.is_any("midnight")) == 1 {
        return Some(Time::midnight());
    }
    if cursor.skip_while(1, |token| token.is_any("noon")) == 1 {
        return Some(jiff::civil::time(12, 0, 0, 0));
    }
    cursor.attempt(|ahead| {
        let hour = ahead.small()?;
        let minute = if ahead.sign(':') { Some(ahead.small()?) } else { None };
        let second = if minute.is_some() && ahead.sign(':') { ahead.small()? } else { 0 };
        if minute.is_some() && ahead.sign('.') {
            ahead.digits()?;
        }
        let hour = match first_hour(ahead) {
            Some(_) if !(1..=12).contains(&hour) => return None,
            Some(first) => hour % 12 + first,
            None if minute.is_none() => return None,
            None => hour,
        };
        Time::new(hour, minute.unwrap_or(0), second.min(59), 0).ok()
    })
}

/// The first hour of the half of the day that `am`, `PM` or `p.m.` names.
fn first_hour(cursor: &mut Cursor<'_>) -> Option<i8> {
    cursor.attempt(|ahead| {
        let word = ahead.word()?.to_ascii_lowercase();
        let first = match word.as_str() {
            "am" | "a" => 0,
            "pm" | "p" => 12,
            _ => return None,
        };
        if word.len() == 1 {
            if !ahead.sign('.') || !ahead.word()?.eq_ignore_ascii_case("m") {
                return None;
            }
            ahead.sign('.');
        }
        Some(first)
    })
}
