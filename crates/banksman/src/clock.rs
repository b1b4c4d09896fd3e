//! The only reader of the clock and the source of randomness.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::time::SystemTime;

use banksman_core::time::Instant;

/// The current wall-clock time.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
pub fn now() -> Instant {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    Instant(millis)
}

/// A monotonic time for measuring durations; meaningless to another process.
pub fn monotonic() -> std::time::Instant {
    std::time::Instant::now()
}

/// An unguessable secret.
pub fn secret() -> String {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .expect("every Unix has /dev/urandom");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number that is unique in practice; not a secret.
pub fn nonce() -> u64 {
    RandomState::new().hash_one(now().0)
}
