//! Workflows are walked through on paper and drawn: nothing is started, nothing is written.

use std::fs;

use insta::assert_snapshot;

use super::{TWO_STEPS, with_steps, workflow};
use crate::cli::harness::{DONE, Harness};
use crate::cli::sandbox::Sandbox;

#[test]
fn a_walk_is_told_line_by_line() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml"]), @"
    exit 0
    -- stdout
    round 1: X-1 starts, attempt 1
    X-1 passes XG-1
    round 2: X-2 starts, attempt 1
    X-2 passes XG-2, decided by a person
    done: every step has passed

                RUNS  REVIEWS  ASKED  ROUNDS  WORK  COST
    this run    2     1        1      2       ?     ?
    worst case  7     4                       ?     ?
    at most 3 failures send work back before a person is needed
    no past runs of implementor, reviewer, test-writer: the cost is unknown
    -- stderr
    next: banksman workflow run search.yaml
    ");
    assert_snapshot!(
        workflow(&sandbox, &["simulate", "search.yaml", "-q", "--gate", "XG-1=fail", "--gate", "XG-1=pass", "--gate", "XG-2=fail"]), @"
    exit 0
    -- stdout
    round 1: X-1 starts, attempt 1
    XG-1 fails, failure 1: back to X-1, resets X-1, X-2
    round 2: X-1 starts, attempt 2
    X-1 passes XG-1
    round 3: X-2 starts, attempt 1
    XG-2 fails, failure 1: back to X-1, resets X-1, X-2
    round 4: X-1 starts, attempt 3
    X-1 passes XG-1
    round 5: X-2 starts, attempt 2
    X-2 passes XG-2, decided by a person
    done: every step has passed

                RUNS  REVIEWS  ASKED  ROUNDS  WORK  COST
    this run    5     3        2      5       ?     ?
    worst case  7     4                       ?     ?
    at most 3 failures send work back before a person is needed
    no past runs of implementor, reviewer, test-writer: the cost is unknown
    ");
}

#[test]
fn a_walk_ends_where_its_gates_lead() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml", "-q", "--gate", "XG-1=fail:hopeless"]), @"
    exit 0
    -- stdout
    round 1: X-1 starts, attempt 1
    XG-1 fails because of hopeless, failure 1: the workflow is aborted
    aborted

                RUNS  REVIEWS  ASKED  ROUNDS  WORK  COST
    this run    1     1        0      1       ?     ?
    worst case  7     4                       ?     ?
    at most 3 failures send work back before a person is needed
    no past runs of implementor, reviewer, test-writer: the cost is unknown
    ");
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml", "-q", "--fail"]), @"
    exit 0
    -- stdout
    round 1: X-1 starts, attempt 1
    XG-1 fails, failure 1: back to X-1, resets X-1, X-2
    round 2: X-1 starts, attempt 2
    XG-1 fails, failure 2 (max_retries 2): a person is asked
    X-1 passes XG-1, decided by a person
    round 3: X-2 starts, attempt 1
    XG-2 fails, failure 1: back to X-1, resets X-1, X-2
    round 4: X-1 starts, attempt 3
    X-1 passes XG-1
    round 5: X-2 starts, attempt 2
    XG-2 fails, failure 2: back to X-1, resets X-1, X-2
    round 6: X-1 starts, attempt 4
    X-1 passes XG-1
    round 7: X-2 starts, attempt 3
    XG-2 fails, failure 3 (max_retries 3): a person is asked
    X-2 passes XG-2, decided by a person
    done: every step has passed

                RUNS  REVIEWS  ASKED  ROUNDS  WORK  COST
    this run    7     4        5      7       ?     ?
    worst case  7     4                       ?     ?
    at most 3 failures send work back before a person is needed
    no past runs of implementor, reviewer, test-writer: the cost is unknown
    ");
    let random =
        |seed: &str| sandbox.ok(&["workflow", "simulate", "search.yaml", "--random", seed]);
    assert_eq!(random("1"), random("1"));
    assert!((2..20).any(|seed| random(&seed.to_string()) != random("1")));
}

#[test]
fn a_walk_is_a_document_for_programs() {
    let document =
        with_steps().json(&["workflow", "simulate", "search.yaml", "--gate", "XG-1=fail"]);
    assert_eq!(document["walk"]["events"][1]["event"], "sentBack");
    assert_eq!(document["walk"]["events"][1]["resets"], serde_json::json!(["X-1", "X-2"]));
    assert_eq!(document["walk"]["ended"], "done");
    assert_eq!(document["walk"]["runs"], 3);
    assert_eq!(document["cost"]["pastRuns"], 0);
    assert_eq!(
        document["cost"]["unknownRoles"],
        serde_json::json!(["implementor", "reviewer", "test-writer"])
    );
}

#[test]
fn what_was_mistyped_is_not_walked() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml", "--gate", "XG-3=fail"]), @"
    exit 1
    -- stderr
    error: there is no gate `XG-3` (BM-E003)
    hint: did you mean `XG-1`?
    ");
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml", "--gate", "XG-1=fail:hopless"]), @"
    exit 1
    -- stderr
    error: the gate `XG-1` has no way back for the reason `hopless` (BM-E003)
    hint: did you mean `hopeless`?
    ");
    assert_snapshot!(workflow(&sandbox, &["simulate", "search.yaml", "--gate", "XG-1=maybe"]), @"
    exit 2
    -- stderr
    error: invalid value 'XG-1=maybe' for '--gate <GATE=VERDICT>': expected GATE=pass, GATE=fail or GATE=fail:REASON

    For more information, try '--help'.
    ");
    assert_eq!(
        workflow(&sandbox, &["simulate", "search.yaml", "--fail", "--random", "1"]).code,
        Some(2)
    );
    assert_eq!(workflow(&sandbox, &["simulate", "nowhere.yaml"]).code, Some(1));
}

