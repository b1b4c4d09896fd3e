//! The retry table: whether and when a failed run is tried again.

use std::collections::BTreeMap;

use super::{Classification, FailureClass};
use crate::backoff::Backoff;
use crate::quota::{DEFAULT_BACKOFF, LONGEST_WAIT};
use crate::time::{Instant, Span};

/// How often and how soon each failure class is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// A class without a rule is not tried again.
    pub rules: BTreeMap<FailureClass, RetryRule>,
    /// This many failures with the same signature in a row trip the circuit breaker; less than 2
    /// counts as 2.
    pub repeated: u32,
    /// The limit on retries of a task over all its classes; none leaves it to the classes.
    pub most: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryRule {
    pub retries: u32,
    pub backoff: Backoff,
}

/// Delays after a failure of the task; the first one gives a person who watches time to step in.
const TASK_BACKOFF: Backoff = DEFAULT_BACKOFF;
/// Runs that Banksman lost start again soon; the delay only keeps a broken machine from spinning.
const INFRA_BACKOFF: Backoff =
    Backoff { first: Span(5_000), factor: 2, cap: Span(300_000), jitter_percent: 20 };
const IMMEDIATE: Backoff = Backoff { first: Span(0), factor: 1, cap: Span(0), jitter_percent: 0 };

impl Default for RetryPolicy {
    fn default() -> Self {
        let rule = |class: FailureClass| match class {
            FailureClass::Permission
            | FailureClass::Noop
            | FailureClass::Auth
            | FailureClass::Budget
            | FailureClass::NeedsPerson
            | FailureClass::Unusable => (0, TASK_BACKOFF),
            FailureClass::ModelLoop => (1, TASK_BACKOFF),
            FailureClass::Policy
            | FailureClass::Setup
            | FailureClass::Test
            | FailureClass::Model
            | FailureClass::Stall => (3, TASK_BACKOFF),
            FailureClass::Flaky => (6, TASK_BACKOFF),
            FailureClass::Env | FailureClass::Infra => (10, INFRA_BACKOFF),
            FailureClass::Session => (2, IMMEDIATE),
            // About a day at the cap of half an hour. Waiting costs nothing, but after a day a
            // person should know.
            FailureClass::Quota => (50, DEFAULT_BACKOFF),
        };
        let rules = FailureClass::ALL.into_iter().map(|class| {
            let (retries, backoff) = rule(class);
            (class, RetryRule { retries, backoff })
        });
        Self { rules: rules.collect(), repeated: 4, most: None }
    }
}

impl RetryPolicy {
    /// The same limits, with no delay longer than `cap`, for demos and tests.
    #[must_use]
    pub fn with_delay_cap(mut self, cap: Span) -> Self {
        for rule in self.rules.values_mut() {
            rule.backoff.first = rule.backoff.first.min(cap);
            rule.backoff.cap = rule.backoff.cap.min(cap);
        }
        self
    }
}

/// An earlier run of the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFailure {
    /// None for a success.
    pub class: Option<FailureClass>,
    pub signature: Option<String>,
}

/// What happens to a task after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    Retry {
        at: Instant,
        /// Whether to start a new agent session instead of resuming the last one.
        fresh_session: bool,
    },
    GiveUp {
        reason: String,
    },
}

