//! Budgets of tasks, batches and days, and how much of them is used.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::time::Span;

/// What a budget limits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetScope {
    Task(TaskId),
    Batch(String),
    Day,
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(task) => write!(f, "task {task}"),
            Self::Batch(batch) => write!(f, "batch {batch}"),
            Self::Day => f.write_str("the day"),
        }
    }
}

/// Upper limits; none means no limit, and zero lets nothing start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    pub runs: Option<i64>,
    pub tokens: Option<i64>,
    /// Millionths of a US dollar.
    pub cost_micros: Option<i64>,
    pub time: Option<Span>,
}

/// One limit of a budget and its use, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BudgetLimit {
    /// Its name in the settings and in the options of `batch`.
    pub what: &'static str,
    pub used: String,
    pub limit: String,
}

impl fmt::Display for BudgetLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.what, self.used, self.limit)
    }
}

impl Budget {
    /// The same budget again, on top of what was used.
    #[must_use]
    pub fn beyond(self, used: &Used) -> Self {
        Self {
            runs: self.runs.map(|runs| runs.saturating_add(used.runs)),
            tokens: self.tokens.map(|tokens| tokens.saturating_add(used.tokens)),
            cost_micros: self.cost_micros.map(|cost| cost.saturating_add(used.cost_micros)),
            time: self.time.map(|time| Span(time.0.saturating_add(used.time.0))),
        }
    }

    /// Whether nothing is left for another run.
    pub fn is_used_up(&self, used: &Used) -> bool {
        !self.reached(used).is_empty()
    }

    /// Every limit that leaves nothing for another run, in the order of the settings. A limit
    /// counts as used up when it is reached, because the cost of the next run is unknown before it
    /// ran.
    pub fn reached(&self, used: &Used) -> Vec<BudgetLimit> {
        Self {
            runs: self.runs.filter(|limit| used.runs >= *limit),
            tokens: self.tokens.filter(|limit| used.tokens >= *limit),
            cost_micros: self.cost_micros.filter(|limit| used.cost_micros >= *limit),
            time: self.time.filter(|limit| used.time >= *limit),
        }
        .limits(used)
    }

    /// Every limit with what is used of it, in the order of the settings.
    pub fn limits(&self, used: &Used) -> Vec<BudgetLimit> {
        fn limit<T: Copy + ToString>(what: &'static str, used: T, limit: T) -> BudgetLimit {
            BudgetLimit { what, used: used.to_string(), limit: limit.to_string() }
        }
        let spent = Dollars(used.cost_micros);
        let all = [
            self.runs.map(|most| limit("runs", used.runs, most)),
            self.tokens.map(|most| limit("tokens", used.tokens, most)),
            self.cost_micros.map(|most| limit("cost", spent, Dollars(most))),
            self.time.map(|most| limit("time", as_fine_as(most, used.time), most)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What was used in a scope: a task, a batch or a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    pub runs: i64,
    pub tokens: i64,
    /// Millionths of a US dollar.
    pub cost_micros: i64,
    pub time: Span,
}

impl Used {
    /// Adds running runs: they are counted nowhere else yet, and a limit on runs must include them.
    #[must_use]
    pub fn with_runs(self, under_way: u32) -> Self {
        Self { runs: self.runs.saturating_add(i64::from(under_way)), ..self }
    }
}

/// Rounded down to the unit of the limit, so that people do not read `7261408ms of 2h`.
fn as_fine_as(limit: Span, used: Span) -> Span {
    const MINUTE: i64 = 60_000;
    const SECOND: i64 = 1_000;
    let unit = [MINUTE, SECOND].into_iter().find(|unit| limit.0 % unit == 0 && used.0 >= *unit);
    unit.map_or(used, |unit| Span(used.0 - used.0 % unit))
}

/// Millionths of a US dollar, printed as dollars with as many decimals as needed, at least two.
#[derive(Clone, Copy)]
struct Dollars(i64);

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let micros = self.0.unsigned_abs();
        let decimals = format!("{:06}", micros % 1_000_000);
        let needed = decimals.trim_end_matches('0').len().max(2);
        write!(f, "{sign}${}.{}", micros / 1_000_000, &decimals[..needed])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(budget: Budget, used: Used) -> Vec<String> {
        budget.reached(&used).iter().map(BudgetLimit::to_string).collect()
    }

    #[test]
    fn a_bound_is_over_when_it_is_reached() {
        let budget = Budget {
            runs: Some(3),
            tokens: Some(1_000),
            cost_micros: Some(2_500_000),
            time: Some(Span(7_200_000)),
        };
        let just_below =
            Used { runs: 2, tokens: 999, cost_micros: 2_499_999, time: Span(7_199_999) };
        assert_eq!(lines(budget, just_below), [""; 0]);
        assert_eq!(lines(Budget::default(), Used { runs: i64::MAX, ..just_below }), [""; 0]);

        let reached =
            Used { runs: 3, tokens: 1_000, cost_micros: 2_500_000, time: Span(7_200_000) };
        assert_eq!(
            lines(budget, reached),
            ["runs: 3 of 3", "tokens: 1000 of 1000", "cost: $2.50 of $2.50", "time: 2h of 2h",]
        );
        for (alone, at) in [
            Used { runs: 3, ..just_below },
            Used { tokens: 1_000, ..just_below },
            Used { cost_micros: 2_500_000, ..just_below },
            Used { time: Span(7_200_000), ..just_below },
        ]
        .into_iter()
        .zip(0..)
        {
            assert_eq!(lines(budget, alone), lines(budget, reached)[at..=at]);
        }
    }

    #[test]
    fn a_budget_of_nothing_lets_nothing_start() {
        let none = Budget { runs: Some(0), time: Some(Span(0)), ..Budget::default() };
        assert_eq!(lines(none, Used::default()).len(), 2);
    }

    #[test]
    fn money_is_printed_in_dollars() {
        for (micros, text) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (4_200, "$0.0042"),
            (500_000, "$0.50"),
            (12_345_600, "$12.3456"),
            (100_000_000, "$100.00"),
            (-1_500_000, "-$1.50"),
            (i64::MIN, "-$9223372036854.775808"),
        ] {
            assert_eq!(Dollars(micros).to_string(), text);
        }
    }

    #[test]
    fn times_are_as_fine_as_their_limit() {
        let check = |limit: &str, used: i64, text: &str| {
            let limit: Span = limit.parse().expect("a span");
            assert_eq!(as_fine_as(limit, Span(used)).to_string(), text, "{limit}");
        };
        check("2h", 7_261_408, "121min");
        check("90s", 95_300, "95s");
        check("1500ms", 1_501, "1501ms");
        check("0s", 300, "300ms");
    }
}
