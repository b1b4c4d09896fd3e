//! Words a plan: the proposal that people approve, its section in a task's body, the history of its
//! iterations, and the body of a subtask.

use serde::{Deserialize, Serialize};

use super::{EdgeKind, Plan, PlanItem, Risk, Subtask};
use crate::text::start_of;
use crate::{limits, markdown};

/// Banksman writes between these lines of a body; everything else belongs to people.
const OPENING: &str = "<!-- banksman: the plan -->";
const CLOSING: &str = "<!-- banksman: end of the plan -->";

/// How much of a subtask's description the proposal shows; the subtask has all of it.
const DESCRIPTION_BYTES: usize = 400;

/// The result of one planning iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iteration {
    pub version: u32,
    pub subtasks: usize,
    /// Problems of the plan, and each subtask that is too large.
    pub objections: Vec<String>,
}

impl Iteration {
    pub fn of(version: u32, plan: &Plan) -> Self {
        let mut objections = plan.problems();
        let subtasks = plan.subtasks.iter().take(limits::PLAN_SUBTASKS);
        objections.extend(subtasks.filter_map(|subtask| {
            let reasons = subtask.size_problems();
            (!reasons.is_empty()).then(|| format!("{}: {}", subtask.id, reasons.join("; ")))
        }));
        let objections = objections.iter().take(limits::PLAN_ITEMS).map(|text| bounded(text));
        Self { version, subtasks: plan.subtasks.len(), objections: objections.collect() }
    }

    fn line(&self) -> String {
        let against = match self.objections.as_slice() {
            [] if self.subtasks == 0 => "nothing to carry out".to_owned(),
            [] => "every subtask is PR-sized".to_owned(),
            some => some.join(" / "),
        };
        format!("- v{}: {}; {against}\n", self.version, counted(self.subtasks, "subtask"))
    }
}

/// A plan in one line.
pub fn summary_line(plan: &Plan) -> String {
    let problems = plan.problems();
    let too_large =
        plan.subtasks.iter().filter(|subtask| !subtask.size_problems().is_empty()).count();
    let spikes = match plan.spikes.len() {
        0 => String::new(),
        some => format!(" and {}", counted(some, "spike")),
    };
    match (plan.irreducible.trim(), problems.as_slice(), too_large) {
        ("", [], 0) => format!("a plan of {}{spikes}", counted(plan.subtasks.len(), "subtask")),
        ("", [], 1) => needs_another_pass("1 subtask is too large"),
        ("", [], some) => needs_another_pass(&format!("{some} subtasks are too large")),
        (_, [first, ..], _) => needs_another_pass(first),
        (why, [], _) => bounded(&format!("it cannot be broken down: {why}")),
    }
}

/// The line for an answer that is not a proposal.
pub fn needs_another_pass(why: &str) -> String {
    bounded(&format!("needs another pass: {why}"))
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// On one line, cut to the limit of an objection.
fn bounded(text: &str) -> String {
    start_of(&inline(text), limits::PLAN_OBJECTION_BYTES).to_owned()
}

/// The proposal as it is appended to the task's body.
pub fn proposal(version: u32, plan: &Plan) -> String {
    let mut text =
        format!("## Decomposition Proposal v{version}\n\n### Subtasks\n\n{}", table(plan));
    let edges = plan.edges.iter().map(|edge| match edge.kind {
        EdgeKind::Blocks => format!("{} -> {} (blocks)\n", edge.from, edge.to),
        EdgeKind::Informs => format!("{} ~> {} (informs)\n", edge.from, edge.to),
    });
    let spiked = plan.order().into_iter().flat_map(|placed| match placed.item {
        PlanItem::Spike(_) => Vec::new(),
        PlanItem::Subtask(subtask) => spikes_of(plan, subtask),
    });
    let questions = plan.spikes.iter();
    let questions = questions.map(|one| format!("- [ ] {}: {}\n", one.id, inline(&one.question)));
    let assumptions = plan.assumptions.iter().map(|one| format!("- {}\n", inline(one)));
    let risks = plan.risks.iter().map(|Risk { risk, mitigation }| {
        format!("- {} (mitigation: {})\n", inline(risk), inline(mitigation))
    });
    text += &section("What each subtask does", plan.subtasks.iter().map(details));
    text += &section("Dependency Graph", spiked.chain(edges));
    text += &section("Information Spikes (must resolve first)", questions);
    text += &section("Assumptions (load-bearing, untested)", assumptions);
    text += &section("Risks", risks);
    text
}

/// What a person has to know of a subtask before approving it: its files, and when it is done.
fn details(subtask: &Subtask) -> String {
    let files = subtask.files.iter().map(|path| format!("`{}`", inline(path)));
    let files = files.collect::<Vec<_>>().join(", ");
    let words = inline(&subtask.description);
    let about = start_of(&words, DESCRIPTION_BYTES);
    let accepted = subtask.acceptance.iter().map(|one| format!("  - [ ] {}\n", inline(one)));
    format!(
        "- {}: {about}\n  - files: {files}\n{}  - [ ] tested: {}\n",
        subtask.id,
        accepted.collect::<String>(),
        inline(&subtask.tested_by)
    )
}

/// The spikes that block a subtask without an explicit edge.
fn spikes_of(plan: &Plan, subtask: &Subtask) -> Vec<String> {
    let has_edge =
        |id: &str| plan.edges.iter().any(|edge| edge.from == id && edge.to == subtask.id);
    let spikes =
        plan.spikes.iter().filter(|spike| spike.blocks_subtask(subtask) && !has_edge(&spike.id));
    spikes.map(|spike| format!("{} -> {} (blocks)\n", spike.id, subtask.id)).collect()
}

/// The results of all iterations, for a person who has to find another way.
pub fn history(iterations: &[Iteration]) -> String {
    let lines: String = iterations.iter().map(Iteration::line).collect();
    format!("## Decomposition History\n\n{lines}")
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> String {
    let text: String = lines.collect();
    format!("\n### {title}\n\n{}", if text.is_empty() { "None.\n" } else { &text })
}

fn table(plan: &Plan) -> String {
    let head = ["ID", "Title", "Estimate", "Confidence"];
    let rows = plan.subtasks.iter().map(|subtask| {
        let confidence = subtask.confidence.as_str().to_owned();
        [subtask.id.clone(), inline(&subtask.title), hours(subtask.estimate_minutes), confidence]
            .map(|cell| cell.replace('|', "\\|"))
    });
    markdown::table(head, &rows.collect::<Vec<_>>(), 0)
}

/// `2h`, `1h30min`, `45min`.
pub fn hours(minutes: u32) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}min"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}min"),
    }
}

