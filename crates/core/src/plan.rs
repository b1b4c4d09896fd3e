//! A task broken down into subtasks: the planner's answer, what stands against it, and the order in
//! which its parts are made.
//!
//! Whether a subtask is small enough is judged here from what the planner says about it, and never
//! taken on its word. Nothing here asks a planner or makes a task. The words that people read are
//! in `proposal`.

pub mod proposal;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::limits;

/// The five measures of what fits into one pull request: agent time in minutes, files, reasons, and
/// a person's reading time in minutes. The fifth is that it can be tested by itself.
pub const MOST_MINUTES: u32 = 240;
pub const MOST_FILES: usize = 10;
pub const MOST_PURPOSES: usize = 1;
pub const MOST_REVIEW_MINUTES: u32 = 15;

/// What a planner answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub subtasks: Vec<Subtask>,
    pub edges: Vec<PlanEdge>,
    pub spikes: Vec<Spike>,
    pub assumptions: Vec<String>,
    pub risks: Vec<Risk>,
    /// Why it cannot be broken down; empty if it can.
    pub irreducible: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subtask {
    /// A name within this plan.
    pub id: String,
    pub title: String,
    pub description: String,
    /// Of an agent's time.
    pub estimate_minutes: u32,
    pub confidence: Confidence,
    /// The files that it changes or makes, each by its path.
    pub files: Vec<String>,
    /// Why it is done, one text for each reason.
    pub purposes: Vec<String>,
    /// How it is tested without the others.
    pub tested_by: String,
    /// How long a person reads the change.
    pub review_minutes: u32,
    /// What must be true when it is done.
    pub acceptance: Vec<String>,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    Low,
    Medium,
    High,
}

impl Confidence {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
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
    /// `from` must be done before `to` begins.
    Blocks,
    /// Whoever does `to` is told what came of `from`.
    Informs,
}

/// A question that has to be answered first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spike {
    pub id: String,
    pub question: String,
    /// The subtasks that depend on the answer; none named means all of them.
    pub blocks: Vec<String>,
}

impl Spike {
    fn holds_up(&self, subtask: &Subtask) -> bool {
        self.blocks.is_empty() || self.blocks.contains(&subtask.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    pub risk: String,
    pub mitigation: String,
}

/// A subtask or a spike at its place in the order of work, with the places of what comes before it.
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
    #[must_use]
    pub fn id(self) -> &'p str {
        match self {
            Self::Spike(spike) => &spike.id,
            Self::Subtask(subtask) => &subtask.id,
        }
    }
}

impl Subtask {
    /// Why it is too big for one pull request; empty if it is not.
    #[must_use]
    pub fn too_big(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.estimate_minutes == 0 {
            reasons.push("its effort is not estimated".to_owned());
        }
        if self.estimate_minutes > MOST_MINUTES {
            let (is, most) =
                (proposal::hours(self.estimate_minutes), proposal::hours(MOST_MINUTES));
            reasons.push(format!("it takes {is}, and {most} is the most"));
        }
        let files: BTreeSet<&str> = self.files.iter().map(|path| path.trim()).collect();
        if files.len() > MOST_FILES {
            reasons.push(format!("it touches {} files, and {MOST_FILES} is the most", files.len()));
        }
        if let Some(path) = files.iter().find(|path| !is_file(path)) {
            reasons
                .push(format!("`{path}` is no single file, so nobody knows how many it touches"));
        }
        if self.files.is_empty() {
            reasons.push("it does not say which files it touches".to_owned());
        }
        match self.purposes.iter().filter(|why| !why.trim().is_empty()).count() {
            0 => reasons.push("it does not say why it is done".to_owned()),
            MOST_PURPOSES => {}
            more => reasons.push(format!("it has {more} reasons, and one is the most")),
        }
        if self.tested_by.trim().is_empty() {
            reasons.push("it cannot be tested in isolation".to_owned());
        }
        if self.review_minutes == 0 {
            reasons.push("its review is not estimated".to_owned());
        }
        if self.review_minutes > MOST_REVIEW_MINUTES {
            reasons.push(format!(
                "its review takes {}min, and {MOST_REVIEW_MINUTES}min is the most",
                self.review_minutes
            ));
        }
        reasons
    }
}

