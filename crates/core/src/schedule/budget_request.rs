//! Decides what to do about the budget of a day or a batch: ask a person for more, apply a grant,
//! withdraw a question, or wait. And says which budget people have given to a task.
//!
//! The store collects the [`BudgetFacts`], the engine carries out the [`BudgetAction`], and neither
//! of them decides.

use serde::de::DeserializeOwned;

use super::budget::{Budget, BudgetScope, Used};
use crate::ids::TaskId;
use crate::lifecycle::contract::Field;
use crate::lifecycle::expr::{Fields, Value, value_of};
use crate::lifecycle::{Lifecycle, StateKind};
use crate::limits;
use crate::machine::{Actor, Damaged, Task};

/// The numbers of a budget request, from the moment it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedBudget {
    /// Including the runs under way.
    pub used: Used,
    pub limit: Budget,
    /// What a grant adds to `used`.
    pub more: Budget,
}

impl RequestedBudget {
    /// The limit after a grant.
    pub fn raised(&self) -> Budget {
        self.more.beyond(&self.used)
    }

    /// The fields of the task that asks for it.
    pub fn fields(self, scope: String, node: &str, problem: String) -> Fields {
        let fields = [
            (Field::Scope, Value::from(scope)),
            (Field::Node, Value::from(node)),
            (Field::Problem, Value::from(problem)),
            (Field::Used, value_of(&self.used)),
            (Field::Limit, value_of(&self.limit)),
            (Field::More, value_of(&self.more)),
        ];
        fields.into_iter().map(|(field, value)| (field.name().to_owned(), value)).collect()
    }
}

/// What a person answered to a budget request, if they did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// The question waits for an answer.
    Open,
    /// `applied` says whether the batch has its new limit. A day has none of its own: every look at
    /// its budget adds the grant to the settings.
    Granted { applied: bool },
    /// A person wants no more to be spent.
    Refused,
    /// Nobody answered in time, or the budget was no longer used up.
    Closed,
}

/// A budget request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRequest {
    pub task: TaskId,
    /// The node that asked.
    pub node: String,
    pub state: RequestState,
    pub budget: RequestedBudget,
}

impl BudgetRequest {
    /// Reads a request from its task.
    pub fn read(lifecycle: &Lifecycle, task: &Task, applied: bool) -> Result<Self, Damaged> {
        let (node, used, limit, more) = (
            required(lifecycle, task, Field::Node)?,
            required(lifecycle, task, Field::Used)?,
            required(lifecycle, task, Field::Limit)?,
            required(lifecycle, task, Field::More)?,
        );
        let is_refused = task.data(lifecycle, Field::Refused)?.unwrap_or(false);
        let kind = lifecycle.state(task.state).kind;
        let state = if kind == StateKind::Waiting {
            RequestState::Open
        } else if kind == StateKind::Done {
            RequestState::Granted { applied }
        } else if is_refused {
            RequestState::Refused
        } else {
            RequestState::Closed
        };
        let budget = RequestedBudget { used, limit, more };
        Ok(Self { task: task.id, node, state, budget })
    }

    pub fn is_open(&self) -> bool {
        self.state == RequestState::Open
    }

    fn is_granted(&self) -> bool {
        matches!(self.state, RequestState::Granted { .. })
    }
}

fn required<T: DeserializeOwned>(
    lifecycle: &Lifecycle,
    task: &Task,
    field: Field,
) -> Result<T, Damaged> {
    let missing = || task.damaged(format!("field `{field}`"), "it is missing");
    task.data(lifecycle, field)?.ok_or_else(missing)
}

/// The requests about one day or one batch so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestLog {
    /// The number of the latest request; 0 if there was none.
    pub number: i64,
    pub latest: Option<BudgetRequest>,
    /// The last one before the latest that a person granted.
    pub granted: Option<BudgetRequest>,
    /// Limits for which a person refused more, before the latest request; the newest last.
    pub refused: Vec<Budget>,
}

impl RequestLog {
    /// The last request that a person granted.
    pub fn last_granted(&self) -> Option<&BudgetRequest> {
        self.latest.as_ref().filter(|latest| latest.is_granted()).or(self.granted.as_ref())
    }

