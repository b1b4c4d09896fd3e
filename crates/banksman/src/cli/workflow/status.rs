//! `banksman workflow status`: shows the progress of a workflow and what it waits for.

use banksman_core::lifecycle::StateKind;
use banksman_core::lifecycle::contract::{CounterName, Field};
use clap::Args;

use super::{WhichArgs, project_here, standing};
use crate::api;
use crate::api::workflow::{ListedWorkflow, Workflow};
use crate::cli::output::{cells, sanitize, table};
use crate::cli::symbols::{first_line, format_cost, local, local_time, state_cell};
use crate::cli::{Context, Exit, Result};
use crate::ops::Session;
use crate::ops::panels::{PendingReview, ReviewerStatus};
use crate::ops::rest::retried_at;
use crate::ops::workflows::{self, WorkflowStatus};
use crate::store::Stored;
use crate::store::runs::PastRun;

/// How many steps are shown one by one.
const ROWS: usize = 40;

/// Show the progress of a workflow
///
/// If a workflow has more than 40 steps, it shows those that are active or need somebody, and
/// counts the others.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow status
  banksman workflow status phase-4-search-index
  banksman workflow status --full     show every step
  banksman workflow status --all      list the workflows of this project
")]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// List the workflows of this project
    #[arg(long, conflicts_with = "workflow")]
    all: bool,
    /// Show every step
    #[arg(long, conflicts_with = "all")]
    full: bool,
}

/// How much of a workflow is printed; --json has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only the active steps of a large workflow; the others are counted.
    Folded,
    Full,
}

pub(super) fn run(context: &Context, args: &StatusArgs) -> Result<Exit> {
    let session = context.session()?;
    if args.all {
        return all(context, &session);
    }
    let standing = standing(context, &session, args.which.workflow.as_deref())?;
    let extent = if args.full { Extent::Full } else { Extent::Folded };
    context.out.answer(|| Workflow::new(&standing), || render(context, &standing, extent))?;
    let id = standing.workflow.task.id;
    let (next, graph) = (format!("workflow next {id}"), format!("workflow graph {id}"));
    Ok(match standing.workflow.state().terminal {
        true => context.out.next(&[&graph]),
        false => context.out.next(&[&next, &graph]),
    })
}

fn all(context: &Context, session: &Session) -> Result<Exit> {
    let project = project_here(context, session)?;
    let found = workflows::recent(session, project.as_deref())?;
    let row = |stored: &Stored| {
        let (task, state) = (&stored.task, state_cell(stored.state()));
        let name = stored.text(Field::Workflow).unwrap_or_default();
        cells([&task.id, &name, &state, &local(task.created_at), &task.title])
    };
    context.out.answer(
        || api::list("workflows", found.iter().map(ListedWorkflow::new)),
        || table(["TASK", "WORKFLOW", "STATE", "STARTED", "NAME"], found.iter().map(row)),
    )
}

fn reviews_of<'s>(standing: &'s WorkflowStatus, step: &Stored) -> &'s [PendingReview] {
    standing.reviews.get(&step.task.id).map_or(&[], Vec::as_slice)
}

fn failed_of<'s>(standing: &'s WorkflowStatus, step: &Stored) -> &'s [PastRun] {
    standing.failed.get(&step.task.id).map_or(&[], Vec::as_slice)
}

/// What a reviewer is doing, in a few words.
fn review_summary(review: &PendingReview) -> String {
    let PendingReview { task, reviewer, missed, .. } = review;
    let missed = missed.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match review.doing {
        ReviewerStatus::Reading { run, .. } if missed.is_empty() => {
            format!("{reviewer} is reviewing ({run})")
        }
        ReviewerStatus::Reading { run, .. } => {
            format!("{reviewer} is reviewing again ({run}){missed}")
        }
        ReviewerStatus::Resting { until } => {
            let at = until.map(|until| format!(" {}", local_time(until))).unwrap_or_default();
            format!("{reviewer} will be asked again{at}{missed}")
        }
        ReviewerStatus::Queued => format!("{reviewer} waits for a worker ({task}){missed}"),
    }
}

fn is_done(stored: &Stored) -> bool {
    stored.state().kind == StateKind::Done
}

