//! What agents may do by themselves: each command, path and tool is GREEN, YELLOW or RED, and who
//! needs leave for which.
//!
//! A policy is data: the built-in one and a project's own file, read by [`read`]. Where several
//! rules are about one action the most severe wins. What cannot be read is YELLOW at least. Nothing
//! here stops anything: it says what an action is, and others act on it.

mod grant;
mod place;
mod request;
mod rules;
mod shell;
mod source;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use grant::{ALLOW, Grant, REFUSED, grants, with_permission};
pub use request::PermissionRequest;
pub use source::{BUILTIN, builtin, read};

use place::{Ground, Spot, changed, named, spot_of};
use request::ACTION_BYTES;
use shell::{Script, Simple};

/// How much an action can harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RiskClass {
    #[serde(alias = "green")]
    Green,
    /// For those who know what they do.
    #[serde(alias = "yellow")]
    Yellow,
    /// Only after a person has said yes.
    #[serde(alias = "red")]
    Red,
}

impl RiskClass {
    pub const ALL: [Self; 3] = [Self::Green, Self::Yellow, Self::Red];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Green => "GREEN",
            Self::Yellow => "YELLOW",
            Self::Red => "RED",
        }
    }
}

impl fmt::Display for RiskClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much an agent is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    Intern,
    Specialist,
    Lead,
}

impl Rank {
    pub const ALL: [Self; 3] = [Self::Intern, Self::Specialist, Self::Lead];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intern => "intern",
            Self::Specialist => "specialist",
            Self::Lead => "lead",
        }
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not a rank.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rank: intern, specialist or lead")]
pub struct NotARank(pub String);

impl FromStr for Rank {
    type Err = NotARank;

    fn from_str(text: &str) -> Result<Self, NotARank> {
        let found = Self::ALL.into_iter().find(|rank| rank.as_str() == text);
        found.ok_or_else(|| NotARank(text.chars().take(64).collect()))
    }
}

/// Something that an agent does or wants to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "do", content = "what", rename_all = "lowercase")]
pub enum Action {
    /// A command line.
    Run(String),
    /// A path that is made, changed or removed.
    Write(String),
    Read(String),
    /// A tool, by its name.
    Use(String),
}

impl Action {
    /// The word for it, and what it is done with.
    #[must_use]
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Run(what) => ("run", what),
            Self::Write(what) => ("write", what),
            Self::Read(what) => ("read", what),
            Self::Use(what) => ("use", what),
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// By which a project's file can leave it out.
    pub name: String,
    pub about: RuleSubject,
    pub pattern: String,
    pub class: RiskClass,
    pub why: String,
    /// The file and the line.
    pub place: String,
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleSubject {
    Command,
    /// A path that is written.
    Write,
    /// A path that is written or read.
    Touch,
    Tool,
}

impl RuleSubject {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Write => "write",
            Self::Touch => "touch",
            Self::Tool => "tool",
        }
    }
}

/// From which class on each rank has to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub intern: RiskClass,
    pub specialist: RiskClass,
    pub lead: RiskClass,
}

/// How often something may repeat before it is a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loops {
    /// The same call of a tool that fails in the same way.
    pub tool_failures: u32,
    /// There and back between the same two states, with nothing new.
    pub back_and_forth: u32,
}

/// All rules that hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The class of what no rule is about.
    pub default: RiskClass,
    pub lead_may_close: bool,
    pub approval: Approval,
    pub loops: Loops,
    pub rules: Vec<Rule>,
}

/// What an action is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub class: RiskClass,
    /// What speaks for the class, the most severe first. Empty where nothing is said about the
    /// action.
    pub findings: Vec<AssessedAction>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssessedAction {
    /// The part of the action that it is about.
    pub what: String,
    pub class: RiskClass,
    pub why: String,
    /// The rule's name and place; none for what could not be read.
    pub rule: Option<(String, String)>,
}

/// Findings of one action that are told.
const FINDINGS: usize = 20;

impl Policy {
    /// The class of an action in the worktree `root`; an empty root knows of none.
    #[must_use]
    pub fn look(&self, action: &Action, root: &str) -> Assessment {
        let mut look = Look { policy: self, root, findings: Vec::new() };
        match action {
            Action::Run(command) => look.command(command),
            Action::Write(path) => look.path(path, &spot_of(path, "", root), RuleSubject::Write),
            Action::Read(path) => look.path(path, &spot_of(path, "", root), RuleSubject::Touch),
            Action::Use(tool) => look.tool(tool),
        }
        look.verdict()
    }

    /// Whether somebody of this rank needs leave for this class.
    #[must_use]
    pub fn asks(&self, rank: Rank, class: RiskClass) -> bool {
        let from = match rank {
            Rank::Intern => self.approval.intern,
            Rank::Specialist => self.approval.specialist,
            Rank::Lead => self.approval.lead,
        };
        class >= from
    }
}

/// A policy as it holds for one run: who acts, and what was allowed already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyGuard {
    pub policy: Policy,
    pub rank: Rank,
    /// Exactly these need no leave any more.
    pub allowed: Vec<Action>,
    /// The worktree; empty where there is none.
    pub root: String,
}

/// Actions that one request asks for.
const ASKED: usize = 10;