    /// All limits for which a person refused more, the newest last.
    pub fn refused_limits(&self) -> Vec<Budget> {
        let latest = self.latest.iter().filter(|latest| latest.state == RequestState::Refused);
        let mut limits = self.refused.clone();
        limits.extend(latest.map(|latest| latest.budget.limit));
        limits.drain(..limits.len().saturating_sub(limits::REFUSED_BUDGETS));
        limits
    }

    /// The limit of a day: the settings, and beyond them what the last grant added.
    pub fn day_limit(&self, settings: Budget) -> Budget {
        self.last_granted().map_or(settings, |granted| settings.beyond(&granted.budget.used))
    }
}

/// Everything that decides about the budget of one day or one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetFacts {
    pub scope: BudgetScope,
    /// What the settings or the batch allow; none for a day that is over and a batch that is gone.
    pub limit: Option<Budget>,
    /// Including the runs under way.
    pub used: Used,
    /// Queued tasks whose batch is not paused.
    pub waiting: i64,
    pub requests: RequestLog,
}

/// What to do about the budget of one day or one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetAction {
    /// The budget holds no task back, or tasks wait until a person answers, changes the limit, or
    /// the day ends.
    Wait,
    /// Ask a person for more.
    Ask(RequestedBudget),
    /// Apply a grant to the limit of a batch, if the limit is still `from`.
    Raise { batch: String, request: TaskId, from: Budget, to: Budget },
    /// Withdraw a question whose answer would change nothing.
    Close(TaskId),
}

/// Decides what the node `node` does about a budget.
pub fn decide(facts: &BudgetFacts, node: &str) -> BudgetAction {
    let BudgetFacts { scope, used, requests, .. } = facts;
    let open = requests.latest.as_ref().filter(|latest| latest.is_open());
    let Some(configured) = facts.limit else {
        return open.map_or(BudgetAction::Wait, |open| BudgetAction::Close(open.task));
    };
    let is_day = *scope == BudgetScope::Day;
    let limit = if is_day { requests.day_limit(configured) } else { configured };
    let is_used_up = limit.is_used_up(used);
    if let Some(open) = open {
        // Nodes may have different settings for the day, so only the node that asked withdraws its
        // question.
        let may_close = !is_day || open.node == node;
        return if is_used_up || !may_close {
            BudgetAction::Wait
        } else {
            BudgetAction::Close(open.task)
        };
    }
    if !is_used_up || facts.waiting == 0 {
        return BudgetAction::Wait;
    }
    if let (BudgetScope::Batch(batch), Some(latest)) = (scope, &requests.latest)
        && latest.state == (RequestState::Granted { applied: false })
    {
        let (batch, budget) = (batch.clone(), &latest.budget);
        return BudgetAction::Raise {
            batch,
            request: latest.task,
            from: budget.limit,
            to: budget.raised(),
        };
    }
    // A grant for a batch adds as much as the one before, unless somebody has changed the limit
    // since.
    let last = requests.last_granted().filter(|last| !is_day && last.budget.raised() == limit);
    let more = last.map_or(configured, |last| last.budget.more);
    let request = RequestedBudget { used: *used, limit, more };
    // A limit of zero is a stop and not a question: twice zero is zero.
    let is_pointless = request.raised().is_used_up(used);
    if is_pointless || requests.refused_limits().contains(&limit) {
        BudgetAction::Wait
    } else {
        BudgetAction::Ask(request)
    }
}

/// A question about the budget of a task, and the move that followed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetAnswer {
    /// What the task had used when the question was asked.
    pub used: Used,
    pub by: Actor,
    pub to: String,
}

impl BudgetAnswer {
    /// A person who continues the task grants its budget again.
    fn grants(&self, lifecycle: &Lifecycle) -> bool {
        let kind = lifecycle.find_state(&self.to).map(|id| lifecycle.state(id).kind);
        let ends = matches!(
            kind,
            None | Some(StateKind::Failed | StateKind::Cancelled | StateKind::Parked)
        );
        self.by.is_human() && !ends
    }
}

