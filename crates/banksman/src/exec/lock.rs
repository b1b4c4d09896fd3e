//! Waits for a file lock for a bounded time.
//!
//! The system waits for such a lock forever or not at all; a timeout would need a thread or a
//! signal per wait. These locks are held for moments, so this retries instead.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::Duration;

/// Fails with `WouldBlock` if another process still holds the lock at the last attempt.
pub fn lock_within(file: &File, tries: u32, pause: Duration) -> Result<(), TryLockError> {
    lock_between(file, tries, || thread::sleep(pause))
}

fn lock_between(file: &File, tries: u32, mut wait: impl FnMut()) -> Result<(), TryLockError> {
    for _ in 1..tries {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => wait(),
            done @ (Ok(()) | Err(TryLockError::Error(_))) => return done,
        }
    }
    file.try_lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_lock_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = File::create(&path).unwrap();
        held.lock().unwrap();
        let wanted = File::open(&path).unwrap();

        let mut waits = 0;
        let still_held = lock_between(&wanted, 3, || waits += 1);
        assert!(matches!(still_held, Err(TryLockError::WouldBlock)), "{still_held:?}");
        assert_eq!(waits, 2, "there is nothing to wait for after the last try");

        lock_between(&wanted, 3, || held.unlock().unwrap()).expect("it was let go of");
        let taken = held.try_lock();
        assert!(matches!(taken, Err(TryLockError::WouldBlock)), "{taken:?}");
    }
}
