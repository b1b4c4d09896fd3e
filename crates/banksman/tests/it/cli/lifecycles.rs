//! `lifecycle list`, `show`, `lint` and `graph`.

use insta::assert_snapshot;

use super::sandbox::Sandbox;

const SMALL: &str = "lifecycle: small
purpose: task
about: Two states and an end.
initial: open
fields: { reason: { type: text, by: anyone } }
states:
  open: { kind: queued }
  done: { kind: done }
  dropped: { kind: cancelled, requires: [reason] }
transitions:
  - { from: open, to: done, on: claim, by: [human, system] }
  - { from: any, to: dropped, on: drop, by: [human] }
";

fn with_small() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file(".banksman/lifecycles/small.yaml", SMALL);
    sandbox
}

#[test]
fn a_project_has_its_own_beside_the_built_in_ones() {
    assert_snapshot!(with_small().run(&["lifecycle", "list"]), @"
    exit 0
    -- stdout
    NAME        VERSION           FROM                             ABOUT
    autonomous  ffffffffffffffff  built-in                         A task is broken down, reviewed, approved by a person, worked on, reviewed again and merged.
    budget      ffffffffffffffff  built-in                         The budget of a day or a batch is used up, and a person says whether to raise it.
    judged      ffffffffffffffff  built-in                         Workers run queued tasks, a judge decides on the result, accepted work is merged.
    leaf        ffffffffffffffff  built-in                         A subtask of an approved plan is worked on, reviewed and merged; its parent waits for it.
    mission     ffffffffffffffff  built-in                         An assigned task with a work plan, a reviewed deliverable, a recorded approval and a merge.
    review      ffffffffffffffff  built-in                         One reviewer of a panel answers with a verdict, or says whether its concern stands.
    small       ffffffffffffffff  .banksman/lifecycles/small.yaml  Two states and an end.
    step        ffffffffffffffff  built-in                         An agent works until it signals; a gate lets the step pass or sends it back with feedback.
    supervised  ffffffffffffffff  built-in                         Dispatched to a worker, evaluated, prompted again up to a limit, then merged or blocked.
    workflow    ffffffffffffffff  built-in                         Runs until every step has passed; asks a person when one is given up or a breaker trips.
    -- stderr
    next: banksman lifecycle show NAME · banksman lifecycle graph NAME
    ");
}

#[test]
fn a_lifecycle_is_shown_as_tables() {
    assert_snapshot!(with_small().run(&["lifecycle", "show", "small"]), @"
    exit 0
    -- stdout
    small ffffffffffffffff
    Two states and an end.

    starts in open; roles: human, system

       STATE    KIND       DOES  NEEDS   ABOUT
    ◌  open     queued
    ✓  done     done
    –  dropped  cancelled        reason

    FROM  TO       TRIGGER  ROLES          WHEN
    open  done     claim    human, system
    open  dropped  drop     human

    FIELD          HOLDS
    allowed_paths  a list of texts, none of them blank
    denied_paths   a list of texts, none of them blank
    merged_as      any value
    model          text
    overridden     any value
    reason         text
    role           text
    target_area    text
    touches        a list of texts, none of them blank
    verify         a list of texts, none of them blank
    -- stderr
    next: banksman lifecycle graph small · banksman add 'TITLE' --lifecycle small
    ");
    assert_snapshot!(with_small().run(&["lifecycle", "show", "smal"]), @"
    exit 1
    -- stderr
    error: there is no lifecycle `smal`; did you mean `small`? (BM-E016)
    hint: `banksman lifecycle list` lists the lifecycles
    ");
}

#[test]
fn the_built_in_ones_are_sound() {
    let sandbox = Sandbox::empty();
    assert_eq!(sandbox.run(&["lifecycle", "lint"]).to_string(), "exit 0\n");
    let document = sandbox.json(&["lifecycle", "lint"]);
    assert_eq!(document["success"], true);
    assert!(document["checked"].as_array().unwrap().len() >= 6);
}

#[test]
fn what_is_wrong_is_shown_with_its_place() {
    let sandbox = with_small();
    let broken = SMALL.replace("kind: done", "kind: dnoe").replace("small", "broken");
    sandbox.file(".banksman/lifecycles/broken.yaml", &broken);
    assert_snapshot!(sandbox.run(&["lifecycle", "lint", "small", ".banksman/lifecycles/broken.yaml"]), @"
    exit 5
    -- stdout
    .banksman/lifecycles/broken.yaml: 1 problem
    error: unknown value `dnoe`
     --> .banksman/lifecycles/broken.yaml:8:17
      |
    8 |   done: { kind: dnoe }
      |                 ^
      help: did you mean `done`?
    ");
    assert_snapshot!(sandbox.run(&["lifecycle", "lint", "broken", "--json"]), @r#"
    exit 5
    -- stdout
    {"success":false,"errors":[{"field":null,"message":"unknown value `dnoe`","file":"[SANDBOX]/repo/.banksman/lifecycles/broken.yaml","line":8,"column":17,"help":"did you mean `done`?"}],"allowedTransitions":[],"code":"BM-E017","hint":null}
    "#);
    assert_snapshot!(sandbox.run(&["add", "A", "--lifecycle", "broken"]), @"
    exit 1
    -- stderr
    error: unknown value `dnoe` (BM-E017)
     --> [SANDBOX]/repo/.banksman/lifecycles/broken.yaml:8:17
      |
    8 |   done: { kind: dnoe }
      |                 ^
      help: did you mean `done`?
    hint: fix what `banksman lifecycle lint` reports
    ");
    assert_snapshot!(sandbox.run(&["lifecycle", "lint", "nowhere.yaml"]), @"
    exit 1
    -- stderr
    error: failed to read the lifecycle `nowhere.yaml` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
}

#[test]
fn a_project_changes_the_settings_of_a_lifecycle() {
    let sandbox = Sandbox::new();
    let before = sandbox.json(&["lifecycle", "show", "autonomous"]);
    sandbox.file(".banksman/config.toml", "[lifecycles.autonomous]\napproval_timeout = \"14d\"\n");
    let after = sandbox.json(&["lifecycle", "show", "autonomous"]);
    assert_eq!(before["settings"]["approval_timeout"], "7d");
    assert_eq!(after["settings"]["approval_timeout"], "14d");
    assert_ne!(before["version"], after["version"]);
    sandbox.file(".banksman/config.toml", "[lifecycles.autonomous]\naproval_timeout = \"14d\"\n");
    assert_snapshot!(sandbox.run(&["lifecycle", "show", "autonomous"]), @"
    exit 1
    -- stderr
    error: the configuration sets `aproval_timeout`, which this lifecycle does not have (BM-E017)
    --> built-in autonomous
      help: did you mean `approval_timeout`?
    hint: fix what `banksman lifecycle lint` reports
    ");
}

#[test]
fn a_lifecycle_is_drawn() {
    let sandbox = with_small();
    assert_snapshot!(sandbox.run(&["lifecycle", "graph", "small"]), @r##"
    exit 0
    -- stdout
    flowchart TD
        open["#9675; open<br/>queued"]
        done(["#10003; done<br/>done"])
        dropped(["#8856; dropped<br/>cancelled"])
        open__start((" ")) --> open
        open -->|"claim (human, system)"| done
        open -->|"drop (human)"| dropped
        classDef kind_queued fill:#eef1f5,stroke:#5b6b7f,color:#1b2430
        class open kind_queued
        classDef kind_done fill:#d8f3dc,stroke:#1f7a3a,color:#0d331a
        class done kind_done
        classDef kind_cancelled fill:#f3eaea,stroke:#8a6a6a,color:#352727
        class dropped kind_cancelled
    "##);
    sandbox.ok(&["add", "A", "--lifecycle", "small"]);
    let marked = sandbox.ok(&["lifecycle", "graph", "--task", "t1"]);
    assert_ne!(marked, sandbox.ok(&["lifecycle", "graph", "small"]));
    let file = sandbox.repo().join("small.svg");
    sandbox.ok(&["lifecycle", "graph", "small", "-o", file.to_str().unwrap()]);
    let drawing = std::fs::read_to_string(file).unwrap();
    assert_eq!(drawing, sandbox.ok(&["lifecycle", "graph", "small", "--format", "svg"]));
    assert!(drawing.starts_with("<svg") || drawing.starts_with("<?xml"), "{drawing:.40}");
    assert_snapshot!(sandbox.run(&["lifecycle", "graph", "mission", "--task", "t1"]), @"
    exit 2
    -- stderr
    error: t1 has the lifecycle small (BM-E001)
    hint: omit the name when you pass --task
    ");
}
