//! What a reviewer is told and in which shape it answers: about a task as it stands, or about the step of a workflow at its gate. In the
//! first pass nobody hears a word of the others, in a debate everybody hears all of them.

use banksman_core::fence::fence;
use banksman_core::panel::summary::transcript;
use banksman_core::workflow::Gate;
use banksman_core::workflow::assignment::assignment;
use serde_json::{Map, Value, json};

use crate::engine::errand::{Piece, Sitting, retry_context};
use crate::engine::prompt::{body_of, fill};
use crate::store::Stored;

const REVIEWER: &str = include_str!("../../../prompts/reviewer.md");
const DEBATE: &str = include_str!("../../../prompts/debate.md");
/// What is judged: a task, or a step at its gate.
const TASK: &str = include_str!("../../../prompts/task.md");
const GATE: &str = include_str!("../../../prompts/gate.md");

/// What a reviewer answers in the first pass, and in a debate.
const VERDICT: &str = include_str!("../../../prompts/verdict.schema.json");
const REPLY: &str = include_str!("../../../prompts/reply.schema.json");

/// Of what is on record about a task under review, in bytes.
const RECORD_BYTES: usize = 16_000;
/// What panels have said before: a reviewer's first word is its own.
const SAID_BY_PANELS: [&str; 3] = ["verdicts", "concerns", "review_summary"];

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

pub(in crate::engine) fn for_seat(sitting: &Sitting, base: &str) -> String {
    let panel = &sitting.panel;
    let company = if panel.seats.len() > 1 { AMONG_OTHERS } else { ALONE };
    let gate = sitting.gate.as_deref();
    let spec = gate.and_then(|piece| piece.step.spec.gate.as_ref());
    let place = match spec {
        Some(spec) => format!("at the gate {} between two steps of a workflow", spec.id),
        None => format!("of task {}", sitting.whole.task.id),
    };
    let values = [
        ("reviewer", sitting.reviewer.clone()),
        ("who", company.who.to_owned()),
        ("place", place),
        ("brief", sitting.brief.clone()),
        ("base", base.to_owned()),
        ("work", gate.map_or_else(|| the_task(&sitting.whole), the_step)),
    ];
    if sitting.round == 0 {
        let first = [
            ("others", company.others.to_owned()),
            ("concern", company.concern.to_owned()),
            ("reason", spec.map(reason).unwrap_or_default()),
        ];
        return fill(REVIEWER, &[values.as_slice(), &first].concat());
    }
    let is_own = |name: &str| name == sitting.reviewer;
    let debate = [
        ("round", sitting.round.to_string()),
        ("rounds", panel.most_rounds.to_string()),
        ("own", fence(&transcript(panel, is_own))),
        ("others", fence(&transcript(panel, |_| true))),
    ];
    fill(DEBATE, &[values.as_slice(), &debate].concat())
}

fn the_task(whole: &Stored) -> String {
    let (task, state) = (&whole.task, whole.state());
    let values = [
        ("state", state.name.clone()),
        ("about", state.about.clone()),
        ("title", fence(&task.title)),
        ("body", fence(body_of(task))),
        ("record", fence(&on_record(&task.fields))),
    ];
    fill(TASK, &values)
}

fn the_step(piece: &Piece) -> String {
    let told = assignment(&piece.flow, &piece.step.spec, retry_context(piece));
    fill(GATE, &[("assignment", told)])
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
    let text = format!("{:#}", Value::Object(shown));
    match text.floor_char_boundary(RECORD_BYTES.min(text.len())) {
        most if most < text.len() => format!("{}\n(The rest is left out.)", &text[..most]),
        _ => text,
    }
}

/// The shape of the answer. A gate whose ways back go by reasons is told one of them, so that none has to be guessed.
pub(in crate::engine) fn schema(sitting: &Sitting) -> Value {
    let read = |text: &str| serde_json::from_str(text).expect("it ships with the program");
    if sitting.round > 0 {
        return read(REPLY);
    }
    let mut shape: Value = read(VERDICT);
    let gate = sitting.gate.as_deref().and_then(|piece| piece.step.spec.gate.as_ref());
    let reasons: Vec<&str> = gate.iter().flat_map(|gate| gate.reasons()).collect();
    if !reasons.is_empty() {
        let words: Vec<&str> = [""].into_iter().chain(reasons).collect();
        shape["properties"]["reason"] = json!({ "type": "string", "enum": words });
        shape["required"].as_array_mut().into_iter().for_each(|all| all.push(json!("reason")));
    }
    shape
}
