//! Decides what a panel of reviewers does next.
//!
//! [`next`] takes the whole record of a panel and returns one action. It keeps no state between
//! calls, so an interrupted panel continues where it stopped. It never contacts a reviewer, and a
//! missing verdict never counts as an approval.
//!
//! `summary` words the result for people, `fields` names the task fields that store it, and
//! `registry` chooses the reviewers.

pub mod fields;
pub mod registry;
pub mod summary;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::closed::closed;
use crate::lifecycle::Outcome;
use crate::time::Instant;

closed! {
    /// A reviewer's judgement of the work.
    pub enum Verdict {
        Approve = "APPROVE",
        /// An objection that may be debated.
        Concern = "CONCERN",
        /// A veto.
        Block = "BLOCK",
        /// A person must decide.
        Escalate = "ESCALATE",
    }
}

/// The reasons for a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rationale {
    pub rationale: String,
    pub concerns: Vec<String>,
    pub suggestions: Vec<String>,
    /// Why it blocks, as one of the reasons that a gate routes by; empty if none fits.
    pub reason: String,
}

/// The state of a review in the first pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstPass {
    /// The reviewer may still answer.
    Awaited,
    /// The reviewer has judged, for these reasons.
    Given(Verdict, Rationale),
    /// There is no verdict, and there will be none.
    Missing { why: String },
}

/// The reply of a reviewer with a concern in one round of the debate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DebateReply {
    /// The reviewer may still answer.
    Awaited,
    /// The concern no longer stands.
    Withdraw { why: String },
    /// The concern still stands.
    Maintain { why: String },
    /// Counts as [`Self::Maintain`].
    Missing { why: String },
}

/// One reviewer of a panel, with its verdict and its replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewAssignment {
    pub reviewer: String,
    pub first_pass: FirstPass,
    /// By round. Only reviewers with a concern are asked.
    pub replies: Vec<DebateReply>,
}

/// The state of a review over the first pass and the debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewStatus {
    Waiting,
    Given(Verdict),
    /// The reviewer had a concern and withdrew it in the debate.
    Withdrawn,
    Missing,
}

impl ReviewAssignment {
    pub fn status(&self) -> ReviewStatus {
        match &self.first_pass {
            FirstPass::Awaited => ReviewStatus::Waiting,
            FirstPass::Missing { .. } => ReviewStatus::Missing,
            FirstPass::Given(Verdict::Concern, _) if self.has_withdrawn() => {
                ReviewStatus::Withdrawn
            }
            FirstPass::Given(verdict, _) => ReviewStatus::Given(*verdict),
        }
    }

    fn has_withdrawn(&self) -> bool {
        self.replies.iter().any(|reply| matches!(reply, DebateReply::Withdraw { .. }))
    }

    pub fn has_concern(&self) -> bool {
        self.status() == ReviewStatus::Given(Verdict::Concern)
    }

    fn awaits_reply_in(&self, round: usize) -> bool {
        let reply = round.checked_sub(1).and_then(|at| self.replies.get(at));
        matches!(reply, None | Some(DebateReply::Awaited))
    }
}

/// The record of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Panel {
    pub assignments: Vec<ReviewAssignment>,
    /// The deadline of each round of the debate that has begun.
    pub round_deadlines: Vec<Instant>,
    /// The deadline of the whole panel, if it has one.
    pub deadline: Option<Instant>,
    /// The largest number of debate rounds; a single reviewer has nobody to debate with.
    pub max_rounds: usize,
}

/// The result of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    Approved,
    Blocked,
    Escalated,
    Unresolved,
    Unavailable,
}

