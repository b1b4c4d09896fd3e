//! Reads reset times from prose: durations, clock times and dates.
//!
//! A time with a zone is read in that zone or not at all, because a guess could be hours too early.

mod forms;
mod scan;

use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone};

use super::is_plausible;
use crate::limits;
use crate::time::{Instant, Span};
use forms::{Day, clock, date, day, epoch, span};
use scan::{Cursor, TimeToken, tokens};

/// A clock time that has just passed means the past one, not tomorrow's: the text was written
/// before it.
const JUST_PASSED: Span = Span(5 * 60_000);
/// A date with a year needs no limit to be understood; this one excludes numbers that are no dates.
const FARTHEST_DATE: Span = Span(10 * 366 * 86_400_000);
/// Words and signs between `resets` and its time.
const FILLER_TOKENS: usize = 8;

/// The reset time that a text names, relative to `now`. Of several the latest counts, because a
/// retry that is too early is rejected again.
///
/// `local` is the zone of a clock time without one, and `zone` finds a zone by its IANA name.
/// Durations, clock times and dates without a year are at most [`super::LONGEST_WAIT`] away. A full
/// date is returned as it is written, even if it is implausible; the caller must limit the wait.
pub fn reset_time(
    text: &str,
    now: Instant,
    local: &TimeZone,
    zone: &dyn Fn(&str) -> Option<TimeZone>,
) -> Option<Instant> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(limits::FINAL_TEXT_BYTES));
    let text = &text[from..];
    let tokens = tokens(text);
    let context = ResetContext { now, local, zone };
    let times = (0..tokens.len()).filter_map(|at| {
        let anchor = anchor(tokens[at])?;
        context.read_after(anchor, &mut Cursor::new(&tokens[at + 1..]))
    });
    times.max()
}

/// Words that announce a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// `resets`, `try again`, `available`, …
    Any,
    /// `retry`: a number without a unit counts only if `after` follows.
    Retry,
    /// `Retry-After` in one word, whose number without a unit is seconds.
    Seconds,
    /// `limit reached|1795032000`
    Epoch,
}

fn anchor(token: TimeToken<'_>) -> Option<Anchor> {
    const ANCHORS: [(Anchor, &str); 4] = [
        (Anchor::Retry, "retry"),
        (Anchor::Seconds, "retryafter retry_after retry_after_seconds"),
        (Anchor::Epoch, "reached"),
        (
            Anchor::Any,
            "reset resets resetsat resets_at reset_at resetting again available until wait \
             retrydelay retry_delay retrying",
        ),
    ];
    ANCHORS.iter().find(|(_, words)| token.is_any(words)).map(|(anchor, _)| *anchor)
}

struct ResetContext<'a> {
    now: Instant,
    local: &'a TimeZone,
    zone: &'a dyn Fn(&str) -> Option<TimeZone>,
}

