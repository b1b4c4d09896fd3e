//! Reads a model provider's refusal or failure: its HTTP status, headers and error body.
//!
//! Agents wrap these differently; only this file knows what is inside.

use banksman_core::quota::LONGEST_WAIT;
use banksman_core::receipt::{Fault, FaultKind};
use banksman_core::time::{Instant, Span};
use serde_json::Value;

use super::text;

/// The most names taken from one error: its type, code and reasons.
const NAMES: usize = 16;
/// Enough of a message to find a time in it.
const MESSAGE_BYTES: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(super) struct ProviderError {
    pub(super) status: Option<i64>,
    pub(super) message: String,
    /// Whether the agent itself says that a retry may help.
    pub(super) is_retryable: bool,
    names: Vec<String>,
    wait_ms: Option<i64>,
    at: Option<Instant>,
}

impl ProviderError {
    pub(super) fn new(status: Option<i64>, message: &str) -> Self {
        let message = text::cut(message, MESSAGE_BYTES);
        Self { status, message, ..Self::default() }
    }

    pub(super) fn name(&mut self, name: &str) {
        if !name.is_empty() && self.names.len() < NAMES {
            self.names.push(text::cut(name, text::DETAIL_BYTES));
        }
    }

    /// Adds what another report of the same fault says besides its message.
    pub(super) fn adopt(&mut self, other: &Self) {
        self.status = other.status.or(self.status);
        for name in &other.names {
            self.name(name);
        }
        if self.message.is_empty() {
            self.message.clone_from(&other.message);
        }
    }

    pub(super) fn wait(&mut self, millis: i64) {
        if (0..=LONGEST_WAIT.0).contains(&millis) {
            self.wait_ms = self.wait_ms.max(Some(millis));
        }
    }

    /// Reads the headers of the answer. `retry-after` is authoritative; the reset times of rate
    /// limits are a fallback.
    pub(super) fn headers(&mut self, headers: &Value) {
        let Some(headers) = headers.as_object() else { return };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let all = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), text(value)));
        let all: Vec<(String, String)> = all.collect();
        for (name, value) in &all {
            match name.as_str() {
                "retry-after" => self.retry_after(value),
                "retry-after-ms" => self.wait(value.trim().parse().unwrap_or(-1)),
                _ => {}
            }
        }
        if self.wait_ms.is_none() && self.at.is_none() {
            let windows = all.iter().filter(|(name, _)| name.starts_with("x-ratelimit-reset"));
            for (_, value) in windows {
                self.wait(millis_of(value).unwrap_or(-1));
            }
        }
    }

    fn retry_after(&mut self, value: &str) {
        match millis_of(value) {
            Some(millis) => self.wait(millis),
            None => {
                let date = jiff::fmt::rfc2822::parse(value.trim());
                self.at =
                    date.ok().map(|date| Instant(date.timestamp().as_millisecond())).or(self.at);
            }
        }
    }

    /// Reads an error body: `{"error": {…}}`, a list of one, or the error itself.
    pub(super) fn body(&mut self, body: &Value) {
        let body = body.get(0).unwrap_or(body);
        let error = if body["error"].is_object() { &body["error"] } else { body };
        let code = &error["code"];
        let number = code.as_i64().or_else(|| code.as_str().and_then(|code| code.parse().ok()));
        self.status = self.status.or(number.filter(|number| (400..600).contains(number)));
        for name in [code, &error["type"], &error["status"]] {
            self.name(name.as_str().unwrap_or_default());
        }
        if self.message.is_empty() {
            self.message = text::cut(text::text_of(error, "message"), MESSAGE_BYTES);
        }
        self.at = text::at_epoch(&error["resets_at"]).or(self.at);
        if error["resets_in_seconds"].is_number() {
            self.wait(text::count_of(error, "resets_in_seconds").saturating_mul(1_000));
        }
        for detail in error["details"].as_array().into_iter().flatten().take(NAMES) {
            self.name(text::text_of(detail, "reason"));
            self.wait(millis_of(text::text_of(detail, "retryDelay")).unwrap_or(-1));
        }
    }

    /// Reads a JSON error body inside a text, such as `[API Error: {…}]`.
    pub(super) fn body_in(&mut self, text: &str) {
        let start = text.find('{').unwrap_or(text.len());
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(body)) = values.next() {
            self.body(&body);
        }
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        let structured = self.structured_kind();
        let retryable = self.is_retryable.then_some(FaultKind::Transient);
        let kind = structured.or_else(|| text::fault_in(&self.message)).or(retryable)?;
        Some(Fault {
            kind,
            detail: text::one_line(&self.message),
            structured: structured.is_some() || self.is_retryable,
        })
    }

    /// The kind by status and names. A 400 means nothing by itself, and a name says more than most
    /// statuses, except the names of transient faults, which some providers also give to permanent
    /// ones.
    fn structured_kind(&self) -> Option<FaultKind> {
        let status = self.status.and_then(text::kind_of_status);
        let mut named = self.names.iter().filter_map(|name| text::kind_of_name(name));
        if status == Some(FaultKind::Quota) {
            return status;
        }
        let lasting = named.clone().find(|kind| *kind != FaultKind::Transient);
        lasting.or(status).or_else(|| named.next())
    }

    /// When the provider accepts requests again. Waits count from `sent_at`.
    pub(super) fn resets_at(&self, sent_at: Instant) -> Option<Instant> {
        self.at
            .or_else(|| self.wait_ms.map(|millis| sent_at.plus(Span(millis))))
            .or_else(|| text::resets_in(&self.message, sent_at))
    }
}

