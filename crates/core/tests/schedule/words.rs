//! What people read when a task does not start, and what they are told to type.

use banksman_core::ids::TaskId;
use banksman_core::schedule::{Area, Budget, BudgetScope, Ineligible, Used};
use banksman_core::time::{Instant, Span};

fn text(word: &str) -> String {
    word.to_owned()
}

fn every_reason() -> Vec<Ineligible> {
    let until = Instant(1_707_734_400_000);
    let runs = Budget { runs: Some(3), ..Budget::default() };
    let rest = Budget {
        runs: None,
        tokens: Some(1_000),
        cost_micros: Some(2_500_000),
        time: Some(Span(7_200_000)),
    };
    let used = Used { runs: 3, tokens: 1_200, cost_micros: 2_512_345, time: Span(7_261_408) };
    let web = || Area(text("path:apps/web"));
    let mut list = vec![
        Ineligible::NoActivity,
        Ineligible::NotAssigned { assignees: vec![text("ann"), text("bob")] },
        Ineligible::NoWorker { role: text("reviewer"), needs: Vec::new() },
        Ineligible::NoWorker { role: text("worker"), needs: vec![text("gpu"), text("ci")] },
        Ineligible::Paused,
        Ineligible::BatchPaused { batch: text("night") },
    ];
    list.extend(Ineligible::over_budget(&BudgetScope::Task(TaskId(12)), &runs, &used));
    list.extend(Ineligible::over_budget(&BudgetScope::Batch(text("night")), &rest, &used));
    list.extend(Ineligible::over_budget(&BudgetScope::Day, &runs, &used));
    list.extend([
        Ineligible::NotHere { node: text("n1"), workers: vec![text("jules"), text("codex")] },
        Ineligible::AccountPaused {
            account: text("anthropic"),
            until,
            reason: text("5-hour limit"),
        },
        Ineligible::AccountPaused { account: text("openai"), until, reason: String::new() },
        Ineligible::AccountProbing { account: text("anthropic") },
        Ineligible::AreaTaken { area: web(), by: TaskId(7) },
        Ineligible::AreaReserved { area: web(), to: TaskId(8) },
        Ineligible::AccountFull { account: text("anthropic"), limit: 3 },
        Ineligible::WorkerBusy { worker: text("claude"), max_concurrent: 1 },
        Ineligible::LaneFull { role: text("docser"), limit: 1 },
        Ineligible::Full { limit: 20 },
        Ineligible::NodeFull { node: text("n1"), capacity: 4 },
        Ineligible::BatchFull { batch: text("night"), concurrency: 2 },
    ]);
    list
}

#[test]
fn every_reason_says_what_it_is_and_what_to_do() {
    let line = |held: &Ineligible| {
        let until = held.until().map(|until| until.to_string()).unwrap_or_default();
        let who = held.waits_for().unwrap_or_default();
        format!("{} | {until} | {who}\n  {}\n  {}\n", held.kind(), held.detail(), held.remedy())
    };
    let text: String = every_reason().iter().map(line).collect();
    insta::assert_snapshot!(text);
}

#[test]
fn sentences_are_short_plain_and_without_a_full_stop() {
    for held in every_reason() {
        for sentence in [held.detail(), held.remedy()] {
            assert!(sentence.len() <= 160, "{} bytes: {sentence}", sentence.len());
            assert!(!sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
            assert!(sentence.starts_with(|first: char| !first.is_uppercase()), "{sentence}");
        }
    }
}
