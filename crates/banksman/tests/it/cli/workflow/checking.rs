//! Files are checked: what cannot be run, what may be unintended, and where.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;

use super::{TWO_STEPS, with_steps, workflow};
use crate::cli::sandbox::Sandbox;

/// Each the smallest file that shows one fault, with the line where it is expected.
const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/workflow/broken");

#[test]
fn what_is_sound_needs_no_words() {
    let sandbox = with_steps();
    assert_snapshot!(workflow(&sandbox, &["lint", "search.yaml", "--strict"]), @"
    exit 0
    -- stderr
    1 file: 0 errors, 0 warnings
    ");
    assert_eq!(workflow(&sandbox, &["lint", "search.yaml", "-q"]).to_string(), "exit 0\n");
    assert_snapshot!(workflow(&sandbox, &["lint", "search.yaml", "--json"]), @r#"
    exit 0
    -- stdout
    {
      "checked": [
        "search.yaml"
      ],
      "placeholders": [],
      "success": true,
      "warnings": []
    }
    "#);
}

#[test]
fn every_broken_file_is_told_with_its_line() {
    let sandbox = Sandbox::empty();
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(BROKEN)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        let (line, message) = expected.and_then(|rest| rest.split_once(": ")).unwrap();
        // What is still to be chosen is no fault of a file that is only looked at.
        if message.ends_with("has no value") {
            continue;
        }
        sandbox.file("broken.yaml", &text);
        let ran = workflow(&sandbox, &["lint", "broken.yaml"]);
        assert_eq!(ran.code, Some(5), "{}\n{ran}", path.display());
        assert!(ran.stdout.contains(message), "{}\n{ran}", path.display());
        assert!(
            ran.stdout.contains(&format!("--> broken.yaml:{line}:")),
            "{}\n{ran}",
            path.display()
        );
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} were found");
}

#[test]
fn an_error_is_quoted_and_stands_in_the_document() {
    let sandbox = with_steps();
    sandbox.file("broken.yaml", TWO_STEPS.replace("level: auto", "level: atuo"));
    assert_snapshot!(workflow(&sandbox, &["lint", "search.yaml", "broken.yaml"]), @"
    exit 5
    -- stdout
    error: unknown value `atuo`
      --> broken.yaml:16:24
       |
    16 |     reviewer: { level: atuo }
       |                        ^
      help: did you mean `auto`?
    -- stderr
    2 files: 1 error, 0 warnings
    ");
    assert_snapshot!(workflow(&sandbox, &["lint", "broken.yaml", "--json"]), @r#"
    exit 5
    -- stdout
    {"success":false,"errors":[{"field":null,"message":"unknown value `atuo`","file":"broken.yaml","line":16,"column":24,"help":"did you mean `auto`?"}],"allowedTransitions":[],"code":"BM-E018","hint":null}
    "#);
    let linted = workflow(&sandbox, &["lint", "broken.yaml", "--json"]).error()["errors"].clone();
    for command in ["run", "simulate", "graph"] {
        let refused = workflow(&sandbox, &[command, "broken.yaml", "--json"]);
        assert_eq!(refused.error()["errors"], linted, "{command}");
    }
    assert_snapshot!(workflow(&sandbox, &["run", "broken.yaml"]), @"
    exit 1
    -- stderr
    error: unknown value `atuo` (BM-E018)
      --> broken.yaml:16:24
       |
    16 |     reviewer: { level: atuo }
       |                        ^
      help: did you mean `auto`?
    hint: fix what `banksman workflow lint FILE` reports
    ");
    assert_snapshot!(workflow(&sandbox, &["lint", "nowhere.yaml"]), @"
    exit 1
    -- stderr
    error: failed to read `nowhere.yaml` (BM-E004)
      because: No such file or directory (os error 2)
    hint: check the path and its permissions
    ");
}

#[test]
fn warnings_count_with_strict() {
    let sandbox = Sandbox::new();
    let doubtful = TWO_STEPS
        .replace("    max_retries: 3\n", "")
        .replace("[test.py]\n    outputs", "[tests/*.py, notes]\n    outputs");
    sandbox.file("doubtful.yaml", doubtful);
    assert_snapshot!(workflow(&sandbox, &["lint", "doubtful.yaml"]), @"
    exit 0
    -- stdout
    warning: `X-2` reads `notes`, which does not exist and which no step produces
     --> doubtful.yaml:8:1
      |
    8 |   - id: X-2
      | ^
      help: add it to the `outputs` of an earlier step

    warning: `X-2` reads `tests/*.py`, which does not exist and which no step produces
     --> doubtful.yaml:8:1
      |
    8 |   - id: X-2
      | ^
      help: add it to the `outputs` of an earlier step

    warning: the gate `XG-2` has no `max_retries`: a person is asked after 3 failures
      --> doubtful.yaml:20:9
       |
    20 |   - id: XG-2
       |         ^
      help: add `max_retries`
    -- stderr
    1 file: 0 errors, 3 warnings
    ");
    let strict = workflow(&sandbox, &["lint", "doubtful.yaml", "--strict", "--json"]);
    assert_eq!((strict.code, &strict.error()["errors"][0]["line"]), (Some(5), &8.into()));
    // A file that fits the glob and a folder settle two of them.
    sandbox.file("tests/a.py", "");
    sandbox.file("notes/a", "");
    let settled = sandbox.json(&["workflow", "lint", "doubtful.yaml"]);
    assert_eq!(settled["warnings"].as_array().unwrap().len(), 1, "{settled}");
}

#[test]
fn what_is_no_workflow_at_all_is_told_as_a_fault_of_the_file() {
    let sandbox = Sandbox::empty();
    sandbox.file("empty.yaml", "# to be written\n---\n");
    fs::write(sandbox.repo().join("latin.yaml"), b"workflow: { id: caf\xe9 }\nsteps: []\n")
        .unwrap();
    assert_snapshot!(workflow(&sandbox, &["lint", "empty.yaml"]), @"
    exit 5
    -- stdout
    error: the file is empty
    --> empty.yaml
      help: write `workflow: { id: NAME }` and `steps: [{ id: STEP }]`; docs/workflow-format.md shows every key
    -- stderr
    1 file: 1 error, 0 warnings
    ");
    assert_snapshot!(workflow(&sandbox, &["lint", "latin.yaml"]), @"
    exit 1
    -- stderr
    error: failed to read `latin.yaml` (BM-E040)
      because: not UTF-8 after byte 19
    hint: save it as text in UTF-8
    ");
    sandbox.file("whole.yaml", "workflow: { id: w }\nsteps:\n  - { id: a, uses: latin.yaml }\n");
    assert_snapshot!(workflow(&sandbox, &["lint", "whole.yaml"]), @"
    exit 5
    -- stdout
    error: cannot read `latin.yaml`: not UTF-8 after byte 19
     --> whole.yaml:3:20
      |
    3 |   - { id: a, uses: latin.yaml }
      |                    ^
      help: the path is relative to the folder of this file
    -- stderr
    1 file: 1 error, 0 warnings
    ");
}

/// Neither an error, nor a warning about a path that has the value in its name.
#[test]
fn a_value_that_is_still_to_be_chosen_is_no_fault() {
    let sandbox = Sandbox::empty();
    let text = "workflow: { id: w, params: { version: { type: string }, systems: { type: list } } }\n\
                steps:\n  - { id: a, inputs: ['notes/${{ params.version }}.md'], outputs: [a.md] }\n";
    sandbox.file("release.yaml", text);
    assert_snapshot!(workflow(&sandbox, &["lint", "release.yaml", "--strict", "--param", "systems=mac"]), @"
    exit 0
    -- stderr
    release.yaml: `version` has no value and was checked with a placeholder (--param version=VALUE)
    1 file: 0 errors, 0 warnings
    ");
    let linted = workflow(&sandbox, &["lint", "release.yaml", "--json"]);
    assert!(linted.stdout.contains("\"placeholders\": [\n    \"systems\",\n"), "{linted}");
    let given = workflow(&sandbox, &["lint", "release.yaml", "--param", "version=1"]);
    assert!(given.stdout.contains("notes/1.md"), "a value that is there is looked at: {given}");
    let wrong = text.replace("id: a,", "id: a, timeout: soon,");
    sandbox.file("release.yaml", &wrong);
    assert_eq!(workflow(&sandbox, &["lint", "release.yaml"]).code, Some(5));
}

#[test]
fn without_a_file_all_of_the_repository_are_looked_at() {
    let sandbox = Sandbox::new();
    assert_snapshot!(workflow(&sandbox, &["lint"]), @"
    exit 1
    -- stderr
    error: there are no workflows in `.workflow/specs` (BM-E003)
    hint: name a file: banksman workflow lint FILE
    ");
    sandbox.file(".workflow/specs/search.yaml", TWO_STEPS);
    sandbox.file(".workflow/specs/README.md", "not a workflow");
    sandbox.file(
        ".workflow/specs/all.yml",
        "workflow: { id: all, params: { version: { type: string } } }\nsteps:\n  - { id: part, uses: part.yaml, with: { what: '${{ params.version }}' } }\n",
    );
    // A part of another one has no values of its own, and is not looked at alone.
    let part = "workflow: { id: part, params: { what: { type: string } } }\nsteps:\n  - { id: a, outputs: ['${{ params.what }}'] }\n";
    sandbox.file(".workflow/specs/part.yaml", part);
    assert_snapshot!(workflow(&sandbox, &["lint"]), @"
    exit 0
    -- stderr
    .workflow/specs/all.yml: `version` has no value and was checked with a placeholder (--param version=VALUE)
    2 files: 0 errors, 0 warnings
    ");
    // A parameter goes to those that have it.
    assert_snapshot!(workflow(&sandbox, &["lint", "--param", "version=2"]), @"
    exit 0
    -- stderr
    2 files: 0 errors, 0 warnings
    ");
    assert_snapshot!(workflow(&sandbox, &["lint", "--param", "versio=2"]), @"
    exit 1
    -- stderr
    error: none of these files has a parameter `versio` (BM-E003)
    hint: did you mean `version`?
    ");
    assert_snapshot!(workflow(&sandbox, &["lint", "--param", "version"]), @"
    exit 2
    -- stderr
    error: `version` is not of the form NAME=VALUE (BM-E001)
    hint: write --param NAME=VALUE
    ");
    fs::create_dir(sandbox.repo().join("deep")).unwrap();
    let below =
        sandbox.command(&["workflow", "lint"]).current_dir(sandbox.repo().join("deep")).output();
    let below = sandbox.finish(below.unwrap());
    assert!(below.stderr.contains("repo/.workflow/specs/all.yml: "), "{below}");
}
