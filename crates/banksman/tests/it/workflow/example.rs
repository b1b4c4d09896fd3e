//! The example of the guide, as it stands, from its file to the main branch.

use super::stage::Stage;

const EXAMPLE: &str = include_str!("../../../../../docs/examples/phase-4.yaml");
const FLOW: &str = "phase-4-search-index";

const X1: &str = r#"run test -s CLAUDE.md && test -s docs/plans/phase-4-plan.md
run mkdir -p test && echo 'assert find' >test/test_index.py && git add test && git commit -qm 'test the index'
write .workflow/signals/X-1-done.json {"status":"done","note":"one test"}
success the tests are there
"#;
/// It goes on in the worktree of X-1 and commits nothing itself.
const X2: &str = r#"run grep -q find test/test_index.py
write src/chatcat/index.py index
write src/chatcat/search.py search
write .workflow/signals/X-2-done.json {"status":"done"}
success it is implemented
"#;
const PIXI: &str = r#"#!/bin/sh
[ "$*" = "run test" ] && grep -q find test/test_index.py && grep -q index src/chatcat/index.py
"#;

fn stage() -> Stage {
    let stage = Stage::new();
    stage.put("CLAUDE.md", "be kind\n");
    stage.put("docs/plans/phase-4-plan.md", "find things\n");
    stage.commit_all("the plan");
    stage.program("pixi", PIXI);
    stage.step("X-1", X1);
    stage.step("X-2", X2);
    stage
}

#[test]
fn the_example_goes_from_its_file_to_the_main_branch() {
    let stage = stage();
    let spec = stage.spec(FLOW, EXAMPLE);
    let run = stage.beside(&["workflow", "run", &spec]);
    stage.until_step(FLOW, "X-1", "gate(veto)");
    stage.ok(&["workflow", "report", "XG-1-2", "pass"]);
    let (code, said) = run.wait();
    assert_eq!(code, Some(3), "it waits for a person: {said}");
    assert!(said.contains("gate(human)"), "{said}");
    assert!(said.contains("banksman workflow next"), "{said}");
    assert!(!stage.main_files().contains(&"test/test_index.py".to_owned()), "nobody signed off");

    let next = stage.ok(&["workflow", "next"]);
    assert!(next.contains("banksman workflow report XG-2-end pass"), "{next}");
    stage.answer("XG-2-end-pass", "");
    stage.pulse_until("it is merged", || stage.stands(FLOW) == "complete");
    assert_eq!(stage.main("test/test_index.py"), "assert find\n");
    assert_eq!(stage.main("src/chatcat/index.py"), "index\n");
    assert_eq!(stage.main("src/chatcat/search.py"), "search\n");
    let outside: Vec<String> =
        stage.main_files().into_iter().filter(|path| path.starts_with(".workflow")).collect();
    assert_eq!(outside, Vec::<String>::new(), "the mailbox is in the history");
    stage.assert_put_away();
    assert_eq!(stage.played(), ["X-1", "XG-1-2", "X-2"]);
    told_by_the_folder(&stage);
}

/// Whoever reads nothing but the folder knows what happened at each gate, and that it is over.
fn told_by_the_folder(stage: &Stage) {
    assert_eq!(stage.file(&format!("repo/.workflow/specs/{FLOW}.yaml")), EXAMPLE);
    let taken = stage.listed("signals/taken");
    assert_eq!(taken, ["X-1-done.r2.1.json", "X-2-done.r3.1.json", "XG-2-end-pass.1"]);
    assert_eq!(stage.listed("signals"), ["taken"]);
    assert_eq!(stage.listed("retry-context"), Vec::<String>::new());
    let log = stage.log(FLOW);
    for (words, times) in [
        ("started as t1 with 2 steps", 1),
        ("X-1 write-tests (gate XG-1-2) gate(notify) -> gate(veto) on pass by ", 1),
        ("X-1 write-tests (gate XG-1-2) gate(veto) -> passed on pass by human", 1),
        ("X-2 implement (gate XG-2-end) gate(human) -> passed on pass by human:signal", 1),
        ("workflow phase-4-search-index (t1) is complete, its work is merged", 1),
    ] {
        assert_eq!(stage.logged(FLOW, words), times, "{words}\n{log}");
    }
}

#[test]
fn a_file_from_elsewhere_is_kept_where_people_look_and_nothing_is_overwritten() {
    let stage = stage();
    let kept = format!("repo/.workflow/specs/{FLOW}.yaml");
    stage.put("docs/phase-4.yaml", EXAMPLE);
    stage.announce(&["docs/phase-4.yaml"]);
    assert_eq!(stage.file(&kept), EXAMPLE);
    let other = format!("# another\n{EXAMPLE}");
    stage.put("docs/phase-4.yaml", &other);
    let output = stage.banksman(&["workflow", "run", "--detach", "docs/phase-4.yaml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("differs and was not overwritten"), "{said}");
    assert_eq!(stage.file(&kept), EXAMPLE);
}
