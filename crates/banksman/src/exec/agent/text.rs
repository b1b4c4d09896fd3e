//! What all adapters share: JSON lines, bounded texts, and the one table that maps error names,
//! HTTP statuses and prose to faults.
//!
//! Structured names and statuses take precedence. Prose is searched last, and only after a run that
//! did not succeed.

use std::collections::VecDeque;

use banksman_core::quota;
use banksman_core::receipt::{Fault, FaultKind, ProcessExit};
use banksman_core::time::Instant;
use jiff::tz::TimeZone;
use serde_json::Value;

/// The size of one displayed line.
pub(super) const DETAIL_BYTES: usize = 500;
/// How many of the newest lines of standard error are kept to explain a failure.
const TAIL_LINES: usize = 20;
const ELLIPSIS: &str = "…";

/// A line of the stream as a JSON object; none for banners, warnings and partial lines.
pub(super) fn object(line: &str) -> Option<Value> {
    let line = line.trim_start_matches('\u{feff}').trim();
    if !line.starts_with('{') {
        return None;
    }
    serde_json::from_str::<Value>(line).ok().filter(Value::is_object)
}

/// A text field; empty if absent.
pub(super) fn text_of<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// A count; 0 if it is not a number or is negative.
pub(super) fn count_of(value: &Value, key: &str) -> i64 {
    count(&value[key])
}

fn count(number: &Value) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float becomes the nearest count, saturated"
    )]
    let count = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
    count.unwrap_or_default().max(0)
}

/// Dollars to millionths of a dollar, rounded.
pub(super) fn micros(dollars: &Value) -> Option<i64> {
    let dollars = dollars.as_f64().filter(|dollars| dollars.is_finite() && *dollars >= 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "casts from floats saturate")]
    Some((dollars * 1e6).round() as i64)
}

/// The increase of a running count since `before`; a smaller count than `before` has started anew.
pub(super) fn increase(count: i64, before: i64) -> i64 {
    if count >= before { count - before } else { count }
}

/// A time in seconds since 1970, or in milliseconds if the number is too large for seconds.
pub(super) fn at_epoch(value: &Value) -> Option<Instant> {
    const MILLIS_FROM: i64 = 100_000_000_000;
    let number = count(value);
    let millis = if number < MILLIS_FROM { number.checked_mul(1_000)? } else { number };
    (number > 0).then_some(Instant(millis))
}