/// A duration as providers write it: `30`, `1.5s`, `6m0s`, `120ms`.
fn millis_of(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let factor = match &rest[..letters] {
            "" | "s" => 1_000.0,
            "ms" => 1.0,
            "m" | "min" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        };
        total += number * factor;
        rest = &rest[letters..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "casts from floats saturate")]
    let millis = total.ceil() as i64;
    (!text.trim().is_empty()).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(status: Option<i64>, body: &Value) -> Option<(FaultKind, bool)> {
        let mut provider_error = ProviderError { status, ..ProviderError::default() };
        provider_error.body(body);
        provider_error.fault().map(|fault| (fault.kind, fault.structured))
    }

    #[test]
    fn names_and_statuses_lead_to_faults() {
        let google = |code: i64, status: &str, reason: &str| json!({"error": {"code": code, "status": status, "message": "m", "details": [{"reason": reason}]}});
        for (status, body, expected) in [
            (
                None,
                google(400, "INVALID_ARGUMENT", "API_KEY_INVALID"),
                Some((FaultKind::Auth, true)),
            ),
            (None, google(400, "INVALID_ARGUMENT", ""), None),
            (None, google(401, "UNAUTHENTICATED", ""), Some((FaultKind::Auth, true))),
            (None, google(429, "RESOURCE_EXHAUSTED", ""), Some((FaultKind::Quota, true))),
            (None, google(503, "UNAVAILABLE", ""), Some((FaultKind::Transient, true))),
            (None, google(404, "NOT_FOUND", ""), Some((FaultKind::Setup, true))),
            (None, json!([google(500, "INTERNAL", "")]), Some((FaultKind::Transient, true))),
            (Some(401), json!({"error": {"type": "api_error"}}), Some((FaultKind::Auth, true))),
            (
                Some(400),
                json!({"error": {"code": "context_length_exceeded"}}),
                Some((FaultKind::Session, true)),
            ),
            (
                Some(400),
                json!({"error": {"code": "insufficient_quota"}}),
                Some((FaultKind::Quota, true)),
            ),
            (
                Some(429),
                json!({"error": {"type": "tokens", "code": "server_error"}}),
                Some((FaultKind::Quota, true)),
            ),
            (Some(529), json!({"type": "overloaded_error"}), Some((FaultKind::Transient, true))),
            (
                None,
                json!({"message": "the server is overloaded"}),
                Some((FaultKind::Transient, false)),
            ),
            (None, json!("text"), None),
            (None, json!({"code": 7, "type": 3, "details": "x"}), None),
        ] {
            assert_eq!(kind(status, &body), expected, "{status:?} {body}");
        }
        let passing = ProviderError { is_retryable: true, ..ProviderError::default() };
        assert_eq!(passing.fault().map(|fault| fault.kind), Some(FaultKind::Transient));
    }

    #[test]
    fn waits_are_read_from_headers_and_bodies() {
        let at = |headers: Value, body: Value| {
            let mut provider_error = ProviderError::default();
            provider_error.headers(&headers);
            provider_error.body(&body);
            provider_error.resets_at(Instant(1_000)).map(|at| at.0)
        };
        let none = || json!({});
        assert_eq!(at(json!({"Retry-After": "7"}), none()), Some(8_000));
        assert_eq!(
            at(json!({"retry-after": 7, "x-ratelimit-reset-tokens": "1h"}), none()),
            Some(8_000)
        );
        assert_eq!(at(json!({"retry-after-ms": "250"}), none()), Some(1_250));
        assert_eq!(at(json!({"x-ratelimit-reset-requests": "6m0s"}), none()), Some(361_000));
        assert_eq!(
            at(json!({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}), none()),
            Some(1_792_567_680_000)
        );
        assert_eq!(at(json!({"retry-after": "soon"}), none()), None);
        assert_eq!(at(json!({"retry-after": "-5"}), none()), None);
        assert_eq!(at(json!({"retry-after": "99999999999999999999"}), none()), None);
        assert_eq!(at(none(), json!({"details": [{"retryDelay": "34.07s"}]})), Some(35_070));
        assert_eq!(
            at(none(), json!({"error": {"resets_at": 1_893_456_000}})),
            Some(1_893_456_000_000)
        );
        assert_eq!(at(none(), json!({"error": {"resets_in_seconds": 60}})), Some(61_000));
        assert_eq!(at(none(), none()), None);
    }

    #[test]
    fn a_body_is_found_in_a_text() {
        let mut provider_error = ProviderError::default();
        provider_error.body_in(
            r#"[API Error: {"error":{"code":401,"message":"no"}}] {"error":{"code":429}}"#,
        );
        assert_eq!((provider_error.status, provider_error.message.as_str()), (Some(401), "no"));
        provider_error.body_in("[API Error: { broken");
    }
}
