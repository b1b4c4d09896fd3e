//! Renders the sections as Markdown. Foreign text becomes one escaped line inside a line that
//! Banksman writes.

use super::{
    Alert, Choice, Completed, Marker, NotePage, PendingDecision, PendingDetails, Pin, Section,
};
use crate::lifecycle::contract::AnswerName;
use crate::markdown::table;
use crate::text::capitalised;
use crate::time::Span;

/// Characters shown of a foreign text in a table.
const SHOWN: usize = 160;
/// Of a column of a table, in characters.
const NARROWEST: usize = 3;
/// Characters shown of a reason, which has a line of its own.
const REASON: usize = 500;
/// Characters with a meaning in Markdown, its dialects or HTML.
const SPECIAL: &str = "\\`*_[]<>|~$%&#";

pub(super) const ACTION: &str = "- **Action**:";
pub(super) const NOTE: &str = "- **Note**:";
pub(super) const ANSWERED: &str = "### Answered";
pub(super) const REFUSED: &str = "> **Not carried out**:";
pub(super) const DONE: &str = "> **Answered**:";
const ASKS: &str = "> **Asks**:";
/// What a person has to judge.
const WORK: &str = "> **Work**:";
const NOTHING: &str = "_Nothing waits for you._";
const NOT_YET: &str = "_Nothing yet._";
const NONE: &str = "_None._";
const MORE: &str = "_And ";
const STANDARD: &str = "### Standard Approvals";
const ESCALATED: &str = "### Escalated (requires attention)";
const COMPLETED: &str = "## Completed Today";
/// Headings that end with a number.
const COUNTED: [&str; 3] = ["## Pending Decisions (", "## Ready to Merge (", "## Alerts ("];
const FACTS: [&str; 5] =
    ["- **PR**:", "- **Done**:", "- **Effort**:", "- **Learnings**:", "- **Follow-ups**:"];

/// The label of an action.
pub fn label(action: &str) -> String {
    match AnswerName::named(action) {
        Some(AnswerName::Changes) => "Request Changes".to_owned(),
        Some(AnswerName::Back) => "Send Back".to_owned(),
        Some(_) | None => capitalised(action),
    }
}

/// The action for a word that a person wrote, which may be the label of an action.
pub(super) fn action_of(word: &str) -> String {
    let word = word.replace('\\', "");
    let mut labelled = [AnswerName::Changes, AnswerName::Back].map(AnswerName::name).into_iter();
    labelled.find(|action| is_same(&label(action), &word)).map_or(word, str::to_owned)
}

/// Whether two words differ at most in case.
pub fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// A duration, rounded in the largest unit that fits.
pub fn age(span: Span) -> String {
    const UNITS: [(&str, i64); 3] = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)];
    let unit = UNITS.iter().find(|(_, millis)| span.0 >= *millis);
    unit.map_or_else(
        || "0min".to_owned(),
        |(name, millis)| format!("{}{name}", span.0.saturating_add(millis / 2) / millis),
    )
}

/// A foreign text as one line of escaped Markdown.
pub(super) fn escaped(text: &str) -> String {
    escaped_up_to(SHOWN, text)
}

fn escaped_up_to(most: usize, text: &str) -> String {
    let is_bidi_control = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_break = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line: String = text.chars().map(|c| if is_break(c) { ' ' } else { c }).collect();
    let mut safe = String::with_capacity(line.len());
    let mut chars = line.trim().chars();
    for c in chars.by_ref().take(most) {
        if SPECIAL.contains(c) {
            safe.push('\\');
        }
        safe.push(if is_bidi_control(c) { char::REPLACEMENT_CHARACTER } else { c });
    }
    if chars.next().is_some() {
        safe.push_str("...");
    }
    safe
}

/// Whether Banksman wrote this line of a section. People wrote every other line.
pub(super) fn is_generated(line: &str) -> bool {
    let line = line.trim_end();
    line.is_empty()
        || [STANDARD, ESCALATED, COMPLETED, ANSWERED, NOTHING, NOT_YET, NONE].contains(&line)
        || COUNTED.iter().any(|heading| line.starts_with(heading) && line.ends_with(')'))
        || FACTS.iter().any(|fact| line.starts_with(fact))
        || line.starts_with("### [[t")
        || line.starts_with("| ") && line.ends_with('|')
        || line.starts_with(MORE) && line.ends_with("._")
        || is_generated_head(line)
}

