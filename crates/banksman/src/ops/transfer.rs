//! Exports tasks of a store and imports them into another, as JSON lines.
//!
//! A line is a task as surfaces show it. The task gets a new id, and references to the old one
//! (`needs`, `parent`) are changed accordingly. The same line twice is imported once.

use std::collections::BTreeMap;
use std::io::BufRead;

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::lifecycle::problem::suggestion;
use banksman_core::lifecycle::{Lifecycle, StateId};
use banksman_core::machine::{Actor, ImportedState, NewTask};
use banksman_core::text::clip;
use banksman_core::time::Instant;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use super::error_report::{Code, Hint, of_read};
use super::library::Library;
use super::principal::Operation;
use super::tasks::{key, made_by_people, named};
use super::{OpsError, Session, refuse, request_text};
use crate::store::{Add, Definition, Edge};

/// A longer line is not a task: titles, bodies and fields have much lower limits.
pub const LINE_BYTES: usize = 2 * 1024 * 1024;
/// Lines of one import: all of them are in memory while they are ordered.
pub const LINES: usize = 100_000;

/// The parts of a line that an import reads. The new store computes everything else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: Option<String>,
    title: String,
    #[serde(default)]
    body: String,
    project: Option<String>,
    lifecycle: Option<String>,
    state: Option<String>,
    prior: Option<String>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    tags: Vec<String>,
    batch: Option<String>,
    not_before: Option<Instant>,
    parent: Option<String>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    informed_by: Vec<String>,
    #[serde(default)]
    fields: Fields,
}

/// The keys of a line. The new store computes those that [`Line`] does not have.
const KEYS: [&str; 24] = [
    "id",
    "title",
    "body",
    "project",
    "lifecycle",
    "lifecycleVersion",
    "state",
    "kind",
    "group",
    "prior",
    "version",
    "priority",
    "batch",
    "tags",
    "parent",
    "needs",
    "informedBy",
    "children",
    "fields",
    "lease",
    "notBefore",
    "createdAt",
    "updatedAt",
    "enteredAt",
];

impl Line {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| match error.classify() {
            Category::Data => error.to_string().replace(" at line 1 column ", " at column "),
            Category::Syntax | Category::Eof | Category::Io => {
                format!("is not JSON from column {} on", error.column())
            }
        };
        if text.starts_with('[') {
            return Err("is a list, and a task is an object".to_owned());
        }
        let keys: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).map_err(wrong)?;
        if let Some(key) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("a task has no key `{}`; {}", clip(key), suggestion(key, KEYS)));
        }
        serde_json::from_str(text).map_err(wrong)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The id in the line.
    pub from: Option<String>,
    pub to: TaskId,
    /// Whether it was imported before.
    pub known: bool,
}

/// Defaults for all lines of one import.
#[derive(Debug, Clone)]
pub struct Defaults<'a> {
    pub project: &'a str,
    pub lifecycle: &'a str,
}

/// Imports tasks in a possible order: first those that others need.
pub fn import(
    session: &Session,
    library: &Library,
    defaults: &Defaults<'_>,
    input: impl BufRead,
    now: Instant,
) -> Result<Vec<Imported>, OpsError> {
    let (store, actor) = (session.may(Operation::ImportTasks)?, &session.actor());
    let now = store.now(now)?;
    let lines = read_lines(input)?;
    let order = in_order(&lines)?;
    let mut ids: BTreeMap<String, TaskId> = BTreeMap::new();
    let mut definitions: BTreeMap<String, Definition> = BTreeMap::new();
    let mut imported = Vec::with_capacity(lines.len());
    for index in order {
        let (number, line) = &lines[index];
        let name = line.lifecycle.as_deref().unwrap_or(defaults.lifecycle);
        let added = proven(&mut definitions, library, name)
            .and_then(|definition| arrival(definition, actor, defaults, line, &ids))
            .and_then(|add| Ok(store.add(add, now)?))
            .map_err(|error| OpsError::Line { line: *number, source: Box::new(error) })?;
        let to = added.stored.task.id;
        ids.extend(line.id.clone().map(|id| (id, to)));
        imported.push(Imported { from: line.id.clone(), to, known: added.replayed });
    }
    Ok(imported)
}

fn read_lines(mut input: impl BufRead) -> Result<Vec<(usize, Line)>, OpsError> {
    let mut lines = Vec::new();
    let mut number = 0;
    loop {
        number += 1;
        let mut bytes = Vec::new();
        let limit = LINE_BYTES as u64 + 1;
        let read = std::io::Read::take(&mut input, limit).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| {
            let (code, hint) = of_read(&error);
            OpsError::about(code, format!("failed to read line {number}: {error}"), hint)
        })?;
        if read == 0 {
            return Ok(lines);
        }
        let fail = |code, what: String| {
            OpsError::about(code, format!("line {number}: {what}"), Hint::WriteTaskLines)
        };
        if bytes.len() > LINE_BYTES {
            let what = format!("is longer than {} MiB", LINE_BYTES / 1024 / 1024);
            return Err(fail(Code::NotText, what));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            fail(Code::NotText, format!("is not UTF-8 after byte {}", error.valid_up_to()))
        })?;
        if text.trim().is_empty() {
            continue;
        }
        let line = Line::read(text.trim()).map_err(|what| fail(Code::Input, what))?;
        lines.push((number, line));
        if lines.len() > LINES {
            return Err(OpsError::input(
                format!("there are more than {LINES} tasks to import"),
                "split the file; tasks that need each other belong into the same part",
            ));
        }
    }
}

