//! The examples of the documents, unchanged.

use banksman_core::workflow::{Criterion, EscalationLevel, LaunchMode, Signal, load};
use serde_json::json;

use crate::{Params, alone, example, ids, needs, params, step};

#[test]
fn the_annotated_example_passes() {
    let text = example("phase-4.yaml").expect("it is part of the documents");
    let flow = alone(&text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((flow.id.as_str(), flow.merge), ("phase-4-search-index", true));
    assert_eq!(flow.context_files, ["phase-4/CLAUDE.md", "docs/plans/phase-4-plan.md"]);
    assert_eq!(ids(&flow), ["X-1", "X-2"]);
    assert_eq!(needs(&flow, "X-2"), ["X-1"], "the gate of X-1 leads to it");

    let write = step(&flow, "X-1");
    assert_eq!((write.role.as_str(), write.launch), ("test-writer", LaunchMode::Headless));
    assert_eq!(write.worktree.as_deref(), Some("phase-4"));
    assert_eq!(write.line, 12);
    assert_eq!(write.inputs[2], ".workflow/retry-context/XG-1-2-*.md");
    assert_eq!(write.criterion, Some(Criterion::File("test/test_index.py".to_owned())));
    let path = ".workflow/signals/X-1-done.json".to_owned();
    assert_eq!(write.signal, Signal::SentinelFile { path });
    let gate = write.gate.as_ref().expect("it has one");
    assert_eq!(
        (gate.level, gate.reviewers[0].as_str(), gate.max_retries),
        (EscalationLevel::Notify, "reviewer", 2)
    );
    let back = gate.retry_route(None).expect("it has one");
    assert_eq!(back.to.as_deref(), Some("X-1"));
    assert_eq!(back.retry_context_path, ".workflow/retry-context/XG-1-2-attempt-{n}.md");

    let implement = step(&flow, "X-2");
    assert_eq!(implement.criterion, Some(Criterion::Command("pixi run test".to_owned())));
    assert_eq!(implement.gate.as_ref().map(|gate| gate.level), Some(EscalationLevel::Human));
}

fn release(params: &Params) -> banksman_core::workflow::Workflow {
    let text = example("release.yaml").expect("it is part of the documents");
    load(&text, "docs/examples/release.yaml", params, &example)
        .unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_large_example_is_spelled_out() {
    let flow =
        release(&params(&[("version", json!("1.4.0")), ("systems", json!("linux,windows"))]));
    assert_eq!(flow.name, "Release 1.4.0");
    assert_eq!(
        ids(&flow),
        [
            "plan",
            "build[linux,debug]",
            "build[linux,optimised]",
            "build[windows,debug]",
            "build[windows,optimised]",
            "notes[changes]",
            "notes[upgrade]",
            "check/read",
            "check/sum-up",
            "announce",
        ]
    );
    assert_eq!(needs(&flow, "build[windows,debug]"), ["plan"]);
    assert_eq!(
        needs(&flow, "check/read"),
        [
            "build[linux,debug]",
            "build[linux,optimised]",
            "build[windows,debug]",
            "build[windows,optimised]",
            "notes[changes]",
            "notes[upgrade]",
        ]
    );
    assert_eq!(needs(&flow, "announce"), ["check/sum-up", "elsewhere website/publish"]);
    assert_eq!(step(&flow, "check/read").inputs, ["linux", "windows"]);
    assert_eq!(flow.breaker.cost_micros, Some(20_000_000));
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_json_snapshot!("release", flow);
    });
}

#[test]
fn the_same_text_gives_the_same_flow() {
    let given = params(&[("version", json!("1.4.0"))]);
    assert_eq!(release(&given), release(&given));
}
