//! What all adapters share: lines as JSON, texts cut to a size, and the one table from error names,
//! HTTP statuses and prose to faults.
//!
//! Structured names and statuses come first; prose is asked last, and only about an end that was
//! not a success.

use std::collections::VecDeque;

use banksman_core::quota;
use banksman_core::receipt::{Fault, FaultKind, ProcessExit};
use banksman_core::time::Instant;
use jiff::tz::TimeZone;
use serde_json::Value;

/// One line of detail for people, in bytes.
pub(super) const DETAIL_BYTES: usize = 500;
/// Lines of standard error that are kept to explain an end, the newest ones.
const TAIL_LINES: usize = 20;
const ELLIPSIS: &str = "…";

/// A line of the stream as a JSON object. Banners, warnings and half lines are not one.
pub(super) fn object(line: &str) -> Option<Value> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
}

/// A text field; empty where there is none.
pub(super) fn text_of<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// A count of something; what is no number, or below zero, is none.
pub(super) fn count_of(value: &Value, key: &str) -> i64 {
    let number = &value[key];
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float becomes the nearest count, saturated"
    )]
    let count = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
    count.unwrap_or_default().max(0)
}

/// Dollars as millionths, rounded.
pub(super) fn micros(dollars: &Value) -> Option<i64> {
    let dollars = dollars.as_f64().filter(|dollars| dollars.is_finite() && *dollars >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "casts from floats saturate")]
    Some((dollars * 1e6).round() as i64)
}

/// What came since, of something that is counted on; a count that is below the earlier one has
/// begun anew.
pub(super) fn since(count: i64, before: i64) -> i64 {
    if count >= before { count - before } else { count }
}

/// A point in time from seconds since 1970, or from milliseconds, which no seconds of our time
/// reach.
pub(super) fn at_epoch(value: &Value) -> Option<Instant> {
    const MILLIS_FROM: i64 = 100_000_000_000;
    let number = count_of(&serde_json::json!({ "at": value }), "at");
    let millis = if number < MILLIS_FROM { number.checked_mul(1_000)? } else { number };
    (number > 0).then_some(Instant(millis))
}

/// The text in at most `bytes` bytes, whole characters only.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end])
}

/// The text on one line of at most [`DETAIL_BYTES`].
pub(super) fn one_line(text: &str) -> String {
    // More than the answer can hold need not be looked at, whatever the size of the text.
    let start = &text[..text.floor_char_boundary(4 * DETAIL_BYTES)];
    let words: Vec<&str> = start.split_whitespace().collect();
    cut(&words.join(" "), DETAIL_BYTES)
}

/// What a tool is used on, on one line: the argument that says most, or all of them.
pub(super) fn tool_detail(input: &Value) -> String {
    const TELLING: [&str; 9] = [
        "file_path",
        "path",
        "notebook_path",
        "command",
        "pattern",
        "query",
        "url",
        "description",
        "prompt",
    ];
    let telling = TELLING.iter().find_map(|key| input[*key].as_str());
    telling.map_or_else(
        || if input.is_null() { String::new() } else { one_line(&input.to_string()) },
        one_line,
    )
}

/// The last lines of standard error.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    pub(super) fn push(&mut self, line: &str) {
        let line = one_line(line);
        if line.is_empty() {
            return;
        }
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub(super) fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// What standard error says about an end without a terminal event. Nothing about one that was
    /// brought about from outside, or that claims to be good. An agent that wrote no event at
    /// all did not get as far as its work.
    pub(super) fn fault(&self, spoke: bool, exit: ProcessExit) -> Option<Fault> {
        let last = self.lines.back()?;
        let is_own_failure = exit.code.is_some_and(|code| code != 0 && !is_signal(code));
        if !is_own_failure {
            return None;
        }
        let kind = fault_in(&self.text()).or_else(|| (!spoke).then_some(FaultKind::Setup))?;
        Some(Fault { kind, detail: last.clone(), structured: false })
    }
}

/// Whether an exit code is how shells write a signal: of those that end programs from outside.
fn is_signal(code: i32) -> bool {
    matches!(code, 129 | 130 | 131 | 137 | 143)
}

/// What an HTTP status of the provider means. 400 says nothing by itself: it may be an empty
/// account or our fault.
pub(super) fn kind_of_status(status: i64) -> Option<FaultKind> {
    match status {
        401 | 403 => Some(FaultKind::Auth),
        402 | 429 => Some(FaultKind::Quota),
        404 => Some(FaultKind::Setup),
        408 | 409 | 425 | 500..=599 => Some(FaultKind::Transient),
        _ => None,
    }
}

