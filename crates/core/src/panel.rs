//! A panel of reviewers: from all that was said in it so far to what is to be done next.
//!
//! The whole record of a panel goes in, one answer comes out ([`next`]); nothing is remembered
//! between two questions, so a panel that was cut off anywhere goes on as if it had not been. It
//! never asks anybody, and it never takes a missing verdict for an approval.
//!
//! Words for people are in `summary`, the names of what a task keeps of a panel are in `on_record`,
//! who sits on one is in `registry`.

pub mod on_record;
pub mod registry;
pub mod summary;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::lifecycle::Outcome;
use crate::time::Instant;

/// What a reviewer says about the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Approve,
    /// Something should be different; it may be talked about.
    Concern,
    /// A veto.
    Block,
    /// A person has to decide.
    Escalate,
}

impl Verdict {
    pub const ALL: [Self; 4] = [Self::Approve, Self::Concern, Self::Block, Self::Escalate];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "APPROVE",
            Self::Concern => "CONCERN",
            Self::Block => "BLOCK",
            Self::Escalate => "ESCALATE",
        }
    }
}

/// Why a reviewer says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rationale {
    #[serde(default)]
    pub rationale: String,
    #[serde(default)]
    pub concerns: Vec<String>,
    #[serde(default)]
    pub suggestions: Vec<String>,
    /// Why it blocks, as one of the words by which the work is sent to different places. Empty:
    /// none of them fits.
    #[serde(default)]
    pub reason: String,
}

/// A seat in the first pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstPass {
    Awaited,
    Given(Verdict, Rationale),
    /// There is no verdict, and there will be none.
    Missing {
        why: String,
    },
}

/// What the holder of a concern says in one round of the debate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DebateReply {
    Awaited,
    Withdraw {
        why: String,
    },
    Maintain {
        why: String,
    },
    /// Counts as [`Self::Maintain`].
    Missing {
        why: String,
    },
}

/// One reviewer of a panel and all that it has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewAssignment {
    pub reviewer: String,
    pub word: FirstPass,
    /// By round. Whoever holds no concern is not asked.
    pub replies: Vec<DebateReply>,
}

/// How a seat stands, everything that it has said taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewStatus {
    Waiting,
    Given(Verdict),
    /// It had a concern and gave it up in the debate.
    Withdrawn,
    Silent,
}

impl ReviewAssignment {
    #[must_use]
    pub fn standing(&self) -> ReviewStatus {
        match &self.word {
            FirstPass::Awaited => ReviewStatus::Waiting,
            FirstPass::Missing { .. } => ReviewStatus::Silent,
            FirstPass::Given(Verdict::Concern, _) if self.has_withdrawn() => {
                ReviewStatus::Withdrawn
            }
            FirstPass::Given(verdict, _) => ReviewStatus::Given(*verdict),
        }
    }

    fn has_withdrawn(&self) -> bool {
        self.replies.iter().any(|reply| matches!(reply, DebateReply::Withdraw { .. }))
    }

    #[must_use]
    pub fn holds_a_concern(&self) -> bool {
        self.standing() == ReviewStatus::Given(Verdict::Concern)
    }

    fn is_awaited_in(&self, round: usize) -> bool {
        let reply = round.checked_sub(1).and_then(|at| self.replies.get(at));
        matches!(reply, None | Some(DebateReply::Awaited))
    }
}

/// The whole record of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Panel {
    pub assignments: Vec<ReviewAssignment>,
    /// When each round of the debate that has begun is over, whoever has replied by then.
    pub round_ends: Vec<Instant>,
    /// When the panel as a whole is over; none: it has no bound of its own.
    pub ends: Option<Instant>,
    /// Rounds of debate that there may be; whoever sits alone has nobody to debate with.
    pub most_rounds: usize,
}

/// What a panel comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    Approved,
    Blocked,
    Escalated,
    Unresolved,
    Unavailable,
}

