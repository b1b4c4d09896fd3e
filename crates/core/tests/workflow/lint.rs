//! Lint warnings for valid workflows.

use std::collections::BTreeMap;

use banksman_core::workflow::{WorkflowOutline, default_warnings, lint, load, outline};
use serde_json::json;

use crate::{alone, example, steps};

/// The warnings for a workflow in a repository with these files, as `LINE: message`.
fn doubts(rest: &str, files: &[&str]) -> Vec<String> {
    let found = lint(&steps(rest), &|path| files.contains(&path));
    found.iter().map(|doubt| format!("{}: {}", doubt.line, doubt.message)).collect()
}

#[test]
fn the_annotated_example_raises_no_doubt_where_its_files_are() {
    let flow = alone(&example("phase-4.yaml").expect("it is part of the documents"));
    let flow = flow.expect("it is sound");
    // Its steps work in `phase-4/`, so its `phase-4/CLAUDE.md` is `CLAUDE.md` there.
    let there = ["CLAUDE.md", "docs/plans/phase-4-plan.md"];
    assert_eq!(lint(&flow, &|path| there.contains(&path)), []);
    let doubts = lint(&flow, &|_| false);
    let first =
        "the context file `docs/plans/phase-4-plan.md` does not exist, and no step produces it";
    assert_eq!((doubts[0].line, doubts[0].message.as_str()), (0, first));
    assert_eq!(doubts.len(), 5, "{doubts:?}");
    let second = "the context file `phase-4/CLAUDE.md` (`CLAUDE.md` in its worktree) does not exist, and no step produces it";
    assert_eq!(doubts[1].message, second);
    assert!(
        doubts[3]
            .message
            .starts_with("`X-1` reads `phase-4/CLAUDE.md` (`CLAUDE.md` in its worktree), which"),
        "{doubts:?}"
    );
}

#[test]
fn each_doubt_is_raised() {
    let gate = "gates:\n  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, max_retries: 50 }\n";
    for (rest, expected) in [
        (
            "  - { id: A, inputs: [a.md], outputs: [x] }\n".to_owned(),
            "3: `A` reads `a.md`, which does not exist and which no step produces",
        ),
        (
            "  - { id: A, inputs: [out/a.md], outputs: [x] }\n  - { id: B, outputs: [out/*.md] }\n".to_owned(),
            "3: `A` reads `out/a.md`, but does not wait for `B`, which produces it",
        ),
        (
            "  - { id: A, outputs: [x] }\n  - { id: B, outputs: [x] }\n".to_owned(),
            "4: `A` and `B` can run at the same time and both write `x`",
        ),
        (
            "  - { id: A, agent: { worktree: wt }, outputs: [x] }\n  - { id: B, agent: { worktree: wt/ }, outputs: [y] }\n".to_owned(),
            "4: `A` and `B` share the worktree `wt`, so they take turns",
        ),
        (
            "  - { id: A, success_criterion: The text reads well }\n".to_owned(),
            "3: an agent will judge the criterion of `A`: The text reads well",
        ),
        ("  - { id: A }\n".to_owned(), "3: nothing verifies the work of `A`"),
        (
            "  - { id: A, outputs: [x] }\n  - { id: B, needs: A, outputs: [y] }\n  - { id: C, outputs: [z] }\n".to_owned(),
            "5: no step leads to `C`, so it starts at once",
        ),
        (
            format!("  - {{ id: A, gate: G }}\n{gate}"),
            "5: the gate `G` may fail 50 times before a person is asked, and no breaker stops it earlier",
        ),
        (
            format!("  - {{ id: A, gate: G }}\n{}", gate.replace("level: auto", "level: human, veto_window: 1h").replace("50", "5")),
            "5: the gate `G` has a veto window, which its level ignores",
        ),
    ] {
        assert_eq!(doubts(&rest, &[]), [expected], "{rest}");
    }
}

#[test]
fn an_order_settles_the_doubt() {
    for rest in [
        "  - { id: A, outputs: [out/a.md] }\n  - { id: B, needs: A, inputs: [out/a.md], outputs: [x] }\n",
        "  - { id: A, outputs: [x] }\n  - { id: B, needs: A, outputs: [x] }\n",
        "  - { id: A, inputs: [\".workflow/retry-context/G-*.md\", there.md], outputs: [x] }\n",
        "  - { id: A, agent: { worktree: wt }, outputs: [wt/a.md] }\n  - { id: B, needs: A, inputs: [a.md], outputs: [x] }\n",
        "  - { id: A, needs: [other/X], inputs: [theirs.md], outputs: [x] }\n",
        "  - { id: A, needs: [other/X], outputs: [x] }\n  - { id: B, needs: A, inputs: [theirs.md], outputs: [y] }\n",
    ] {
        assert_eq!(doubts(rest, &["there.md"]), [""; 0], "{rest}");
    }
}

#[test]
fn a_gate_without_a_count_is_named() {
    let text = "workflow: { id: w }\nsteps:\n  - { id: A, gate: G }\ngates:\n  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE } }\n";
    let found = default_warnings(text);
    assert_eq!(found.len(), 1);
    assert!(found[0].line == 5 && found[0].message.contains("after 3 failures"), "{found:?}");
    assert_eq!(default_warnings("not: a workflow"), []);
}

#[test]
fn a_file_says_what_it_takes_and_includes_before_it_is_checked() {
    let text = "workflow: { id: w, params: { a: 1, b: { type: list } } }\nsteps:\n  \
                - { id: X, uses: part.yaml, needs: [nowhere] }\n  - { id: Y }\n";
    let expected = WorkflowOutline {
        params: vec!["a".to_owned(), "b".to_owned()],
        sample_values: BTreeMap::from([("b".to_owned(), json!(["any-b"]))]),
        uses: vec!["part.yaml".to_owned()],
    };
    assert_eq!(outline(text), expected);
    assert_eq!(outline("steps: ["), WorkflowOutline::default());
}

#[test]
fn a_parameter_without_a_value_has_a_stand_in_that_fits() {
    let text = "workflow:\n  id: w\n  params:\n    text: { type: string }\n    count: { type: number }\n    \
                sure: { type: boolean }\n    all: { type: list }\n    os: { type: string, choices: [linux, mac] }\n    \
                some: { type: list, choices: [linux, mac] }\n    level: { type: number, choices: [7] }\n    set: 3\n\
                steps:\n  - { id: A, outputs: ['${{ params.text }}'] }\n";
    let sample_values = outline(text).sample_values;
    let expected = json!({
        "text": "any-text", "count": 1, "sure": true, "all": ["any-all"], "os": "linux", "some": ["linux"], "level": 7,
    });
    assert_eq!(json!(sample_values), expected);
    let flow = load(text, "w.yaml", &sample_values, &|_| Err(String::new()))
        .expect("each of them is accepted");
    assert_eq!(flow.params["set"], 3);
}
