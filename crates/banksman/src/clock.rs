//! The only reader of the clock and the source of randomness.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::time::SystemTime;

use banksman_core::time::{AwakeTime, Instant, Span};
use rustix::time::{ClockId, clock_gettime};

/// Linux names each start of the machine here.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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

/// How long this machine has been awake; none where the system does not tell.
pub fn awake() -> Option<AwakeTime> {
    let boot = std::fs::read_to_string(BOOT_ID).ok()?.trim().to_owned();
    let time = clock_gettime(ClockId::Monotonic);
    let millis = time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec / 1_000_000);
    Some(AwakeTime { boot, time: Span(millis) })
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
