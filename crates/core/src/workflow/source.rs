//! The YAML of a workflow as it is written, with the position of every name. `expand` and `check`
//! validate it.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{EscalationLevel, LaunchMode};
use crate::closed::closed;
use crate::lifecycle::expr::Value;
use crate::lifecycle::problem::Problem;
use crate::limits;
use crate::yaml::{
    self, Entries, HasId, Name, OneOrMany, Spanned, TextOr, WordOr, nameless, with_id, with_ids,
};

/// The document that shows every key.
const MANUAL: &str = "docs/workflow-format.md";

/// Keys and values that cannot be read, of which a file reports at most this many.
const MOST_UNREADABLE: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkflowSource {
    #[serde(deserialize_with = "with_id")]
    pub(super) workflow: Header,
    #[serde(deserialize_with = "with_ids")]
    pub(super) steps: Vec<StepSource>,
    #[serde(default, deserialize_with = "with_ids")]
    pub(super) gates: Vec<GateSource>,
}

impl HasId for Header {
    fn id(&mut self) -> &mut Name {
        &mut self.id
    }
}

impl HasId for StepSource {
    fn id(&mut self) -> &mut Name {
        &mut self.id
    }
}

impl HasId for GateSource {
    fn id(&mut self) -> &mut Name {
        &mut self.id
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    #[serde(default = "nameless")]
    pub(super) id: Name,
    pub(super) name: Option<Name>,
    pub(super) description: Option<Name>,
    #[serde(default)]
    pub(super) context_files: Vec<Name>,
    #[serde(default)]
    pub(super) params: Entries<Spanned<ParamSource>>,
    pub(super) parallel: Option<Spanned<u32>>,
    pub(super) merge: Option<bool>,
    pub(super) breaker: Option<BreakerSource>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BreakerSource {
    pub(super) failures: Option<Spanned<u32>>,
    pub(super) time: Option<Name>,
    pub(super) cost: Option<Spanned<f64>>,
}

/// `name: value`, which takes the type of the value, or `name: { type, default, choices, about }`.
#[derive(Debug)]
pub(super) enum ParamSource {
    Value(Value),
    Full(FullParam),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FullParam {
    #[serde(rename = "type")]
    pub(super) kind: Option<WordOr<ParamType>>,
    pub(super) default: Option<Spanned<Value>>,
    #[serde(default)]
    pub(super) choices: Vec<Spanned<Value>>,
    #[serde(rename = "about")]
    _about: Option<String>,
}

closed! {
    pub(super) enum ParamType {
        String = "string",
        Number = "number",
        Boolean = "boolean",
        List = "list",
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepSource {
    #[serde(default = "nameless")]
    pub(super) id: Name,
    pub(super) name: Option<Name>,
    pub(super) agent: Option<Spanned<AgentSource>>,
    pub(super) inputs: Option<Spanned<Vec<Name>>>,
    pub(super) outputs: Option<Spanned<Vec<Name>>>,
    pub(super) success_criterion: Option<Spanned<TextOr<CriterionSource>>>,
    pub(super) signal: Option<Spanned<SignalSource>>,
    pub(super) gate: Option<Name>,
    pub(super) run: Option<Name>,
    pub(super) needs: Option<Spanned<OneOrMany>>,
    pub(super) prompt: Option<Name>,
    pub(super) timeout: Option<Name>,
    #[serde(default)]
    pub(super) matrix: Entries<Spanned<Value>>,
    pub(super) for_each: Option<Spanned<Value>>,
    pub(super) uses: Option<Name>,
    #[serde(default)]
    pub(super) with: Entries<Spanned<Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentSource {
    #[serde(rename = "type")]
    pub(super) role: Option<Name>,
    pub(super) launch: Option<WordOr<LaunchMode>>,
    pub(super) worktree: Option<Name>,
    #[serde(default)]
    pub(super) context: Vec<Name>,
    pub(super) worker: Option<Name>,
}

/// Exactly one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CriterionSource {
    pub(super) command: Option<Name>,
    pub(super) file: Option<Name>,
    pub(super) judged: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignalSource {
    #[serde(rename = "type")]
    pub(super) kind: Option<WordOr<SignalType>>,
    pub(super) value: Option<Name>,
}

closed! {
    pub(super) enum SignalType {
        SentinelFile = "sentinel_file",
        GitCommit = "git_commit",
        PrCreation = "pr_creation",
        StdoutExit = "stdout_exit",
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GateSource {
    #[serde(default = "nameless")]
    pub(super) id: Name,
    pub(super) name: Option<Name>,
    #[serde(default)]
    pub(super) reviewer: ReviewerSource,
    pub(super) on_pass: Option<PassSource>,
    pub(super) on_fail: Option<FailSource>,
    pub(super) max_retries: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviewerSource {
    pub(super) level: Option<WordOr<EscalationLevel>>,
    pub(super) agent_type: Option<Spanned<OneOrMany>>,
    pub(super) veto_window: Option<Name>,
    pub(super) timeout: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PassSource {
    pub(super) next_step: Spanned<OneOrMany>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailSource {
    pub(super) next_step: Option<Name>,
    pub(super) retry_context_path: Option<Name>,
    #[serde(default)]
    pub(super) routes: Vec<RouteSource>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteSource {
    pub(super) reason: Name,
    pub(super) next_step: Name,
    pub(super) retry_context_path: Option<Name>,
}

impl<'de> Deserialize<'de> for ParamSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ParamSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or `{ type, default, choices, about }`")
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<ParamSource, E> {
                Ok(ParamSource::Value(value.into()))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<ParamSource, E> {
                Ok(ParamSource::Value(value.into()))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<ParamSource, E> {
                Ok(ParamSource::Value(value.into()))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<ParamSource, E> {
                Ok(ParamSource::Value(value.into()))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<ParamSource, E> {
                Ok(ParamSource::Value(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<ParamSource, A::Error> {
                let list = serde::de::value::SeqAccessDeserializer::new(seq);
                Value::deserialize(list).map(ParamSource::Value)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParamSource, A::Error> {
                let entries = serde::de::value::MapAccessDeserializer::new(map);
                FullParam::deserialize(entries).map(ParamSource::Full)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// What a file says without the keys and values that cannot be read, and a problem for each of
/// those, so that one mistake hides no other. None if what is left is no workflow.
pub(super) fn read_around(text: &str) -> (Option<WorkflowSource>, Vec<Problem>) {
    let (mut text, mut problems) = (text.to_owned(), Vec::<Problem>::new());
    loop {
        let problem = match read(&text) {
            Ok(source) => return (Some(source), problems),
            Err(problem) => problem,
        };
        // What is left out may be missed, which is no mistake of its own.
        let follows = problems.iter().any(|known| {
            // A value that is left out leaves its key without one.
            let is_after = known.column < problem.column && is_key(known);
            known.line == problem.line && !is_after
        }) || (!problems.is_empty() && problem.message.contains("missing"))
            || (!problems.is_empty() && problem.message.contains("is empty"));
        // A missing key has no text that could be left out.
        let rest = without(&text, &problem)
            .filter(|_| problems.len() < MOST_UNREADABLE && !problem.message.contains("missing"));
        if !follows {
            problems.push(problem);
        }
        match rest.filter(|_| !follows) {
            Some(rest) => text = rest,
            None => return (None, problems),
        }
    }
}

fn is_key(problem: &Problem) -> bool {
    problem.message.starts_with("unknown key")
}

/// The text with spaces for the key or value at a problem's place, and for what is indented below
/// it, so that all other positions stay.
fn without(text: &str, problem: &Problem) -> Option<String> {
    let at = usize::try_from(problem.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(problem.column).ok()?.checked_sub(1)?;
    let line = text.lines().nth(at)?;
    let start = line.char_indices().nth(column)?.0;
    let mut depth = 0_usize;
    let mut quote = None;
    let end = line[start..].char_indices().find_map(|(place, c)| {
        match (quote, c) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') if depth == 0 => return Some(start + place),
            (None, ',') if depth == 0 => return Some(start + place + usize::from(is_key(problem))),
            (None, '}' | ']') => depth -= 1,
            (None, _) => {}
        }
        None
    });
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut is_below = end.is_none();
    let lines = text.lines().enumerate().map(|(number, line)| {
        if number == at {
            let end = end.unwrap_or(line.len());
            let gap = " ".repeat(line[start..end].chars().count());
            return format!("{}{gap}{}", &line[..start], &line[end..]);
        }
        let belongs = line.trim().is_empty() || indent(line) > column;
        is_below = is_below && (number < at || belongs);
        let is_left_out = is_below && number > at;
        if is_left_out { String::new() } else { line.to_owned() }
    });
    Some(lines.collect::<Vec<_>>().join("\n"))
}

pub(super) fn read(text: &str) -> Result<WorkflowSource, Problem> {
    let is_said = |line: &str| !line.is_empty() && !line.starts_with('#') && line != "---";
    if text.len() <= limits::WORKFLOW_BYTES && !text.lines().any(|line| is_said(line.trim())) {
        let needed = "write `workflow: { id: NAME }` and `steps: [{ id: STEP }]`";
        let help = Some(format!("{needed}; {MANUAL} shows every key"));
        return Err(Problem::of_whole("the file is empty", help));
    }
    yaml::read(text, limits::WORKFLOW_BYTES, MANUAL, &[])
}
