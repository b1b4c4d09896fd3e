//! Asks people about budgets of a day or of a batch that are used up: one question for each,
//! however many tasks wait.
//!
//! What is used up and what was said is the store's to know; here the question is made, taken back
//! when it is needed no more, and a yes is carried out. May be cut off anywhere and is found again
//! by the next turn.

use std::sync::Arc;

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Setting, builtin};
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::{BudgetLimit, BudgetScope, Ineligible};
use banksman_core::time::{Instant, Span};
use serde_json::json;

use super::{Engine, EngineError};
use crate::store::allowances::{ALLOWANCE, BudgetAction, ExhaustedBudget};
use crate::store::{Add, Definition, IdempotencyKey, scope_name};

/// The move that takes a question back.
const CLOSE: &str = "close";
/// The setting for the time of an answer.
const PATIENCE: &str = "patience";
const DAY_MILLIS: i64 = 86_400_000;

impl Engine<'_> {
    /// Closes what is needed no more, carries out every yes, and asks about what is used up.
    pub(super) fn settle_budgets(&self, now: Instant) -> Result<(), EngineError> {
        let agents = &self.config.agents;
        let day = &agents.budgets.day;
        for id in self.store.moot_allowances(day, &agents.node, now)? {
            self.ask(&self.store.task(id)?, CLOSE, now)?;
        }
        for used_up in self.store.used_up(day, now)? {
            match &used_up.next {
                BudgetAction::Nothing => {}
                BudgetAction::Raise(asked) => self.store.raise_batch(*asked, now)?,
                BudgetAction::Ask(key) => {
                    self.store.add(question(&used_up, key, &agents.node, now), now)?;
                }
            }
        }
        Ok(())
    }
}

fn question(used_up: &ExhaustedBudget, key: &str, node: &str, now: Instant) -> Add {
    let overrides = match used_up.scope {
        // Days are those of UTC.
        BudgetScope::Day => {
            let left = DAY_MILLIS - now.0.rem_euclid(DAY_MILLIS);
            Overrides::from([(PATIENCE.to_owned(), Setting::Time(Span(left)))])
        }
        BudgetScope::Batch(_) | BudgetScope::Task(_) => Overrides::new(),
    };
    let checked = builtin::get(ALLOWANCE, &overrides).expect("it ships with the program");
    let lifecycle = checked.expect("it is sound with any time of at most a day");
    let source = builtin::source(ALLOWANCE).unwrap_or_default().to_owned();
    let (title, question) = words(used_up);
    let ExhaustedBudget { used, limit, more, .. } = used_up;
    let fields = json!({
        "scope": scope_name(&used_up.scope, now),
        "node": node,
        "problem": question,
        "used": used,
        "limit": limit,
        "more": more,
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    Add {
        new: NewTask { title, fields, ..NewTask::default() },
        definition: Definition { lifecycle: Arc::new(lifecycle), source, overrides },
        needs: Vec::new(),
        actor: Actor::system(),
        // Whoever comes second has other numbers, and the same question.
        key: Some(IdempotencyKey::new(key, key)),
        arrival: None,
    }
}

/// A title that says how it stands, and what the answers mean.
fn words(used_up: &ExhaustedBudget) -> (String, String) {
    let ExhaustedBudget { scope, used, limit, .. } = used_up;
    let bounds: Vec<String> = limit.reached(used).iter().map(BudgetLimit::to_string).collect();
    let waiting = match used_up.waiting {
        1 => "1 task waits".to_owned(),
        more => format!("{more} tasks wait"),
    };
    let title = format!("The budget of {scope} is used up ({}); {waiting}", bounds.join(", "));
    let held = Ineligible::over_budget(scope, limit, used).next();
    let instead = held.map(|held| format!(" To do without: {}.", held.remedy()));
    let question = format!(
        "{title}. A yes is as much again, beyond what is used up; after a no they go on waiting.{}",
        instead.unwrap_or_default()
    );
    (title, question)
}

#[cfg(test)]
mod tests {
    use banksman_core::limits;
    use banksman_core::schedule::{Budget, Used};

    use super::*;

    /// A question that the store refused would end every turn from then on.
    #[test]
    fn a_question_can_be_asked_in_the_last_moment_of_a_day_and_about_the_longest_name() {
        let most = i64::MAX;
        let used = Used { runs: most, tokens: most, cost_micros: most, time: Span(most) };
        let limit = Budget {
            runs: Some(most),
            tokens: Some(most),
            cost_micros: Some(most),
            time: Some(Span(most)),
        };
        for scope in [BudgetScope::Day, BudgetScope::Batch("x".repeat(limits::NAME_BYTES))] {
            let waiting = most;
            let used_up = ExhaustedBudget {
                scope,
                used,
                limit,
                more: limit,
                waiting,
                next: BudgetAction::Nothing,
            };
            let asked = question(&used_up, "key", "node", Instant(DAY_MILLIS - 1));
            let title = asked.new.title;
            assert!(title.contains("runs: ") && title.contains("time: "), "{title}");
            assert!(title.len() <= limits::TITLE_BYTES, "{title}");
        }
    }
}