/// An order of the lines in which each comes after those that it needs. A line that would have to
/// wait for itself is refused.
fn in_order(lines: &[(usize, Line)]) -> Result<Vec<usize>, OpsError> {
    let by_id: BTreeMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(index, (_, line))| Some((line.id.as_deref()?, index)))
        .collect();
    let needed_by = |(_, line): &(usize, Line)| -> Vec<usize> {
        let named = line.needs.iter().chain(&line.informed_by).chain(&line.parent);
        named.filter_map(|id| by_id.get(id.as_str()).copied()).collect()
    };
    let needed: Vec<Vec<usize>> = lines.iter().map(needed_by).collect();
    let mut waits: Vec<usize> = needed.iter().map(Vec::len).collect();
    let mut frees: Vec<Vec<usize>> = vec![Vec::new(); lines.len()];
    for (index, list) in needed.iter().enumerate() {
        list.iter().for_each(|first| frees[*first].push(index));
    }
    let mut order: Vec<usize> = (0..lines.len()).filter(|index| waits[*index] == 0).collect();
    let mut at = 0;
    while let Some(&index) = order.get(at) {
        at += 1;
        for next in &frees[index] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                order.push(*next);
            }
        }
    }
    if order.len() == lines.len() {
        return Ok(order);
    }
    let stuck: Vec<String> = (0..lines.len())
        .filter(|index| waits[*index] > 0)
        .filter_map(|index| lines[index].1.id.clone())
        .take(10)
        .collect();
    let message =
        format!("these tasks wait for each other: {}; nothing was imported", stuck.join(", "));
    Err(OpsError::input(message, "remove one of the `needs` that close the circle"))
}

/// A lifecycle is proven once for an import, not once for each line.
fn proven(
    definitions: &mut BTreeMap<String, Definition>,
    library: &Library,
    name: &str,
) -> Result<Definition, OpsError> {
    if let Some(known) = definitions.get(name) {
        return Ok(known.clone());
    }
    let definition = library.definition(name)?;
    definitions.insert(name.to_owned(), definition.clone());
    Ok(definition)
}

/// The task that a line describes, with the ids of this store.
fn arrival(
    definition: Definition,
    actor: &Actor,
    defaults: &Defaults<'_>,
    line: &Line,
    ids: &BTreeMap<String, TaskId>,
) -> Result<Add, OpsError> {
    let lifecycle = &definition.lifecycle;
    let led = |id: &String| match (ids.get(id), &line.id) {
        (Some(known), _) => Ok(*known),
        // A line without an id was written for this store, so it may name this store's tasks.
        (None, None) => Ok(id.parse()?),
        (None, Some(_)) => Err(refuse("needs", format!("`{}` is not among the lines", clip(id)))),
    };
    let blocks = line.needs.iter().map(|id| Ok((led(id)?, Edge::Blocks)));
    let informs = line.informed_by.iter().map(|id| Ok((led(id)?, Edge::Informs)));
    let needs = blocks.chain(informs).collect::<Result<Vec<_>, OpsError>>()?;
    let known = |name: &String| state_named(lifecycle, name);
    let prior = line.prior.as_ref().map(known).transpose()?;
    let state = line.state.as_ref().map(known).transpose()?;
    let arrival = state.map(|state| ImportedState { state, prior });
    // An export has the state of each task, those of the engine among them.
    if arrival.is_none() {
        made_by_people(lifecycle)?;
    }
    let new = NewTask {
        title: line.title.clone(),
        body: line.body.clone(),
        project: line.project.clone().unwrap_or_else(|| defaults.project.to_owned()),
        batch: line.batch.clone(),
        tags: line.tags.clone(),
        priority: line.priority,
        parent: line.parent.as_ref().map(led).transpose()?,
        fields: without_counters(lifecycle, &line.fields),
        open_needs: 0,
        not_before: line.not_before,
    };
    let asked = (
        "import",
        &line.id,
        &new.title,
        &new.body,
        &new.project,
        &lifecycle.id,
        &line.state,
        &line.prior,
        new.priority,
        &new.tags,
        &line.needs,
        &line.informed_by,
        &line.parent,
        &new.fields,
    );
    let repeat = line.id.as_ref().map(|_| format!("import-{}", digest(&request_text(&asked))));
    let key = key(repeat.as_deref(), &asked)?;
    if let Some(batch) = &new.batch {
        named(batch)?;
    }
    Ok(Add { new, definition, needs, actor: actor.clone(), key, arrival })
}

fn state_named(lifecycle: &Lifecycle, name: &str) -> Result<StateId, OpsError> {
    lifecycle.find_state(name).ok_or_else(|| {
        let known = lifecycle.states.iter().map(|state| state.name.as_str());
        let hint = suggestion(name, known);
        refuse("state", format!("the lifecycle {} has no such state; {hint}", lifecycle.id))
    })
}

/// An exported task has its counters among its fields; the new store starts them at zero.
fn without_counters(lifecycle: &Lifecycle, fields: &Fields) -> Fields {
    let counted = |name: &String| lifecycle.counters.iter().any(|counter| counter.name == *name);
    let own = fields.iter().filter(|(name, _)| !counted(name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A part of a message, cut to a limit.
fn digest(asked: &str) -> String {
    use sha2::Digest;
    crate::store::hex(&sha2::Sha256::digest(asked.as_bytes())[..16])
}
