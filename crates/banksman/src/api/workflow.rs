//! Workflows as JSON: their progress, what to do next, checks and simulations.

use banksman_core::lifecycle::contract::{CounterName, Field};
use banksman_core::lifecycle::{Outcome, StateKind};
use banksman_core::time::Instant;
use banksman_core::workflow as spec;
use banksman_core::workflow::simulate::{
    self, Estimate, SimulationEnd, SimulationEvent, WorstCase,
};

use crate::ops::panels::{PendingReview, ReviewerStatus};
use crate::ops::suggestion::Suggestion;
use crate::ops::workflows::{NextAction, NextActionKind, Simulated, WorkflowStatus};
use crate::store::Stored;
use crate::store::runs::PastRun;

documents! {
    /// A workflow in the list of all.
    ListedWorkflow<'a>(stored: &'a Stored) {
        created_at: Instant = stored.task.created_at,
        id: String = stored.task.id.to_string(),
        state: &'a str = &stored.state().name,
        title: &'a str = &stored.task.title,
        workflow: Option<&'a str> = stored.text(Field::Workflow),
    }

    /// A workflow and its steps.
    Workflow<'a>(standing: &'a WorkflowStatus) {
        cost_micros: i64 = standing.cost_micros,
        done: usize =
            standing.steps.iter().filter(|step| step.state().kind == StateKind::Done).count(),
        id: String = standing.workflow.task.id.to_string(),
        name: &'a str = &standing.flow.name,
        problem: Option<&'a str> = standing.workflow.text(Field::Problem),
        state: &'a str = &standing.workflow.state().name,
        steps: Vec<Step<'a>> = steps(standing),
        workflow: &'a str = &standing.flow.id,
    }

    Step<'a>(
        stored: &'a Stored,
        pending: &'a [PendingReview],
        failed: &'a [PastRun],
        spec: Option<&'a spec::Step>,
        at_gate: Option<&'a spec::Gate>
    ) {
        attempts: i64 = stored.task.spent.runs,
        diagnostic: Option<&'a str> = stored.text(Field::Diagnostic),
        failed_attempts: Vec<FailedAttempt<'a>> = failed.iter().map(FailedAttempt::new).collect(),
        failures: u32 = stored.count(CounterName::Rounds),
        feedback: Option<&'a str> = stored.text(Field::Feedback),
        gate: Option<&'a str> = at_gate.map(|gate| gate.id.as_str()),
        id: String = stored.task.id.to_string(),
        kind: StateKind = stored.state().kind,
        level: Option<&'static str> = at_gate.map(|gate| gate.level.as_str()),
        name: Option<&'a str> = spec.map(|spec| spec.name.as_str()),
        open_needs: i64 = stored.task.open_needs,
        reviewers: Option<&'a [String]> = at_gate.map(spec::Gate::deciders),
        reviews: Vec<Review<'a>> = pending.iter().map(Review::new).collect(),
        role: Option<&'a str> = spec.map(|spec| spec.role.as_str()),
        state: &'a str = &stored.state().name,
        step: Option<&'a str> = stored.text(Field::Step),
    }

    FailedAttempt<'a>(run: &'a PastRun) {
        attempt: i64 = run.epoch,
        detail: Option<&'a str> = run.detail.as_deref(),
        ended_at: Option<Instant> = run.ended_at,
        outcome: Option<&'static str> = run.outcome.map(Outcome::as_str),
    }

    Review<'a>(review: &'a PendingReview) {
        doing: &'static str = match review.doing {
            ReviewerStatus::Reading { .. } => "reading",
            ReviewerStatus::Resting { .. } => "waiting_to_retry",
            ReviewerStatus::Queued => "queued",
        },
        missed: Option<&'a str> = review.missed.as_deref(),
        reviewer: &'a str = &review.reviewer,
        run: Option<String> = match review.doing {
            ReviewerStatus::Reading { run, .. } => Some(run.to_string()),
            ReviewerStatus::Resting { .. } | ReviewerStatus::Queued => None,
        },
        task: String = review.task.to_string(),
        until: Option<Instant> = match review.doing {
            ReviewerStatus::Reading { until, .. } | ReviewerStatus::Resting { until } => until,
            ReviewerStatus::Queued => None,
        },
    }

    /// What to do about a workflow now, with suggestions as the surface phrases them.
    Next<'a>(task: &'a Stored, actions: &'a [NextAction], phrase: fn(&Suggestion) -> String) {
        next: Vec<Action<'a>> =
            actions.iter().map(|action| Action::new(action, phrase)).collect(),
        over: bool = task.state().terminal,
        state: &'a str = &task.state().name,
        workflow: String = task.task.id.to_string(),
    }

    Action<'a>(action: &'a NextAction, phrase: fn(&Suggestion) -> String) {
        assignment: Option<&'a str> = action.assignment.as_deref(),
        kind: NextActionKind = action.kind,
        report: Vec<String> = action.report.iter().map(phrase).collect(),
        step: &'a str = &action.step,
        task: String = action.task.to_string(),
        title: &'a str = &action.title,
        what: &'a str = &action.what,
    }

    Simulation<'a>(flow: &'a spec::Workflow, simulated: &'a Simulated) {
        cost: Costs<'a> = Costs::new(simulated, &simulated.estimate),
        walk: Walk<'a> = Walk::new(&simulated.walk),
        workflow: &'a str = &flow.id,
        worst: Worst = Worst::new(&simulated.worst),
    }

    Costs<'a>(simulated: &'a Simulated, estimate: &'a Estimate) {
        best: Cost = Cost::new(&estimate.best),
        past_runs: i64 = simulated.past_runs,
        unknown_roles: &'a [String] = &estimate.unknown_roles,
        unpriced_roles: &'a [String] = &simulated.unpriced_roles,
        walk: Option<Cost> = estimate.walk.as_ref().map(Cost::new),
        worst: Cost = Cost::new(&estimate.worst),
    }

    Cost(cost: &simulate::Cost) {
        cost_micros: i64 = cost.micros,
        known: usize = cost.known,
        seconds: i64 = cost.seconds,
        unknown: usize = cost.unknown,
    }

    Walk<'a>(walk: &'a simulate::Simulation) {
        asked: usize = walk.person,
        ended: SimulationEnd = walk.ended,
        events: &'a [SimulationEvent] = &walk.events,
        reviews: usize = walk.reviews,
        rounds: usize = walk.longest,
        runs: usize = walk.runs,
    }

    Worst(worst: &WorstCase) {
        breaker: bool = worst.breaker,
        failures: usize = worst.failures,
        reviews: usize = worst.reviews,
        runs: usize = worst.runs,
    }
}

fn steps(standing: &WorkflowStatus) -> Vec<Step<'_>> {
    let steps = standing.steps.iter().map(|stored| {
        let reviews = standing.reviews.get(&stored.task.id).map_or(&[][..], Vec::as_slice);
        let mut specs = standing.flow.steps.iter();
        let spec = specs.find(|spec| stored.text(Field::Step) == Some(&spec.id));
        let failed = standing.failed.get(&stored.task.id).map_or(&[][..], Vec::as_slice);
        Step::new(stored, reviews, failed, spec, spec.and_then(|spec| spec.gate.as_ref()))
    });
    steps.collect()
}