impl PolicyGuard {
    /// What has to be asked before these actions, if anything.
    #[must_use]
    pub fn stops(&self, actions: &[Action]) -> Option<PermissionRequest> {
        let mut held: Vec<(Action, Assessment)> = Vec::new();
        let mut bytes = 0;
        for action in actions.iter().map(|action| self.tidy(action)) {
            let verdict = self.policy.look(&action, &self.root);
            let is_new = !held.iter().any(|(known, _)| *known == action);
            let asks = self.policy.asks(self.rank, verdict.class);
            let length = action.parts().1.len();
            let has_room = held.is_empty() || (held.len() < ASKED && bytes + length < ACTION_BYTES);
            if is_new && asks && has_room && !self.allowed.contains(&action) {
                bytes += length;
                held.push((action, verdict));
            }
        }
        (!held.is_empty()).then(|| PermissionRequest::new(self.rank, held))
    }

    /// One way to write each action, so that what was allowed is found again: a path from the top
    /// of the worktree, a command without blanks around it.
    #[must_use]
    pub fn tidy(&self, action: &Action) -> Action {
        let path = |path: &str| match spot_of(path, "", &self.root) {
            Spot::Inside(path) | Spot::Outside(path) | Spot::Scratch(path) => path,
            Spot::Unknown => path.to_owned(),
        };
        match action {
            Action::Run(command) => Action::Run(command.trim().to_owned()),
            Action::Write(text) => Action::Write(path(text)),
            Action::Read(text) => Action::Read(path(text)),
            Action::Use(tool) => Action::Use(tool.trim().to_owned()),
        }
    }
}

/// A look at one action.
struct Look<'a> {
    policy: &'a Policy,
    root: &'a str,
    findings: Vec<AssessedAction>,
}

impl Look<'_> {
    fn verdict(mut self) -> Assessment {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.class));
        self.findings.dedup();
        self.findings.truncate(FINDINGS);
        let class = self.findings.first().map_or(RiskClass::Green, |finding| finding.class);
        Assessment { class, findings: self.findings }
    }

    fn found(&mut self, what: &str, rule: &Rule) {
        self.findings.push(AssessedAction {
            what: what.to_owned(),
            class: rule.class,
            why: rule.why.clone(),
            rule: Some((rule.name.clone(), rule.place.clone())),
        });
    }

    fn doubt(&mut self, what: &str, why: &str) {
        let (what, why) = (what.to_owned(), why.to_owned());
        self.findings.push(AssessedAction { what, class: RiskClass::Yellow, why, rule: None });
    }

    fn by_default(&mut self, what: &str) {
        let class = self.policy.default;
        if class > RiskClass::Green {
            let why = "no rule is about it".to_owned();
            self.findings.push(AssessedAction { what: what.to_owned(), class, why, rule: None });
        }
    }

    fn tool(&mut self, tool: &str) {
        let policy = self.policy;
        let rules = policy.rules.iter().filter(|rule| rule.about == RuleSubject::Tool);
        let fitting: Vec<&Rule> =
            rules.filter(|rule| rules::is_tool(&rule.pattern, tool)).collect();
        if fitting.is_empty() {
            self.by_default(tool);
        }
        fitting.into_iter().for_each(|rule| self.found(tool, rule));
    }

    /// `access` is how it is used: rules about touching hold for both ways.
    fn path(&mut self, shown: &str, spot: &Spot, access: RuleSubject) {
        let policy = self.policy;
        let is_about = |rule: &&Rule| {
            rule.about == RuleSubject::Touch
                || (access == RuleSubject::Write && rule.about == RuleSubject::Write)
        };
        let fitting: Vec<&Rule> = policy
            .rules
            .iter()
            .filter(is_about)
            .filter(|rule| rules::is_path(&rule.pattern, spot))
            .collect();
        if fitting.is_empty() && access == RuleSubject::Write {
            self.by_default(shown);
        }
        fitting.into_iter().for_each(|rule| self.found(shown, rule));
    }

    fn command(&mut self, command: &str) {
        let script = shell::read(command);
        for why in &script.doubts {
            self.doubt(command, why);
        }
        let ground = Ground::of(&script, self.root);
        for shown in &ground.lost {
            self.doubt(shown, "where it changes to cannot be known");
        }
        let policy = self.policy;
        let rules: Vec<&Rule> =
            policy.rules.iter().filter(|rule| rule.about == RuleSubject::Command).collect();
        for pipeline in &script.pipelines {
            let mut known: Vec<&Simple> = Vec::new();
            for rule in &rules {
                for simple in rules::about(&rule.pattern, pipeline, &ground) {
                    known.push(simple);
                    self.found(&simple.shown(), rule);
                }
            }
            if policy.default > RiskClass::Green {
                for simple in pipeline.iter().filter(|simple| !known.contains(simple)) {
                    self.by_default(&simple.shown());
                }
            }
        }
        self.paths_of(&script, &ground);
    }

    fn paths_of(&mut self, script: &Script, ground: &Ground<'_>) {
        for simple in script.pipelines.iter().flatten() {
            for word in changed(simple) {
                for spot in ground.spots(&word) {
                    if spot == Spot::Unknown {
                        let why = format!("what `{}` is cannot be known", word.text);
                        self.doubt(&simple.shown(), &why);
                    }
                    self.path(&word.text, &spot, RuleSubject::Write);
                }
            }
            for word in named(simple) {
                for spot in ground.spots(&word) {
                    self.path(&word.text, &spot, RuleSubject::Touch);
                }
            }
        }
    }
}
