//! What can be done about a workflow now, for people and for agents that drive it.

use std::collections::BTreeMap;

use banksman_core::fence::fence;
use banksman_core::ids::TaskId;
use banksman_core::lifecycle::contract::{Field, Trigger};
use banksman_core::lifecycle::{Activity, StateKind, TransitionTarget};
use banksman_core::workflow::assignment::{assignment, check_findings, signal};
use banksman_core::workflow::{Gate, LaunchMode, Step};
use serde::Serialize;

use super::{ReportedOutcome, WorkflowStatus, veto_ends};
use crate::ops::rest::retried_at;
use crate::ops::suggestion::Suggestion;
use crate::store::Stored;

/// Something to do about a step now.
#[derive(Debug, Clone)]
pub struct NextAction {
    pub task: TaskId,
    pub step: String,
    pub title: String,
    pub kind: NextActionKind,
    pub what: String,
    /// The assignment for whoever does the step, if it has not started.
    pub assignment: Option<String>,
    /// What to report when it is done.
    pub report: Vec<Suggestion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextActionKind {
    /// The step has to be done.
    Do,
    /// An agent or a person has to review it.
    Review,
    /// Only a person can answer.
    Decide,
    /// Banksman is working on it.
    Wait,
}

/// What can be done now, in the order of the steps.
pub fn next(status: &WorkflowStatus) -> Vec<NextAction> {
    if status.workflow.state().terminal {
        return Vec::new();
    }
    let steps = status.steps.iter().zip(&status.flow.steps);
    let mut todos: Vec<NextAction> =
        steps.filter_map(|(stored, spec)| StepView { status, stored, spec }.action()).collect();
    if let Some(parent) = action_of_parent(status) {
        todos.insert(0, parent);
    }
    todos
}

/// What can be done about the workflow itself.
fn action_of_parent(status: &WorkflowStatus) -> Option<NextAction> {
    let parent = &status.workflow;
    let id = parent.task.id;
    let all_passed = status.steps.iter().all(|step| step.state().kind == StateKind::Done);
    let (kind, what, report) = match parent.state().kind {
        StateKind::Waiting => {
            let problem = parent.text(Field::Problem).unwrap_or("it waits for a person");
            let on = |trigger, field| Suggestion::MoveOn { task: id, trigger, field };
            let accept = all_passed.then(|| on(Trigger::Accept, None));
            let report = [on(Trigger::Resume, None)].into_iter().chain(accept);
            let report = report.chain([on(Trigger::Abort, Some(Field::Reason))]).collect();
            (NextActionKind::Decide, format!("shall it go on? {problem}"), report)
        }
        StateKind::Reviewing => {
            let what = "what its steps have made is merged; `up` does it";
            (NextActionKind::Wait, what.to_owned(), Vec::new())
        }
        StateKind::Working if all_passed => {
            (NextActionKind::Wait, "every step has passed; `up` ends it".to_owned(), Vec::new())
        }
        StateKind::Working | StateKind::Queued | StateKind::Blocked | StateKind::Parked => {
            return None;
        }
        StateKind::Done | StateKind::Failed | StateKind::Cancelled => return None,
    };
    Some(action(parent, "", (kind, what, None, report)))
}

/// A step and its workflow.
struct StepView<'a> {
    status: &'a WorkflowStatus,
    stored: &'a Stored,
    spec: &'a Step,
}

/// What to do, in words; the assignment; and what to report.
type Instruction = (NextActionKind, String, Option<String>, Vec<Suggestion>);

fn action(of: &Stored, step: &str, instruction: Instruction) -> NextAction {
    let (task, step, title) = (of.task.id, step.to_owned(), of.task.title.clone());
    let (kind, what, assignment, report) = instruction;
    NextAction { task, step, title, kind, what, assignment, report }
}

