//! Quotas of provider accounts: how prose reports them, when they reset, and the pause that all
//! runs of an account share.
//!
//! A structured field of an agent always takes precedence over what is read here. Nothing in this
//! module reads a clock or a time zone.

mod prose;
mod reset;

pub use prose::fault_in;
pub use reset::reset_time;

use crate::backoff::Backoff;
use crate::time::{Instant, Span};

/// No provider's window is longer than a month. A later time is a mistake and would block work for
/// ever.
pub const LONGEST_WAIT: Span = Span(32 * 86_400_000);

/// For a provider that names no reset time.
pub(crate) const DEFAULT_BACKOFF: Backoff =
    Backoff { first: Span(30_000), factor: 2, cap: Span(1_800_000), jitter_percent: 20 };

/// The pause of an account. After it ends, one run probes the account; the other runs follow once
/// the provider has answered it. The store keeps the flag for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaPause {
    pub until: Instant,
    pub reason: String,
    /// Pauses in a row, including this one.
    pub hits: u32,
}

/// Computes the pause after a run of the account hit its quota. `previous` is the last pause, ended
/// or not, that no successful run has cleared.
pub fn pause_after_hit(
    previous: Option<&QuotaPause>,
    resets_at: Option<Instant>,
    now: Instant,
    key: &str,
) -> QuotaPause {
    let named = resets_at.filter(|at| is_plausible(*at, now));
    let by_provider = |until: Instant, hits| {
        let reason = format!("quota hit; the provider resets it at {until}");
        QuotaPause { until, reason, hits }
    };
    // Runs that were already under way hit the same quota: they share one pause, which does not
    // grow with their number.
    if let Some(pause) = previous.filter(|pause| pause.until > now) {
        return match named.filter(|until| *until > pause.until) {
            Some(until) => by_provider(until, pause.hits),
            None => pause.clone(),
        };
    }
    let hits_before = previous.map_or(0, |pause| pause.hits);
    let hits = hits_before.saturating_add(1);
    match named {
        Some(until) => by_provider(until, hits),
        None => {
            let until = now.plus(DEFAULT_BACKOFF.jittered_delay(key, hits_before));
            let reason = format!("quota hit without a reset time; pause {hits} in a row");
            QuotaPause { until, reason, hits }
        }
    }
}

/// Whether a reset time is plausible.
pub(crate) fn is_plausible(at: Instant, now: Instant) -> bool {
    now < at && at <= now.plus(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert, proptest};

    const NOW: Instant = Instant(1_795_000_000_000);

    fn in_minutes(minutes: i64) -> Instant {
        NOW.plus(Span(minutes * 60_000))
    }

    #[test]
    fn a_named_time_is_kept_to_the_millisecond() {
        let pause = pause_after_hit(None, Some(Instant(NOW.0 + 12_345)), NOW, "claude");
        assert_eq!((pause.until.0, pause.hits), (NOW.0 + 12_345, 1));
        assert_eq!(pause.reason, format!("quota hit; the provider resets it at {}", pause.until));
    }

    #[test]
    fn without_a_named_time_each_pause_is_longer_than_the_one_before() {
        let mut pause = pause_after_hit(None, None, NOW, "claude");
        assert!((24_000..=30_000).contains(&pause.until.since(NOW).0), "{pause:?}");
        let mut lengths = vec![];
        for _ in 0..9 {
            let now = pause.until;
            pause = pause_after_hit(Some(&pause), None, now, "claude");
            lengths.push(pause.until.since(now));
        }
        assert!(lengths[..5].is_sorted(), "{lengths:?}");
        assert!(lengths[5..].iter().all(|length| (1_440_000..=1_800_000).contains(&length.0)));
        assert_eq!(pause.hits, 10);
    }

    #[test]
    fn many_runs_at_one_wall_make_one_pause() {
        let first = pause_after_hit(None, None, NOW, "claude");
        let mut pause = first.clone();
        for _ in 0..20 {
            pause = pause_after_hit(Some(&pause), None, NOW, "claude");
        }
        assert_eq!(pause, first);
    }

    #[test]
    fn of_two_times_the_later_counts() {
        let long = pause_after_hit(None, Some(in_minutes(60)), NOW, "claude");
        assert_eq!(
            pause_after_hit(Some(&long), Some(in_minutes(5)), NOW, "claude").until,
            in_minutes(60)
        );
        assert_eq!(pause_after_hit(Some(&long), None, NOW, "claude").until, in_minutes(60));
        let longer = pause_after_hit(Some(&long), Some(in_minutes(90)), NOW, "claude");
        assert_eq!((longer.until, longer.hits), (in_minutes(90), 1));
    }

    #[test]
    fn a_time_that_cannot_be_is_not_believed() {
        for named in [NOW, Instant(0), Instant(NOW.0 + LONGEST_WAIT.0 + 1), Instant(i64::MAX)] {
            assert!(
                pause_after_hit(None, Some(named), NOW, "claude").until <= in_minutes(1),
                "{named}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_pause_lies_ahead_and_is_bounded(
            until in -10_000_000_000_i64..10_000_000_000, hits in any::<u32>(), named in any::<Option<i64>>(), key in ".*",
        ) {
            let previous = QuotaPause { until: Instant(NOW.0 + until), reason: String::new(), hits };
            let pause = pause_after_hit(Some(&previous), named.map(Instant), NOW, &key);
            prop_assert!(pause.until > NOW);
            prop_assert!(pause.until <= NOW.plus(LONGEST_WAIT).max(previous.until));
            prop_assert!(pause.until >= previous.until);
            prop_assert!(pause.hits >= hits);
        }
    }
}
