//! Classifies the actions of agents: each command, path and tool is GREEN, YELLOW or RED, and an
//! agent's rank decides which class needs a permission.
//!
//! A policy is data: the built-in file and a project's own file, parsed by [`read`]. If several
//! rules match an action, the most severe class wins. A command that cannot be parsed is at least
//! YELLOW. Nothing here stops an agent: it only classifies, and the callers act on it.

mod grant;
mod location;
mod request;
mod rules;
mod shell;
mod source;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use grant::{Grant, grants, with_permission};
pub use request::PermissionRequest;
pub use source::{BUILTIN, builtin, read};

use crate::closed::closed;
use location::{PathContext, PathLocation, locate_path, named_paths, written_paths};
use request::ACTION_BYTES;
use shell::{Script, SimpleCommand};

closed! {
    /// How much harm an action can do.
    pub enum RiskClass {
        #[serde(alias = "green")]
        Green = "GREEN",
        /// Needs a permission for agents of the lowest rank.
        #[serde(alias = "yellow")]
        Yellow = "YELLOW",
        /// Needs a permission for every agent.
        #[serde(alias = "red")]
        Red = "RED",
    }
}

closed! {
    /// How far an agent is trusted.
    pub enum Rank {
        Intern = "intern",
        Specialist = "specialist",
        Lead = "lead",
    }
}

/// Something that an agent does or wants to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "do", content = "what", rename_all = "lowercase")]
pub enum Action {
    /// A command line.
    Run(String),
    /// A path that is created, changed or removed.
    Write(String),
    Read(String),
    /// A tool, by name.
    Use(String),
}

impl Action {
    /// The verb, and the command, path or tool.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Run(what) => ("run", what),
            Self::Write(what) => ("write", what),
            Self::Read(what) => ("read", what),
            Self::Use(what) => ("use", what),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// A project's file can exclude the rule by this name.
    pub name: String,
    pub about: RuleSubject,
    pub pattern: String,
    pub class: RiskClass,
    pub why: String,
    /// The file and the line.
    pub place: String,
}

closed! {
    /// What a rule applies to.
    pub enum RuleSubject {
        Command = "command",
        /// A path that is written.
        Write = "write",
        /// A path that is written or read.
        Touch = "touch",
        Tool = "tool",
    }
}

/// The lowest class for which each rank needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub intern: RiskClass,
    pub specialist: RiskClass,
    pub lead: RiskClass,
}

/// How often something may repeat before it counts as a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loops {
    /// Failures of the same tool call with the same message.
    pub tool_failures: u32,
    /// Moves back and forth between the same two states without new work.
    pub back_and_forth: u32,
}

/// The rules in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The class of actions that no rule matches.
    pub default: RiskClass,
    pub lead_may_close: bool,
    pub approval: Approval,
    pub loops: Loops,
    pub rules: Vec<Rule>,
}

/// The class of an action, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    pub class: RiskClass,
    /// The reasons for the class, the most severe first. Empty if no rule matches.
    pub findings: Vec<PolicyFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFinding {
    /// The part of the action that it is about.
    pub what: String,
    pub class: RiskClass,
    pub why: String,
    /// The rule's name and place; none if the reason is no rule.
    pub rule: Option<(String, String)>,
}

/// Findings reported for one action.
const FINDINGS: usize = 20;

impl Policy {
    /// Classifies an action in the worktree `root`; an empty root means that there is none.
    pub fn assess(&self, action: &Action, root: &str) -> Assessment {
        let mut assessor = Assessor { policy: self, root, findings: Vec::new() };
        let mut path =
            |path: &str, access| assessor.path(path, &locate_path(path, "", root), access);
        match action {
            Action::Run(command) => assessor.command(command),
            Action::Write(written) => path(written, RuleSubject::Write),
            Action::Read(read) => path(read, RuleSubject::Touch),
            Action::Use(tool) => assessor.tool(tool),
        }
        let mut findings = assessor.findings;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.class));
        findings.dedup();
        findings.truncate(FINDINGS);
        let class = findings.first().map_or(RiskClass::Green, |finding| finding.class);
        Assessment { class, findings }
    }

    /// Whether an agent of this rank needs a permission for this class.
    pub fn needs_permission(&self, rank: Rank, class: RiskClass) -> bool {
        let from = match rank {
            Rank::Intern => self.approval.intern,
            Rank::Specialist => self.approval.specialist,
            Rank::Lead => self.approval.lead,
        };
        class >= from
    }
}

/// A policy for one run: the agent's rank, and the actions that were permitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyGuard {
    pub policy: Policy,
    pub rank: Rank,
    /// These actions, and no others, need no permission any more.
    pub allowed: Vec<Action>,
    /// The worktree; empty if there is none.
    pub root: String,
}

/// Actions in one request.
const ASKED: usize = 10;