/// The limit of a task: the settings, and beyond them what the last grant added. The newest answer
/// comes first.
pub fn task_limit(lifecycle: &Lifecycle, settings: Budget, answers: &[BudgetAnswer]) -> Budget {
    let granted = answers.iter().find(|answer| answer.grants(lifecycle));
    granted.map_or(settings, |granted| settings.beyond(&granted.used))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lifecycle::builtin;
    use crate::lifecycle::check::Overrides;
    use crate::machine::{NewTask, create};
    use crate::time::{Instant, Span};

    const RUNS: fn(i64) -> Budget = |runs| Budget { runs: Some(runs), ..Budget::default() };
    const USED: fn(i64) -> Used = |runs| Used { runs, ..Used::default() };
    const GRANTED: RequestState = RequestState::Granted { applied: false };
    const APPLIED: RequestState = RequestState::Granted { applied: true };

    fn asked(used: i64, limit: i64, more: i64) -> RequestedBudget {
        RequestedBudget { used: USED(used), limit: RUNS(limit), more: RUNS(more) }
    }

    /// A request of node `n1` at a limit of `limit` runs, all of them used, for as many again.
    fn request(state: RequestState, limit: i64) -> BudgetRequest {
        let budget = asked(limit, limit, limit);
        BudgetRequest { task: TaskId(limit), node: "n1".to_owned(), state, budget }
    }

    fn facts(
        scope: BudgetScope,
        limit: i64,
        used: i64,
        latest: Option<BudgetRequest>,
    ) -> BudgetFacts {
        let number = i64::from(latest.is_some());
        let requests = RequestLog { number, latest, ..RequestLog::default() };
        BudgetFacts { scope, limit: Some(RUNS(limit)), used: USED(used), waiting: 1, requests }
    }

    fn day(limit: i64, used: i64, latest: Option<BudgetRequest>) -> BudgetFacts {
        facts(BudgetScope::Day, limit, used, latest)
    }

    fn batch(limit: i64, used: i64, latest: Option<BudgetRequest>) -> BudgetFacts {
        facts(BudgetScope::Batch("spring".to_owned()), limit, used, latest)
    }

    fn decided(facts: &BudgetFacts) -> BudgetAction {
        decide(facts, "n1")
    }

    #[test]
    fn a_person_is_asked_once_a_budget_is_used_up_and_tasks_wait() {
        for scope in [day, batch] {
            assert_eq!(decided(&scope(2, 1, None)), BudgetAction::Wait);
            assert_eq!(decided(&scope(2, 2, None)), BudgetAction::Ask(asked(2, 2, 2)));
            assert_eq!(
                decided(&BudgetFacts { waiting: 0, ..scope(2, 2, None) }),
                BudgetAction::Wait
            );
            assert_eq!(
                decided(&scope(0, 0, None)),
                BudgetAction::Wait,
                "a limit of zero is a stop"
            );
            let open = Some(request(RequestState::Open, 2));
            assert_eq!(decided(&scope(2, 2, open)), BudgetAction::Wait);
            let closed = Some(request(RequestState::Closed, 2));
            assert_eq!(decided(&scope(2, 2, closed)), BudgetAction::Ask(asked(2, 2, 2)));
        }
    }

    #[test]
    fn a_refusal_holds_for_its_limit_however_many_requests_follow() {
        for scope in [day, batch] {
            let refused = Some(request(RequestState::Refused, 2));
            assert_eq!(decided(&scope(2, 2, refused.clone())), BudgetAction::Wait);
            assert_eq!(decided(&scope(3, 3, refused)), BudgetAction::Ask(asked(3, 3, 3)));
            let mut later = scope(2, 3, Some(request(RequestState::Refused, 3)));
            later.requests.refused = vec![RUNS(2)];
            assert_eq!(decided(&later), BudgetAction::Wait);
            assert_eq!(later.requests.refused_limits(), [RUNS(2), RUNS(3)]);
        }
        let many = RequestLog { refused: (0..99).map(RUNS).collect(), ..RequestLog::default() };
        let kept = many.refused_limits();
        assert_eq!((kept.len(), kept.last()), (limits::REFUSED_BUDGETS, Some(&RUNS(98))));
    }

    #[test]
    fn a_grant_for_a_day_adds_to_the_settings_of_the_node_that_looks() {
        let granted = Some(request(GRANTED, 2));
        assert_eq!(decided(&day(2, 3, granted.clone())), BudgetAction::Wait);
        assert_eq!(decided(&day(2, 4, granted.clone())), BudgetAction::Ask(asked(4, 4, 2)));
        assert_eq!(decided(&day(5, 6, granted.clone())), BudgetAction::Wait, "2 used and 5 more");
        // A request that was refused later does not take the grant back.
        let mut refused = day(2, 4, Some(request(RequestState::Refused, 4)));
        refused.requests.granted = granted;
        assert_eq!(decided(&refused), BudgetAction::Wait);
        refused.used = USED(3);
        assert_eq!(decided(&refused), BudgetAction::Wait);
    }

    #[test]
    fn a_grant_for_a_batch_is_applied_before_anything_else_is_asked() {
        let raise = BudgetAction::Raise {
            batch: "spring".to_owned(),
            request: TaskId(2),
            from: RUNS(2),
            to: RUNS(4),
        };
        assert_eq!(decided(&batch(2, 2, Some(request(GRANTED, 2)))), raise);
        // Somebody has changed the limit meanwhile; the store then finds that it is not `from`.
        assert_eq!(decided(&batch(3, 3, Some(request(GRANTED, 2)))), raise);
        assert_eq!(decided(&batch(4, 3, Some(request(GRANTED, 2)))), BudgetAction::Wait);
        let applied = |limit| batch(limit, limit, Some(request(APPLIED, 2)));
        assert_eq!(decided(&applied(4)), BudgetAction::Ask(asked(4, 4, 2)), "as much as before");
        assert_eq!(decided(&applied(5)), BudgetAction::Ask(asked(5, 5, 5)), "somebody set 5");
    }

    #[test]
    fn a_question_is_withdrawn_when_its_answer_would_change_nothing() {
        let open = || Some(request(RequestState::Open, 2));
        let close = BudgetAction::Close(TaskId(2));
        assert_eq!(decided(&batch(3, 2, open())), close);
        assert_eq!(decide(&batch(3, 2, open()), "n2"), close);
        assert_eq!(decided(&day(3, 2, open())), close);
        assert_eq!(decide(&day(3, 2, open()), "n2"), BudgetAction::Wait, "n1 has other settings");
        let is_over = BudgetFacts { limit: None, ..day(2, 2, open()) };
        assert_eq!(decide(&is_over, "n2"), close);
        let unasked = BudgetFacts { limit: None, ..day(2, 2, None) };
        assert_eq!(decided(&unasked), BudgetAction::Wait);
        let unneeded = BudgetFacts { waiting: 0, ..batch(2, 2, open()) };
        assert_eq!(decided(&unneeded), BudgetAction::Wait, "tasks may come");
    }

    #[test]
    fn a_damaged_request_is_named_with_its_field() {
        let lifecycle = builtin::get("budget", &Overrides::new()).unwrap().unwrap();
        let fields = asked(2, 2, 3).fields("batch:spring".to_owned(), "n1", "more?".to_owned());
        let new = NewTask { title: "more?".to_owned(), fields, ..NewTask::default() };
        let task = create(&lifecycle, &new, &Actor::system(), TaskId(7), Instant(0)).unwrap().task;
        let read = |task: &Task| BudgetRequest::read(&lifecycle, task, false);
        assert_eq!(read(&task).map(|request| request.budget), Ok(asked(2, 2, 3)));
        let with = |name: &str, value: Value| {
            let mut damaged = task.clone();
            damaged.fields.insert(name.to_owned(), value);
            let damage = read(&damaged).expect_err("it is damaged");
            (damage.task, damage.to_string())
        };
        let why =
            "its field `used` does not read: invalid type: string \"much\", expected struct Used";
        assert_eq!(with("used", json!("much")), (TaskId(7), why.to_owned()));
        let mut without = task.clone();
        without.fields.remove("more");
        let damage = read(&without).expect_err("a part is missing").to_string();
        assert_eq!(damage, "its field `more` does not read: it is missing");
    }

    #[test]
    fn the_fields_of_a_request_are_those_of_its_lifecycle() {
        let fields = asked(2, 2, 3).fields("batch:spring".to_owned(), "n1", "more?".to_owned());
        let used = json!({ "runs": 2, "tokens": 0, "cost_micros": 0, "time": Span(0) });
        let runs =
            |runs: i64| json!({ "runs": runs, "tokens": null, "cost_micros": null, "time": null });
        assert_eq!(
            Value::Object(fields),
            json!({
                "scope": "batch:spring", "node": "n1", "problem": "more?",
                "used": used, "limit": runs(2), "more": runs(3),
            })
        );
    }
}
