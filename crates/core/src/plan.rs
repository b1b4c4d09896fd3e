//! A task broken down into subtasks: the planner's answer, its problems, and the order of its
//! items.
//!
//! Whether a subtask is small enough is computed here from the planner's estimates; a planner
//! cannot claim it. Nothing here runs a planner or creates a task. `proposal` words a plan for
//! people.

pub mod proposal;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::closed::closed;
use crate::limits;
use crate::text::{clip, has_control_characters, tag_problem};

/// The limits of one pull request: minutes of agent time, files, purposes, and minutes of review.
/// The fifth measure is that it can be tested by itself.
const MAX_MINUTES: u32 = 240;
const MAX_FILES: usize = 10;
const MAX_PURPOSES: usize = 1;
const MAX_REVIEW_MINUTES: u32 = 15;

/// A planner's answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub subtasks: Vec<Subtask>,
    pub edges: Vec<PlanEdge>,
    pub spikes: Vec<Spike>,
    pub assumptions: Vec<String>,
    pub risks: Vec<Risk>,
    /// Why the task cannot be broken down; empty if it can.
    pub irreducible: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subtask {
    /// Unique within the plan.
    pub id: String,
    pub title: String,
    pub description: String,
    /// Of an agent's time.
    pub estimate_minutes: u32,
    pub confidence: Confidence,
    /// The paths of the files that it changes or creates.
    pub files: Vec<String>,
    /// Why it is done, one text for each purpose.
    pub purposes: Vec<String>,
    /// How it is tested without the other subtasks.
    pub tested_by: String,
    /// How long a person needs to review the change.
    pub review_minutes: u32,
    /// The acceptance criteria.
    pub acceptance: Vec<String>,
    pub tags: Vec<String>,
}