/// The name of a gate of a matrix means all its copies.
#[test]
fn a_gate_of_a_matrix_is_all_of_them() {
    let sandbox = Sandbox::empty();
    let text = "workflow: { id: w }\nsteps:\n  - { id: s, for_each: [a, b], gate: g }\ngates:\n  \
                - { id: g, reviewer: { level: auto }, on_pass: { next_step: DONE }, max_retries: 2 }\n";
    sandbox.file("wide.yaml", text);
    let runs = |gate: &str| {
        sandbox.json(&["workflow", "simulate", "wide.yaml", "--gate", gate])["walk"]["runs"].clone()
    };
    assert_eq!((runs("g=fail"), runs("g[a]=fail"), runs("g=pass")), (4.into(), 3.into(), 2.into()));
}

#[test]
fn nothing_is_written() {
    let sandbox = Sandbox::empty();
    sandbox.file("search.yaml", TWO_STEPS);
    for args in [
        &["simulate", "search.yaml"][..],
        &["graph", "search.yaml"],
        &["lint", "search.yaml"],
        &["schema"],
    ] {
        assert_eq!(workflow(&sandbox, args).code, Some(0), "{args:?}");
    }
    assert_eq!(fs::read_dir(sandbox.home()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(sandbox.repo()).unwrap().count(), 2);
}

/// What agents of the same roles have used before is what the next ones will use.
#[test]
fn the_cost_is_that_of_past_runs() {
    let harness = Harness::new();
    let text = "workflow: { id: w, merge: false }\nsteps:\n  - { id: a, agent: { type: tester } }\n  - { id: b, needs: [a], agent: { type: coder, launch: interactive } }\n";
    harness.file("w.yaml", text);
    harness.script("t2", &[DONE]);
    // Only a person can do the second step, so it is not complete.
    let ran = workflow(&harness, &["run", "w.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran}");
    assert!(ran.stdout.contains("(1 of 2 steps, $0.05)"), "{ran}");
    let shown = workflow(&harness, &["simulate", "w.yaml"]);
    let last = shown.stdout.lines().rev().take(3).collect::<Vec<_>>();
    assert_eq!(
        last,
        [
            "no past runs of coder: not included",
            "amounts are averages of 1 past run of these roles",
            "no failure sends work back",
        ],
        "{shown}"
    );
    let cost = &harness.json(&["workflow", "simulate", "w.yaml"])["cost"];
    assert_eq!(
        (&cost["walk"]["costMicros"], &cost["walk"]["known"], &cost["walk"]["unknown"]),
        (&50_000.into(), &1.into(), &1.into())
    );
    harness.ok(&["workflow", "report", "b", "done"]);
    harness.pulse_until("t1", "complete");
}

#[test]
fn a_file_is_drawn() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["graph", "search.yaml"]), @r##"
    exit 0
    -- stdout
    flowchart TD
        X_1["X-1<br/>write-tests<br/>test-writer"]
        XG_1{"XG-1<br/>auto"}
        X_2["X-2<br/>implement<br/>implementor"]
        XG_2{"XG-2<br/>human"}
        DONE(["#10003; DONE<br/>every step has passed"])
        ABORT(["#8856; ABORT<br/>aborted"])
        X_1 --> XG_1
        XG_1 -->|"pass"| X_2
        XG_1 -.->|"hopeless #8804; 2"| ABORT
        XG_1 -.->|"fail #8804; 2"| X_1
        X_2 --> XG_2
        XG_2 -->|"pass"| DONE
        XG_2 -.->|"fail #8804; 3"| X_1
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class X_1,X_2 kind_queued
        classDef kind_parked fill:#ececec,stroke:#707070,color:#2a2a2a
        class XG_1,XG_2 kind_parked
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class DONE kind_done
        classDef kind_cancelled fill:#f3eaea,stroke:#8a6a6a,color:#352727
        class ABORT kind_cancelled
    "##);
    let file = sandbox.repo().join("search.svg");
    sandbox.ok(&["workflow", "graph", "search.yaml", "-o", file.to_str().unwrap()]);
    let drawing = fs::read_to_string(file).unwrap();
    assert_eq!(drawing, sandbox.ok(&["workflow", "graph", "search.yaml", "--format", "svg"]));
    assert!(drawing.starts_with("<svg"), "{drawing:.40}");
}

#[test]
fn a_workflow_is_drawn_as_it_stands() {
    let sandbox = with_steps();
    sandbox.ok(&["workflow", "run", "search.yaml", "--manual"]);
    sandbox.file("test.py", "assert find");
    sandbox.ok(&["workflow", "report", "X-1", "done"]);
    let drawn = sandbox.ok(&["workflow", "graph", "search"]);
    for wanted in [
        "gate(auto) #183; ",
        "XG-1<br/>auto #183; gate(auto)\"}",
        "class X_1,XG_1 kind_reviewing",
        "class X_2,DONE kind_queued",
    ] {
        assert!(drawn.contains(wanted), "{wanted}\n{drawn}");
    }
    let marked = |word: &str| sandbox.ok(&["workflow", "graph", word]).contains("kind_reviewing");
    assert!(marked("t1") && marked("t2"), "by its id and by that of a step");
    assert_snapshot!(workflow(&sandbox, &["graph", "serch"]), @"
    exit 1
    -- stderr
    error: no workflow `serch` was started (BM-E038)
    hint: did you mean `search`?
    ");
    assert_snapshot!(workflow(&sandbox, &["graph", "search", "--param", "a=b"]), @"
    exit 2
    -- stderr
    error: --param works with a file only; a started workflow already has its values (BM-E001)
    hint: remove it, or name the file
    ");
}
