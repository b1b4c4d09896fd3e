//! Parses the YAML of a policy and reports every problem with its line. It never opens a file.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Approval, Loops, Policy, RiskClass, Rule, RuleSubject};
use crate::lifecycle::problem::{Problem, Problems, suggestion};
use crate::limits;
use crate::text::clip;
use crate::yaml::{self, Name, Spanned, problem_at};

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
    extends: Option<Extends>,
    #[serde(default)]
    without: Vec<Name>,
    default: Option<RiskClass>,
    lead_may_close: Option<bool>,
    approval: Option<ApprovalSource>,
    loops: Option<LoopsSource>,
    #[serde(default)]
    commands: Vec<CommandSource>,
    #[serde(default)]
    paths: Vec<Spanned<PathSource>>,
    #[serde(default)]
    tools: Vec<ToolSource>,
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
    let policy = source(BUILTIN, BUILTIN_ORIGIN)
        .and_then(|source| policy(source, Vec::new(), BUILTIN_ORIGIN, BUILTIN));
    policy.expect("a test parses the built-in policy")
});

/// The policy of a project without its own file.
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
    let source = source(text, origin)?;
    let inherited = match source.extends {
        Some(Extends::Nothing) => Vec::new(),
        Some(Extends::Builtin) | None => builtin().rules,
    };
    policy(source, inherited, origin, text)
}

fn source(text: &str, origin: &str) -> Result<PolicySource, Box<Problems>> {
    // A file with only comments is valid and empty.
    let is_empty =
        text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#')));
    let read = yaml::read(if is_empty { "{}" } else { text }, limits::POLICY_BYTES, MANUAL, &[]);
    read.map_err(|problem| Box::new(Problems::new(origin, text, vec![problem])))
}

fn policy(
    source: PolicySource,
    mut rules: Vec<Rule>,
    origin: &str,
    text: &str,
) -> Result<Policy, Box<Problems>> {
    let PolicySource { without, commands, paths, tools, .. } = source;
    let mut problems = Vec::new();
    for name in &without {
        if !rules.iter().any(|rule| rule.name == name.value) {
            let known = rules.iter().map(|rule| rule.name.as_str());
            let message = format!("unknown built-in rule `{}`", clip(&name.value));
            problems.push(problem_at(name, message, suggestion(&name.value, known)));
        }
    }
    rules.retain(|rule| !without.iter().any(|name| name.value == rule.name));
    let mut checker = RuleChecker { origin, rules, problems };
    checker.add_all(commands, paths, tools);
    let RuleChecker { rules, mut problems, .. } = checker;
    let approval = source.approval.map_or(DEFAULT_APPROVAL, |given| approval(given, &mut problems));
    let loops = source.loops.map_or(DEFAULT_LOOPS, |given| loops(given, &mut problems));
    if !problems.is_empty() {
        return Err(Box::new(Problems::new(origin, text, problems)));
    }
    Ok(Policy {
        default: source.default.unwrap_or(RiskClass::Green),
        lead_may_close: source.lead_may_close.unwrap_or(false),
        approval,
        loops,
        rules,
    })
}

/// Adds the rules of a file to those that it inherits, and collects the problems.
struct RuleChecker<'a> {
    origin: &'a str,
    rules: Vec<Rule>,
    problems: Vec<Problem>,
}

impl RuleChecker<'_> {
    fn add_all(
        &mut self,
        commands: Vec<CommandSource>,
        paths: Vec<Spanned<PathSource>>,
        tools: Vec<ToolSource>,
    ) {
        let first_own = self.rules.len();
        for CommandSource { run, class, why, name } in commands {
            self.add(RuleSubject::Command, &run, class, why.as_deref(), name.as_ref());
        }
        for rule in paths {
            let PathSource { write, touch, class, why, name } = &rule.value;
            let (about, pattern) = match (write, touch) {
                (Some(pattern), None) => (RuleSubject::Write, pattern),
                (None, Some(pattern)) => (RuleSubject::Touch, pattern),
                (Some(_), Some(_)) | (None, None) => {
                    let message = "a path rule needs either `write` or `touch`";
                    let help = "`touch` matches reads and writes";
                    self.problems.push(problem_at(&rule, message, help));
                    continue;
                }
            };
            self.add(about, pattern, *class, why.as_deref(), name.as_ref());
        }
        for ToolSource { tool, class, why, name } in tools {
            self.add(RuleSubject::Tool, &tool, class, why.as_deref(), name.as_ref());
        }
        if self.rules.len() - first_own > limits::POLICY_RULES {
            let message = format!("more than {} rules", limits::POLICY_RULES);
            self.problems.push(Problem::of_whole(message, None));
        }
    }

    fn add(
        &mut self,
        about: RuleSubject,
        pattern: &Name,
        class: RiskClass,
        why: Option<&str>,
        name: Option<&Name>,
    ) {
        let text = pattern.value.trim();
        if text.is_empty() || text.len() > limits::POLICY_PATTERN_BYTES {
            let most = limits::POLICY_PATTERN_BYTES;
            let message = format!("a pattern must have 1 to {most} bytes");
            self.problems.push(problem_at(pattern, message, "write what the rule matches"));
        }
        if about == RuleSubject::Command && text.starts_with(['-', '|', '{']) {
            let message = "a command pattern must begin with a program";
            let help = "write the program first, such as `git ... push --force*`";
            self.problems.push(problem_at(pattern, message, help));
        }
        let (line, _) = yaml::place(pattern);
        let own = name.map_or_else(|| format!("line-{line}"), |name| name.value.clone());
        if self.rules.iter().any(|rule| rule.name == own) {
            let message = format!("duplicate rule `{}`", clip(&own));
            let at = name.unwrap_or(pattern);
            self.problems.push(problem_at(at, message, "give it another `name`"));
        }
        let why = why.map(str::trim).filter(|why| !why.is_empty());
        self.rules.push(Rule {
            name: own,
            about,
            pattern: text.to_owned(),
            class,
            why: why.unwrap_or("a rule of this project matches it").to_owned(),
            place: format!("{}:{line}", self.origin),
        });
    }
}

fn approval(given: ApprovalSource, problems: &mut Vec<Problem>) -> Approval {
    let mut class = |given: Option<Spanned<RiskClass>>, default: RiskClass| {
        let Some(given) = given else { return default };
        if given.value == RiskClass::Green {
            let help = "write YELLOW or RED: the lowest class that needs a permission";
            problems.push(problem_at(&given, "GREEN never needs a permission", help));
        }
        given.value
    };
    Approval {
        intern: class(given.intern, DEFAULT_APPROVAL.intern),
        specialist: class(given.specialist, DEFAULT_APPROVAL.specialist),
        lead: class(given.lead, DEFAULT_APPROVAL.lead),
    }
}

fn loops(given: LoopsSource, problems: &mut Vec<Problem>) -> Loops {
    let mut number = |given: Option<Spanned<u32>>, default: u32| {
        let Some(given) = given else { return default };
        if !LOOPS.contains(&given.value) {
            let message = format!("expected a number from {} to {}", LOOPS.start(), LOOPS.end());
            problems.push(problem_at(&given, message, ""));
        }
        given.value
    };
    Loops {
        tool_failures: number(given.tool_failures, DEFAULT_LOOPS.tool_failures),
        back_and_forth: number(given.back_and_forth, DEFAULT_LOOPS.back_and_forth),
    }
}
