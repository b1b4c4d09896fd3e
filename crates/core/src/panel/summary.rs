//! Words the result of a panel for people and for the next attempt. It decides nothing.
//!
//! Everything that reviewers write is cut to a limit and put on one line, so that no concern can
//! look like a heading or like another reviewer's concern.

use serde::Serialize;

use super::{DebateReply, FirstPass, Panel, Rationale, ReviewAssignment, ReviewStatus, Verdict};
use crate::limits;
use crate::text::{capitalised, line};

impl Rationale {
    /// Cuts each text to its limit, puts it on one line, and drops empty texts.
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

    /// Its concerns or, if there are none, its rationale.
    pub fn objections(&self) -> Vec<&str> {
        if !self.concerns.is_empty() {
            return self.concerns.iter().map(String::as_str).collect();
        }
        vec![if self.rationale.is_empty() { "(no reason given)" } else { &self.rationale }]
    }
}

/// The response to a concern that was not debated.
pub const NO_RESPONSE: &str = "none";

/// A concern that was not withdrawn, and an entry of the field `concerns`: `fields` names its keys
/// for those who read them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenConcern<'p> {
    pub reviewer: &'p str,
    pub concern: &'p str,
    pub response: String,
}

/// The open concerns in the order of the reviewers, up to the limit of a task's fields.
pub fn open_concerns(panel: &Panel) -> Vec<OpenConcern<'_>> {
    concerns_by_reviewer(panel).into_iter().flatten().collect()
}

fn concerns_by_reviewer(panel: &Panel) -> Vec<Vec<OpenConcern<'_>>> {
    let bytes =
        |open: &OpenConcern<'_>| open.reviewer.len() + open.concern.len() + open.response.len();
    let all = panel.assignments.iter().map(concerns_of).collect();
    fit_fairly(all, limits::PANEL_CONCERNS_BYTES, bytes)
}

fn concerns_of(assignment: &ReviewAssignment) -> Vec<OpenConcern<'_>> {
    let FirstPass::Given(_, opinion) = &assignment.first_pass else { return Vec::new() };
    let objections = match assignment.status() {
        ReviewStatus::Given(Verdict::Concern | Verdict::Block | Verdict::Escalate) => {
            opinion.objections()
        }
        ReviewStatus::Given(Verdict::Approve)
        | ReviewStatus::Withdrawn
        | ReviewStatus::Waiting
        | ReviewStatus::Missing => Vec::new(),
    };
    let open = |concern| OpenConcern {
        reviewer: &assignment.reviewer,
        concern,
        response: response(assignment),
    };
    objections.into_iter().map(open).collect()
}

/// The suggestions of each reviewer in their order, up to the limit of a task's fields.
pub fn suggestions(panel: &Panel) -> Vec<Vec<&str>> {
    let all = panel.assignments.iter().map(suggestions_of).collect();
    fit_fairly(all, limits::PANEL_SUGGESTIONS_BYTES, |text| text.len())
}

/// An approval lets the work pass, so its concerns count as suggestions.
fn suggestions_of(assignment: &ReviewAssignment) -> Vec<&str> {
    let FirstPass::Given(verdict, opinion) = &assignment.first_pass else { return Vec::new() };
    let concerns = opinion.concerns.iter().filter(|_| *verdict == Verdict::Approve);
    concerns.chain(&opinion.suggestions).map(String::as_str).collect()
}

/// As many texts as fit in `most` bytes: the first of every reviewer before the second of any.
fn fit_fairly<T>(mut all: Vec<Vec<T>>, most: usize, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let of_assignment =
        |(assignment, own): (usize, &Vec<T>)| (0..own.len()).map(move |at| (at, assignment));
    let mut places: Vec<(usize, usize)> = all.iter().enumerate().flat_map(of_assignment).collect();
    places.sort_unstable();
    let mut left = most;
    let mut kept = vec![0; all.len()];
    for (at, assignment) in places {
        let Some(rest) = left.checked_sub(bytes(&all[assignment][at])) else { break };
        (left, kept[assignment]) = (rest, at + 1);
    }
    all.iter_mut().zip(kept).for_each(|(own, kept)| own.truncate(kept));
    all
}

