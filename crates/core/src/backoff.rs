//! Exponential backoff whose jitter is a hash of a key and the number of the attempt.
//!
//! It is never random, so a decision can be replayed; tasks that failed together still wait for
//! different times.

use sha2::{Digest, Sha256};

use crate::time::Span;

/// The delays between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Span,
    /// Each delay is this many times the one before.
    pub factor: u32,
    /// The longest delay.
    pub cap: Span,
    /// Jitter shortens a delay by up to this percentage; more than 100 counts as 100.
    pub jitter_percent: u32,
}

impl Backoff {
    /// The delay after this many earlier attempts, without jitter.
    pub fn base_delay(&self, attempts: u32) -> Span {
        let cap = self.cap.0.max(0);
        let mut wait = self.first.0.clamp(0, cap);
        for _ in 0..attempts {
            let longer = wait.saturating_mul(i64::from(self.factor)).min(cap);
            if longer == wait {
                break;
            }
            wait = longer;
        }
        Span(wait)
    }

    /// The delay after this many earlier attempts, with jitter. Jitter only shortens a delay, so
    /// the cap holds.
    pub fn jittered_delay(&self, key: &str, attempts: u32) -> Span {
        let wait = self.base_delay(attempts);
        let most = u64::from(self.jitter_percent.min(100)) * 100;
        let ten_thousandths = hash_of(key, attempts) % (most + 1);
        let off = i128::from(wait.0) * i128::from(ten_thousandths) / 10_000;
        Span(wait.0 - i64::try_from(off).expect("a fraction of an i64 is an i64"))
    }
}

fn hash_of(key: &str, attempts: u32) -> u64 {
    let hash =
        Sha256::new().chain_update(key).chain_update(b":").chain_update(attempts.to_be_bytes());
    let hash = hash.finalize();
    u64::from_be_bytes(hash[..8].try_into().expect("a SHA-256 has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};
    use std::collections::BTreeSet;

    const HALF_MINUTE: Backoff =
        Backoff { first: Span(30_000), factor: 2, cap: Span(1_800_000), jitter_percent: 20 };

    #[test]
    fn each_wait_is_twice_the_last_up_to_the_cap() {
        let waits: Vec<String> =
            (0..9).map(|attempts| HALF_MINUTE.base_delay(attempts).to_string()).collect();
        let expected = ["30s", "1min", "2min", "4min", "8min", "16min", "30min", "30min", "30min"];
        assert_eq!(waits, expected);
    }

    #[test]
    fn the_spread_is_the_same_for_the_same_key_and_differs_between_keys() {
        let waits: BTreeSet<Span> =
            (0..50).map(|task| HALF_MINUTE.jittered_delay(&format!("t{task}"), 3)).collect();
        assert!(waits.len() > 40, "{waits:?}");
        assert!(waits.iter().all(|wait| (192_000..=240_000).contains(&wait.0)), "{waits:?}");
        assert_eq!(HALF_MINUTE.jittered_delay("t83", 3), HALF_MINUTE.jittered_delay("t83", 3));
        assert_ne!(
            HALF_MINUTE.jittered_delay("t83", 6),
            HALF_MINUTE.jittered_delay("t83", 7),
            "both at the cap"
        );
    }

    proptest! {
        #[test]
        fn a_wait_is_never_negative_and_never_above_its_cap(
            first in any::<i64>(), factor in any::<u32>(), cap in any::<i64>(), jitter_percent in any::<u32>(),
            attempts in any::<u32>(), key in ".{0,20}",
        ) {
            let backoff = Backoff { first: Span(first), factor, cap: Span(cap), jitter_percent };
            let (base_delay, jittered_delay) = (backoff.base_delay(attempts), backoff.jittered_delay(&key, attempts));
            prop_assert!(0 <= jittered_delay.0 && jittered_delay <= base_delay && base_delay.0 <= cap.max(0));
            let least = i128::from(base_delay.0) * i128::from(100 - jitter_percent.min(100)) / 100;
            prop_assert!(i128::from(jittered_delay.0) >= least);
        }
    }
}