impl ResetContext<'_> {
    fn read_after(&self, anchor: Anchor, cursor: &mut Cursor<'_>) -> Option<Instant> {
        let saw_after = skip_filler(cursor);
        if let Some(at) = epoch(cursor) {
            return self.bounded_date(at);
        }
        let seconds = match anchor {
            Anchor::Epoch => return None,
            Anchor::Any => false,
            Anchor::Retry => saw_after,
            Anchor::Seconds => true,
        };
        if let Some(span) = span(cursor, seconds) {
            return Some(self.now.plus(span)).filter(|at| is_plausible(*at, self.now));
        }
        let day = day(cursor);
        cursor
            .skip_while(FILLER_TOKENS, |token| token.is_any("at") || token == TimeToken::Sign(','));
        if let Some((date, year)) = date(cursor) {
            cursor.skip_while(FILLER_TOKENS, |token| {
                token.is_any("at t") || token == TimeToken::Sign(',')
            });
            let time = clock(cursor).unwrap_or(Time::midnight());
            return self.on_date(date, year, time, &self.zone_after(cursor)?);
        }
        let time = clock(cursor)?;
        self.next_occurrence(time, day, &self.zone_after(cursor)?)
    }

    /// A fully specified point in time.
    fn bounded_date(&self, at: Instant) -> Option<Instant> {
        Some(at).filter(|at| self.now < *at && *at <= self.now.plus(FARTHEST_DATE))
    }

    fn on_date(
        &self,
        (month, day): (i8, i8),
        year: Option<i16>,
        time: Time,
        zone: &TimeZone,
    ) -> Option<Instant> {
        let on = |year: i16| {
            let date = Date::new(year, month, day).ok()?;
            let first = zone.to_ambiguous_zoned(date.to_datetime(time)).compatible().ok()?;
            Some(Instant(first.timestamp().as_millisecond()))
        };
        if let Some(year) = year {
            return on(year).and_then(|at| self.bounded_date(at));
        }
        let this_year = self.today(zone)?.year();
        let years = [this_year, this_year.saturating_add(1)];
        years.into_iter().filter_map(on).find(|at| is_plausible(*at, self.now))
    }

    fn next_occurrence(&self, time: Time, day: Option<Day>, zone: &TimeZone) -> Option<Instant> {
        /// A week, one more day because today's occurrence may have passed, and one for a change of
        /// the clocks.
        const DAYS: usize = 9;
        let days = self.today(zone)?.series(jiff::Span::new().days(1)).take(DAYS);
        for (ahead, date) in days.enumerate() {
            let is_meant = match day {
                None => true,
                Some(Day::Tomorrow) => ahead == 1,
                Some(Day::Named(weekday)) => date.weekday() == weekday,
            };
            if !is_meant {
                continue;
            }
            let on_clock = zone.to_ambiguous_zoned(date.to_datetime(time));
            let both = [on_clock.clone().compatible(), on_clock.later()];
            for at in
                both.into_iter().flatten().map(|zoned| Instant(zoned.timestamp().as_millisecond()))
            {
                if at > self.now {
                    return Some(at);
                }
                if self.now.since(at) <= JUST_PASSED {
                    return None;
                }
            }
        }
        None
    }

    fn today(&self, zone: &TimeZone) -> Option<Date> {
        let now = jiff::Timestamp::from_millisecond(self.now.0).ok()?;
        Some(now.to_zoned(zone.clone()).date())
    }

    /// The zone that follows a time; none if one is named that is unknown.
    fn zone_after(&self, cursor: &mut Cursor<'_>) -> Option<TimeZone> {
        let in_brackets = cursor.sign('(');
        if let Some(minutes) = offset(cursor, Digits::HoursAndMinutes) {
            return fixed(minutes);
        }
        let Some(name) = cursor.zone_name() else {
            return Some(self.local.clone());
        };
        if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt") {
            return fixed(offset(cursor, Digits::Any).unwrap_or(0));
        }
        if name.eq_ignore_ascii_case("z") {
            return Some(TimeZone::UTC);
        }
        let hours = |zone: &str| zone.strip_prefix(&*name).and_then(|hours| hours.parse().ok());
        if let Some(hours) = ABBREVIATIONS.split(' ').find_map::<i32, _>(hours) {
            return fixed(hours * 60);
        }
        let full =
            REGIONS.iter().find(|(short, _)| *short == name).map_or(&*name, |(_, full)| full);
        if !full.contains('/') {
            return Some(self.local.clone());
        }
        let looks_like_one =
            in_brackets || full.starts_with(|first: char| first.is_ascii_uppercase());
        (self.zone)(full).or_else(|| (!looks_like_one).then(|| self.local.clone()))
    }
}

/// Abbreviations with one fixed offset, in hours east of Greenwich, in capitals.
const ABBREVIATIONS: &str = "PST-8 PDT-7 MST-7 MDT-6 CST-6 CDT-5 EST-5 EDT-4 WET+0 BST+1 CET+1 \
     CEST+2 EET+2 EEST+3 JST+9";

/// Abbreviations whose offset changes with the season.
const REGIONS: [(&str, &str); 4] = [
    ("PT", "America/Los_Angeles"),
    ("MT", "America/Denver"),
    ("CT", "America/Chicago"),
    ("ET", "America/New_York"),
];

fn fixed(minutes: i32) -> Option<TimeZone> {
    Offset::from_seconds(minutes.saturating_mul(60)).ok().map(TimeZone::fixed)
}

/// How an offset must be written: `5pm - 2` has none, `UTC-2` has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    HoursAndMinutes,
    Any,
}