/// A workflow and its steps as text.
pub(super) fn render(context: &Context, standing: &WorkflowStatus, extent: Extent) -> String {
    let symbols = context.out.symbols;
    let row = |stored: &Stored| {
        let state = stored.state();
        let reviews: Vec<String> =
            reviews_of(standing, stored).iter().map(review_summary).collect();
        let told = [Field::Reason, Field::Diagnostic, Field::Feedback];
        let again = retried_at(stored);
        let again = again.map(|at| format!("retry at {}", local_time(at)));
        let failed = failed_of(standing, stored).last().map(PastRun::failure_line);
        let again = again.map(|at| match &failed {
            Some(failed) => format!("{at}; {failed}"),
            None => at,
        });
        let why = match (reviews.is_empty(), workflows::veto_ends(stored)) {
            (_, Some(at)) => Some(format!("continues at {} unless you veto it", local_time(at))),
            (true, None) => {
                let told = told.into_iter().find_map(|field| stored.text(field));
                let place = standing.places.get(&stored.task.id).map(ToString::to_string);
                again.or(told.map(str::to_owned)).or(place).or(failed)
            }
            (false, None) => Some(reviews.join("; ")),
        };
        cells([
            &symbols.symbol_cell(state.kind),
            &stored.task.id,
            &stored.task.title,
            &state_cell(state),
            &stored.task.spent.runs,
            &stored.count(CounterName::Rounds),
            &first_line(&why.unwrap_or_default()),
        ])
    };
    let (shown_steps, folded) = match extent {
        Extent::Folded if standing.steps.len() > ROWS => fold(&standing.steps),
        Extent::Folded | Extent::Full => (standing.steps.iter().collect(), Vec::new()),
    };
    let header = ["", "TASK", "STEP", "STATE", "RUNS", "FAILED", "WHY"];
    let steps = match shown_steps.is_empty() {
        true => String::new(),
        false => table(header, shown_steps.into_iter().map(row)),
    };
    format!("{}\n{steps}{}", head(context, standing), hidden_summary(&standing.workflow, &folded))
}

fn head(context: &Context, standing: &WorkflowStatus) -> String {
    let workflow = &standing.workflow;
    let done = standing.steps.iter().filter(|step| is_done(step)).count();
    // The reason of the end is more useful than the earlier problem.
    let why = workflow.text(Field::Reason).or_else(|| workflow.text(Field::Problem));
    let why = why.map(|why| format!(": {}", sanitize(why)));
    let cost = Some(format_cost(standing.cost_micros)).filter(|cost| !cost.is_empty());
    format!(
        "{} {}  {}  {}{}  ({done} of {} steps{})",
        context.out.symbols.of(workflow.state().kind),
        workflow.task.id,
        sanitize(&standing.flow.name),
        workflow.state().name,
        why.unwrap_or_default(),
        standing.steps.len(),
        cost.map(|cost| format!(", {cost}")).unwrap_or_default(),
    )
}

/// The steps that are active or need somebody, up to a limit, and the others.
fn fold(steps: &[Stored]) -> (Vec<&Stored>, Vec<&Stored>) {
    let is_live = |stored: &&Stored| match stored.state().kind {
        StateKind::Working | StateKind::Reviewing | StateKind::Waiting => true,
        StateKind::Blocked | StateKind::Parked | StateKind::Failed => true,
        StateKind::Queued | StateKind::Done | StateKind::Cancelled => false,
    };
    let (mut live, mut others): (Vec<&Stored>, Vec<&Stored>) = steps.iter().partition(is_live);
    others.extend(live.split_off(live.len().min(ROWS)));
    (live, others)
}

/// Counts the steps that are not shown, by state.
fn hidden_summary(workflow: &Stored, folded: &[&Stored]) -> String {
    if folded.is_empty() {
        return String::new();
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for stored in folded {
        let name = stored.state().name.as_str();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let can_start =
        |stored: &&&Stored| stored.state().kind == StateKind::Queued && stored.task.open_needs == 0;
    let ready = folded.iter().filter(can_start).count();
    let counts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let ready = if ready == 0 { String::new() } else { format!(" ({ready} can start)") };
    format!(
        "not shown: {}{ready}; show all: banksman workflow status {} --full\n",
        counts.join(", "),
        workflow.task.id
    )
}
