//! Carries out what `schedule::decide_budget` decides about the budgets of the day and of batches.
//!
//! One question for each budget, however many tasks wait and nodes look. A turn that ends in
//! between loses nothing, because the next one decides again on what the store then holds.

use banksman_core::lifecycle::Setting;
use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::contract::{Purpose, SettingName, Trigger};
use banksman_core::machine::{Actor, NewTask};
use banksman_core::schedule::{
    BudgetAction, BudgetFacts, BudgetLimit, BudgetScope, Ineligible, RequestedBudget, decide_budget,
};
use banksman_core::time::{Instant, Span};

use super::event::ask_if_unchanged;
use super::turn::{Reconciler, Turn};
use super::{Engine, Result, definition_for};
use crate::config::Agents;
use crate::store::{Add, Store, scope_name};

const DAY_MILLIS: i64 = 86_400_000;

pub(super) struct Budgets<'a> {
    store: &'a Store,
    agents: &'a Agents,
}

impl<'a> Budgets<'a> {
    pub(super) fn new(engine: &Engine<'a>) -> Self {
        Self { store: engine.store, agents: &engine.config.agents }
    }

    fn carry_out(&self, facts: &BudgetFacts, now: Instant) -> Result<()> {
        match decide_budget(facts, &self.agents.node) {
            BudgetAction::Wait => {}
            BudgetAction::Close(task) => {
                ask_if_unchanged(self.store, &self.store.task(task)?, Trigger::Close, now)?;
            }
            BudgetAction::Raise { batch, request, from, to } => {
                self.store.raise_batch(&batch, request, (from, to), now)?;
            }
            BudgetAction::Ask(budget) => {
                let request = budget_request(facts, budget, &self.agents.node, now)?;
                self.store.add_budget_request(facts, request, now)?;
            }
        }
        Ok(())
    }
}

impl Reconciler for Budgets<'_> {
    /// Closes pointless requests, applies grants, and asks about budgets that are used up.
    fn run_once(&self, turn: &mut Turn) -> Result<()> {
        for facts in self.store.budgets(&self.agents.budgets.day, turn.now)? {
            let done = self.carry_out(&facts, turn.now);
            turn.contain(None, done)?;
        }
        Ok(())
    }
}

/// The task that asks a person for more.
fn budget_request(
    facts: &BudgetFacts,
    budget: RequestedBudget,
    node: &str,
    now: Instant,
) -> Result<Add> {
    let overrides = match facts.scope {
        // Days are those of UTC.
        BudgetScope::Day => {
            let left = DAY_MILLIS - now.0.rem_euclid(DAY_MILLIS);
            Overrides::from([(SettingName::Patience.to_string(), Setting::Time(Span(left)))])
        }
        BudgetScope::Batch(_) | BudgetScope::Task(_) => Overrides::new(),
    };
    let (title, question) = words(facts, &budget);
    let fields = budget.fields(scope_name(&facts.scope, now), node, question);
    Ok(Add {
        new: NewTask { title, fields, ..NewTask::default() },
        definition: definition_for(Purpose::Budget, overrides)?,
        needs: Vec::new(),
        actor: Actor::system(),
        key: None,
        arrival: None,
    })
}

/// A title with the numbers, and a text that says what each answer does.
fn words(facts: &BudgetFacts, budget: &RequestedBudget) -> (String, String) {
    let (scope, RequestedBudget { used, limit, .. }) = (&facts.scope, budget);
    let bounds: Vec<String> = limit.reached(used).iter().map(BudgetLimit::to_string).collect();
    let waiting = match facts.waiting {
        1 => "1 task waits".to_owned(),
        more => format!("{more} tasks wait"),
    };
    let title = format!("The budget of {scope} is used up ({}); {waiting}", bounds.join(", "));
    let held = Ineligible::over_budget(scope, limit, used).next();
    let instead = held.map(|held| format!(" To do without: {}.", held.remedy()));
    let question = format!(
        "{title}. Yes raises the budget by the same amount above what is used up; after a no they keep waiting.{}",
        instead.unwrap_or_default()
    );
    (title, question)
}

#[cfg(test)]
mod tests {
    use banksman_core::limits;
    use banksman_core::schedule::{Budget, RequestLog, Used};

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
            let requests = RequestLog::default();
            let facts = BudgetFacts { scope, limit: Some(limit), used, waiting: most, requests };
            let budget = RequestedBudget { used, limit, more: limit };
            let asked = budget_request(&facts, budget, "node", Instant(DAY_MILLIS - 1)).unwrap();
            let title = asked.new.title;
            assert!(title.contains("runs: ") && title.contains("time: "), "{title}");
            assert!(title.len() <= limits::TITLE_BYTES, "{title}");
        }
    }
}
