//! The forms in which people and programs write durations, days, dates and times of day.
//!
//! Each function consumes what it understands from the cursor, or leaves the cursor unchanged.

use jiff::civil::{Time, Weekday};

use super::scan::{Cursor, Token};
use crate::time::{Instant, Span};

/// Hours, minutes and seconds are three parts; nobody writes more than six.
const SPAN_PARTS: usize = 6;

/// Seconds or milliseconds since 1970, which will have ten and thirteen digits for centuries.
pub(super) fn epoch(cursor: &mut Cursor<'_>) -> Option<Instant> {
    let mut ahead = *cursor;
    let digits = ahead.digits()?;
    let millis = match digits.len() {
        10 => digits.parse::<i64>().ok()?.checked_mul(1_000)?,
        13 => digits.parse::<i64>().ok()?,
        _ => return None,
    };
    *cursor = ahead;
    Some(Instant(millis))
}

/// `2 hours 5 minutes`, `1h12m3.5s`, `37s`; with `seconds`, also a number of seconds without a
/// unit.
pub(super) fn span(cursor: &mut Cursor<'_>, seconds: bool) -> Option<Span> {
    let mut ahead = *cursor;
    let mut millis: Option<i64> = None;
    for _ in 0..SPAN_PARTS {
        let mut part = ahead;
        part.skip_while(2, |token| token.is_any(&["and"]) || token == Token::Sign(','));
        let Some(amount) = part.thousandths() else {
            break;
        };
        let Some(unit) = part.word().and_then(unit_seconds) else {
            if seconds && millis.is_none() && !part.next_is_sign(':') {
                millis = Some(amount);
                ahead = part;
            }
            break;
        };
        let more = unit.apply(amount);
        millis = Some(millis.unwrap_or(0).saturating_add(more));
        ahead = part;
    }
    *cursor = ahead;
    millis.map(Span)
}

/// How a unit scales thousandths.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Milliseconds,
    Seconds(i64),
}

impl Unit {
    fn apply(self, thousandths: i64) -> i64 {
        match self {
            // Rounded up: a retry that is a fraction too early is rejected again.
            Self::Milliseconds => thousandths.saturating_add(999) / 1_000,
            Self::Seconds(seconds) => thousandths.saturating_mul(seconds),
        }
    }
}

fn unit_seconds(word: &str) -> Option<Unit> {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "ms" | "millisecond" | "milliseconds" => Some(Unit::Milliseconds),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(Unit::Seconds(1)),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(Unit::Seconds(60)),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(Unit::Seconds(3_600)),
        "d" | "day" | "days" => Some(Unit::Seconds(86_400)),
        "w" | "week" | "weeks" => Some(Unit::Seconds(7 * 86_400)),
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
    const DAYS: [(&str, &str, Weekday); 7] = [
        ("mon", "monday", Weekday::Monday),
        ("tue", "tuesday", Weekday::Tuesday),
        ("wed", "wednesday", Weekday::Wednesday),
        ("thu", "thursday", Weekday::Thursday),
        ("fri", "friday", Weekday::Friday),
        ("sat", "saturday", Weekday::Saturday),
        ("sun", "sunday", Weekday::Sunday),
    ];
    let mut ahead = *cursor;
    let word = ahead.word()?.to_ascii_lowercase();
    if word == "today" {
        *cursor = ahead;
        return None;
    }
    let named = DAYS.iter().find(|(short, long, _)| word == *short || word == *long);
    let day = match named {
        Some((_, _, weekday)) => Day::Named(*weekday),
        None if word == "tomorrow" => Day::Tomorrow,
        None => return None,
    };
    *cursor = ahead;
    Some(day)
}

/// `2026-11-20`, `Nov 20th, 2026`, `20 Nov 2026`, `Nov 20`: month and day, and the year if it is
/// given.
pub(super) fn date(cursor: &mut Cursor<'_>) -> Option<((i8, i8), Option<i16>)> {
    let mut ahead = *cursor;
    if let Some(year) = year(&mut ahead) {
        let month = if ahead.sign('-') { ahead.small()? } else { return None };
        let day = if ahead.sign('-') { ahead.small()? } else { return None };
        *cursor = ahead;
        return Some(((month, day), Some(year)));
    }
    let (month, day) = match month(&mut ahead) {
        Some(month) => {
            ahead.sign('.');
            (month, day_of_month(&mut ahead)?)
        }
        None => {
            let day = day_of_month(&mut ahead)?;
            (month(&mut ahead)?, day)
        }
    };
    let mut behind = ahead;
    behind.sign(',');
    let year = year(&mut behind);
    *cursor = if year.is_some() { behind } else { ahead };
    Some(((month, day), year))
}

fn year(cursor: &mut Cursor<'_>) -> Option<i16> {
    let mut ahead = *cursor;
    let year = ahead.digits().filter(|digits| digits.len() == 4)?.parse().ok()?;
    *cursor = ahead;
    Some(year)
}

fn month(cursor: &mut Cursor<'_>) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let mut ahead = *cursor;
    let word = ahead.word()?.to_ascii_lowercase();
    let is_month = |month: &&str| {
        **month == word || month[..3] == word || (word == "sept" && month.starts_with("sept"))
    };
    let index = MONTHS.iter().position(is_month)?;
    *cursor = ahead;
    i8::try_from(index + 1).ok()
}

fn day_of_month(cursor: &mut Cursor<'_>) -> Option<i8> {
    let day = cursor.small()?;
    cursor.skip_while(1, |token| token.is_any(&["st", "nd", "rd", "th"]));
    Some(day)
}

/// `5pm`, `5:30 p.m.`, `17:30`, `17:30:05`, `noon`. A bare number could mean anything.
pub(super) fn clock(cursor: &mut Cursor<'_>) -> Option<Time> {
    let mut ahead = *cursor;
    if ahead.skip_while(1, |token| token.is_any(&["midnight"])) == 1 {
        *cursor = ahead;
        return Some(Time::midnight());
    }
    if ahead.skip_while(1, |token| token.is_any(&["noon"])) == 1 {
        *cursor = ahead;
        return Some(jiff::civil::time(12, 0, 0, 0));
    }
    let hour = ahead.small()?;
    let minute = if ahead.sign(':') { Some(ahead.small()?) } else { None };
    let second = if minute.is_some() && ahead.sign(':') { ahead.small()? } else { 0 };
    if minute.is_some() && ahead.sign('.') {
        ahead.digits()?;
    }
    let hour = match half_of_day(&mut ahead) {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(Half::Morning) => hour % 12,
        Some(Half::Evening) => hour % 12 + 12,
        None if minute.is_none() => return None,
        None => hour,
    };
    let time = Time::new(hour, minute.unwrap_or(0), second.min(59), 0).ok()?;
    *cursor = ahead;
    Some(time)
}

#[derive(Debug, Clone, Copy)]
enum Half {
    Morning,
    Evening,
}

/// `am`, `PM`, `p.m.`
fn half_of_day(cursor: &mut Cursor<'_>) -> Option<Half> {
    let mut ahead = *cursor;
    let word = ahead.word()?.to_ascii_lowercase();
    let half = match word.as_str() {
        "am" | "a" => Half::Morning,
        "pm" | "p" => Half::Evening,
        _ => return None,
    };
    if word.len() == 1 {
        if !ahead.sign('.') || !ahead.word()?.eq_ignore_ascii_case("m") {
            return None;
        }
        ahead.sign('.');
    }
    *cursor = ahead;
    Some(half)
}