/// `+02:00`, `-0800`, `+2`, in minutes east of Greenwich.
fn offset(cursor: &mut Cursor<'_>, written: Digits) -> Option<i32> {
    cursor.attempt(|ahead| {
        let east = if ahead.sign('+') { 1 } else { -1 };
        if east < 0 && !ahead.sign('-') {
            return None;
        }
        let digits = ahead.digits()?;
        let number: i32 = digits.parse().ok()?;
        let minutes = match digits.len() {
            4 => number / 100 * 60 + number % 100,
            3.. => return None,
            _ if ahead.sign(':') => number * 60 + ahead.digits()?.parse::<i32>().ok()?,
            _ if written == Digits::Any => number * 60,
            _ => return None,
        };
        Some(east * minutes)
    })
}

/// Skips words and signs between an anchor and its time; returns whether `after` was among them.
fn skip_filler(cursor: &mut Cursor<'_>) -> bool {
    const WORDS: &str = "at on by in after for about approximately around again until is be will your limit \
         time delay the date";
    let mut saw_after = false;
    let mut fits = |token: TimeToken<'_>| {
        saw_after |= token.is_any("after");
        token.is_any(WORDS)
            || matches!(token, TimeToken::Sign(':' | '=' | '"' | '\'' | '|' | '\\' | '(' | '`'))
    };
    cursor.skip_while(FILLER_TOKENS, &mut fits);
    // A dash belongs to `retry-after`; before a number it would be a minus.
    let mut ahead = *cursor;
    if ahead.sign('-') && ahead.digits().is_none() {
        cursor.sign('-');
        cursor.skip_while(FILLER_TOKENS, &mut fits);
    }
    saw_after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::LONGEST_WAIT;
    use proptest::prelude::{any, prop_assert, proptest};

    /// The zones of these tests as rules, so that no file of the machine is read.
    fn zone(name: &str) -> Option<TimeZone> {
        let rule = match name {
            "Europe/Berlin" => "CET-1CEST,M3.5.0,M10.5.0/3",
            "America/Los_Angeles" => "PST8PDT,M3.2.0,M11.1.0",
            "America/Argentina/Buenos_Aires" => "<-03>3",
            "Asia/Tokyo" => "JST-9",
            _ => return None,
        };
        Some(TimeZone::posix(rule).expect("a valid rule"))
    }

    fn read(text: &str, now: &str) -> Option<String> {
        let local = zone("Asia/Tokyo").expect("a zone of the list");
        let now = now.parse().expect("a valid time");
        reset_time(text, now, &local, &zone).map(|at| at.to_string())
    }

    #[track_caller]
    fn check(now: &str, rows: &[(&str, &str)]) {
        for (text, expected) in rows {
            let expected = (!expected.is_empty()).then(|| (*expected).to_owned());
            assert_eq!(read(text, now), expected, "{text}");
        }
    }

    const NOON: &str = "2026-11-15T12:00:00Z";

    #[test]
    fn spans_count_from_now() {
        check(
            NOON,
            &[
                ("Please retry in 37s.", "2026-11-15T12:00:37Z"),
                ("retry in 37.513s", "2026-11-15T12:00:37.513Z"),
                (r#""retryDelay":"39s""#, "2026-11-15T12:00:39Z"),
                (r#"{\"retryDelay\": \"39s\"}"#, "2026-11-15T12:00:39Z"),
                ("try again in 2 hours 5 minutes", "2026-11-15T14:05:00Z"),
                ("try again in 3 days, 4 hours and 9 minutes.", "2026-11-18T16:09:00Z"),
                ("Please try again in 1h12m3.5s.", "2026-11-15T13:12:03.5Z"),
                ("Please try again in 6m0s", "2026-11-15T12:06:00Z"),
                ("Please try again in 20ms", "2026-11-15T12:00:00.02Z"),
                ("try again in 0.5ms", "2026-11-15T12:00:00.001Z"),
                ("Retry-After: 120", "2026-11-15T12:02:00Z"),
                (r#""retry-after":"120""#, "2026-11-15T12:02:00Z"),
                ("retry_after=7", "2026-11-15T12:00:07Z"),
                (
                    "Suggested retry after 1s.. Retrying after 11835ms...",
                    "2026-11-15T12:00:11.835Z",
                ),
                ("wait 90 seconds", "2026-11-15T12:01:30Z"),
                ("limit resets in 4 hours", "2026-11-15T16:00:00Z"),
            ],
        );
    }

    #[test]
    fn a_clock_time_is_its_next_occurrence_in_its_zone() {
        check(
            NOON,
            &[
                ("resets 5pm (Europe/Berlin)", "2026-11-15T16:00:00Z"),
                (
                    "You've hit your limit \u{b7} resets 10am (Europe/Berlin)",
                    "2026-11-16T09:00:00Z",
                ),
                ("resets at 17:30 UTC", "2026-11-15T17:30:00Z"),
                ("resets at 11:30 UTC", "2026-11-16T11:30:00Z"),
                ("resets 12am (UTC)", "2026-11-16T00:00:00Z"),
                ("resets 12pm (PST)", "2026-11-15T20:00:00Z"),
                ("available again at 5:30 p.m. PT", "2026-11-16T01:30:00Z"),
                ("resets 6pm (America/Argentina/Buenos_Aires)", "2026-11-15T21:00:00Z"),
                ("resets at 17:30 UTC+2", "2026-11-15T15:30:00Z"),
                ("resets at 17:30+02:00", "2026-11-15T15:30:00Z"),
                ("resets 11pm - 2 requests are left", "2026-11-15T14:00:00Z"),
                ("resets at 17:30 GMT-05:30", "2026-11-15T23:00:00Z"),
                ("try again at 10:15 PM", "2026-11-15T13:15:00Z"),
                ("try again at 10:15 PM.", "2026-11-15T13:15:00Z"),
                ("resets at midnight UTC", "2026-11-16T00:00:00Z"),
                ("resets at noon (Europe/Berlin)", "2026-11-16T11:00:00Z"),
                ("resets tomorrow at 5pm (UTC)", "2026-11-16T17:00:00Z"),
                ("resets Thursday at 9am (UTC)", "2026-11-19T09:00:00Z"),
                ("resets Sunday 9am (UTC)", "2026-11-22T09:00:00Z"),
                ("resets 11pm (your local time)", "2026-11-15T14:00:00Z"),
                ("resets 11pm (in 2 hours)", "2026-11-15T14:00:00Z"),
            ],
        );
    }

    #[test]
    fn dates_are_read_in_their_zone() {
        check(
            NOON,
            &[
                ("try again at Nov 20th, 2026 3:10 PM", "2026-11-20T06:10:00Z"),
                ("try again at Nov 20th, 2026 3:10 PM UTC.", "2026-11-20T15:10:00Z"),
                ("resets Nov 20, 2026, 12am (UTC)", "2026-11-20T00:00:00Z"),
                ("resets November 20 at 5pm (Europe/Berlin)", "2026-11-20T16:00:00Z"),
                ("resets 2 Dec 9:00 UTC", "2026-12-02T09:00:00Z"),
                ("resets at 2026-11-20T15:10:00Z", "2026-11-20T15:10:00Z"),
                ("resets at 2026-11-20T15:10:00.123+02:00", "2026-11-20T13:10:00Z"),
                ("resets_at: \"2026-11-20 15:10 UTC\"", "2026-11-20T15:10:00Z"),
                ("Retry-After: Wed, 18 Nov 2026 07:28:00 GMT", "2026-11-18T07:28:00Z"),
                ("resets Jan 1, 2030, 12am (UTC)", "2030-01-01T00:00:00Z"),
                ("usage limit reached|1795032000", "2026-11-18T20:00:00Z"),
                (r#""resetsAt":1795032000000"#, "2026-11-18T20:00:00Z"),
                ("x-ratelimit-reset: 1795032000", "2026-11-18T20:00:00Z"),
            ],
        );
    }

    #[test]
    fn a_date_without_a_year_may_lie_behind_new_year() {
        check(
            "2026-12-30T12:00:00Z",
            &[
                ("resets Jan 3 at 9am (UTC)", "2027-01-03T09:00:00Z"),
                ("resets Dec 29 at 9am (UTC)", ""),
            ],
        );
    }

    #[test]
    fn clocks_that_change_are_followed() {
        // Berlin skips 02:00 to 03:00 on 28 March 2027 and repeats it on 31 October 2027.
        check(
            "2027-03-27T20:00:00Z",
            &[
                ("resets 8am (Europe/Berlin)", "2027-03-28T06:00:00Z"),
                ("resets 1:30am (Europe/Berlin)", "2027-03-28T00:30:00Z"),
                ("resets 2:30am (Europe/Berlin)", "2027-03-28T01:30:00Z"),
            ],
        );
        check("2027-10-30T20:00:00Z", &[("resets 8am (Europe/Berlin)", "2027-10-31T07:00:00Z")]);
        check("2027-10-30T20:00:00Z", &[("resets 2:30am (Europe/Berlin)", "2027-10-31T00:30:00Z")]);
        check("2027-10-31T00:45:00Z", &[("resets 2:30am (Europe/Berlin)", "2027-10-31T01:30:00Z")]);
    }

    #[test]
    fn a_clock_time_that_has_just_passed_is_not_tomorrow() {
        check("2026-11-15T17:00:00Z", &[("resets 5pm (UTC)", "")]);
        check("2026-11-15T17:05:00Z", &[("resets 5pm (UTC)", "")]);
        check("2026-11-15T17:05:01Z", &[("resets 5pm (UTC)", "2026-11-16T17:00:00Z")]);
        check("2026-11-15T16:59:59Z", &[("resets 5pm (UTC)", "2026-11-15T17:00:00Z")]);
    }

    #[test]
    fn what_names_no_time_has_none() {
        check(
            NOON,
            &[
                ("", ""),
                ("Quota exceeded. Check your plan.", ""),
                ("Please wait and try again later.", ""),
                ("resets 5pm (Europe/Nowhere)", ""),
                ("resets 5pm Mars/Olympus", ""),
                ("resets at 25:00 UTC", ""),
                ("resets at 13pm", ""),
                ("resets at 0pm", ""),
                ("resets 5", ""),
                ("retry 3 of 5", ""),
                ("retry in 33 days", ""),
                ("retry in -5s", ""),
                ("retry in 0s", ""),
                ("retry in 99999999999999999999s", ""),
                ("resets Feb 30, 2027 5pm", ""),
                ("resets Nov 1, 2026 5pm (UTC)", ""),
                ("resets Jan 1, 2090 5pm (UTC)", ""),
                ("usage limit reached|1495032000", ""),
                ("reached 5pm", ""),
                ("the build took 37s", ""),
            ],
        );
    }

    #[test]
    fn of_several_times_the_latest_counts() {
        let text = "retry in 5s\nretry in 40s\nretry in 10s";
        assert_eq!(read(text, NOON).as_deref(), Some("2026-11-15T12:00:40Z"));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_time_ahead_or_none(text in "(?s).{0,300}", now in any::<i64>()) {
            let at = reset_time(&text, Instant(now), &TimeZone::UTC, &zone);
            prop_assert!(at.is_none_or(|at| at.0 > now));
        }

        #[test]
        fn what_resembles_a_time_is_ahead_and_bounded(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "resets", "retry", "-", "after", "in", "at", "try again", ":", "5", "17", "30", "2026", "2030", "99",
                    "1795032000", ".", "pm", "am", "s", "h", "days", "Nov", "20th", ",", "(", ")", "UTC", "Europe/Berlin",
                    "Europe", "/", "+", "T", "Z", "tomorrow", "Mon", "999999999", "noon",
                ]),
                0..14,
            ),
            spaced in any::<bool>(),
        ) {
            let now: Instant = NOON.parse().expect("valid");
            let text = parts.join(if spaced { " " } else { "" });
            if let Some(at) = reset_time(&text, now, &TimeZone::UTC, &zone) {
                let full = text.contains("20") || text.contains("1795032000");
                let farthest = if full { FARTHEST_DATE } else { LONGEST_WAIT };
                prop_assert!(at > now && at <= now.plus(farthest), "{text}: {at}");
            }
        }
    }

    #[test]
    fn long_rows_of_signs_are_read_in_a_moment() {
        for sign in ["-", "retry ", "retry-", "(", "1 h ", "/a"] {
            let text = format!("resets {}", sign.repeat(limits::FINAL_TEXT_BYTES));
            assert!(read(&text, NOON).is_none_or(|at| at.starts_with("2026")), "{sign}");
        }
    }
}