impl Ruling {
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Approved => Outcome::Approved,
            Self::Blocked => Outcome::Blocked,
            Self::Escalated => Outcome::Escalated,
            Self::Unresolved => Outcome::Unresolved,
            Self::Unavailable => Outcome::Unavailable,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PanelAction {
    /// Verdicts or replies are missing. At this time the action changes even if none arrives.
    Wait { until: Option<Instant> },
    /// Every reviewer with a concern is asked in this round; the first is 1.
    Debate { round: usize },
    /// The panel is over.
    Decide { ruling: Ruling, reason: String },
}

/// Decides what the panel does next.
pub fn next(panel: &Panel, now: Instant) -> PanelAction {
    if panel.assignments.is_empty() {
        return decide(Ruling::Unavailable, "no reviewers".to_owned());
    }
    let blocking = panel.names_by_status(|status| status == ReviewStatus::Given(Verdict::Block));
    if !blocking.is_empty() {
        return decide(Ruling::Blocked, format!("blocked by {}", blocking.join(", ")));
    }
    let is_expired = panel.deadline.is_some_and(|deadline| now >= deadline);
    if !is_expired
        && panel.assignments.iter().any(|assignment| assignment.status() == ReviewStatus::Waiting)
    {
        return PanelAction::Wait { until: panel.deadline };
    }
    // At the deadline, a reviewer that has not answered counts as missing.
    let missing = panel
        .names_by_status(|status| matches!(status, ReviewStatus::Missing | ReviewStatus::Waiting));
    let silence = format!("no verdict from {}", missing.join(", "));
    if missing.len() == panel.assignments.len() {
        return decide(Ruling::Unavailable, silence);
    }
    let escalating =
        panel.names_by_status(|status| status == ReviewStatus::Given(Verdict::Escalate));
    if !escalating.is_empty() {
        let also = if missing.is_empty() { String::new() } else { format!("; {silence}") };
        let reason = format!("{} asks for a person{also}", escalating.join(", "));
        return decide(Ruling::Escalated, reason);
    }
    if !missing.is_empty() {
        return decide(Ruling::Unresolved, silence);
    }
    debate(panel, is_expired, now)
}

/// Every reviewer has approved or has a concern.
fn debate(panel: &Panel, is_expired: bool, now: Instant) -> PanelAction {
    let holders = panel.names_where(ReviewAssignment::has_concern);
    if holders.is_empty() {
        return decide(Ruling::Approved, approval(panel));
    }
    let round = panel.round_deadlines.len();
    if let Some(ends) = panel.round_deadlines.last().copied() {
        let until = panel.deadline.map_or(ends, |deadline| deadline.min(ends));
        let late = panel.names_where(|assignment| {
            assignment.has_concern() && assignment.awaits_reply_in(round)
        });
        if !late.is_empty() && now < until {
            return PanelAction::Wait { until: Some(until) };
        }
        if !late.is_empty() {
            let reason = format!("the debate ran out of time before {} replied", late.join(", "));
            return decide(Ruling::Unresolved, reason);
        }
    }
    if round < panel.max_rounds && !is_expired {
        return PanelAction::Debate { round: round + 1 };
    }
    let debated = match round {
        0 => "has a concern".to_owned(),
        rounds => format!("still has a concern after {rounds} rounds of debate"),
    };
    decide(Ruling::Unresolved, format!("{} {debated}", holders.join(", ")))
}

fn approval(panel: &Panel) -> String {
    let withdrawn = panel.names_by_status(|status| status == ReviewStatus::Withdrawn);
    match (panel.assignments.len(), withdrawn.as_slice()) {
        (1, []) => "the reviewer approves".to_owned(),
        (all, []) => format!("all {all} reviewers approve"),
        (_, some) => format!("{} withdrew their concerns, the others approve", some.join(", ")),
    }
}

fn decide(ruling: Ruling, reason: String) -> PanelAction {
    PanelAction::Decide { ruling, reason }
}

impl Panel {
    /// The reason that the first blocking reviewer names, if any does.
    pub fn block_reason(&self) -> Option<&str> {
        self.assignments.iter().find_map(|assignment| {
            let FirstPass::Given(Verdict::Block, opinion) = &assignment.first_pass else {
                return None;
            };
            Some(opinion.reason.as_str()).filter(|reason| !reason.is_empty())
        })
    }

    /// The sorted names of the reviewers whose status matches, so that the result does not depend
    /// on their order.
    fn names_by_status(&self, is_wanted: impl Fn(ReviewStatus) -> bool) -> Vec<&str> {
        self.names_where(|assignment| is_wanted(assignment.status()))
    }

    fn names_where(&self, wanted: impl Fn(&ReviewAssignment) -> bool) -> Vec<&str> {
        let assignments = self.assignments.iter().filter(|assignment| wanted(assignment));
        let mut names: Vec<&str> =
            assignments.map(|assignment| assignment.reviewer.as_str()).collect();
        names.sort_unstable();
        names
    }
}
