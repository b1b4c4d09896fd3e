//! Parses the YAML of a policy and reports every problem with its line. It never opens a file.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Approval, Loops, Policy, RiskClass, Rule, RuleSubject};
use crate::lifecycle::problem::{Problem, Problems, suggestion};
use crate::limits;
use crate::yaml::{self, Name, Spanned, clip, problem_at};

/// The rules that apply unless a project changes them.
pub const BUILTIN: &str = include_str!("builtin.yaml");
const BUILTIN_ORIGIN: &str = "built-in";
const MANUAL: &str = "docs/policy.md";
/// The allowed limits on repetitions: 1 is no repetition, and above 100 the limit has no effect.
const LOOPS: std::ops::RangeInclusive<u32> = 2..=100;
const DEFAULT_LOOPS: Loops = Loops { tool_failures: 3, back_and_forth: 3 };
const DEFAULT_APPROVAL: Approval =
    Approval { intern: RiskClass::Yellow, specialist: RiskClass::Red, lead: RiskClass::Red };

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicySource {
    extends: Option<Spanned<Extends>>,
    #[serde(default)]
    without: Vec<Name>,
    default: Option<RiskClass>,
    lead_may_close: Option<bool>,
    approval: Option<ApprovalSource>,
    loops: Option<LoopsSource>,
    #[serde(default)]
    commands: Vec<Spanned<CommandSource>>,
    #[serde(default)]
    paths: Vec<Spanned<PathSource>>,
    #[serde(default)]
    tools: Vec<Spanned<ToolSource>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Extends {
    Builtin,
    Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalSource {
    intern: Option<Spanned<RiskClass>>,
    specialist: Option<Spanned<RiskClass>>,
    lead: Option<Spanned<RiskClass>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopsSource {
    tool_failures: Option<Spanned<u32>>,
    back_and_forth: Option<Spanned<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandSource {
    run: Name,
    class: RiskClass,
    why: Option<String>,
    name: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathSource {
    write: Option<Name>,
    touch: Option<Name>,
    class: RiskClass,
    why: Option<String>,
    name: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolSource {
    tool: Name,
    class: RiskClass,
    why: Option<String>,
    name: Option<Name>,
}

/// Parsed once, because every start and end of an agent needs it.
static BUILT_IN: LazyLock<Policy> = LazyLock::new(|| {
    let draft = Draft::of(BUILTIN, BUILTIN_ORIGIN).expect("a test parses the built-in policy");
    draft.policy(Vec::new(), BUILTIN).expect("a test parses the built-in policy")
});

/// The policy of a project without its own file.
#[must_use]
pub fn builtin() -> Policy {
    BUILT_IN.clone()
}

/// Parses a project's policy and adds the built-in rules unless the file excludes them. `origin` is
/// the name of the file.
///
/// # Errors
///
/// Every problem, with its line.
pub fn read(text: &str, origin: &str) -> Result<Policy, Box<Problems>> {
    let draft = Draft::of(text, origin)?;
    let extends = draft.source.extends.as_ref().map_or(Extends::Builtin, |given| given.value);
    let inherited = match extends {
        Extends::Builtin => builtin().rules,
        Extends::Nothing => Vec::new(),
    };
    draft.policy(inherited, text)
}

/// A parsed file and the problems found in it.
struct Draft<'a> {
    source: PolicySource,
    origin: &'a str,
    problems: Vec<Problem>,
}

impl<'a> Draft<'a> {
    fn of(text: &str, origin: &'a str) -> Result<Self, Box<Problems>> {
        // A file with only comments is valid and empty.
        let is_empty =
            text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#')));
        let text_read = if is_empty { "{}" } else { text };
        match yaml::read(text_read, limits::POLICY_BYTES, MANUAL) {
            Ok(source) => Ok(Self { source, origin, problems: Vec::new() }),
            Err(problem) => Err(Box::new(Problems::new(origin, text, vec![problem]))),
        }
    }

    fn policy(mut self, inherited: Vec<Rule>, text: &str) -> Result<Policy, Box<Problems>> {
        let without = std::mem::take(&mut self.source.without);
        for name in &without {
            if !inherited.iter().any(|rule| rule.name == name.value) {
                let known = inherited.iter().map(|rule| rule.name.as_str());
                let message = format!("unknown built-in rule `{}`", clip(&name.value));
                self.problems.push(problem_at(name, message, suggestion(&name.value, known)));
            }
        }
        let is_excluded = |rule: &Rule| without.iter().any(|name| name.value == rule.name);
        let mut rules: Vec<Rule> =
            inherited.into_iter().filter(|rule| !is_excluded(rule)).collect();
        self.add_rules(&mut rules);
        let approval = self.approval();
        let loops = self.loops();
        if !self.problems.is_empty() {
            return Err(Box::new(Problems::new(self.origin, text, self.problems)));
        }
        Ok(Policy {
            default: self.source.default.unwrap_or(RiskClass::Green),
            lead_may_close: self.source.lead_may_close.unwrap_or(false),
            approval,
            loops,
            rules,
        })
    }

    fn add_rules(&mut self, rules: &mut Vec<Rule>) {
        let first_own = rules.len();
        let commands = std::mem::take(&mut self.source.commands);
        for rule in &commands {
            let CommandSource { run, class, why, name } = &rule.value;
            self.add(rules, RuleSubject::Command, run, (*class, why.as_deref(), name.as_ref()));
        }
        let paths = std::mem::take(&mut self.source.paths);
        for rule in &paths {
            let PathSource { write, touch, class, why, name } = &rule.value;
            let (about, pattern) = match (write, touch) {
                (Some(pattern), None) => (RuleSubject::Write, pattern),
                (None, Some(pattern)) => (RuleSubject::Touch, pattern),
                (Some(_), Some(_)) | (None, None) => {
                    let message = "a path rule needs either `write` or `touch`";
                    let help = "`touch` matches reads and writes";
                    self.problems.push(problem_at(rule, message, help));
                    continue;
                }
            };
            self.add(rules, about, pattern, (*class, why.as_deref(), name.as_ref()));
        }
        let tools = std::mem::take(&mut self.source.tools);
        for rule in &tools {
            let ToolSource { tool, class, why, name } = &rule.value;
            self.add(rules, RuleSubject::Tool, tool, (*class, why.as_deref(), name.as_ref()));
        }
        if rules.len() - first_own > limits::POLICY_RULES {
            let message = format!("more than {} rules", limits::POLICY_RULES);
            self.problems.push(Problem::of_whole(message, None));
        }
    }

    fn add(
        &mut self,
        rules: &mut Vec<Rule>,
        about: RuleSubject,
        pattern: &Name,
        (class, why, name): (RiskClass, Option<&str>, Option<&Name>),
    ) {
        let text = pattern.value.trim();
        if text.is_empty() || text.len() > limits::POLICY_PATTERN_BYTES {
            let most = limits::POLICY_PATTERN_BYTES;
            let message = format!("a pattern must have 1 to {most} bytes");
            self.problems.push(problem_at(pattern, message, "write what the rule matches"));
        }
        if about == RuleSubject::Command && text.starts_with(['-', '|', '{']) {
            let help = "write the program first, such as `git ... push --force*`";
            self.problems.push(problem_at(
                pattern,
                "a command pattern must begin with a program",
                help,
            ));
        }
        let (line, _) = yaml::place(pattern);
        let own = name.map_or_else(|| format!("line-{line}"), |name| name.value.clone());
        if rules.iter().any(|rule| rule.name == own) {
            let message = format!("duplicate rule `{}`", clip(&own));
            let at = name.unwrap_or(pattern);
            self.problems.push(problem_at(at, message, "give it another `name`"));
        }
        let why = why.map(str::trim).filter(|why| !why.is_empty());
        rules.push(Rule {
            name: own,
            about,
            pattern: text.to_owned(),
            class,
            why: why.unwrap_or("a rule of this project matches it").to_owned(),
            place: format!("{}:{line}", self.origin),
        });
    }

    fn approval(&mut self) -> Approval {
        let Some(given) = self.source.approval.take() else { return DEFAULT_APPROVAL };
        let mut class = |given: Option<Spanned<RiskClass>>, default: RiskClass| {
            let Some(given) = given else { return default };
            if given.value == RiskClass::Green {
                let help = "write YELLOW or RED: the lowest class that needs a permission";
                self.problems.push(problem_at(&given, "GREEN never needs a permission", help));
            }
            given.value
        };
        Approval {
            intern: class(given.intern, DEFAULT_APPROVAL.intern),
            specialist: class(given.specialist, DEFAULT_APPROVAL.specialist),
            lead: class(given.lead, DEFAULT_APPROVAL.lead),
        }
    }

    fn loops(&mut self) -> Loops {
        let Some(given) = self.source.loops.take() else { return DEFAULT_LOOPS };
        let mut number = |given: Option<Spanned<u32>>, default: u32| {
            let Some(given) = given else { return default };
            if !LOOPS.contains(&given.value) {
                let message =
                    format!("expected a number from {} to {}", LOOPS.start(), LOOPS.end());
                self.problems.push(problem_at(&given, message, ""));
            }
            given.value
        };
        Loops {
            tool_failures: number(given.tool_failures, DEFAULT_LOOPS.tool_failures),
            back_and_forth: number(given.back_and_forth, DEFAULT_LOOPS.back_and_forth),
        }
    }
}