impl StepView<'_> {
    fn action(&self) -> Option<NextAction> {
        Some(action(self.stored, &self.spec.id, self.instruction()?))
    }

    fn instruction(&self) -> Option<Instruction> {
        let wait = |what: &str| Some((NextActionKind::Wait, what.to_owned(), None, Vec::new()));
        if self.stored.is_manual_step() || awaits_manual_step(self.stored) {
            return Some(self.to_do());
        }
        let by_hand = self.stored.is_driven_by_person();
        let state = self.stored.state();
        match state.does.as_ref().map(|does| does.activity) {
            Some(Activity::Human) => Some(self.to_decide()),
            Some(Activity::Panel) if by_hand => Some(self.to_review()),
            Some(Activity::Panel) => match self.spec.gate.as_ref().map(Gate::deciders) {
                Some([_, _, ..]) => wait("its reviewers judge it"),
                Some(_) | None => wait("an agent judges it"),
            },
            Some(Activity::Agent) => match retried_at(self.stored) {
                Some(at) => {
                    let retry = vec![Suggestion::Retry(self.stored.task.id)];
                    let what = format!("it is tried again at {at}, or now");
                    Some((NextActionKind::Wait, what, None, retry))
                }
                None => wait("an agent is at work"),
            },
            Some(Activity::Check) if by_hand => {
                wait("what it should leave is looked at; ask again in a moment")
            }
            Some(Activity::Check) => wait("what it should leave is looked at"),
            Some(Activity::PullRequest | Activity::Merge | Activity::Capture | Activity::Wait)
            | None => match state.kind {
                StateKind::Failed => {
                    let words = [ReportedOutcome::Retry, ReportedOutcome::Skip];
                    let report = words.map(|word| self.report(&self.spec.id, word)).into();
                    Some((NextActionKind::Decide, "it was given up".to_owned(), None, report))
                }
                StateKind::Blocked => wait("its gate failed; `up` leads the work back"),
                StateKind::Queued if self.stored.task.open_needs > 0 => None,
                StateKind::Queued if self.status.workflow.state().kind == StateKind::Waiting => {
                    wait("nothing is begun before the workflow goes on")
                }
                StateKind::Queued => wait("it waits for an agent; `up` starts it"),
                StateKind::Working | StateKind::Reviewing | StateKind::Waiting => None,
                StateKind::Parked | StateKind::Done | StateKind::Cancelled => None,
            },
        }
    }

    fn to_do(&self) -> Instruction {
        let signal = signal(&self.spec.signal);
        let between = if signal.is_empty() { "" } else { "\n" };
        let found = check_findings(self.stored.text(Field::Diagnostic).unwrap_or_default());
        let words = format!("{}{found}{between}{signal}\n", self.assignment());
        let report = vec![self.report(&self.spec.id, ReportedOutcome::Done)];
        let place = self.status.places.get(&self.stored.task.id);
        let place = place.map(|place| format!("; {place}")).unwrap_or_default();
        let what = format!("{}{place}", launch_words(self.spec));
        (NextActionKind::Do, what, Some(words), report)
    }

    fn to_decide(&self) -> Instruction {
        if let Some(at) = veto_ends(self.stored) {
            let what = format!(
                "an agent let it pass; a person may say no until {at}, then it goes on by itself"
            );
            let report = self.verdicts(ReportedOutcome::Veto, false);
            return (NextActionKind::Decide, what, None, report);
        }
        // The reviewers' words follow on more lines, and are shown elsewhere.
        let why = self.stored.text(Field::Diagnostic).and_then(|why| why.lines().next());
        let why = why.map(|why| format!(" ({why})"));
        let what = format!("does it pass? Only a person can say{}", why.unwrap_or_default());
        let report = self.verdicts(ReportedOutcome::Fail, false);
        let said = [Field::Feedback, Field::ReviewSummary];
        let newest = said.into_iter().find_map(|field| self.stored.text(field));
        let newest = newest.map(|said| format!("\nThe newest verdict:\n\n{}\n", fence(said)));
        let words = format!("{}{}", self.assignment(), newest.unwrap_or_default());
        (NextActionKind::Decide, what, Some(words), report)
    }

    fn to_review(&self) -> Instruction {
        let reviewers = self.spec.gate.as_ref().map_or(&[][..], |gate| &gate.reviewers);
        let what = match reviewers {
            [] => "judge it".to_owned(),
            [one] => format!("judge it as its {one}"),
            several => format!("judge it as each of its {}", several.join(", ")),
        };
        let report = self.verdicts(ReportedOutcome::Fail, true);
        (NextActionKind::Review, what, Some(self.assignment()), report)
    }

    fn assignment(&self) -> String {
        let retry_context = self.stored.text(Field::RetryContext).unwrap_or_default();
        assignment(&self.status.flow, self.spec, retry_context)
    }

    fn gate(&self) -> &str {
        self.spec.gate.as_ref().map_or(&self.spec.id, |gate| &gate.id)
    }

    /// To let it pass, or not.
    fn verdicts(&self, no: ReportedOutcome, as_reviewer: bool) -> Vec<Suggestion> {
        let report = |word| self.report_as(self.gate(), word, as_reviewer);
        vec![report(ReportedOutcome::Pass), report(no)]
    }

    fn report(&self, step: &str, word: ReportedOutcome) -> Suggestion {
        self.report_as(step, word, false)
    }

    /// Other workflows may have a step with the same id, so this one is named.
    fn report_as(&self, step: &str, word: ReportedOutcome, as_reviewer: bool) -> Suggestion {
        let (step, workflow) = (step.to_owned(), self.status.workflow.task.id);
        Suggestion::ReportStep { step, word, as_reviewer, workflow }
    }
}

/// Whether a person may start it before Banksman has prepared it.
pub(super) fn awaits_manual_step(stored: &Stored) -> bool {
    stored.state().kind == StateKind::Queued
        && stored.task.open_needs == 0
        && stored.text(Field::Launch) == Some(LaunchMode::Interactive.as_str())
}

fn launch_words(spec: &Step) -> String {
    match spec.launch {
        LaunchMode::Subagent => format!("give it to a {} of your own", spec.role),
        LaunchMode::Headless | LaunchMode::Interactive => format!("do it as its {}", spec.role),
    }
}

/// Whether something will happen without a person.
pub fn is_moving(parent: &Stored, steps: &BTreeMap<TaskId, Stored>) -> bool {
    let by_itself = |stored: &Stored| {
        let state = stored.state();
        match state.kind {
            StateKind::Queued => stored.task.open_needs == 0,
            StateKind::Working | StateKind::Reviewing | StateKind::Blocked => true,
            // A timeout may mean consent, as in a veto window. If it only fails the step, the
            // workflow waits for a person.
            StateKind::Waiting | StateKind::Parked => {
                let mut bounds =
                    stored.lifecycle.exits(stored.task.state).filter(|row| row.timeout.is_some());
                bounds.any(|row| matches!(row.to, TransitionTarget::State(to) if stored.lifecycle.state(to).kind == StateKind::Done))
            }
            StateKind::Done | StateKind::Failed | StateKind::Cancelled => false,
        }
    };
    match parent.state().kind {
        StateKind::Working => {
            let over = steps.values().all(|step| step.state().kind == StateKind::Done);
            over || steps.values().any(by_itself)
        }
        StateKind::Queued | StateKind::Reviewing => true,
        StateKind::Waiting | StateKind::Blocked | StateKind::Parked => false,
        StateKind::Done | StateKind::Failed | StateKind::Cancelled => false,
    }
}