/// On one line, and without text that could end or imitate Banksman's section of a body.
fn inline(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("<!--", "<! --")
}

/// Replaces Banksman's section of a body, or adds it. The rest of the body is unchanged.
pub fn with_section(body: &str, text: &str) -> String {
    let part = |text: &str| format!("{OPENING}\n\n{}\n\n{CLOSING}\n", text.trim());
    let (before, after) = outside_section(body);
    let joined = |text: &str| match (before.trim_end(), after) {
        ("", after) => format!("{}{after}", part(text)),
        (before, after) => format!("{before}\n\n{}{after}", part(text)),
    };
    let whole = joined(text);
    if whole.len() <= limits::BODY_BYTES {
        return whole;
    }
    let short = joined("The plan does not fit in this text; the field `plan` holds it.");
    if short.len() <= limits::BODY_BYTES { short } else { body.to_owned() }
}

/// The text before and after Banksman's section. The last section counts, so a quoted marker is
/// left alone.
fn outside_section(body: &str) -> (&str, &str) {
    let found = body.rfind(CLOSING).and_then(|end| Some((body[..end].rfind(OPENING)?, end)));
    let Some((start, end)) = found else { return (body, "") };
    let after = &body[end + CLOSING.len()..];
    (&body[..start], after.strip_prefix('\n').unwrap_or(after))
}

/// Banksman's section of a body, without its marks.
pub fn section_of(body: &str) -> Option<&str> {
    let end = body.rfind(CLOSING)?;
    let start = body[..end].rfind(OPENING)?;
    Some(body[start + OPENING.len()..end].trim())
}

/// The body without Banksman's section.
pub fn without_section(body: &str) -> String {
    let (before, after) = outside_section(body);
    if after.is_empty() { before.trim_end().to_owned() } else { format!("{before}{after}") }
}

/// The body of the task for one item; `parent` is the parent's id and title.
pub fn item_body(part: PlanItem<'_>, version: u32, parent: (&str, &str)) -> String {
    let (id, title) = parent;
    let mut text = match part {
        PlanItem::Spike(spike) => format!(
            "Find the answer to this question: {}\n\nAnswer it; do not leave any other change.\n",
            spike.question.trim()
        ),
        PlanItem::Subtask(subtask) => {
            let mut text = format!("{}\n\n## Acceptance\n\n", subtask.description.trim());
            let own = subtask.acceptance.iter().map(|one| one.trim());
            text.extend(own.map(|one| format!("- [ ] {one}\n")));
            text += &format!("- [ ] Tested in isolation: {}\n", subtask.tested_by.trim());
            text += "\n## Files\n\n";
            text.extend(subtask.files.iter().map(|path| format!("- `{}`\n", path.trim())));
            text
        }
    };
    text += &format!(
        "\n## Part of\n\n`{}` of plan v{version} of {id}, {title}. The task {id} has the plan. \
         Other agents work on the other subtasks.\n",
        part.id()
    );
    text
}
