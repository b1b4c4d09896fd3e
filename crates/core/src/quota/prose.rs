//! Recognises provider faults in prose: quotas, rejected keys and transient errors.
//!
//! This is a last resort for clients that report faults only in prose. It must not mistake work
//! about quotas for a quota: a number counts as a status only if the text calls it one, and
//! sentences about code and tests do not count.

use crate::limits;
use crate::receipt::FaultKind;

/// The fault that a text reports. Of several, a quota comes first, because it must pause the
/// account.
pub fn fault_in(text: &str) -> Option<FaultKind> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(limits::FINAL_TEXT_BYTES));
    let faults: Vec<FaultKind> =
        text[from..].lines().filter_map(|line| fault_in_line(&plain(line))).collect();
    [FaultKind::Quota, FaultKind::Auth, FaultKind::Transient]
        .into_iter()
        .find(|kind| faults.contains(kind))
}

/// The words of a line separated by single blanks, without sentences about code.
fn plain(line: &str) -> String {
    let line = line.to_lowercase().replace(['\u{2019}', '\u{2018}'], "'");
    let mut words = String::from(" ");
    for sentence in sentences(&line) {
        let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '\'';
        let of_sentence: Vec<&str> =
            sentence.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty()).collect();
        if of_sentence.iter().any(|word| is_about_code(word)) {
            continue;
        }
        words.extend(of_sentence.into_iter().flat_map(|word| [word, " "]));
    }
    words
}

/// The sentences of a line; each ends at a blank after its last sign, or at a middle dot.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut before = ' ';
    line.split(move |letter: char| {
        let ends_before = matches!(before, '.' | '!' | '?' | ';') && letter.is_whitespace();
        before = letter;
        ends_before || letter == '\u{b7}'
    })
}

/// Words that mark a sentence about a program, its tests or its disk, and not about the provider.
fn is_about_code(word: &str) -> bool {
    const WORDS: &str = "expected expects expect should implement implements implemented implementing added \
         adds handled handles handling fixed test tests mocked disk";
    WORDS.split(' ').any(|known| known == word) || word.starts_with("assert")
}

fn fault_in_line(line: &str) -> Option<FaultKind> {
    let status = status_in(line);
    let kinds = [
        (FaultKind::Quota, QUOTA, &[402, 429][..]),
        (FaultKind::Auth, AUTH, &[401, 403]),
        (FaultKind::Transient, TRANSIENT, &[408, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529]),
    ];
    let fits = kinds.iter().find(|(_, rules, statuses)| {
        status.is_some_and(|status| statuses.contains(&status))
            || rules.iter().any(|rule| rule.iter().all(|group| has_any(line, group)))
    });
    fits.map(|(kind, _, _)| *kind)
}

/// Whether the line contains one of the phrases as whole words.
fn has_any(line: &str, phrases: &str) -> bool {
    phrases.split(", ").any(|phrase| {
        line.match_indices(phrase)
            .any(|(at, _)| line[..at].ends_with(' ') && line[at + phrase.len()..].starts_with(' '))
    })
}

/// The number that the line calls a status: `status: 429`, `HTTP/1.1 503`, `401 Unauthorized`.
fn status_in(line: &str) -> Option<u16> {
    const NAMED_BY: [(u16, &str); 9] = [
        (401, "unauthorized"),
        (402, "payment"),
        (403, "forbidden"),
        (429, "too"),
        (500, "internal"),
        (502, "bad"),
        (503, "service"),
        (504, "gateway"),
        (529, "overloaded"),
    ];
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let number: u16 = word.parse().ok().filter(|number| (400..600).contains(number))?;
        let before = |back: usize| at.checked_sub(back).map_or("", |index| words[index]);
        let next = words.get(at + 1).copied().unwrap_or_default();
        let is_named_status = match before(1) {
            "status" | "statuscode" | "http" | "rejected" => true,
            "code" => before(2) != "exit",
            "error" => matches!(before(2), "api" | "server"),
            version => version.len() == 1 && (before(2) == "http" || before(3) == "http"),
        };
        (is_named_status || NAMED_BY.contains(&(number, next))).then_some(number)
    })
}