impl PolicyGuard {
    /// The permission that these actions need, if they need any.
    pub fn stops(&self, actions: &[Action]) -> Option<PermissionRequest> {
        let mut blocked: Vec<(Action, Assessment)> = Vec::new();
        let mut bytes = 0;
        for action in actions.iter().map(|action| self.normalised(action)) {
            let verdict = self.policy.assess(&action, &self.root);
            let is_new = !blocked.iter().any(|(known, _)| *known == action);
            let needs_permission = self.policy.needs_permission(self.rank, verdict.class);
            let length = action.parts().1.len();
            let has_room =
                blocked.is_empty() || (blocked.len() < ASKED && bytes + length < ACTION_BYTES);
            if is_new && needs_permission && has_room && !self.allowed.contains(&action) {
                bytes += length;
                blocked.push((action, verdict));
            }
        }
        (!blocked.is_empty()).then(|| PermissionRequest::new(self.rank, blocked))
    }

    /// Normalises an action, so that a permitted one is recognised: a path is relative to the
    /// worktree, a command has no surrounding blanks.
    fn normalised(&self, action: &Action) -> Action {
        let path = |path: &str| locate_path(path, "", &self.root).path().unwrap_or(path).to_owned();
        match action {
            Action::Run(command) => Action::Run(command.trim().to_owned()),
            Action::Write(text) => Action::Write(path(text)),
            Action::Read(text) => Action::Read(path(text)),
            Action::Use(tool) => Action::Use(tool.trim().to_owned()),
        }
    }
}

/// Collects the findings about one action.
struct Assessor<'a> {
    policy: &'a Policy,
    root: &'a str,
    findings: Vec<PolicyFinding>,
}

impl Assessor<'_> {
    fn add_finding(&mut self, what: &str, rule: &Rule) {
        let place = Some((rule.name.clone(), rule.place.clone()));
        self.add(what, rule.class, &rule.why, place);
    }

    fn add_unknown(&mut self, what: &str, why: &str) {
        self.add(what, RiskClass::Yellow, why, None);
    }

    fn add(&mut self, what: &str, class: RiskClass, why: &str, rule: Option<(String, String)>) {
        let (what, why) = (what.to_owned(), why.to_owned());
        self.findings.push(PolicyFinding { what, class, why, rule });
    }

    fn add_default(&mut self, what: &str) {
        let class = self.policy.default;
        if class > RiskClass::Green {
            self.add(what, class, "no rule matches it", None);
        }
    }

    fn tool(&mut self, tool: &str) {
        let fits = |rule: &Rule| {
            rule.about == RuleSubject::Tool && rules::tool_matches(&rule.pattern, tool)
        };
        if !self.add_fitting(tool, fits) {
            self.add_default(tool);
        }
    }

    /// Adds every rule that fits, and says whether any does.
    fn add_fitting(&mut self, what: &str, fits: impl Fn(&Rule) -> bool) -> bool {
        let before = self.findings.len();
        let policy = self.policy;
        policy.rules.iter().filter(|rule| fits(rule)).for_each(|rule| self.add_finding(what, rule));
        self.findings.len() > before
    }

    /// `access` is how the path is used: `Touch` rules apply to both kinds of access.
    fn path(&mut self, shown: &str, location: &PathLocation, access: RuleSubject) {
        let fits = |rule: &Rule| {
            let is_about = rule.about == RuleSubject::Touch
                || (access == RuleSubject::Write && rule.about == RuleSubject::Write);
            is_about && rules::path_matches(&rule.pattern, location)
        };
        if !self.add_fitting(shown, fits) && access == RuleSubject::Write {
            self.add_default(shown);
        }
    }

    fn command(&mut self, command: &str) {
        let script = shell::read(command);
        for why in &script.unparsed {
            self.add_unknown(command, why);
        }
        let context = PathContext::of(&script, self.root);
        for shown in &context.unknown_folders {
            self.add_unknown(shown, "the folder that it changes to is unknown");
        }
        let policy = self.policy;
        let rules: Vec<&Rule> =
            policy.rules.iter().filter(|rule| rule.about == RuleSubject::Command).collect();
        for pipeline in &script.pipelines {
            let mut known: Vec<&SimpleCommand> = Vec::new();
            for rule in &rules {
                for simple in rules::matching_commands(&rule.pattern, pipeline, &context) {
                    known.push(simple);
                    self.add_finding(&simple.text(), rule);
                }
            }
            if policy.default > RiskClass::Green {
                for simple in pipeline.iter().filter(|simple| !known.contains(simple)) {
                    self.add_default(&simple.text());
                }
            }
        }
        self.paths_of(&script, &context);
    }

    fn paths_of(&mut self, script: &Script, context: &PathContext<'_>) {
        for simple in script.pipelines.iter().flatten() {
            for word in written_paths(simple) {
                for location in context.locations(&word) {
                    if location == PathLocation::Unknown {
                        let why = format!("the value of `{}` is unknown", word.text);
                        self.add_unknown(&simple.text(), &why);
                    }
                    self.path(&word.text, &location, RuleSubject::Write);
                }
            }
            for word in named_paths(simple) {
                for location in context.locations(&word) {
                    self.path(&word.text, &location, RuleSubject::Touch);
                }
            }
        }
    }
}