/// Whether a text contains one of these lower-case words, whatever its own case.
pub(super) fn contains_any(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// Truncates a text to at most `bytes` bytes, at a character boundary.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Joins a text into one line of at most [`DETAIL_BYTES`].
pub(super) fn one_line(text: &str) -> String {
    // Do not scan more of a huge text than the result can hold.
    let start = &text[..text.floor_char_boundary(4 * DETAIL_BYTES)];
    let words: Vec<&str> = start.split_whitespace().collect();
    cut(&words.join(" "), DETAIL_BYTES)
}

/// The argument that describes a tool call best, on one line; otherwise all arguments.
pub(super) fn tool_detail(input: &Value) -> String {
    const DESCRIPTIVE: [&str; 9] = [
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
    let described = DESCRIPTIVE.iter().find_map(|key| input[*key].as_str());
    described.map_or_else(
        || if input.is_null() { String::new() } else { one_line(&input.to_string()) },
        one_line,
    )
}

/// A fault that a status, a name or an exit code shows.
pub(super) fn named_fault(kind: FaultKind, detail: &str) -> Fault {
    Fault { kind, detail: one_line(detail), structured: true }
}

/// The last lines of standard error.
#[derive(Debug, Default)]
pub struct StderrTail {
    lines: VecDeque<String>,
}

impl StderrTail {
    pub fn push(&mut self, line: &str) {
        let line = one_line(line);
        if line.is_empty() {
            return;
        }
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn text(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The fault that standard error shows for a run without a terminal event. None if the process
    /// was killed from outside or exited with 0. An agent that wrote no event at all failed during
    /// setup.
    pub(super) fn fault(&self, had_events: bool, exit: ProcessExit) -> Option<Fault> {
        let last = self.lines.back()?;
        // The codes above 128 are a shell's notation for signals that end programs from outside.
        if matches!(exit.code, None | Some(0 | 129 | 130 | 131 | 137 | 143)) {
            return None;
        }
        let kind = fault_in(&self.text()).or_else(|| (!had_events).then_some(FaultKind::Setup))?;
        Some(Fault { kind, detail: last.clone(), structured: false })
    }
}

/// The fault that a provider's HTTP status means. 400 is ambiguous: the account may be empty or the
/// request wrong.
pub(super) fn kind_of_status(status: i64) -> Option<FaultKind> {
    match status {
        401 | 403 => Some(FaultKind::Auth),
        402 | 429 => Some(FaultKind::Quota),
        404 => Some(FaultKind::Setup),
        408 | 409 | 425 | 500..=599 => Some(FaultKind::Transient),
        _ => None,
    }
}

/// The fault that an error's name means, in any spelling: `rate_limit_error`, `rateLimit`,
/// `RATE-LIMIT`. The table omits names that say no more than a 400.
pub(super) fn kind_of_name(name: &str) -> Option<FaultKind> {
    const NAMES: [(FaultKind, &str); 7] = [
        (
            FaultKind::Quota,
            "ratelimit ratelimiterror ratelimitexceeded usagelimitreached \
             usagelimitexceeded usagenotincluded billingerror creditbalancetoolow \
             insufficientquota quotaexceeded resourceexhausted toomanyrequests",
        ),
        (
            FaultKind::Auth,
            "authentication authenticationerror authenticationfailed authrequired \
             permissionerror permissiondenied unauthorized unauthenticated forbidden \
             invalidapikey apikeyinvalid apikeyserviceblocked providerautherror \
             oauthorgnotallowed",
        ),
        (
            FaultKind::Transient,
            "overloaded overloadederror serveroverloaded serverisoverloaded servererror \
             internalservererror apierror timeout timeouterror unavailable \
             deadlineexceeded connectionerror httpconnectionfailed \
             responsestreamconnectionfailed responsestreamdisconnected \
             responsetoomanyfailedattempts",
        ),
        (
            FaultKind::Budget,
            "maxoutputtokens maxturns maxbudgetusd sessionbudgetexceeded \
             messageoutputlengtherror",
        ),
        (
            FaultKind::Session,
            "contextwindowexceeded contextlengthexceeded contextoverflowerror requesttoolarge \
             threadnotfound",
        ),
        (FaultKind::Permission, "contentfiltererror"),
        (FaultKind::Setup, "notfounderror modelnotfound"),
    ];
    let plain: String = name
        .chars()
        .take(64)
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    let row = NAMES.iter().find(|(_, names)| names.split(' ').any(|name| name == plain));
    row.map(|(kind, _)| *kind)
}

/// The HTTP status in a text: `unexpected status 401 …`, `last status: 429 …`.
pub(super) fn status_in(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let mut after = lower.match_indices("status").map(|(at, word)| &lower[at + word.len()..]);
    after.find_map(|rest| {
        let rest = rest.trim_start_matches(" code").trim_start_matches([':', '=', ' ']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok().filter(|status| (400..600).contains(status))
    })
}

/// The fault that the text of a failed run describes: a status first, then known phrases.
pub(super) fn fault_in(text: &str) -> Option<FaultKind> {
    /// What agents write where they give no status and no name.
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
    let text = normalized(text);
    let named = status_in(&text).and_then(kind_of_status);
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // `Session ID … is already in use`: the next run needs a new session.
    let is_in_use = text.contains("session id") && text.contains("already in use");
    named
        .or_else(|| WORDS.iter().find(|(_, words)| has(words)).map(|(kind, _)| *kind))
        .or_else(|| is_in_use.then_some(FaultKind::Session))
        .or_else(|| quota::fault_in(&text))
}

/// Whether a text says that the provider stopped sending in the middle of an answer.
pub(super) fn is_idle_timeout(text: &str) -> bool {
    normalized(text).contains("idle timeout")
}

/// Lower case with straight apostrophes, so that one pattern matches all spellings.
fn normalized(text: &str) -> String {
    text.to_lowercase().replace(['\u{2019}', '\u{2018}'], "'")
}

/// When the provider accepts requests again, according to its message. A time without a zone is in
/// the zone of the agent's machine.
pub(super) fn resets_in(text: &str, now: Instant) -> Option<Instant> {
    quota::reset_time(text, now, &TimeZone::system(), &|name| TimeZone::get(name).ok())
}
