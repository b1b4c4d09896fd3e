//! Broken workflows, each the smallest file that shows one problem.
//!
//! The first line of a file states the expectation: `# expect: LINE: part of the message`; the
//! second says whether an editor with the schema finds it: `# schema: refuses` or `# schema:
//! accepts`.

use std::collections::BTreeMap;
use std::fs;

use banksman_core::lifecycle::problem::Problems;
use banksman_core::workflow::load;

use crate::{Params, here};

/// Every file of the corpus, by name.
pub(crate) fn corpus() -> BTreeMap<String, String> {
    let files = fs::read_dir(here().join("broken")).expect("the corpus is part of the repository");
    let paths = files.map(|file| file.expect("the corpus can be read").path());
    let sources = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let named = sources.map(|path| {
        let name = path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("the corpus is text"))
    });
    named.collect()
}

fn report(name: &str, text: &str) -> Problems {
    match load(text, "broken.yaml", &Params::new(), &|_| Ok(text.to_owned())) {
        Ok(_) => panic!("{name} passes"),
        Err(problems) => problems,
    }
}

#[test]
fn each_fault_is_reported_once_at_its_line_with_advice() {
    for (name, text) in corpus() {
        let first = text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        let (line, part) = first.and_then(|rest| rest.split_once(": ")).expect("an expectation");
        let problems = report(&name, &text);
        assert_eq!(problems.list.len(), 1, "{name}:\n{problems}");
        let problem = &problems.list[0];
        assert_eq!(problem.line.to_string(), line, "{name}:\n{problems}");
        assert!(!part.is_empty() && problem.message.contains(part), "{name}:\n{problems}");
        assert!(problem.help.is_some() || problem.message.contains("write"), "{name}:\n{problems}");
        assert!(!problem.message.ends_with('.'), "{name}: {}", problem.message);
    }
}

#[test]
fn reports_read_well() {
    let corpus = corpus();
    assert!(corpus.len() >= 20, "only {} files were found", corpus.len());
    insta::with_settings!({ snapshot_path => "broken", prepend_module_to_snapshot => false, omit_expression => true }, {
        for (name, text) in corpus {
            insta::assert_snapshot!(name.clone(), report(&name, &text).to_string());
        }
    });
}

#[test]
fn all_faults_of_a_file_are_reported_at_once_and_in_order() {
    let text = "workflow: { id: w }\nsteps:\n  - id: A\n    outputs: [/a]\n    timeout: soon\n  - id: B\n    needs: [C]\n    gate: G\n";
    let lines: Vec<u32> = report("several", text).list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [4, 5, 7, 8]);
}

/// A key that nobody knows, or a value of another type, hides no other mistake of the file.
#[test]
fn what_cannot_be_read_is_reported_with_everything_else() {
    let text = "workflow: { id: w, merge: maybe }
steps:
  - id: A
    colour:
      of: everything
    outputs: [/a]
  - { id: B, needs: [C], agent: { kind: x, type: y }, gate: G }
  - { id: A }
  - id: 7 8
    timeout: soon
";
    let problems = report("unreadable", text);
    let lines: Vec<u32> = problems.list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 4, 6, 7, 7, 7, 8, 9, 10], "{problems}");
}

/// Nor does a word that nobody knows, a key that is missing, or a cycle.
#[test]
fn every_kind_of_mistake_leaves_the_others_to_be_found() {
    let whole = "workflow: { id: w }
steps:
  - { id: A, needs: [B], agent: { launch: headless }, signal: { type: pr_creation }, gate: G }
  - { id: B, needs: [ZZZ] }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE } }
";
    for (right, wrong, said) in [
        ("{ id: w }", "{ name: w }", "missing key `id`"),
        ("{ id: w }", "{ id: w, breaker: { failures: -1 } }", "expected a whole number"),
        ("{ id: w }", "{ id: w, breaker: { failures: many } }", "expected a whole number"),
        ("{ id: w }", "{ id: w, parallel: 1.5 }", "expected a whole number"),
        ("{ id: A, ", "{ name: A, ", "missing key `id`"),
        ("launch: headless", "launch: sometimes", "unknown value `sometimes`"),
        ("type: pr_creation", "type: foo", "unknown value `foo`"),
        ("{ type: pr_creation }", "{ value: foo }", "missing key `type`"),
        ("{ id: G, reviewer", "{ reviewer", "missing key `id`"),
        ("level: auto", "level: sometimes", "unknown value `sometimes`"),
        ("{ level: auto }", "{ agent_type: critic }", "the gate `G` does not say who decides"),
        ("reviewer: { level: auto }, ", "", "the gate `G` does not say who decides"),
        ("{ id: B, needs: [ZZZ] }", "{ id: B, needs: [ZZZ, A] }", "wait for each other in a cycle"),
    ] {
        let text = whole.replace(right, wrong);
        assert_ne!(text, whole, "{right}");
        let problems = report("several", &text);
        let has =
            |said: &str| problems.list.iter().any(|it| it.message.contains(said) && it.line > 0);
        assert!(has(said) && has("unknown step `ZZZ`"), "{wrong}: {problems}");
    }
}

/// A reference to a step that cannot be expanded is not a second problem.
#[test]
fn a_step_that_cannot_be_spelled_out_is_reported_alone() {
    for step in ["matrix: { os: linux }", "for_each: []", "uses: ../other.yaml"] {
        let text = format!(
            "workflow: {{ id: w }}\nsteps:\n  - {{ id: A, {step} }}\n  - {{ id: B, needs: [A, A/x] }}\n"
        );
        let problems = report(step, &text);
        let lines: Vec<u32> = problems.list.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3], "{problems}");
    }
}
