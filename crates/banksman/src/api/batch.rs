//! A batch as JSON: its limits, its use and its progress.

use banksman_core::schedule;
use banksman_core::time::Span;

use crate::store::batches::Batch as BatchRow;

documents! {
    Batch<'a>(batch: &'a BatchRow) {
        budget: Budget = Budget::new(&batch.budget),
        concurrency: i64 = batch.concurrency,
        done: i64 = batch.done,
        given_up: i64 = batch.given_up,
        name: &'a str = &batch.name,
        paused: bool = batch.paused,
        running: i64 = batch.running,
        tasks: i64 = batch.tasks,
        used: Used = Used::new(&batch.used),
    }

    Budget(budget: &schedule::Budget) {
        cost_micros: Option<i64> = budget.cost_micros,
        runs: Option<i64> = budget.runs,
        time: Option<Span> = budget.time,
        tokens: Option<i64> = budget.tokens,
    }

    Used(used: &schedule::Used) {
        cost_micros: i64 = used.cost_micros,
        runs: i64 = used.runs,
        time: Span = used.time,
        tokens: i64 = used.tokens,
    }
}
