//! The prompt of a reviewer and the schema of its answer: about a task, or about the step of a
//! workflow at its gate. In the first pass no reviewer sees the verdicts of others; in a debate
//! each sees all of them.

use banksman_core::fence::fence;
use banksman_core::lifecycle::contract::{AgentRole, Field};
use banksman_core::lifecycle::expr::{Fields, Value};
use banksman_core::panel::fields::{self, CONCERN, SUGGESTIONS};
use banksman_core::panel::summary::transcript;
use banksman_core::prompt::PromptSection;
use banksman_core::workflow::Gate;

use super::roster::is_about_plan;
use crate::engine::assignment::ReviewContext;
use crate::engine::prompt::{RenderedPrompt, item_body, parts_of_step, render, written};
use crate::exec::agent::schema::with_choice;
use crate::prompts::{PromptError, Prompts, built_in};
use crate::store::Stored;

/// The templates of the first pass and of a debate.
const REVIEWER: &str = AgentRole::Reviewer.as_str();
const DEBATE: &str = "debate";
/// The template of the first pass about a plan.
const PLAN_REVIEWER: &str = "plan-reviewer";
/// The template for the work: of a task, or of a step at its gate.
const TASK: &str = "task";
const GATE: &str = "gate";

/// The fields of a task under review, in bytes.
const RECORD_BYTES: usize = 16_000;
/// Fields of earlier panels, which a reviewer does not see: its first verdict is its own.
const SAID_BY_PANELS: [Field; 3] = [Field::Verdicts, Field::Concerns, Field::ReviewSummary];
/// Fields with what reviewers and people wanted changed before, which the work must answer.
const DEMANDS: [Field; 5] =
    [Field::Demands, Field::Feedback, Field::PrComments, Field::Objection, Field::Error];

/// The words that depend on whether there are other reviewers.
struct Company {
    who: &'static str,
    others: &'static str,
    concern: &'static str,
}

const ALONE: Company = Company {
    who: "the reviewer",
    others: "",
    concern: "if something should be different and a person should decide whether that matters",
};
const AMONG_OTHERS: Company = Company {
    who: "one of several reviewers",
    others: ", the others review it at the same time, and you do not know what they say",
    concern: "if something should be different and you want to talk about it with the others",
};

pub(in crate::engine) fn for_review(
    prompts: &Prompts,
    review: &ReviewContext,
    base: &str,
) -> Result<RenderedPrompt, PromptError> {
    let panel = &review.panel;
    let gate = review.gate.as_deref();
    let shipped = built_in(if gate.is_some() { GATE } else { TASK });
    let (block, _) = prompts.template(shipped.expect("it ships with the program"))?;
    let of_work = gate.map_or_else(|| parts_of_task(&review.parent), parts_of_step);
    let length = of_work.len();
    let mut parts = vec![PromptSection::new("what you look for", &review.brief)];
    parts.extend(of_work);
    // A plan is reviewed before anything is built; afterwards the work is.
    let is_plan = gate.is_none() && is_about_plan(&review.parent);
    let mut template = if is_plan { PLAN_REVIEWER } else { REVIEWER };
    if review.round > 0 {
        template = DEBATE;
        let is_own = |name: &str| name == review.reviewer;
        parts.push(PromptSection::new("what you said", transcript(panel, is_own)));
        parts.push(PromptSection::new("what all reviewers said", transcript(panel, |_| true)));
    }
    render(prompts, template, &parts, |texts| {
        let [brief, rest @ ..] = texts else { return Vec::new() };
        let (work, debate) = rest.split_at(length);
        let work = match gate {
            Some(step) => block.fill(&[("assignment", written(step, work))]),
            None => block.fill(&values_of_task(&review.parent, work)),
        };
        let mut values = setting(review);
        values.extend([("brief", brief.clone()), ("base", base.to_owned()), ("work", work)]);
        let transcripts = ["own", "others"].into_iter().zip(debate);
        values.extend(transcripts.map(|(name, text)| (name, fence(text))));
        values
    })
}

/// The values that name the reviewer, the place and the other reviewers.
fn setting(review: &ReviewContext) -> Vec<(&'static str, String)> {
    let company = if review.panel.assignments.len() > 1 { AMONG_OTHERS } else { ALONE };
    let spec = review.gate.as_deref().and_then(|step| step.step.spec.gate.as_ref());
    let place = match spec {
        Some(spec) => format!("at the gate {} between two steps of a workflow", spec.id),
        None => format!("of task {}", review.parent.task.id),
    };
    vec![
        ("reviewer", review.reviewer.clone()),
        ("who", company.who.to_owned()),
        ("place", place),
        ("company", company.others.to_owned()),
        ("concern", company.concern.to_owned()),
        ("reason", spec.map(reason).unwrap_or_default()),
        ("round", review.round.to_string()),
        ("rounds", review.panel.max_rounds.to_string()),
    ]
}