impl Ruling {
    #[must_use]
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

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PanelAction {
    /// Somebody has yet to speak. At this time the answer is another one even if nobody does.
    Wait {
        until: Option<Instant>,
    },
    /// Everybody who holds a concern is asked in this round, the first is 1.
    Debate {
        round: usize,
    },
    Decide {
        ruling: Ruling,
        reason: String,
    },
}

/// What is to be done next, as the panel stands at this time.
#[must_use]
pub fn next(panel: &Panel, now: Instant) -> PanelAction {
    if panel.assignments.is_empty() {
        return decide(Ruling::Unavailable, "no reviewers".to_owned());
    }
    let blocking = panel.who(|standing| standing == ReviewStatus::Given(Verdict::Block));
    if !blocking.is_empty() {
        return decide(Ruling::Blocked, format!("blocked by {}", blocking.join(", ")));
    }
    let is_over = panel.ends.is_some_and(|ends| now >= ends);
    if !is_over
        && panel.assignments.iter().any(|assignment| assignment.standing() == ReviewStatus::Waiting)
    {
        return PanelAction::Wait { until: panel.ends };
    }
    // Whoever has not spoken when the panel is over is as missing as one that never will.
    let missing =
        panel.who(|standing| matches!(standing, ReviewStatus::Silent | ReviewStatus::Waiting));
    if missing.len() == panel.assignments.len() {
        return decide(Ruling::Unavailable, format!("no verdict of {}", missing.join(", ")));
    }
    let without = match missing.as_slice() {
        [] => String::new(),
        some => format!("no verdict of {}", some.join(", ")),
    };
    let escalating = panel.who(|standing| standing == ReviewStatus::Given(Verdict::Escalate));
    if !escalating.is_empty() {
        let also = if without.is_empty() { String::new() } else { format!("; {without}") };
        let reason = format!("{} asks for a person{also}", escalating.join(", "));
        return decide(Ruling::Escalated, reason);
    }
    if !missing.is_empty() {
        return decide(Ruling::Unresolved, without);
    }
    debate(panel, is_over, now)
}

/// All have approved or have a concern.
fn debate(panel: &Panel, is_over: bool, now: Instant) -> PanelAction {
    let holders: Vec<&ReviewAssignment> =
        panel.assignments.iter().filter(|assignment| assignment.holds_a_concern()).collect();
    if holders.is_empty() {
        return decide(Ruling::Approved, approval(panel));
    }
    let round = panel.round_ends.len();
    if let Some(round_ends) = panel.round_ends.last() {
        let until = panel.ends.map_or(*round_ends, |ends| ends.min(*round_ends));
        let slow = panel
            .who_of(|assignment| assignment.holds_a_concern() && assignment.is_awaited_in(round));
        if !slow.is_empty() && now < until {
            return PanelAction::Wait { until: Some(until) };
        }
        if !slow.is_empty() {
            let reason = format!("the debate ran out of time before {} replied", slow.join(", "));
            return decide(Ruling::Unresolved, reason);
        }
    }
    if round < panel.most_rounds && !is_over {
        return PanelAction::Debate { round: round + 1 };
    }
    let who = panel.who_of(ReviewAssignment::holds_a_concern);
    let debated = match round {
        0 => "has a concern".to_owned(),
        rounds => format!("stays with a concern after {rounds} rounds of debate"),
    };
    decide(Ruling::Unresolved, format!("{} {debated}", who.join(", ")))
}

fn approval(panel: &Panel) -> String {
    let withdrawn = panel.who(|standing| standing == ReviewStatus::Withdrawn);
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
    /// What the first of those who block names as the reason, if one of them names any.
    #[must_use]
    pub fn blocked_for(&self) -> Option<&str> {
        self.assignments.iter().find_map(|assignment| match &assignment.word {
            FirstPass::Given(Verdict::Block, opinion) => {
                Some(opinion.reason.as_str()).filter(|reason| !reason.is_empty())
            }
            FirstPass::Given(Verdict::Approve | Verdict::Concern | Verdict::Escalate, _)
            | FirstPass::Awaited
            | FirstPass::Missing { .. } => None,
        })
    }

    /// The names of those who stand so, sorted: no answer depends on the order of the seats.
    fn who(&self, stands: impl Fn(ReviewStatus) -> bool) -> Vec<&str> {
        self.who_of(|assignment| stands(assignment.standing()))
    }

    fn who_of(&self, wanted: impl Fn(&ReviewAssignment) -> bool) -> Vec<&str> {
        let assignments = self.assignments.iter().filter(|assignment| wanted(assignment));
        let mut names: Vec<&str> =
            assignments.map(|assignment| assignment.reviewer.as_str()).collect();
        names.sort_unstable();
        names
    }
}