/// Each rule is a list of groups; the line must contain one phrase of every group. The phrases of a
/// group are separated by commas.
type Rules = &'static [&'static [&'static str]];

/// Words that, next to the name of a limit, report that the limit was reached.
const REACHED: &str = "reached, exceeded, exceed, hit, exhausted, insufficient, resets, reset, \
     try again, retry, retry after, wait, upgrade, protection";

const QUOTA: Rules = &[
    &["too many requests, resource exhausted, resource has been exhausted, retryinfo, \
       quotafailure, terminalquotaerror, insufficient quota, \
       generate requests per model per day, generate content paid tier input token count, \
       rate limit error, ratelimiterror, rate limited, usagelimitexceeded, creditserror, \
       credit balance is too low, insufficient balance, insufficient credits, out of credits, \
       over usage"],
    &[
        "hit your, reached your, exceeded your, exceed your, exhausted your",
        "limit, limits, quota, credits",
    ],
    &[
        "quota, rate limit, rate limits, usage limit, usage limits, session limit, hourly limit, \
         daily limit, weekly limit, monthly limit",
        REACHED,
    ],
    &[
        "throttled, throttling",
        "try again, retry, retry after, wait, request, requests, api, tokens, rpm, tpm",
    ],
];

const AUTH: Rules = &[
    &[
        "invalid api key, invalid x api key, incorrect api key, api key not valid, api key invalid, \
       api key expired, api key has expired, api key is missing, api key is required, \
       missing api key, no api key, authentication error, authenticationerror, \
       authentication failed, authentication required, invalid authentication, \
       failed to authenticate, could not authenticate, unauthenticated, not authenticated, \
       not logged in, please log in, please login, please run login, oauth token has expired, \
       oauth token expired, oauth token revoked, access token could not be refreshed, \
       bad credentials, invalid credentials",
    ],
    &["unauthorized", "api, key, token, credentials, request"],
    &[
        "environment variable",
        "missing, must specify, must set, not set, is required",
        "key, token",
    ],
];

const TRANSIENT: Rules = &[&[
    "overloaded, overloaded error, at capacity, service unavailable, temporarily unavailable, \
         bad gateway, gateway timeout, gateway error, internal server error, server had an error, \
         upstream connect error, endpoints failed, econnreset, econnrefused, econnaborted, \
         etimedout, enotfound, eai again, socket hang up, fetch failed, connection error, \
         connection reset, connection refused, connection timed out, request timed out, \
         deadline exceeded, idle timeout, stream disconnected, network error, \
         network is unreachable, could not resolve host, \
         temporary failure in name resolution, tls handshake",
]];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn quotas_are_recognised() {
        for text in [
            "Quota exceeded. Check your plan and billing details.",
            "Resource has been exhausted (e.g. check quota).",
            r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#,
            "quota limit reached for this project",
            "Quota metric generate_requests_per_model_per_day, limit 50",
            "generate_content_paid_tier_input_token_count",
            r#""@type": "type.googleapis.com/google.rpc.RetryInfo""#,
            "exceeded retry limit, last status: 429 Too Many Requests",
            "You\u{2019}ve hit your usage limit. Upgrade to Pro or try again at Nov 20th, 2026 3:10 PM.",
            "You've hit your 5-hour limit \u{b7} resets 5pm (Europe/Berlin)",
            "Claude AI usage limit reached|1795032000",
            "API Error: Request rejected (429) \u{b7} This request would exceed your organization's rate limit of 50,000 tokens.",
            "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000. Please try again in 1s.",
            "[API Error: You have exhausted your daily quota on this model.]",
            "daily limit reached, resets at midnight",
            "monthly limit exceeded",
            "HTTP/1.1 429",
            "HTTP/2 429",
            "    code: 429,",
            "  status: 429",
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
            "insufficient_quota",
            "Credit balance is too low",
            "CreditsError: Insufficient balance",
            "request was throttled, retry later",
            "Tests passed. You've hit your usage limit.",
            "statusCode 401 CreditsError",
        ] {
            assert_eq!(fault_in(text), Some(FaultKind::Quota), "{text}");
        }
    }

    #[test]
    fn refused_keys_are_recognised() {
        for text in [
            "unexpected status 401 Unauthorized: Incorrect API key provided: sk-fake",
            "Invalid API key \u{b7} Fix external API key",
            "Not logged in \u{b7} Please run /login",
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}"#,
            r#"{"error":{"code":401,"status":"UNAUTHENTICATED"}}"#,
            "Missing environment variable: `FAKE_KEY`.",
            "When using Gemini API, you must specify the GEMINI_API_KEY environment variable.",
            "OAuth token has expired. Please obtain a new token.",
            "403 Forbidden",
            r#"{"type":"authentication_error","message":"invalid x-api-key"}"#,
        ] {
            assert_eq!(fault_in(text), Some(FaultKind::Auth), "{text}");
        }
    }

    #[test]
    fn passing_troubles_are_recognised() {
        for text in [
            "Request timed out",
            "API Error: 529 Overloaded",
            "API Error: 500",
            r#"{"type":"overloaded_error"}"#,
            "HTTP/1.1 503 Service Unavailable",
            "read ECONNRESET",
            "getaddrinfo EAI_AGAIN api.example.org",
            "stream disconnected before completion: idle timeout waiting for SSE",
            "502 Bad Gateway",
        ] {
            assert_eq!(fault_in(text), Some(FaultKind::Transient), "{text}");
        }
    }

    #[test]
    fn what_only_sounds_alike_is_no_fault() {
        for text in [
            "",
            "expected 429 lines",
            "assertion failed: expected status 429, got 200",
            "error: 500 tests failed",
            "src/http/status.rs:429:17: unused variable",
            "the file has 503 lines and 401 words",
            "error[E0429]: `self` imports are only available within a brace list",
            "Implemented the daily limit: the server answers 429 Too Many Requests when it is exceeded.",
            "The test for the rate limit hit an unwrap",
            "I added a usage limit that resets every hour.",
            "process exited with exit code 429",
            "set the environment variable before you start",
            "permission denied: ./configure",
            "write failed: Disk quota exceeded",
            "unexpected token in JSON at position 403",
            "timeout must be a positive number",
            "missing environment variables are reported by the doctor",
        ] {
            assert_eq!(fault_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_quota_comes_before_all_else() {
        let text = "503 Service Unavailable\n401 Unauthorized\nQuota exceeded\nInvalid API key";
        assert_eq!(fault_in(text), Some(FaultKind::Quota));
        assert_eq!(fault_in("fetch failed\nInvalid API key\nfetch failed"), Some(FaultKind::Auth));
    }

    #[test]
    fn only_the_end_of_a_long_text_is_read() {
        let noise = "all is well\n".repeat(limits::FINAL_TEXT_BYTES / 10);
        assert_eq!(fault_in(&format!("Quota exceeded\n{noise}")), None);
        assert_eq!(fault_in(&format!("{noise}Quota exceeded")), Some(FaultKind::Quota));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(?s).{0,400}") {
            prop_assert!(matches!(
                fault_in(&text),
                None | Some(FaultKind::Quota | FaultKind::Auth | FaultKind::Transient)
            ));
        }

        #[test]
        fn a_fault_is_found_among_other_lines(
            before in "[a-z ]{0,40}", after in "[a-z ]{0,40}", upper in proptest::bool::ANY,
        ) {
            let faults = if upper { "QUOTA EXCEEDED" } else { "quota exceeded" };
            let text = [before.as_str(), faults, after.as_str()].join("\n");
            prop_assert_eq!(fault_in(&text), Some(FaultKind::Quota));
        }
    }
}