/// The texts of a task that may be long, in the order in which [`values_of_task`] takes them back.
fn parts_of_task(parent: &Stored) -> Vec<PromptSection<'_>> {
    let task = &parent.task;
    vec![
        PromptSection::new("the title of the task", &task.title),
        PromptSection::new("the text of the task", item_body(task)),
        PromptSection::new("what is on record about the task", fields(&task.fields))
            .at_most(RECORD_BYTES),
        PromptSection::new("what had to change", demands(&task.fields)).at_most(RECORD_BYTES),
    ]
}

/// What an earlier panel or a person wanted changed; empty if nothing was.
fn demands(fields: &Fields) -> String {
    let texts = DEMANDS.iter().filter_map(|field| fields.get(field.name())?.as_str());
    let mut shown: Vec<&str> = Vec::new();
    for text in texts.map(str::trim).filter(|text| !text.is_empty()) {
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    shown.join("\n\n")
}

fn values_of_task(parent: &Stored, texts: &[String]) -> Vec<(&'static str, String)> {
    let state = parent.state();
    let [title, body, record, demands] = texts else { return Vec::new() };
    let mut record = fence(record);
    if !demands.is_empty() {
        let heading = "Reviewers or people wanted this changed; find out whether it was:";
        record = format!("{record}\n\n{heading}\n\n{}", fence(demands));
    }
    vec![
        ("state", state.name.clone()),
        ("about", state.about.clone()),
        ("title", fence(title)),
        ("body", fence(body)),
        ("record", record),
    ]
}

/// The line about the reasons that choose where the work goes back to, if the gate has any.
fn reason(gate: &Gate) -> String {
    let reasons: Vec<&str> = gate.reasons().collect();
    if reasons.is_empty() {
        return String::new();
    }
    let words = "why you block it, which decides where the work goes back to: the one of these that fits best, or empty";
    format!("- `reason`: {words}: {}.\n", reasons.join(", "))
}

fn fields(fields: &Fields) -> String {
    let shown: Fields = fields
        .iter()
        .filter(|(name, _)| {
            let mut others = SAID_BY_PANELS.iter().chain(&DEMANDS);
            !others.any(|field| field.name() == name.as_str())
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if shown.is_empty() {
        return "(Nothing.)".to_owned();
    }
    format!("{:#}", Value::Object(shown))
}

/// Open concerns and suggestions of a task's last panel, for the next agent, without texts that it
/// gets anyway. A panel that lets the work pass sends no feedback, so its suggestions arrive only
/// this way.
pub(in crate::engine) fn advice(fields: &Fields, known: &[&str]) -> String {
    let list =
        |field: Field| fields.get(field.name()).and_then(Value::as_array).into_iter().flatten();
    let who = |entry: &Value| entry[fields::REVIEWER].as_str().unwrap_or(REVIEWER).to_owned();
    let concerns = list(Field::Concerns)
        .filter_map(|entry| Some((who(entry), "is concerned", entry[CONCERN].as_str()?)));
    let suggestions = list(Field::Verdicts).flat_map(|entry| {
        let texts = entry[SUGGESTIONS].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(move |text| (who(entry), "suggests", text))
    });
    let is_new = |text: &str| !known.iter().any(|other| other.contains(text));
    let all = concerns.chain(suggestions).filter(|(_, _, text)| is_new(text));
    all.map(|(who, says, text)| format!("{who} {says}: {text}\n")).collect()
}

/// The schema of the answer. For a gate with reasons it asks for one of them, so that none has to
/// be guessed.
pub(in crate::engine) fn schema(review: &ReviewContext) -> Value {
    let template = if review.round > 0 { DEBATE } else { REVIEWER };
    let schema = built_in(template).and_then(|shipped| shipped.schema);
    let shape = schema.expect("it ships with the program").value();
    let gate = review.gate.as_deref().filter(|_| review.round == 0);
    let gate = gate.and_then(|step| step.step.spec.gate.as_ref());
    let reasons: Vec<&str> = gate.iter().flat_map(|gate| gate.reasons()).collect();
    if reasons.is_empty() {
        return shape;
    }
    with_choice(shape, Field::Reason.name(), &[&[""], reasons.as_slice()].concat())
}