/// Whether Banksman wrote this line of an entry's head.
pub(super) fn is_generated_head(line: &str) -> bool {
    let line = line.trim_end();
    line.is_empty()
        || line.starts_with("#### d") && line.contains(" [[t")
        || [ASKS, WORK, REFUSED, DONE].iter().any(|ours| line.starts_with(ours))
}

/// An entry: the head, which Banksman writes, and the body, in which people answer.
#[derive(Clone)]
pub(super) struct EntryText {
    pub(super) pin: Pin,
    /// The fingerprint of the body, if the entry is closed.
    pub(super) fingerprint: Option<String>,
    pub(super) head: String,
    pub(super) body: String,
}

impl EntryText {
    pub(super) fn lines(&self) -> String {
        let Self { pin, fingerprint, head, body } = self;
        let begin = Marker::Entry(*pin, fingerprint.clone());
        let (answer, end) = (Marker::Answer(pin.id), Marker::EntryEnd(pin.id));
        let gap = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
        format!("{}\n{head}{}\n{body}{gap}{}\n", begin.line(), answer.line(), end.line())
    }
}

pub(super) fn head(pending: &PendingDecision, refused: Option<&str>) -> String {
    let PendingDecision { id, task, summary, asks, question, answered, lapse, work, .. } = pending;
    let answered = answered.as_ref().map(|answered| format!(" {}", escaped(answered)));
    let question = question.as_ref().map(|question| escaped_up_to(REASON, question) + " ");
    let lapse =
        lapse.as_ref().map(|(left, to)| format!(" {} left, then {}.", age(*left), escaped(to)));
    let mut text = format!(
        "#### {id} [[{task}]] {}\n\n{ASKS} {}{}{}{}\n",
        escaped(summary),
        question.unwrap_or_default(),
        escaped(asks),
        lapse.unwrap_or_default(),
        answered.unwrap_or_default()
    );
    text.extend(work.iter().map(|part| format!("{WORK} {}\n", escaped_up_to(REASON, part))));
    if let Some(refused) = refused {
        text.push_str(&refusal(refused));
    }
    text
}

pub(super) fn refusal(why: &str) -> String {
    format!("{REFUSED} {}\n", escaped_up_to(REASON, why))
}

/// The body of an entry that nobody has edited yet.
pub(super) fn body(pending: &PendingDecision) -> String {
    let choice = |Choice { action, needs_note }: &Choice| {
        let hint = if *needs_note { " (needs a note)" } else { "" };
        format!("- [ ] {}{hint}\n", escaped(&label(action)))
    };
    let boxes: String = pending.offers.iter().map(choice).collect();
    format!("\n{boxes}{ACTION}\n{NOTE}\n")
}

/// A section with the entries that the caller prepared.
pub(super) fn section(
    section: Section,
    page: &NotePage,
    entries: &[EntryText],
    closed: &[EntryText],
) -> String {
    let text = match section {
        Section::Decisions => decisions(page, entries, closed),
        Section::Merge => merges(page, entries),
        Section::Completed => completed(&page.completed),
        Section::Alerts => alerts(&page.alerts),
    };
    format!("{}\n{text}{}\n", Marker::Begin(section).line(), Marker::End(section).line())
}