/// A folder or a pattern stands for any number of files.
fn is_file(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/') && !path.contains(['*', '?', '['])
}

impl Plan {
    /// What is wrong with the plan as a whole; one that has faults is no proposal, whatever the
    /// size of its parts.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.beyond_limits();
        if !faults.is_empty() {
            return faults;
        }
        let mut known: BTreeMap<&str, bool> = BTreeMap::new();
        let spikes = self.spikes.iter().map(|spike| (spike.id.as_str(), true));
        let subtasks = self.subtasks.iter().map(|subtask| (subtask.id.as_str(), false));
        for (id, is_spike) in spikes.chain(subtasks) {
            if known.insert(id, is_spike).is_some() {
                faults.push(format!("the id `{id}` is used twice"));
            }
        }
        if self.subtasks.is_empty() && !self.spikes.is_empty() {
            faults.push("there are spikes and no subtask that depends on them".to_owned());
        }
        for edge in &self.edges {
            for id in [&edge.from, &edge.to] {
                if !known.contains_key(id.as_str()) {
                    faults.push(format!("an edge names `{id}`, which is no subtask and no spike"));
                }
            }
            if known.get(edge.to.as_str()) == Some(&true) {
                faults.push(format!(
                    "the spike `{}` has to come first, so nothing leads to it",
                    edge.to
                ));
            }
        }
        for spike in &self.spikes {
            for id in spike.blocks.iter().filter(|id| known.get(id.as_str()) != Some(&false)) {
                faults.push(format!("the spike `{}` blocks `{id}`, which is no subtask", spike.id));
            }
        }
        if faults.is_empty() && self.order().len() < self.subtasks.len() + self.spikes.len() {
            let placed: BTreeSet<&str> = self.order().iter().map(|one| one.item.id()).collect();
            let left: Vec<&str> = known.into_keys().filter(|id| !placed.contains(id)).collect();
            faults.push(format!(
                "these wait for each other in a circle, or behind one: {}",
                left.join(", ")
            ));
        }
        faults
    }

    /// Whether parts do the work. A task that is one piece is done by itself.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.subtasks.len() > 1
    }

    /// The parts in the order in which they are made, spikes first, and otherwise as the planner
    /// gave them. What is in a circle has no place.
    #[must_use]
    pub fn order(&self) -> Vec<OrderedItem<'_>> {
        let spikes = self.spikes.iter().map(PlanItem::Spike);
        let parts: Vec<PlanItem<'_>> =
            spikes.chain(self.subtasks.iter().map(PlanItem::Subtask)).collect();
        let before: Vec<BTreeMap<&str, EdgeKind>> =
            parts.iter().map(|part| self.before(*part)).collect();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut order: Vec<OrderedItem<'_>> = Vec::with_capacity(parts.len());
        // In each round the first that waits for nothing open gets the next place, so there are as
        // many rounds as parts.
        for _ in 0..parts.len() {
            let is_next = |at: &usize| {
                !places.contains_key(parts[*at].id())
                    && before[*at].keys().all(|id| places.contains_key(id))
            };
            let Some(at) = (0..parts.len()).find(is_next) else { break };
            let of_kind = |wanted: EdgeKind| {
                let ids = before[at].iter().filter(move |(_, kind)| **kind == wanted);
                ids.filter_map(|(id, _)| places.get(id).copied()).collect()
            };
            order.push(OrderedItem {
                item: parts[at],
                blocked_by: of_kind(EdgeKind::Blocks),
                informed_by: of_kind(EdgeKind::Informs),
            });
            places.insert(parts[at].id(), order.len() - 1);
        }
        order
    }

    /// What comes before a part. Of two edges between the same parts the harder one counts.
    fn before(&self, part: PlanItem<'_>) -> BTreeMap<&str, EdgeKind> {
        let mut before: BTreeMap<&str, EdgeKind> = BTreeMap::new();
        for edge in self.edges.iter().filter(|edge| edge.to == part.id()) {
            let known = before.entry(edge.from.as_str()).or_insert(edge.kind);
            *known = edge.kind.min(*known);
        }
        let waits = |spike: &&Spike| match part {
            PlanItem::Spike(_) => false,
            PlanItem::Subtask(own) => spike.holds_up(own),
        };
        let spikes = self.spikes.iter().filter(waits);
        before.extend(spikes.map(|spike| (spike.id.as_str(), EdgeKind::Blocks)));
        before
    }

    fn beyond_limits(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut count = |what: &str, is: usize, most: usize| {
            if is > most {
                faults.push(format!("{is} {what} are more than {most}"));
            }
        };
        count("subtasks", self.subtasks.len(), limits::PLAN_SUBTASKS);
        count("spikes", self.spikes.len(), limits::PLAN_SPIKES);
        count("edges", self.edges.len(), limits::PLAN_EDGES);
        count("assumptions", self.assumptions.len(), limits::PLAN_ITEMS);
        count("risks", self.risks.len(), limits::PLAN_ITEMS);
        for subtask in &self.subtasks {
            let most = limits::PLAN_ITEMS;
            count(&format!("files of `{}`", clip(&subtask.id)), subtask.files.len(), 2 * most);
            count(&format!("purposes of `{}`", clip(&subtask.id)), subtask.purposes.len(), most);
            count(&format!("criteria of `{}`", clip(&subtask.id)), subtask.acceptance.len(), most);
            count(
                &format!("tags of `{}`", clip(&subtask.id)),
                subtask.tags.len(),
                limits::TAGS / 2,
            );
        }
        for (place, text, most) in self.texts() {
            if text.len() > most {
                faults.push(format!("{place} is longer than {most} bytes"));
            }
        }
        let words = self.subtasks.iter().map(|one| (&one.id, one.title.as_str()));
        let questions = self.spikes.iter().map(|one| (&one.id, one.question.as_str()));
        for (id, title) in words.chain(questions) {
            if !is_word(id) {
                faults.push(format!("`{}` is no id; use letters, digits, `-` and `_`", clip(id)));
            }
            if title.trim().is_empty() || title.chars().any(char::is_control) {
                faults.push(format!("`{}` needs a title or question of one line", clip(id)));
            }
        }
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        if bytes > limits::PLAN_BYTES {
            faults.push(format!("the plan is larger than {} KiB", limits::PLAN_BYTES / 1024));
        }
        faults.truncate(limits::PLAN_ITEMS);
        faults
    }

    /// Every text with its place and its bound.
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
            let tags = subtask.tags.iter();
            texts.extend(tags.map(|tag| (of("a tag"), tag.as_str(), limits::NAME_BYTES)));
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

fn is_word(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !id.is_empty() && id.len() <= limits::NAME_BYTES && id.chars().all(plain)
}

fn clip(text: &str) -> String {
    text.chars().take(64).filter(|c| !c.is_control()).collect()
}
