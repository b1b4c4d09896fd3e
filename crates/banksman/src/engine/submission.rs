//! What the agent of an assigned task hands in: first its work plan, then the deliverable with the
//! checklist of its own review. Whether that suffices is up to the lifecycle.

use banksman_core::failure::Deliverable;
use banksman_core::lifecycle::Activity;
use banksman_core::lifecycle::contract::Field;
use banksman_core::lifecycle::expr::{Fields, Value, value_of};
use serde::Serialize;

use crate::prompts::{BuiltInTemplate, built_in};
use crate::store::Stored;

/// The answer that a run owes, by a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Submission {
    WorkPlan,
    Delivery,
}

/// The field `deliverable`.
#[derive(Serialize)]
struct Delivered<'a> {
    content: &'a Value,
    artifacts: Vec<Value>,
}

/// The commits of a deliverable.
#[derive(Serialize)]
struct CommittedWork<'a> {
    work: &'a str,
    commit: &'a str,
}

/// The field `reviewChecklist`.
#[derive(Serialize)]
struct ReviewChecklist<'a> {
    r#type: &'static str,
    items: &'a Value,
}

impl Submission {
    /// What a run in the task's state owes, if its lifecycle has fields for it.
    pub(super) fn of(stored: &Stored) -> Option<Self> {
        let state = stored.state();
        let does = state.does.as_ref().filter(|does| does.activity == Activity::Agent)?;
        let has = |field| stored.lifecycle.has_field(field);
        match does.produces {
            Deliverable::Answer if state.plans() => None,
            Deliverable::Answer => has(Field::WorkPlan).then_some(Self::WorkPlan),
            Deliverable::Change | Deliverable::Anything => {
                has(Field::Deliverable).then_some(Self::Delivery)
            }
        }
    }

    pub(super) fn template(self) -> Option<&'static BuiltInTemplate> {
        built_in(match self {
            Self::WorkPlan => "work-plan",
            Self::Delivery => "delivery",
        })
    }

    /// The answer as the fields that it fills. `work` is the branch and the commit of the run, if
    /// it has one.
    pub(super) fn fields(
        self,
        stored: &Stored,
        answer: &Value,
        work: Option<(&str, &str)>,
    ) -> Fields {
        let fields = match self {
            Self::WorkPlan => vec![(Field::WorkPlan, answer.clone())],
            Self::Delivery => {
                let named = answer["artifacts"].as_array().into_iter().flatten();
                let commit = work.map(|(work, commit)| value_of(&CommittedWork { work, commit }));
                let artifacts = named.cloned().chain(commit).collect();
                let (content, items) = (&answer["content"], &answer["checklist"]);
                let checklist = ReviewChecklist { r#type: "self-review", items };
                vec![
                    (Field::Deliverable, value_of(&Delivered { content, artifacts })),
                    (Field::ReviewChecklist, value_of(&checklist)),
                ]
            }
        };
        let known = fields.into_iter().filter(|(field, _)| stored.lifecycle.has_field(*field));
        known.map(|(field, value)| stored.entry(field, value)).collect()
    }
}

/// The work plan in words, for the agent that follows it; empty if there is none.
pub(super) fn work_plan(stored: &Stored) -> String {
    let plan = stored.value(Field::WorkPlan).filter(|_| Submission::of(stored).is_some());
    let bullets = plan.and_then(|plan| plan["bullets"].as_array()).into_iter().flatten();
    let lines: String =
        bullets.filter_map(Value::as_str).map(|bullet| format!("- {bullet}\n")).collect();
    if lines.is_empty() { lines } else { format!("The work plan:\n{lines}") }
}