fn decisions(page: &NotePage, entries: &[EntryText], closed: &[EntryText]) -> String {
    let of = |section| page.pending.iter().filter(move |one| Section::of(&one.about) == section);
    let count = of(Section::Decisions).count() + page.left_out;
    let mut text = format!("{}{count})\n", COUNTED[0]);
    let (mut standard, mut escalated) = (Vec::new(), Vec::new());
    for one in of(Section::Decisions) {
        let (rows, word) = match &one.about {
            PendingDetails::Standard { risk } => (&mut standard, risk),
            PendingDetails::Escalated { concern } => (&mut escalated, concern),
            PendingDetails::Merge { .. } => continue,
        };
        let row = [format!("[[{}]]", one.task), escaped(&one.summary), escaped(word), age(one.age)];
        rows.push((one.id, row));
    }
    if count == 0 {
        text.push_str(&format!("\n{NOTHING}\n"));
    }
    let tables = [(STANDARD, "Risk", standard), (ESCALATED, "Concern", escalated)];
    for (heading, third, rows) in tables.into_iter().filter(|(_, _, rows)| !rows.is_empty()) {
        text.push_str(&format!("\n{heading}\n\n"));
        let (ids, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        text.push_str(&table(["Task", "Summary", third, "Age"], &rows, NARROWEST));
        let own = entries.iter().filter(|entry| ids.contains(&entry.pin.id));
        text.extend(own.map(|entry| format!("\n{}", entry.lines())));
    }
    if page.left_out > 0 {
        text.push_str(&format!("\n{MORE}{} more decisions are open._\n", page.left_out));
    }
    if !closed.is_empty() {
        text.push_str(&format!("\n{ANSWERED}\n"));
        text.extend(closed.iter().map(|entry| format!("\n{}", entry.lines())));
    }
    text
}

fn merges(page: &NotePage, entries: &[EntryText]) -> String {
    let mut rows = Vec::new();
    for one in &page.pending {
        let PendingDetails::Merge { pr, tests, reviews } = &one.about else { continue };
        rows.push([
            link(pr),
            format!("[[{}]]", one.task),
            escaped(tests),
            escaped(reviews),
            escaped(&one.summary),
        ]);
    }
    let mut text = format!("{}{})\n\n", COUNTED[1], rows.len());
    if rows.is_empty() {
        text.push_str(&format!("{NONE}\n"));
    } else {
        text.push_str(&table(["PR", "Task", "Tests", "Reviews", "Summary"], &rows, NARROWEST));
        text.extend(entries.iter().map(|entry| format!("\n{}", entry.lines())));
    }
    text
}

fn completed(list: &[Completed]) -> String {
    let mut text = format!("{COMPLETED}\n");
    if list.is_empty() {
        text.push_str(&format!("\n{NOT_YET}\n"));
    }
    for one in list {
        text.push_str(&format!("\n### [[{}]] {}\n\n", one.task, escaped(&one.title)));
        let by = one.unproven.as_ref();
        let by = by.map(|name| format!(", marked done by {}, without proof", escaped(name)));
        let at = format!("at {}{}", escaped(&one.at), by.unwrap_or_default());
        let first = match (one.pr.as_str(), one.merged) {
            ("", _) => (FACTS[1], at),
            (pr, true) => (FACTS[0], format!("{} merged {at}", link(pr))),
            (pr, false) => (FACTS[0], format!("{} not merged; done {at}", link(pr))),
        };
        let facts = [
            first,
            (FACTS[2], escaped(&one.effort)),
            (FACTS[3], escaped(&one.learnings)),
            (FACTS[4], escaped(&one.follow_ups)),
        ];
        let known = facts.iter().filter(|(_, fact)| !fact.is_empty());
        text.extend(known.map(|(name, fact)| format!("{name} {fact}\n")));
    }
    text
}

fn alerts(list: &[Alert]) -> String {
    let row = |alert: &Alert| {
        let task = alert.task.map(|task| format!("[[{task}]]")).unwrap_or_default();
        let severity = alert.severity.as_str().to_owned();
        [alert.condition.to_owned(), severity, task, escaped(&alert.detail)]
    };
    let rows: Vec<_> = list.iter().map(row).collect();
    let text = if rows.is_empty() {
        format!("{NONE}\n")
    } else {
        table(["Condition", "Severity", "Task", "Detail"], &rows, NARROWEST)
    };
    format!("{}{})\n\n{text}", COUNTED[2], rows.len())
}

/// `[#123](url)`. Anything but a plain web address is shown as text.
fn link(address: &str) -> String {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&'*+,;=%".contains(c);
    if !is_web || !address.chars().all(is_plain) || address.len() > 500 {
        return escaped(address);
    }
    let number = address.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let name = if is_number { format!("#{number}") } else { "PR".to_owned() };
    format!("[{name}]({address})")
}