/// How a concern was defended: the last reply of its reviewer.
fn response(assignment: &ReviewAssignment) -> String {
    let mut texts = assignment.replies.iter().rev().filter_map(|reply| match reply {
        DebateReply::Withdraw { why } | DebateReply::Maintain { why } => Some(why.as_str()),
        DebateReply::Awaited | DebateReply::Missing { .. } => None,
    });
    let silence = "none; silence counts as MAINTAIN";
    let none = if assignment.replies.is_empty() { NO_RESPONSE } else { silence };
    texts.find(|text| !text.is_empty()).unwrap_or(none).to_owned()
}

/// What a person has to decide about.
pub fn unresolved(panel: &Panel) -> String {
    let mut text = String::from("## Unresolved Review Concerns\n");
    for (assignment, own) in panel.assignments.iter().zip(concerns_by_reviewer(panel)) {
        if !own.is_empty() {
            text += &format!("\n### {} says:\n", capitalised(&assignment.reviewer));
        }
        for open in own {
            text += &format!(
                "\n{}\nResponse: {}\nResolution: UNRESOLVED - user must decide\n",
                open.concern, open.response
            );
        }
    }
    let missing: Vec<String> = panel.assignments.iter().filter_map(missing).collect();
    if !missing.is_empty() {
        text += &format!("\n### Missing verdicts\n\n{}\n", missing.join("\n"));
    }
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}

fn missing(assignment: &ReviewAssignment) -> Option<String> {
    let name = &assignment.reviewer;
    match &assignment.first_pass {
        FirstPass::Given(..) => None,
        FirstPass::Awaited => Some(format!("- {name}: did not answer in time")),
        FirstPass::Missing { why } => Some(format!("- {name}: {why}")),
    }
}

/// What has to change, for the next attempt: first what stopped the work, last the suggestions of
/// reviewers that approved it.
pub fn feedback(panel: &Panel) -> String {
    let rank = |verdict: Verdict| match verdict {
        Verdict::Block => 0,
        Verdict::Concern | Verdict::Escalate => 1,
        Verdict::Approve => 2,
    };
    let mut given: Vec<(u8, String)> = Vec::new();
    for ReviewAssignment { reviewer, first_pass, .. } in &panel.assignments {
        let FirstPass::Given(verdict, opinion) = first_pass else { continue };
        let has_more = !opinion.concerns.is_empty() || !opinion.suggestions.is_empty();
        if *verdict != Verdict::Approve || has_more {
            let text = format!("{reviewer} says {}\n", full_text(*verdict, opinion));
            given.push((rank(*verdict), text));
        }
    }
    given.sort_by_key(|(rank, _)| *rank);
    let mut text: String = given.into_iter().map(|(_, text)| text).collect();
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}

/// A verdict with its rationale, concerns and suggestions, without a final line break.
fn full_text(verdict: Verdict, opinion: &Rationale) -> String {
    let mut text = format!("{}: {}", verdict.as_str(), opinion.rationale);
    text.extend(opinion.concerns.iter().map(|concern| format!("\n- {concern}")));
    let suggestions = opinion.suggestions.iter();
    text.extend(suggestions.map(|suggestion| format!("\n- suggestion: {suggestion}")));
    text
}

/// What the chosen reviewers said in the first pass and in the debate.
pub fn transcript(panel: &Panel, wanted: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for assignment in panel.assignments.iter().filter(|assignment| wanted(&assignment.reviewer)) {
        let name = &assignment.reviewer;
        match &assignment.first_pass {
            FirstPass::Given(verdict, opinion) => {
                text += &format!("{name}: {}\n", full_text(*verdict, opinion));
            }
            FirstPass::Awaited | FirstPass::Missing { .. } => {
                text += &format!("{name}: no verdict\n");
            }
        }
        for (at, reply) in assignment.replies.iter().enumerate() {
            let reply_text = match reply {
                DebateReply::Awaited => continue,
                DebateReply::Withdraw { why } => format!("WITHDRAW: {why}"),
                DebateReply::Maintain { why } => format!("MAINTAIN: {why}"),
                DebateReply::Missing { .. } => "no reply, which counts as MAINTAIN".to_owned(),
            };
            text += &format!("{name}, round {}: {reply_text}\n", at + 1);
        }
    }
    text.truncate(text.floor_char_boundary(limits::PANEL_SUMMARY_BYTES));
    text
}