/// Decides what happens after this classification. `past` are the task's runs since a person last
/// asked for a retry, the oldest first and without the present one; a success among them restores
/// no retries. `key` spreads the delays of tasks that failed together.
pub fn next(
    policy: &RetryPolicy,
    classification: &Classification,
    past: &[PastFailure],
    key: &str,
    now: Instant,
) -> RetryDecision {
    let give_up = |reason: String| RetryDecision::GiveUp { reason };
    let Some(class) = classification.class else {
        return give_up("the run did not fail".to_owned());
    };
    let Some(rule) = policy.rules.get(&class) else {
        return give_up(format!("no retry rule for {class}"));
    };
    let attempts = count(past, |earlier| earlier == class);
    if class.is_task_failure() {
        let repeats = repeat_count(past, classification.signature.as_deref());
        if repeats >= policy.repeated.max(2) && rule.retries > 0 {
            return give_up(format!("circuit breaker: the same failure {repeats} times in a row"));
        }
        let all = count(past, FailureClass::is_task_failure);
        if let Some(most) = policy.most.filter(|most| all >= *most) {
            return give_up(format!(
                "all {most} retries of the task are used up; the last failure was {class}"
            ));
        }
    }
    if attempts >= rule.retries {
        return give_up(match rule.retries {
            0 => class.why_not_retried(),
            retries => format!("all {retries} retries for {class} are used up"),
        });
    }
    // A reset time that the provider named. After a failed retry the time was wrong, so the delay
    // grows anyway.
    let named = classification.resets_at.filter(|at| *at <= now.plus(LONGEST_WAIT));
    let delay = match named {
        Some(at) if attempts == 0 => at.since(now),
        Some(at) => at.since(now).max(rule.backoff.base_delay(attempts)),
        None => rule.backoff.jittered_delay(key, attempts),
    };
    RetryDecision::Retry {
        at: now.plus(delay),
        fresh_session: matches!(class, FailureClass::Session | FailureClass::ModelLoop),
    }
}

fn count(past: &[PastFailure], fits: impl Fn(FailureClass) -> bool) -> u32 {
    let runs = past.iter().filter_map(|run| run.class).filter(|class| fits(*class)).count();
    u32::try_from(runs).unwrap_or(u32::MAX)
}

