//! What a reviewer is told and in which shape it answers: about a task as it stands, or about the
//! step of a workflow at its gate. In the first pass nobody hears a word of the others, in a debate
//! everybody hears all of them.

use banksman_core::fence::fence;
use banksman_core::panel::fields::{self, CONCERN, CONCERNS, SUGGESTIONS, SUMMARY, VERDICTS};
use banksman_core::panel::summary::transcript;
use banksman_core::prompt::PromptSection;
use banksman_core::workflow::Gate;
use serde_json::{Map, Value, json};

use crate::engine::assignment::ReviewContext;
use crate::engine::prompt::{RenderedPrompt, body_of, parts_of_step, tell, written};
use crate::prompts::{PromptError, Prompts, built_in};
use crate::store::Stored;

/// The templates of the first pass and of a debate.
const REVIEWER: &str = "reviewer";
const DEBATE: &str = "debate";
/// What is judged: a task, or a step at its gate.
const TASK: &str = "task";
const GATE: &str = "gate";

/// Of what is on record about a task under review, in bytes.
const RECORD_BYTES: usize = 16_000;
/// What panels have said before: a reviewer's first word is its own.
const SAID_BY_PANELS: [&str; 3] = [VERDICTS, CONCERNS, SUMMARY];

/// What changes in the words if there are others.
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
    let mut template = REVIEWER;
    if review.round > 0 {
        template = DEBATE;
        let is_own = |name: &str| name == review.reviewer;
        parts.push(PromptSection::new("what you said", transcript(panel, is_own)));
        parts.push(PromptSection::new("what all reviewers said", transcript(panel, |_| true)));
    }
    tell(prompts, template, &parts, |texts| {
        let [brief, rest @ ..] = texts else { return Vec::new() };
        let (work, debate) = rest.split_at(length);
        let work = match gate {
            Some(step) => block.fill(&[("assignment", written(step, work))]),
            None => block.fill(&values_of_task(&review.parent, work)),
        };
        let mut values = setting(review);
        values.extend([("brief", brief.clone()), ("base", base.to_owned()), ("work", work)]);
        let said = ["own", "others"].into_iter().zip(debate);
        values.extend(said.map(|(name, text)| (name, fence(text))));
        values
    })
}

/// Who is asked by whom, in whose company.
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
        PromptSection::new("the text of the task", body_of(task)),
        PromptSection::new("what is on record about the task", on_record(&task.fields))
            .at_most(RECORD_BYTES),
    ]
}

fn values_of_task(parent: &Stored, texts: &[String]) -> Vec<(&'static str, String)> {
    let state = parent.state();
    let texts = ["title", "body", "record"].into_iter().zip(texts);
    let mut values = vec![("state", state.name.clone()), ("about", state.about.clone())];
    values.extend(texts.map(|(name, text)| (name, fence(text))));
    values
}

/// The line on the reasons that have a way back of their own, where the gate has any.
fn reason(gate: &Gate) -> String {
    let reasons: Vec<&str> = gate.reasons().collect();
    if reasons.is_empty() {
        return String::new();
    }
    let words = "why you block it, which decides where the work goes back to: the one of these that fits best, or empty";
    format!("- `reason`: {words}: {}.\n", reasons.join(", "))
}

fn on_record(fields: &Map<String, Value>) -> String {
    let shown: Map<String, Value> = fields
        .iter()
        .filter(|(name, _)| !SAID_BY_PANELS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if shown.is_empty() {
        return "(Nothing.)".to_owned();
    }
    format!("{:#}", Value::Object(shown))
}

/// What the last panel of a task has left open or suggested, for whoever works next; without what
/// it is told anyway. A panel that lets the work pass sends it nowhere with feedback, so this is
/// the only way by which its words arrive.
pub(in crate::engine) fn advice(fields: &Map<String, Value>, told: &[&str]) -> String {
    let list = |name: &str| fields.get(name).and_then(Value::as_array).into_iter().flatten();
    let who = |said: &Value| said[fields::REVIEWER].as_str().unwrap_or(REVIEWER).to_owned();
    let concerns = list(CONCERNS)
        .filter_map(|said| Some((who(said), "is concerned", said[CONCERN].as_str()?)));
    let suggestions = list(VERDICTS).flat_map(|said| {
        let texts = said[SUGGESTIONS].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(move |text| (who(said), "suggests", text))
    });
    let is_new = |text: &str| !told.iter().any(|other| other.contains(text));
    let all = concerns.chain(suggestions).filter(|(_, _, text)| is_new(text));
    all.map(|(who, says, text)| format!("{who} {says}: {text}\n")).collect()
}

/// The shape of the answer. A gate whose ways back go by reasons is told one of them, so that none
/// has to be guessed.
pub(in crate::engine) fn schema(review: &ReviewContext) -> Value {
    let template = if review.round > 0 { DEBATE } else { REVIEWER };
    let schema = built_in(template).and_then(|shipped| shipped.schema);
    let mut shape = schema.expect("it ships with the program").value();
    if review.round > 0 {
        return shape;
    }
    let gate = review.gate.as_deref().and_then(|step| step.step.spec.gate.as_ref());
    let reasons: Vec<&str> = gate.iter().flat_map(|gate| gate.reasons()).collect();
    if !reasons.is_empty() {
        let words: Vec<&str> = [""].into_iter().chain(reasons).collect();
        shape["properties"]["reason"] = json!({ "type": "string", "enum": words });
        shape["required"].as_array_mut().into_iter().for_each(|all| all.push(json!("reason")));
    }
    shape
}
