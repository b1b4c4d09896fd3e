//! Draws a workflow as a Mermaid flowchart, for places that render Mermaid themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::{Edge, EdgeDirection, Net, Node, StepMark, Tone, Workflow, gate_line, mark_at_gate};
use crate::draw::mermaid::{Lines, label, unique};
use crate::draw::style::mermaid_style;

/// The workflow as a `flowchart`; marked steps show their status.
#[must_use]
pub fn mermaid(flow: &Workflow, marks: &BTreeMap<String, StepMark>) -> String {
    let net = Net::new(flow);
    let mut taken = BTreeSet::new();
    let ids: Vec<String> = net.nodes.iter().map(|node| id(*node, &mut taken)).collect();
    let mut lines = Lines(String::from("flowchart TD\n"));
    for (node, id) in net.nodes.iter().zip(&ids) {
        lines.push(format!("{id}{}", shape(*node, marks)));
    }
    for edge in &net.edges {
        lines.push(arrow(edge, &ids));
    }
    declare_classes(&mut lines, &net, &ids, marks);
    lines.0
}

fn id(node: Node<'_>, taken: &mut BTreeSet<String>) -> String {
    match node {
        Node::Step(step) => unique(&step.id, "step", taken),
        Node::Gate { gate, .. } => unique(&gate.id, "gate", taken),
        Node::Elsewhere { workflow, step } => unique(&format!("{workflow} {step}"), "other", taken),
        Node::Done | Node::Abort => unique(node.name(), "end", taken),
    }
}

fn shape(node: Node<'_>, marks: &BTreeMap<String, StepMark>) -> String {
    let joined = |texts: &[&str]| {
        let shown = texts.iter().filter(|text| !text.is_empty());
        shown.map(|text| label(text)).collect::<Vec<_>>().join("<br/>")
    };
    match node {
        Node::Step(step) => {
            let mark = marks.get(&step.id).map(signed).unwrap_or_default();
            format!("[\"{}\"]", joined(&[&step.id, &step.name, &step.role, &mark]))
        }
        Node::Gate { gate, step } => {
            let line = gate_line(gate, mark_at_gate(step, marks));
            format!("{{\"{}\"}}", joined(&[&gate.id, &line]))
        }
        Node::Elsewhere { workflow, step } => {
            format!("[\"{}\"]", joined(&[step, &format!("of {workflow}")]))
        }
        Node::Done | Node::Abort => format!("([\"{}\"])", node.name()),
    }
}

/// A sign for the tone, the word and the note.
fn signed(mark: &StepMark) -> String {
    let sign = match mark.tone {
        Tone::Waiting => '○',
        Tone::Working => '▶',
        Tone::Reviewing => '◎',
        Tone::Person => '☞',
        Tone::Passed => '✓',
        Tone::Failed => '✗',
    };
    format!("{sign} {}", mark.text())
}

fn arrow(edge: &Edge, ids: &[String]) -> String {
    let stroke = match edge.direction {
        EdgeDirection::Forward => "-->",
        EdgeDirection::Back => "-.->",
    };
    let (from, to) = (&ids[edge.from], &ids[edge.to]);
    if edge.words.is_empty() {
        return format!("{from} {stroke} {to}");
    }
    let words: Vec<String> = edge.words.iter().map(|word| label(word)).collect();
    format!("{from} {stroke}|\"{}\"| {to}", words.join("<br/>"))
}

fn declare_classes(
    lines: &mut Lines,
    net: &Net<'_>,
    ids: &[String],
    marks: &BTreeMap<String, StepMark>,
) {
    let mut declare = |name: &str, style: &str, has: &dyn Fn(Node<'_>) -> bool| {
        let members = net.nodes.iter().zip(ids).filter(|(node, _)| has(**node));
        let members: Vec<&str> = members.map(|(_, id)| id.as_str()).collect();
        if !members.is_empty() {
            lines.push(format!("classDef {name} {style}"));
            lines.push(format!("class {} {name}", members.join(",")));
        }
    };
    let elsewhere = |node: Node<'_>| matches!(node, Node::Elsewhere { .. });
    declare("elsewhere", "stroke-dasharray:2 3", &elsewhere);
    for tone in Tone::ALL {
        let style = mermaid_style(tone.kind());
        declare(&format!("tone_{}", tone.as_str()), style, &|node| {
            tone_of(node, marks) == Some(tone)
        });
    }
}

fn tone_of(node: Node<'_>, marks: &BTreeMap<String, StepMark>) -> Option<Tone> {
    match node {
        Node::Step(step) => marks.get(&step.id).map(|mark| mark.tone),
        Node::Gate { step, .. } => mark_at_gate(step, marks).map(|mark| mark.tone),
        Node::Elsewhere { .. } | Node::Done | Node::Abort => None,
    }
}