/// How many times in a row the failure occurred, including this one. Runs that failed for reasons
/// outside of the task are skipped: they do not show whether it would have failed again.
fn repeat_count(past: &[PastFailure], signature: Option<&str>) -> u32 {
    let Some(signature) = signature else {
        return 1;
    };
    let own = past.iter().rev().filter(|run| run.class.is_none_or(FailureClass::is_task_failure));
    let same = own.take_while(|run| run.signature.as_deref() == Some(signature)).count();
    u32::try_from(same).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ProofLevel;
    use crate::lifecycle::Outcome;
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};
    use proptest::sample::select;

    const NOW: Instant = Instant(1_795_000_000_000);

    fn failed(class: FailureClass, signature: &str) -> Classification {
        Classification {
            outcome: Outcome::Crashed,
            class: Some(class),
            level: ProofLevel::Claimed,
            detail: "boom".to_owned(),
            signature: Some(signature.to_owned()),
            resets_at: None,
            ambiguous: false,
        }
    }

    fn past(class: FailureClass, signature: &str) -> PastFailure {
        PastFailure { class: Some(class), signature: Some(signature.to_owned()) }
    }

    fn varied(class: FailureClass, count: u32) -> Vec<PastFailure> {
        (0..count).map(|number| past(class, &format!("{class}:{number}"))).collect()
    }

    fn is_retry(next: &RetryDecision) -> bool {
        match next {
            RetryDecision::Retry { .. } => true,
            RetryDecision::GiveUp { .. } => false,
        }
    }

    fn reason(next: RetryDecision) -> String {
        match next {
            RetryDecision::GiveUp { reason } => reason,
            RetryDecision::Retry { at, .. } => panic!("again at {at}"),
        }
    }

    #[test]
    fn each_class_has_its_number_of_retries() {
        let policy = RetryPolicy::default();
        for (class, retries) in [
            (FailureClass::Permission, 0),
            (FailureClass::Noop, 0),
            (FailureClass::Policy, 3),
            (FailureClass::Setup, 3),
            (FailureClass::Env, 10),
            (FailureClass::Auth, 0),
            (FailureClass::Quota, 50),
            (FailureClass::Test, 3),
            (FailureClass::Flaky, 6),
            (FailureClass::ModelLoop, 1),
            (FailureClass::Model, 3),
            (FailureClass::Budget, 0),
            (FailureClass::Stall, 3),
            (FailureClass::NeedsPerson, 0),
            (FailureClass::Infra, 10),
            (FailureClass::Session, 2),
            (FailureClass::Unusable, 0),
        ] {
            let now = failed(class, "now");
            let next_after = |count| next(&policy, &now, &varied(class, count), "t83", NOW);
            assert!((0..retries).all(|count| is_retry(&next_after(count))), "{class}");
            let expected = match retries {
                0 => class.why_not_retried(),
                retries => format!("all {retries} retries for {class} are used up"),
            };
            assert_eq!(reason(next_after(retries)), expected);
        }
        assert_eq!(policy.rules.len(), FailureClass::ALL.len());
    }

    #[test]
    fn a_success_in_between_gives_nothing_back() {
        let mut runs = varied(FailureClass::Test, 3);
        runs.push(PastFailure { class: None, signature: None });
        let next =
            next(&RetryPolicy::default(), &failed(FailureClass::Test, "x"), &runs, "t83", NOW);
        assert_eq!(reason(next), "all 3 retries for test are used up");
    }

    #[test]
    fn the_same_failure_four_times_in_a_row_trips_the_breaker() {
        let policy = RetryPolicy::default();
        let same = |count: usize| vec![past(FailureClass::Flaky, "s"); count];
        let ask = |runs: &[PastFailure]| {
            next(&policy, &failed(FailureClass::Flaky, "s"), runs, "t83", NOW)
        };
        assert!(is_retry(&ask(&same(2))));
        assert_eq!(reason(ask(&same(3))), "circuit breaker: the same failure 4 times in a row");

        let mut other_between = same(3);
        other_between.insert(2, past(FailureClass::Flaky, "other"));
        assert!(is_retry(&ask(&other_between)));
        let mut success_between = same(3);
        success_between.insert(2, PastFailure { class: None, signature: None });
        assert!(is_retry(&ask(&success_between)));
        let mut lost_between = same(3);
        lost_between.insert(2, past(FailureClass::Infra, "lost"));
        assert!(reason(ask(&lost_between)).starts_with("circuit breaker: "));
    }

    #[test]
    fn faults_that_are_not_the_tasks_use_up_none_of_its_retries() {
        let policy = RetryPolicy { most: Some(2), ..RetryPolicy::default() };
        let mut runs: Vec<PastFailure> =
            [FailureClass::Env, FailureClass::Infra, FailureClass::Quota, FailureClass::Session]
                .into_iter()
                .flat_map(|class| vec![past(class, "same"); 9])
                .collect();
        runs.extend(varied(FailureClass::Test, 1));
        let ask = |class| next(&policy, &failed(class, "same"), &runs, "t83", NOW);
        for class in [
            FailureClass::Test,
            FailureClass::Model,
            FailureClass::Env,
            FailureClass::Infra,
            FailureClass::Quota,
        ] {
            assert!(is_retry(&ask(class)), "{class}");
        }
    }

    #[test]
    fn a_bound_over_all_classes_counts_the_tasks_own_failures() {
        let policy = RetryPolicy { most: Some(2), ..RetryPolicy::default() };
        let runs = [varied(FailureClass::Test, 1), varied(FailureClass::Policy, 1)].concat();
        let next = next(&policy, &failed(FailureClass::Model, "x"), &runs, "t83", NOW);
        assert_eq!(
            reason(next),
            "all 2 retries of the task are used up; the last failure was model"
        );
    }

    #[test]
    fn what_has_not_failed_or_has_no_rule_is_not_tried_again() {
        let success = Classification { class: None, ..failed(FailureClass::Test, "x") };
        assert_eq!(
            reason(next(&RetryPolicy::default(), &success, &[], "t83", NOW)),
            "the run did not fail"
        );
        let empty = RetryPolicy { rules: BTreeMap::new(), ..RetryPolicy::default() };
        let none = next(&empty, &failed(FailureClass::Test, "x"), &[], "t83", NOW);
        assert_eq!(reason(none), "no retry rule for test");
    }

    #[test]
    fn a_lost_session_is_replaced_at_once() {
        let ask = |class| next(&RetryPolicy::default(), &failed(class, "x"), &[], "t83", NOW);
        assert_eq!(
            ask(FailureClass::Session),
            RetryDecision::Retry { at: NOW, fresh_session: true }
        );
        for (class, fresh) in [
            (FailureClass::ModelLoop, true),
            (FailureClass::Test, false),
            (FailureClass::Quota, false),
        ] {
            match ask(class) {
                RetryDecision::Retry { at, fresh_session } => {
                    assert_eq!(fresh_session, fresh, "{class}");
                    assert!((24_000..=30_000).contains(&at.since(NOW).0), "{class}: {at}");
                }
                RetryDecision::GiveUp { reason } => panic!("{class}: {reason}"),
            }
        }
    }

    fn limited(at: i64, before: u32) -> i64 {
        let classification = Classification {
            resets_at: Some(Instant(NOW.0 + at)),
            ..failed(FailureClass::Quota, "x")
        };
        match next(
            &RetryPolicy::default(),
            &classification,
            &varied(FailureClass::Quota, before),
            "t83",
            NOW,
        ) {
            RetryDecision::Retry { at, .. } => at.0 - NOW.0,
            RetryDecision::GiveUp { reason } => panic!("{reason}"),
        }
    }

    #[test]
    fn a_named_reset_is_kept_to_the_millisecond() {
        assert_eq!(limited(17_999_123, 0), 17_999_123);
        assert_eq!(limited(17_999_123, 9), 17_999_123, "later than any delay of ours");
        assert_eq!(limited(1_000, 0), 1_000);
        assert_eq!(limited(-5_000, 0), 0, "it has passed");
    }

    #[test]
    fn a_provider_that_always_says_soon_is_asked_ever_more_rarely() {
        assert_eq!(
            [1, 2, 3, 9].map(|before| limited(1_000, before)),
            [60_000, 120_000, 240_000, 1_800_000]
        );
    }

    #[test]
    fn a_reset_that_cannot_be_is_not_waited_for() {
        assert!(limited(LONGEST_WAIT.0 + 1, 0) <= 30_000);
        assert_eq!(limited(LONGEST_WAIT.0, 0), LONGEST_WAIT.0);
    }

    fn any_class() -> impl Strategy<Value = Option<FailureClass>> {
        prop_oneof![1 => Just(None), 9 => select(FailureClass::ALL.to_vec()).prop_map(Some)]
    }

    proptest! {
        /// Whatever happens to a task, it is given up after as many retries as the table allows.
        #[test]
        fn no_row_of_failures_goes_on_for_ever(
            ends in proptest::collection::vec((any_class(), 0_u8..3), 0..300),
            most in any::<Option<u8>>(), repeated in 0_u32..6, named in any::<Option<i64>>(),
        ) {
            let policy = RetryPolicy { repeated, most: most.map(u32::from), ..RetryPolicy::default() };
            let mut runs: Vec<PastFailure> = vec![];
            let mut now = NOW;
            for (class, variant) in ends {
                let signature = class.map(|class| format!("{class}:{variant}"));
                let classification = Classification {
                    class, signature: signature.clone(), resets_at: named.map(Instant), ..failed(FailureClass::Test, "")
                };
                let decided = next(&policy, &classification, &runs, "t83", now);
                runs.push(PastFailure { class, signature });
                if let RetryDecision::Retry { at, .. } = decided {
                    prop_assert!(at >= now && at <= now.plus(LONGEST_WAIT));
                    now = at;
                } else if class.is_some() {
                    break;
                }
            }
            // The last one may be the failure that ended the retries.
            let retried = &runs[..runs.len().saturating_sub(1)];
            for class in FailureClass::ALL {
                prop_assert!(count(retried, |other| other == class) <= policy.rules[&class].retries, "{}", class);
            }
            let own = count(retried, FailureClass::is_task_failure);
            prop_assert!(policy.most.is_none_or(|most| own <= most));
        }
    }
}
