//! Writes a graph as a Mermaid flowchart whose names and labels are never read as markup.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::style::look;
use super::{Graph, GraphEdge, GraphNode, Shape};
use crate::lifecycle::StateKind;

/// Reserved words of Mermaid's grammar, in lower case. `v` is the tip of an arrow that leads down.
const RESERVED: &str = "acctitle accdescr as call class classdef click default direction end \
     flowchart fork graph hide href interpolate join linkstyle note root scale state style \
     subgraph v";

pub(super) fn mermaid(graph: &Graph) -> String {
    let mut taken = BTreeSet::new();
    let ids: Vec<String> = graph.nodes.iter().map(|node| unique(&node.name, &mut taken)).collect();
    let mut chart = Chart { graph, ids, out: String::from("flowchart TD\n") };
    chart.declare_nodes(&mut taken);
    for edge in &graph.edges {
        chart.arrow(edge);
    }
    chart.declare_classes();
    chart.out
}

struct Chart<'a> {
    graph: &'a Graph,
    ids: Vec<String>,
    out: String,
}

impl Chart<'_> {
    fn put(&mut self, line: impl AsRef<str>) {
        writeln!(self.out, "    {}", line.as_ref()).expect("writing to a string does not fail");
    }

    /// Each group stands where its first member is.
    fn declare_nodes(&mut self, taken: &mut BTreeSet<String>) {
        let nodes = &self.graph.nodes;
        let mut grouped: BTreeSet<&String> = BTreeSet::new();
        for (index, node) in nodes.iter().enumerate() {
            let Some(group) = &node.group else {
                self.put(format!("{}{}", self.ids[index], declared(node)));
                continue;
            };
            if !grouped.insert(group) {
                continue;
            }
            let id = unique(&format!("group_{group}"), taken);
            self.put(format!("subgraph {id}[\"{}\"]", label(group)));
            for (member, other) in nodes.iter().enumerate() {
                if other.group.as_ref() == Some(group) {
                    self.put(format!("    {}{}", self.ids[member], declared(other)));
                }
            }
            self.put("end");
        }
        // No id holds two underscores in a row, so these are never the id of a node.
        for from in self.graph.edges.iter().filter(|edge| edge.to.is_none()).map(|edge| edge.from) {
            self.put(format!("{}__prior((\"H\"))", self.ids[from]));
        }
        if let Some(start) = self.graph.start.map(|start| self.ids[start].clone()) {
            self.put(format!("{start}__start((\" \")) --> {start}"));
        }
    }

    fn arrow(&mut self, edge: &GraphEdge) {
        let stroke = if edge.is_back { "-.->" } else { "-->" };
        let from = &self.ids[edge.from];
        let to = edge.to.map_or_else(|| format!("{from}__prior"), |to| self.ids[to].clone());
        let words = if edge.words.is_empty() {
            String::new()
        } else {
            format!("|\"{}\"|", labels(&edge.words))
        };
        self.put(format!("{from} {stroke}{words} {to}"));
    }

    fn declare_classes(&mut self) {
        for kind in StateKind::ALL {
            self.declare_class(&format!("kind_{kind}"), look(kind).colours, |node| {
                node.kind == kind
            });
        }
        self.declare_class("elsewhere", "stroke-dasharray:2 3", |node| {
            node.shape == Shape::Elsewhere
        });
        self.declare_class("current", "stroke-width:4px,font-weight:bold", |node| node.is_current);
    }

    fn declare_class(&mut self, name: &str, style: &str, has: impl Fn(&GraphNode) -> bool) {
        let members = self.graph.nodes.iter().zip(&self.ids).filter(|(node, _)| has(node));
        let members: Vec<&str> = members.map(|(_, id)| id.as_str()).collect();
        if !members.is_empty() {
            let members = members.join(",");
            self.put(format!("classDef {name} {style}"));
            self.put(format!("class {members} {name}"));
        }
    }
}

/// The shape and the texts of a node.
fn declared(node: &GraphNode) -> String {
    let sign = if node.has_sign { format!("{} ", look(node.kind).sign) } else { String::new() };
    let texts = [format!("{sign}{}", node.name)];
    let text = labels(texts.iter().chain(&node.lines));
    match node.shape {
        Shape::Box | Shape::Elsewhere => format!("[\"{text}\"]"),
        Shape::Gate => format!("{{\"{text}\"}}"),
        Shape::End => format!("([\"{text}\"])"),
    }
}

fn labels<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    texts.into_iter().map(|text| label(text)).collect::<Vec<_>>().join("<br/>")
}

/// A Mermaid id for a name: the name itself if the grammar allows it, else with a prefix, and
/// always unique.
fn unique(name: &str, taken: &mut BTreeSet<String>) -> String {
    let words: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut plain = words.join("_");
    let starts_badly = !plain.starts_with(|first: char| first.is_ascii_alphabetic());
    let lower = plain.to_ascii_lowercase();
    if starts_badly || RESERVED.split(' ').any(|word| word == lower) {
        plain = format!("node_{plain}");
    }
    let mut id = plain.clone();
    // Each name is taken once, so this ends after at most as many rounds as there are names.
    for number in 2.. {
        if taken.insert(id.clone()) {
            break;
        }
        id = format!("{plain}_{number}");
    }
    id
}

/// A text without characters that Mermaid would interpret.
fn label(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // Mermaid reads a line that begins like a list item as one, and shows an error instead.
    let mut may_be_item = true;
    for character in text.chars() {
        let marks_item = may_be_item && "-.)".contains(character);
        may_be_item &= character.is_ascii_digit() || character == ' ';
        let is_plain = character.is_alphanumeric() || " _-.,()=/".contains(character);
        if is_plain && !marks_item {
            safe.push(character);
        } else {
            write!(safe, "#{};", u32::from(character)).expect("writing to a string does not fail");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_no_markup_and_no_item_of_a_list() {
        let labels = ["a-b 1. (c)", "\"<b>&;", "1. plan", " - plan", "2) plan", "3 plans."];
        let safe = [
            "a-b 1. (c)",
            "#34;#60;b#62;#38;#59;",
            "1#46; plan",
            " #45; plan",
            "2#41; plan",
            "3 plans.",
        ];
        assert_eq!(labels.map(label), safe);
    }
}