closed! {
    pub enum Confidence {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanEdge {
    pub from: String,
    pub to: String,
    pub kind: EdgeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeKind {
    /// `from` must be done before `to` starts.
    Blocks,
    /// The agent that works on `to` gets the result of `from`.
    Informs,
}

/// A question that must be answered first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spike {
    pub id: String,
    pub question: String,
    /// The subtasks that depend on the answer; empty means all of them.
    pub blocks: Vec<String>,
}

impl Spike {
    fn blocks_subtask(&self, subtask: &Subtask) -> bool {
        self.blocks.is_empty() || self.blocks.contains(&subtask.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    pub risk: String,
    pub mitigation: String,
}

/// A subtask or a spike in the order of work, with the positions of the items that it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedItem<'p> {
    pub item: PlanItem<'p>,
    pub blocked_by: BTreeSet<usize>,
    pub informed_by: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanItem<'p> {
    Spike(&'p Spike),
    Subtask(&'p Subtask),
}

impl<'p> PlanItem<'p> {
    pub fn id(self) -> &'p str {
        match self {
            Self::Spike(spike) => &spike.id,
            Self::Subtask(subtask) => &subtask.id,
        }
    }
}

impl Subtask {
    /// Why it is too large for one pull request; empty if it is not.
    pub fn size_problems(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut add = |is_so: bool, reason: String| reasons.extend(is_so.then_some(reason));
        let (minutes, review) = (self.estimate_minutes, self.review_minutes);
        add(minutes == 0, "it has no estimate".to_owned());
        let (is, most) = (proposal::hours(minutes), proposal::hours(MAX_MINUTES));
        add(minutes > MAX_MINUTES, format!("it takes {is}, more than the limit of {most}"));
        let files: BTreeSet<&str> = self.files.iter().map(|path| path.trim()).collect();
        let count = files.len();
        let reason = format!("it touches {count} files, more than the limit of {MAX_FILES}");
        add(count > MAX_FILES, reason);
        let odd = files.iter().find(|path| !is_file(path)).copied();
        let path = odd.unwrap_or_default();
        let reason = format!("`{path}` is not a single file, so the number of files is unknown");
        add(odd.is_some(), reason);
        add(self.files.is_empty(), "it does not name the files that it touches".to_owned());
        let purposes = self.purposes.iter().filter(|why| !why.trim().is_empty()).count();
        add(purposes == 0, "it does not name its purpose".to_owned());
        let reason = format!("it has {purposes} purposes, more than the limit of one");
        add(purposes > MAX_PURPOSES, reason);
        add(self.tested_by.trim().is_empty(), "it cannot be tested in isolation".to_owned());
        add(review == 0, "it has no estimate for its review".to_owned());
        let most = MAX_REVIEW_MINUTES;
        let reason = format!("its review takes {review}min, more than the limit of {most}min");
        add(review > most, reason);
        reasons
    }
}

/// A folder or a pattern can stand for any number of files.
fn is_file(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/') && !path.contains(['*', '?', '['])
}

impl Plan {
    /// Problems of the plan as a whole. A plan with any cannot be proposed, whatever the size of
    /// its subtasks.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.limit_problems();
        if !problems.is_empty() {
            return problems;
        }
        let mut known: BTreeMap<&str, bool> = BTreeMap::new();
        let spikes = self.spikes.iter().map(|spike| (spike.id.as_str(), true));
        let subtasks = self.subtasks.iter().map(|subtask| (subtask.id.as_str(), false));
        for (id, is_spike) in spikes.chain(subtasks) {
            if known.insert(id, is_spike).is_some() {
                problems.push(format!("the id `{id}` is used twice"));
            }
        }
        if self.subtasks.is_empty() && !self.spikes.is_empty() {
            problems.push("there are spikes but no subtask that depends on them".to_owned());
        } else if self.subtasks.is_empty() && self.irreducible.trim().is_empty() {
            problems
                .push("there is no subtask; a task that is small enough is one subtask".to_owned());
        }
        for edge in &self.edges {
            for id in [&edge.from, &edge.to] {
                if !known.contains_key(id.as_str()) {
                    problems.push(format!(
                        "an edge names `{id}`, which is neither a subtask nor a spike"
                    ));
                }
            }
            if known.get(edge.to.as_str()) == Some(&true) {
                problems.push(format!(
                    "the spike `{}` must come first, so no edge may lead to it",
                    edge.to
                ));
            }
        }
        for spike in &self.spikes {
            for id in spike.blocks.iter().filter(|id| known.get(id.as_str()) != Some(&false)) {
                problems.push(format!(
                    "the spike `{}` blocks `{id}`, which is not a subtask",
                    spike.id
                ));
            }
        }
        if problems.is_empty() && self.order().len() < self.subtasks.len() + self.spikes.len() {
            let placed: BTreeSet<&str> = self.order().iter().map(|one| one.item.id()).collect();
            let left: Vec<&str> = known.into_keys().filter(|id| !placed.contains(id)).collect();
            problems.push(format!(
                "these items depend on each other in a cycle, or depend on one that does: {}",
                left.join(", ")
            ));
        }
        problems
    }

    /// Whether subtasks do the work. A plan with one subtask leaves the work to the task itself,
    /// unless a question has to be answered first.
    pub fn is_split(&self) -> bool {
        self.subtasks.len() > 1 || !self.spikes.is_empty()
    }

    /// The agent's time for all subtasks together, in minutes.
    pub fn estimate_minutes(&self) -> u32 {
        let minutes = self.subtasks.iter().map(|subtask| subtask.estimate_minutes);
        minutes.fold(0, u32::saturating_add)
    }

    /// The items in the order of work: spikes first, otherwise in the planner's order, each after
    /// the items that it depends on. Items in a cycle are left out.
    pub fn order(&self) -> Vec<OrderedItem<'_>> {
        let spikes = self.spikes.iter().map(PlanItem::Spike);
        let items: Vec<PlanItem<'_>> =
            spikes.chain(self.subtasks.iter().map(PlanItem::Subtask)).collect();
        let dependencies: Vec<BTreeMap<&str, EdgeKind>> =
            items.iter().map(|item| self.dependencies(*item)).collect();
        let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut order: Vec<OrderedItem<'_>> = Vec::with_capacity(items.len());
        // Each round places the first item whose dependencies are all placed, so there are as many
        // rounds as items.
        for _ in 0..items.len() {
            let is_next = |at: &usize| {
                !positions.contains_key(items[*at].id())
                    && dependencies[*at].keys().all(|id| positions.contains_key(id))
            };
            let Some(at) = (0..items.len()).find(is_next) else { break };
            let of_kind = |wanted: EdgeKind| {
                let ids = dependencies[at].iter().filter(move |(_, kind)| **kind == wanted);
                ids.filter_map(|(id, _)| positions.get(id).copied()).collect()
            };
            order.push(OrderedItem {
                item: items[at],
                blocked_by: of_kind(EdgeKind::Blocks),
                informed_by: of_kind(EdgeKind::Informs),
            });
            positions.insert(items[at].id(), order.len() - 1);
        }
        order
    }

    /// The dependencies of an item. Of two edges between the same items, `blocks` wins over
    /// `informs`.
    fn dependencies(&self, item: PlanItem<'_>) -> BTreeMap<&str, EdgeKind> {
        let mut dependencies: BTreeMap<&str, EdgeKind> = BTreeMap::new();
        for edge in self.edges.iter().filter(|edge| edge.to == item.id()) {
            let known = dependencies.entry(edge.from.as_str()).or_insert(edge.kind);
            *known = edge.kind.min(*known);
        }
        let waits = |spike: &&Spike| match item {
            PlanItem::Spike(_) => false,
            PlanItem::Subtask(own) => spike.blocks_subtask(own),
        };
        let spikes = self.spikes.iter().filter(waits);
        dependencies.extend(spikes.map(|spike| (spike.id.as_str(), EdgeKind::Blocks)));
        dependencies
    }

    fn limit_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut count = |what: &str, is: usize, most: usize| {
            if is > most {
                problems.push(format!("{is} {what}, more than the limit of {most}"));
            }
        };
        count("subtasks", self.subtasks.len(), limits::PLAN_SUBTASKS);
        count("spikes", self.spikes.len(), limits::PLAN_SPIKES);
        count("edges", self.edges.len(), limits::PLAN_EDGES);
        count("assumptions", self.assumptions.len(), limits::PLAN_ITEMS);
        count("risks", self.risks.len(), limits::PLAN_ITEMS);
        for subtask in &self.subtasks {
            let most = limits::PLAN_ITEMS;
            let lists = [
                ("files", &subtask.files, 2 * most),
                ("purposes", &subtask.purposes, most),
                ("criteria", &subtask.acceptance, most),
                ("tags", &subtask.tags, limits::TAGS / 2),
            ];
            for (what, list, most) in lists {
                count(&format!("{what} of `{}`", clip(&subtask.id)), list.len(), most);
            }
        }
        problems.extend(
            self.subtasks.iter().flat_map(|one| &one.tags).filter_map(|tag| tag_problem(tag)),
        );
        for (place, text, most) in self.texts() {
            if text.len() > most {
                problems.push(format!("{place} is longer than {most} bytes"));
            }
            if has_control_characters(text) {
                problems.push(format!("{place} has control characters; remove them"));
            }
        }
        let words = self.subtasks.iter().map(|one| (&one.id, one.title.as_str()));
        let questions = self.spikes.iter().map(|one| (&one.id, one.question.as_str()));
        for (id, title) in words.chain(questions) {
            if !is_id(id) {
                problems
                    .push(format!("`{}` is not an id; use letters, digits, `-` and `_`", clip(id)));
            }
            if title.trim().is_empty() || title.chars().any(char::is_control) {
                problems.push(format!("`{}` needs a title or question on one line", clip(id)));
            }
        }
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        if bytes > limits::PLAN_BYTES {
            problems.push(format!("the plan is larger than {} KiB", limits::PLAN_BYTES / 1024));
        }
        problems.truncate(limits::PLAN_ITEMS);
        problems
    }

    /// Every text, with its description and its limit.
    fn texts(&self) -> Vec<(String, &str, usize)> {
        let (short, long) = (limits::PLAN_TEXT_BYTES, limits::PLAN_DESCRIPTION_BYTES);
        let mut texts: Vec<(String, &str, usize)> =
            vec![("`irreducible`".to_owned(), &self.irreducible, long)];
        for subtask in &self.subtasks {
            let of = |what: &str| format!("{what} of `{}`", clip(&subtask.id));
            texts.push((of("the description"), &subtask.description, long));
            texts.push((of("the title"), &subtask.title, limits::PLAN_TITLE_BYTES));
            texts.push((of("`tested_by`"), &subtask.tested_by, short));
            let lists = [&subtask.files, &subtask.purposes, &subtask.acceptance];
            texts.extend(
                lists.into_iter().flatten().map(|item| (of("an item"), item.as_str(), short)),
            );
        }
        let spikes = self.spikes.iter();
        texts.extend(spikes.map(|spike| {
            (format!("`{}`", clip(&spike.id)), spike.question.as_str(), limits::PLAN_TITLE_BYTES)
        }));
        texts.extend(
            self.assumptions.iter().map(|one| ("an assumption".to_owned(), one.as_str(), short)),
        );
        let risks = self.risks.iter().flat_map(|one| [&one.risk, &one.mitigation]);
        texts.extend(risks.map(|text| ("a risk".to_owned(), text.as_str(), short)));
        texts
    }
}

fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !id.is_empty() && id.len() <= limits::NAME_BYTES && id.chars().all(plain)
}
