//! What a panel has said, in words for people and for the next attempt. It decides nothing.
//!
//! Everything that reviewers write is cut to a bound and put on one line, so that no concern can look like a heading or like the
//! concern of somebody else.

use super::{Opinion, Panel, Reply, Seat, Standing, Verdict, Word};
use crate::limits;

impl Opinion {
    /// Cut to what a field, a mail and a prompt can hold, each text on one line, and nothing that is empty.
    #[must_use]
    pub fn bounded(&self) -> Self {
        let list = |texts: &[String]| {
            let texts = texts.iter().map(|text| line(text, limits::OPINION_ITEM_BYTES));
            texts.filter(|text| !text.is_empty()).take(limits::OPINION_ITEMS).collect()
        };
        Self {
            rationale: line(&self.rationale, limits::OPINION_TEXT_BYTES),
            concerns: list(&self.concerns),
            suggestions: list(&self.suggestions),
            reason: line(&self.reason, limits::NAME_BYTES),
        }
    }

    /// What it objects to: its concerns, or, without any, its reason.
    #[must_use]
    pub fn objections(&self) -> Vec<&str> {
        if !self.concerns.is_empty() {
            return self.concerns.iter().map(String::as_str).collect();
        }
        vec![if self.rationale.is_empty() { "(it does not say why)" } else { &self.rationale }]
    }
}

/// A text on one line, of at most so many bytes.
#[must_use]
pub fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut text: String =
        words.join(" ").chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// A concern that nobody has taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenConcern<'p> {
    pub reviewer: &'p str,
    pub concern: &'p str,
    pub response: String,
}

/// What is still open, in the order of the seats.
#[must_use]
pub fn open_concerns(panel: &Panel) -> Vec<OpenConcern<'_>> {
    let mut open = Vec::new();
    for seat in &panel.seats {
        let Word::Given(_, opinion) = &seat.word else { continue };
        let objects = match seat.standing() {
            Standing::Given(Verdict::Concern | Verdict::Block | Verdict::Escalate) => true,
            Standing::Given(Verdict::Approve)
            | Standing::Withdrawn
            | Standing::Waiting
            | Standing::Silent => false,
        };
        let objections = opinion.objections().into_iter().filter(|_| objects);
        open.extend(objections.map(|concern| OpenConcern {
            reviewer: &seat.reviewer,
            concern,
            response: response(seat),
        }));
    }
    open
}

/// How a concern was defended: the last word that its holder said about it.
fn response(seat: &Seat) -> String {
    let said = seat.replies.iter().rev().find_map(|reply| match reply {
        Reply::Withdraw { why } | Reply::Maintain { why } if !why.is_empty() => Some(why.clone()),
        Reply::Withdraw { .. }
        | Reply::Maintain { .. }
        | Reply::Awaited
        | Reply::Missing { .. } => None,
    });
    let none = if seat.replies.is_empty() { "none" } else { "none; silence counts as MAINTAIN" };
    said.unwrap_or_else(|| none.to_owned())
}

/// What a person has to decide about.
#[must_use]
pub fn unresolved(panel: &Panel) -> String {
    let mut text = String::from("## Unresolved Review Concerns\n");
    for seat in &panel.seats {
        let own: Vec<OpenConcern<'_>> = open_concerns(panel)
            .into_iter()
            .filter(|open| open.reviewer == seat.reviewer)
            .collect();
        if !own.is_empty() {
            text += &format!("\n### {} says:\n", titled(&seat.reviewer));
        }
        for open in own {
            text += &format!(
                "\n{}\nResponse: {}\nResolution: UNRESOLVED - user must decide\n",
                open.concern, open.response
            );
        }
    }
    let missing: Vec<String> = panel.seats.iter().filter_map(missing).collect();
    if !missing.is_empty() {
        text += &format!("\n### Missing verdicts\n\n{}\n", missing.join("\n"));
    }
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}

fn missing(seat: &Seat) -> Option<String> {
    let name = &seat.reviewer;
    match &seat.word {
        Word::Given(..) => None,
        Word::Awaited => Some(format!("- {name}: it has not answered in time")),
        Word::Missing { why } => Some(format!("- {name}: {why}")),
    }
}

fn titled(name: &str) -> String {
    let mut rest = name.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

/// What has to change, for whoever does the work again: first what stopped it.
#[must_use]
pub fn feedback(panel: &Panel) -> String {
    let mut text = String::new();
    let blocks = |seat: &&Seat| matches!(seat.word, Word::Given(Verdict::Block, _));
    let others = panel.seats.iter().filter(|seat| !blocks(seat));
    for seat in panel.seats.iter().filter(blocks).chain(others) {
        let Word::Given(verdict, opinion) = &seat.word else { continue };
        if *verdict == Verdict::Approve {
            continue;
        }
        text += &format!("{} says {}: {}\n", seat.reviewer, verdict.as_str(), opinion.rationale);
        text.extend(opinion.concerns.iter().map(|concern| format!("- {concern}\n")));
        let suggestions = opinion.suggestions.iter();
        text.extend(suggestions.map(|suggestion| format!("- suggestion: {suggestion}\n")));
    }
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}

/// All that some reviewers have said, first pass and debate, for those who debate.
#[must_use]
pub fn transcript(panel: &Panel, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for seat in panel.seats.iter().filter(|seat| wanted(&seat.reviewer)) {
        let name = &seat.reviewer;
        match &seat.word {
            Word::Given(verdict, opinion) => {
                text += &format!("{name}: {}: {}\n", verdict.as_str(), opinion.rationale);
                text.extend(opinion.concerns.iter().map(|concern| format!("- {concern}\n")));
            }
            Word::Awaited | Word::Missing { .. } => text += &format!("{name}: no verdict\n"),
        }
        for (at, reply) in seat.replies.iter().enumerate() {
            let said = match reply {
                Reply::Awaited => continue,
                Reply::Withdraw { why } => format!("WITHDRAW: {why}"),
                Reply::Maintain { why } => format!("MAINTAIN: {why}"),
                Reply::Missing { .. } => "no reply, which counts as MAINTAIN".to_owned(),
            };
            text += &format!("{name}, round {}: {said}\n", at + 1);
        }
    }
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}
