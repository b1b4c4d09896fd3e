//! The only caller of the system's clock.

use std::time::SystemTime;

use banksman_core::time::Instant;

/// The present.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks for the time")]
pub fn now() -> Instant {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    Instant(millis)
}
