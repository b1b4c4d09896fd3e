//! Budgets and the bounds of batches: whatever is claimed was within them at the moment of its
//! claim.
//!
//! Everything is counted again from the runs themselves. The store's own sums are not looked at
//! here, because a claim that trusts a wrong sum is just what must be found.

use std::collections::BTreeSet;

use banksman::store::batches::Batch;
use banksman::store::{Stored, scope_name};
use banksman_core::ids::{RunId, TaskId};
use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::Field;
use banksman_core::schedule::{Budget, BudgetScope};
use banksman_core::time::Instant;

use super::life::Life;
use super::setup::RunRow;

/// What a scope has used up, and what is under way in it.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    ended: i64,
    open: i64,
    tokens: i64,
    cost_micros: i64,
}

impl Sum {
    fn of<'a>(rows: impl Iterator<Item = &'a RunRow>, counts: impl Fn(&RunRow) -> bool) -> Self {
        let mut sum = Self::default();
        for row in rows {
            if row.ended_at.is_none() {
                sum.open += 1;
            } else if counts(row) {
                sum.ended += 1;
                sum.tokens += row.tokens;
                sum.cost_micros += row.cost_micros;
            }
        }
        sum
    }

    /// What a claim that has just been made went over. The claimed runs themselves are among the
    /// open ones.
    fn over(self, budget: &Budget) -> Option<String> {
        let runs = self.ended + self.open;
        let tokens = budget.tokens.filter(|most| self.tokens >= *most);
        let cost = budget.cost_micros.filter(|most| self.cost_micros >= *most);
        let most = budget.runs.filter(|most| runs > *most);
        let told = most.map(|most| format!("{runs} runs of {most}"));
        let told = told.or(tokens.map(|most| format!("{} tokens of {most}", self.tokens)));
        told.or(cost.map(|most| format!("a cost of {} of {most}", self.cost_micros)))
    }
}

impl Life {
    /// Looks at what was claimed since the last look. To be called before anything else can end a
    /// run.
    pub(super) fn look_at_claims(&mut self) {
        let rows = self.ledger.runs();
        let known = std::mem::take(&mut self.memory.claimed);
        let new: Vec<&RunRow> = rows.iter().filter(|row| !known.contains(&row.run)).collect();
        self.memory.claimed = rows.iter().map(|row| row.run).collect::<BTreeSet<RunId>>();
        if new.is_empty() {
            self.note_what_is_used_up(&rows);
            return;
        }
        let mut found = Vec::new();
        // A worker from outside is bound by no day, but what it has done counts.
        if new.iter().any(|row| row.node.is_some()) {
            let sum = self.today(&rows);
            found.extend(sum.over(&self.day_budget()).map(|what| format!("the day has {what}")));
        }
        let batches = self.ledger.store.batches().expect("the batches are read");
        for batch in &batches {
            let is_of = |row: &&RunRow| row.batch.as_deref() == Some(batch.name.as_str());
            if new.iter().any(&is_of) {
                found.extend(beyond(batch, Sum::of(rows.iter().filter(is_of), |_| true)));
            }
        }
        let mut ground = self.ground.borrow_mut();
        for what in found {
            let claimed: Vec<String> = new.iter().map(|row| row.run.to_string()).collect();
            ground.breaks(format!("after the claim of {}, {what}", claimed.join(", ")));
        }
    }
}

impl Life {
    /// A person may have given the day as much again.
    fn day_budget(&self) -> Budget {
        let scope = scope_name(&BudgetScope::Day, self.now());
        let granted = self.questions().filter(|asked| {
            asked.state().kind == StateKind::Done
                && asked.text(Field::Scope) == Some(scope.as_str())
        });
        let Some(last) = granted.last() else { return self.rules.day };
        self.ground.borrow_mut().seen.insert("a day that was raised");
        let used = serde_json::from_value(last.task.fields["used"].clone());
        self.rules.day.beyond(&used.expect("what was used up"))
    }

    /// All questions about budgets of days and batches, the oldest first.
    fn questions(&self) -> impl Iterator<Item = Stored> {
        let tasks = self.ledger.store.tasks_from(TaskId(0)).expect("the tasks are read");
        let tasks = tasks.into_iter().map(|(stored, _)| stored);
        tasks.filter(|stored| stored.lifecycle.id == "budget")
    }

    /// However many nodes see it and whatever strikes them, people are asked once.
    pub(super) fn look_at_questions(&self) {
        let mut open = BTreeSet::new();
        let mut ground = self.ground.borrow_mut();
        for asked in self.questions().filter(|asked| asked.state().kind == StateKind::Waiting) {
            let scope = asked.text(Field::Scope).expect("it is about something").to_owned();
            if !open.insert(scope.clone()) {
                ground.breaks(format!("{} asks about {scope} once more", asked.task.id));
            }
        }
        for asked in self.questions().filter(|asked| asked.state().kind == StateKind::Done) {
            let entries = self.ledger.store.history(asked.task.id, 0).expect("a history");
            let raised = entries.iter().filter(|entry| entry.record.trigger == "raised").count();
            ground.seen.extend((raised > 0).then_some("a batch that was raised"));
            if raised > 1 {
                ground.breaks(format!("{} has raised a batch {raised} times", asked.task.id));
            }
        }
    }

    fn today(&self, rows: &[RunRow]) -> Sum {
        let today = day(self.now());
        Sum::of(rows.iter(), |row| row.ended_at.is_some_and(|at| day(at) == today))
    }

    /// That nothing goes over a budget says something only where one has been reached.
    fn note_what_is_used_up(&self, rows: &[RunRow]) {
        let next = |sum: Sum| Sum { open: sum.open + 1, ..sum };
        let is_over = next(self.today(rows)).over(&self.day_budget()).is_some();
        let batches = self.ledger.store.batches().expect("the batches are read");
        let is_batch_over = batches.iter().any(|batch| {
            let of = rows.iter().filter(|row| row.batch.as_ref() == Some(&batch.name));
            next(Sum::of(of, |_| true)).over(&batch.budget).is_some()
        });
        let mut ground = self.ground.borrow_mut();
        ground.seen.extend(is_over.then_some("a day that was used up"));
        ground.seen.extend(is_batch_over.then_some("a batch that was used up"));
    }
}

fn beyond(batch: &Batch, sum: Sum) -> Option<String> {
    let is_crowded = sum.open > batch.concurrency;
    let told = is_crowded.then(|| format!("{} runs at once of {}", sum.open, batch.concurrency));
    let told = told.or(batch.paused.then(|| "a run in its pause".to_owned()));
    told.or_else(|| sum.over(&batch.budget)).map(|what| format!("{} has {what}", batch.name))
}

/// Days are those of UTC.
fn day(at: Instant) -> i64 {
    at.0.div_euclid(86_400_000)
}
