//! What planners, reviewers and assignees answer: small plans, good ones and bad ones, verdicts,
//! replies in a debate, work plans and deliveries.

use banksman::exec::job::{JobId, JobWork};
use serde_json::{Value, json};

use super::chance::Chance;
use super::script::mark;

/// What an agent is asked for, by the shape that its answer must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Plan,
    Verdict,
    Reply,
    WorkPlan,
    Delivery,
}

/// What is in a plan.
#[derive(Debug, Clone, Copy)]
enum Pieces {
    /// So many small subtasks, each after the one before, or only told of it.
    Small(usize, &'static str),
    /// A question before all others.
    WithSpike,
    TooBig,
    InACircle,
    Irreducible,
}

const PLANS: &[(usize, Pieces)] = &[
    (2, Pieces::Small(1, "blocks")),
    (5, Pieces::Small(2, "blocks")),
    (4, Pieces::Small(2, "informs")),
    (3, Pieces::Small(3, "blocks")),
    (2, Pieces::WithSpike),
    (3, Pieces::TooBig),
    (1, Pieces::InACircle),
    (1, Pieces::Irreducible),
];
const VERDICTS: &[(usize, &str)] =
    &[(10, "APPROVE"), (2, "CONCERN"), (2, "BLOCK"), (1, "ESCALATE")];

impl Asked {
    pub(super) fn of(work: &JobWork) -> Option<Self> {
        let JobWork::Agent(work) = work else { return None };
        let properties = work.ask.schema.as_ref()?.get("properties")?;
        let kinds = [
            ("subtasks", Self::Plan),
            ("response", Self::Reply),
            ("verdict", Self::Verdict),
            ("bullets", Self::WorkPlan),
            ("checklist", Self::Delivery),
        ];
        kinds.into_iter().find(|(name, _)| properties.get(name).is_some()).map(|(_, kind)| kind)
    }

    /// In calm everybody plans well and agrees.
    pub(super) fn answer(self, job: JobId, is_calm: bool, chance: &mut Chance) -> Value {
        let mark = mark(job);
        match self {
            Self::Plan if is_calm => plan(Pieces::Small(2, "blocks"), &mark),
            Self::Plan => plan(chance.weighted(PLANS), &mark),
            Self::Verdict => {
                let verdict = if is_calm { "APPROVE" } else { chance.weighted(VERDICTS) };
                self::verdict(verdict, job)
            }
            Self::Reply => reply(is_calm || chance.percent(60), job),
            Self::WorkPlan => work_plan(job),
            Self::Delivery => delivery(job),
        }
    }
}

/// A plan of so many small subtasks, each after the one before.
pub(super) fn planned(subtasks: usize, job: JobId) -> Value {
    plan(Pieces::Small(subtasks, "blocks"), &mark(job))
}

pub(super) fn verdict(verdict: &str, job: JobId) -> Value {
    let concerns = if verdict == "CONCERN" { vec!["is it so?"] } else { vec![] };
    json!({
        "verdict": verdict, "rationale": mark(job), "concerns": concerns, "suggestions": [],
    })
}

pub(super) fn reply(withdraws: bool, job: JobId) -> Value {
    let response = if withdraws { "WITHDRAW" } else { "MAINTAIN" };
    json!({ "response": response, "rationale": mark(job) })
}

pub(super) fn work_plan(job: JobId) -> Value {
    let bullets = [mark(job), "build it".to_owned(), "check it".to_owned()];
    json!({ "bullets": bullets, "estimatedCost": 1, "estimatedDuration": "1h" })
}

pub(super) fn delivery(job: JobId) -> Value {
    let checklist = json!([{ "item": "it works", "checked": true }]);
    json!({ "content": mark(job), "artifacts": [], "checklist": checklist })
}

fn plan(pieces: Pieces, mark: &str) -> Value {
    let small = |at: usize| subtask(at, 1);
    let edge =
        |from: usize, kind: &str| json!({ "from": name(from), "to": name(from + 1), "kind": kind });
    let (subtasks, edges): (Vec<Value>, Vec<Value>) = match pieces {
        Pieces::Small(count, kind) => {
            ((0..count).map(small).collect(), (1..count).map(|at| edge(at - 1, kind)).collect())
        }
        Pieces::WithSpike => ((0..2).map(small).collect(), Vec::new()),
        Pieces::TooBig => (vec![subtask(0, 15)], Vec::new()),
        Pieces::InACircle => {
            let back = json!({ "from": name(1), "to": name(0), "kind": "blocks" });
            ((0..2).map(small).collect(), vec![edge(0, "blocks"), back])
        }
        Pieces::Irreducible => (vec![small(0)], Vec::new()),
    };
    let spikes = match pieces {
        Pieces::WithSpike => {
            json!([{ "id": "spike", "question": "is there one?", "blocks": [name(1)] }])
        }
        Pieces::Small(..) | Pieces::TooBig | Pieces::InACircle | Pieces::Irreducible => json!([]),
    };
    let irreducible = if matches!(pieces, Pieces::Irreducible) { "it is one piece" } else { "" };
    json!({
        "subtasks": subtasks, "edges": edges, "spikes": spikes, "assumptions": [mark], "risks": [],
        "irreducible": irreducible,
    })
}

fn name(at: usize) -> String {
    format!("part-{at}")
}

fn subtask(at: usize, files: usize) -> Value {
    let files: Vec<String> = (0..files).map(|number| format!("src/{at}/{number}.rs")).collect();
    json!({
        "id": name(at), "title": format!("do {}", name(at)), "description": "", "estimate_minutes": 60,
        "confidence": "high", "files": files, "purposes": ["it is wanted"], "tested_by": "a test",
        "review_minutes": 5, "acceptance": ["it is there"], "tags": [],
    })
}