/// What an error's name means, however it is spelled: `rate_limit_error`, `rateLimit`,
/// `RATE-LIMIT`. Names that say nothing more than 400 does are not in the table.
pub(super) fn kind_of_name(name: &str) -> Option<FaultKind> {
    const NAMES: [(FaultKind, &[&str]); 6] = [
        (
            FaultKind::Quota,
            &[
                "ratelimit",
                "ratelimiterror",
                "ratelimitexceeded",
                "usagelimitreached",
                "usagelimitexceeded",
                "usagenotincluded",
                "billingerror",
                "creditbalancetoolow",
                "insufficientquota",
                "quotaexceeded",
                "resourceexhausted",
                "toomanyrequests",
            ],
        ),
        (
            FaultKind::Auth,
            &[
                "authentication",
                "authenticationerror",
                "authenticationfailed",
                "authrequired",
                "permissionerror",
                "permissiondenied",
                "unauthorized",
                "unauthenticated",
                "forbidden",
                "invalidapikey",
                "oauthorgnotallowed",
            ],
        ),
        (
            FaultKind::Transient,
            &[
                "overloaded",
                "overloadederror",
                "serveroverloaded",
                "serverisoverloaded",
                "servererror",
                "internalservererror",
                "apierror",
                "timeout",
                "timeouterror",
                "unavailable",
                "deadlineexceeded",
                "connectionerror",
                "httpconnectionfailed",
                "responsestreamconnectionfailed",
                "responsestreamdisconnected",
                "responsetoomanyfailedattempts",
            ],
        ),
        (
            FaultKind::Budget,
            &["maxoutputtokens", "maxturns", "maxbudgetusd", "sessionbudgetexceeded"],
        ),
        (FaultKind::Session, &["contextwindowexceeded", "contextlengthexceeded", "threadnotfound"]),
        (FaultKind::Setup, &["notfounderror", "modelnotfound"]),
    ];
    let plain: String = name
        .chars()
        .take(64)
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    let row = NAMES.iter().find(|(_, names)| names.contains(&plain.as_str()));
    row.map(|(kind, _)| *kind)
}

/// The HTTP status that a text names as one: `unexpected status 401 …`, `last status: 429 …`.
pub(super) fn status_in(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let mut after = lower.match_indices("status").map(|(at, word)| &lower[at + word.len()..]);
    after.find_map(|rest| {
        let rest = rest.trim_start_matches(" code").trim_start_matches([':', '=', ' ']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok().filter(|status| (400..600).contains(status))
    })
}

/// What a text says about an end that was not a success: a named status first, then words.
pub(super) fn fault_in(text: &str) -> Option<FaultKind> {
    /// What the agents write where they give no status and no name.
    const WORDS: [(FaultKind, &[&str]); 5] = [
        (
            FaultKind::Session,
            &[
                "no conversation found",
                "no rollout found",
                "session not found",
                "thread not found",
                "prompt is too long",
                "context window",
                "context length",
            ],
        ),
        (
            FaultKind::Budget,
            &["token budget exhausted", "maximum number of turns", "max_output_tokens"],
        ),
        (FaultKind::Auth, &["missing environment variable", "not logged in", "sign in again"]),
        (FaultKind::Quota, &["usage limit", "upgrade to plus"]),
        (
            FaultKind::Transient,
            &["idle timeout", "at capacity", "high demand", "temporary errors", "overloaded"],
        ),
    ];
    let text = plain_quotes(text);
    let named = status_in(&text).and_then(kind_of_status);
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    named
        .or_else(|| WORDS.iter().find(|(_, words)| has(words)).map(|(kind, _)| *kind))
        .or_else(|| is_taken(&text).then_some(FaultKind::Session))
        .or_else(|| quota::fault_in(&text))
}

/// `Session ID … is already in use`: another session has to be begun.
fn is_taken(text: &str) -> bool {
    text.contains("session id") && text.contains("already in use")
}

/// Whether a text says that the provider fell silent in the middle of an answer.
pub(super) fn says_idle(text: &str) -> bool {
    plain_quotes(text).contains("idle timeout")
}

/// Lower-case, with the apostrophe of typewriters, so that one pattern fits all.
fn plain_quotes(text: &str) -> String {
    text.to_lowercase().replace(['\u{2019}', '\u{2018}'], "'")
}

/// When the provider lets us go on, by its own words. A time without a zone is of the machine that
/// the agent runs on.
pub(super) fn resets_in(text: &str, now: Instant) -> Option<Instant> {
    quota::reset_time(text, now, &TimeZone::system(), &|name| TimeZone::get(name).ok())
}
