//! Laws for every text: it is accepted, or refused with a position, and an accepted workflow has
//! the properties that `load` documents.

use std::collections::BTreeSet;

use banksman_core::workflow::{Need, Signal, Workflow, default_warnings, lint, load};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use serde_json::json;

use crate::broken::corpus;
use crate::{Params, example, params};

/// The examples and the broken files, as the input for mutations.
fn sources() -> Vec<String> {
    let examples = ["phase-4.yaml", "release.yaml", "review.yaml"];
    let examples = examples.iter().map(|name| example(name).expect("it is part of the documents"));
    examples.chain(corpus().into_values()).collect()
}

fn given() -> Params {
    params(&[("version", json!("1"))])
}

fn holds(text: &str) {
    let include =
        |path: &str| if path == "again.yaml" { Ok(text.to_owned()) } else { example(path) };
    // With a parameter that the file does not have, most mutated files would be refused for that
    // alone.
    let given = if text.contains("version:") { given() } else { Params::new() };
    let first = load(text, "w.yaml", &given, &include);
    assert_eq!(first, load(text, "w.yaml", &given, &include), "the second time is as the first");
    match first {
        Ok(flow) => sound(&flow),
        Err(problems) => {
            assert!(!problems.list.is_empty());
            assert!(!problems.to_string().is_empty());
            if problems.origin == "w.yaml" {
                // A file may end before what it lacks, which is then one line after its last.
                let lines = text.split(['\n', '\r']).count() + 1;
                let inside = problems.list.iter().all(|problem| problem.line as usize <= lines);
                assert!(inside, "{problems}");
            }
        }
    }
    assert!(default_warnings(text).iter().all(|doubt| doubt.line > 0));
}

fn sound(flow: &Workflow) {
    let mut passed: BTreeSet<&str> = BTreeSet::new();
    let is_met = |need: &Need, passed: &BTreeSet<&str>| match need {
        Need::Step(id) => passed.contains(id.as_str()),
        Need::Elsewhere { .. } => true,
    };
    loop {
        let ready = flow.steps.iter().filter(|step| !passed.contains(step.id.as_str()));
        let ready: Vec<&str> = ready
            .filter(|step| step.needs.iter().all(|need| is_met(need, &passed)))
            .map(|step| step.id.as_str())
            .collect();
        if ready.is_empty() {
            break;
        }
        passed.extend(ready);
    }
    assert_eq!(
        passed.len(),
        flow.steps.len(),
        "every step comes to its turn, and no two share an id"
    );
    let mut sentinels = BTreeSet::new();
    let mut gates = BTreeSet::new();
    for step in &flow.steps {
        if let Signal::SentinelFile { path } = &step.signal {
            assert!(sentinels.insert(path), "{path}");
        }
        let Some(gate) = &step.gate else { continue };
        assert!(gates.insert(&gate.id), "{}", gate.id);
        assert_eq!(gate.on_fail.iter().filter(|back| back.reason.is_none()).count(), 1);
        for back in &gate.on_fail {
            assert!(back.retry_context_path.contains("{n}"));
            let Some(to) = &back.to else { continue };
            let reset = flow.downstream(to);
            assert!(
                reset.iter().any(|again| again.id == step.id),
                "{to} does not reset {}",
                step.id
            );
        }
    }
    assert!(lint(flow, &|_| false).iter().all(|doubt| !doubt.message.is_empty()));
}

#[test]
fn the_examples_and_the_broken_files_keep_the_laws() {
    sources().iter().for_each(|text| holds(text));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_refused_with_a_place(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn any_yaml_is_refused_with_a_place(parts in prop::collection::vec(prop::sample::select(vec![
        "workflow:", "steps:", "gates:", "id:", "- ", "  ", "\n", "{", "}", "[", "]", "x", "1", "${{", "}}", "params.", "item", ",",
        "needs: ", "uses: again.yaml", "matrix: ", "for_each: ", "&a ", "*a", "|", ">", "\"", "'", "#", "\t", "é", "\r", "!!str ", "---\n",
    ]), 0..60)) {
        holds(&parts.concat());
    }

    /// Any mutation of a file.
    #[test]
    fn damaged_files_keep_the_laws(which in any::<usize>(), line in any::<usize>(), other in any::<usize>(), how in 0_u8..8) {
        let sources = sources();
        let mut lines: Vec<String> = sources[which % sources.len()].lines().map(str::to_owned).collect();
        let (line, other) = (line % lines.len(), other % lines.len());
        match how {
            0 => drop(lines.remove(line)),
            1 => lines.swap(line, other),
            2 => lines.insert(line, lines[other].clone()),
            3 => lines[line] = lines[line].replace(['{', '[', ':'], " "),
            4 => lines[line] = lines[line].chars().rev().collect(),
            5 => lines[line] = lines[line].replace("X-1", "X-2").replace("plan", "build"),
            6 => lines[line].push_str("\n    needs: [X-2, plan]"),
            _ => lines.truncate(line),
        }
        holds(&lines.join("\n"));
    }

    /// Steps with random needs and retry routes: an accepted workflow has no cycle.
    #[test]
    fn random_graphs_have_an_order_or_are_refused(links in prop::collection::vec((0_usize..6, 0_usize..6, 0_u8..3), 0..10), wide in 0_usize..6) {
        let mut text = String::from("workflow: { id: w }\nsteps:\n");
        for step in 0..6 {
            let needed: Vec<String> = links.iter().filter(|link| link.0 == step && link.2 == 0).map(|link| format!("s{}", link.1)).collect();
            let matrix = if step == wide { ", for_each: [p, q]" } else { "" };
            text.push_str(&format!("  - {{ id: s{step}, gate: g{step}, needs: [{}]{matrix} }}\n", needed.join(", ")));
        }
        text.push_str("gates:\n");
        for step in 0..6 {
            let to = |kind: u8| links.iter().find(|link| link.0 == step && link.2 == kind).map(|link| format!("s{}", link.1));
            let pass = to(1).unwrap_or_else(|| "DONE".to_owned());
            let fail = to(2).unwrap_or_else(|| "ABORT".to_owned());
            text.push_str(&format!("  - {{ id: g{step}, reviewer: {{ level: auto }}, on_pass: {{ next_step: {pass} }}, on_fail: {{ next_step: {fail} }} }}\n"));
        }
        holds(&text);
    }
}
