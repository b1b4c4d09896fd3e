//! Branches that conflict where they come together: an agent joins them, and no answer of a person
//! leaves out what has passed.

use super::stage::{JOIN, Stage};

const DIAMOND: &str = "
workflow: { id: diamond, name: Apart and together }
steps:
  - { id: A }
  - { id: B, needs: [A] }
  - { id: C, needs: [A] }
  - { id: D, needs: [B, C] }
";
const APART: &str = "
workflow: { id: apart, name: Two ends }
steps:
  - { id: B }
  - { id: C }
";

/// A stage on which B and C write the same file.
fn in_each_others_way() -> Stage {
    let stage = Stage::new();
    for step in ["B", "C"] {
        let work = format!("write same.txt {step}\ncommit work of {step}\nsuccess it is made\n");
        stage.step(step, &work);
    }
    stage
}

fn assert_both_are_in_main(stage: &Stage) {
    let mut lines: Vec<String> = stage.main("same.txt").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["B", "C"]);
    let log = stage.git(&["log", "--format=%s", "main"]);
    assert!(log.contains("work of B") && log.contains("work of C"), "{log}");
}

#[test]
fn the_step_that_needs_both_joins_them() {
    let stage = in_each_others_way();
    stage.step("D", JOIN);
    let spec = stage.spec("diamond", DIAMOND);
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    let prompt = &stage.prompts_of("D")[0];
    assert!(prompt.contains("conflicts in same.txt"), "{prompt}");
    assert_both_are_in_main(&stage);
    stage.assert_put_away();
}

/// The agent ignores the conflict, and the person lets the step pass nevertheless.
#[test]
fn a_person_who_lets_the_step_pass_loses_no_branch() {
    let stage = in_each_others_way();
    // A half-finished merge is not committed.
    stage.step("D", "run git merge --quiet --no-edit \"$(git for-each-ref --format='%(refname)' refs/heads/banksman --no-merged HEAD --count=1)\" || true\nneeds-person which side of same.txt is right?\n");
    let spec = stage.spec("diamond", DIAMOND);
    stage.announce(&[&spec]);
    stage.pulse_until("a person is asked", || stage.step_is("diamond", "D", "gate(human)"));
    let told = stage.stored("diamond", "D").task.fields["diagnostic"].as_str().map(str::to_owned);
    let told = told.expect("a text");
    assert!(told.contains("same.txt"), "{told}");
    assert!(stage.ok(&["workflow", "next"]).contains("same.txt"));
    stage.script("join", JOIN);
    stage.ok(&["workflow", "report", "D", "pass"]);
    stage.pulse_until("it is over", || stage.stands("diamond") == "complete");
    assert_both_are_in_main(&stage);
}

#[test]
fn branches_that_conflict_at_the_end_are_joined_by_an_agent() {
    let stage = in_each_others_way();
    stage.script("join", JOIN);
    let spec = stage.spec("apart", APART);
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_both_are_in_main(&stage);
    stage.assert_put_away();
}

#[test]
fn a_base_that_moved_on_is_joined_as_well() {
    let stage = in_each_others_way();
    stage.script("join", JOIN);
    let spec = stage.spec("one", "workflow: { id: one }\nsteps: [{ id: B, gate: G }]\ngates: [{ id: G, reviewer: { level: human }, on_pass: { next_step: DONE } }]\n");
    stage.announce(&[&spec]);
    stage.pulse_until("B is at its gate", || stage.step_is("one", "B", "gate(human)"));
    stage.put("same.txt", "C\n");
    stage.git(&["add", "same.txt"]);
    stage.git(&["commit", "--quiet", "--message", "work of C"]);
    stage.ok(&["workflow", "report", "G", "pass"]);
    stage.pulse_until("it is over", || stage.stands("one") == "complete");
    assert_both_are_in_main(&stage);
}

#[test]
fn where_no_agent_can_join_them_a_person_is_asked_and_everything_stays() {
    let stage = in_each_others_way();
    stage.script("join", "needs-person which side of same.txt is right?\n");
    let spec = stage.spec("apart", APART);
    stage.announce(&[&spec]);
    stage.pulse_until("a person is asked", || stage.stands("apart") == "waiting");
    let told = stage.ok(&["workflow", "status"]);
    assert!(told.contains("same.txt"), "{told}");
    stage.ok(&["move", &stage.head("apart").to_string(), "--on", "accept"]);
    assert_eq!(stage.stands("apart"), "complete(unmerged)");
    stage.pulse_until("worktrees are put away", || stage.worktrees().is_empty());
    for step in ["B", "C"] {
        let log = stage.git(&["log", "--format=%s", "--branches"]);
        assert!(log.contains(&format!("work of {step}")), "{log}");
    }
}
