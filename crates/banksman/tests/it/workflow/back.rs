//! Going back: which steps start again and which do not, and what becomes of those who are at work
//! then.

use std::fs;

use banksman_core::ids::TaskId;

use super::{Bench, DONE, WAIT, WORK, assert_refused, field, reasoned, runs, verdict};

/// Two ways from A to D, whose gate leads back into one of them.
const DIAMOND: &str = "workflow: { id: w, name: A diamond }
steps:
  - { id: A, name: Plan }
  - { id: B, name: Left, needs: [A] }
  - { id: C, name: Right, needs: [A] }
  - { id: D, name: Both, needs: [B, C], gate: G }
gates:
  - id: G
    reviewer: { level: auto }
    on_pass: { next_step: DONE }
    on_fail: { next_step: B }
";

#[test]
fn the_target_and_all_behind_it_start_again_and_nothing_else() {
    let bench = Bench::new(DIAMOND);
    bench.fails("G.1", "the left side leans");
    bench.holds("B.2");
    let told = bench.until_started("B.2");
    let line = "gate G failed; B starts again, with all steps after it: B, D";
    assert!(told.notices.iter().any(|text| text == line), "{told:?}");
    assert_eq!(bench.states(), ["A passed", "B running", "C passed", "D pending"]);
    bench.go("B.2");
    bench.until_over("complete");
    assert_eq!(bench.logged(line), 1);
    let counts =
        ["A", "B", "C", "D"].map(|step| runs(&bench.driver.store, bench.step(step).task.id));
    assert_eq!(counts, [1, 2, 1, 2]);
    for (attempt, is_told) in [("B.2", true), ("D.2", true), ("G.2", true), ("C.1", false)] {
        let prompt = bench.prompt(attempt);
        assert_eq!(prompt.contains("the left side leans"), is_told, "{attempt}: {prompt}");
    }
    // The result of the untouched branch is in the end what it was in the beginning.
    assert_eq!(bench.harness.git(&["show", "main:work-C"]), "C.1\n");
    assert_eq!(bench.harness.git(&["show", "main:work-B"]), "B.1\nB.2\n");
    assert!(!bench.history(bench.step("C").task.id).iter().any(|line| line.starts_with("reset")));
}

#[test]
fn the_reviewers_reason_chooses_the_way_back_and_the_place_of_the_feedback() {
    let spec = DIAMOND.replace(
        "on_fail: { next_step: B }",
        "max_retries: 9
    on_fail:
      next_step: B
      routes:
        - { reason: bad-plan, next_step: A, retry_context_path: '.workflow/retry-context/plan-{n}.md' }
        - { reason: bad-right, next_step: C }",
    );
    let bench = Bench::new(&spec);
    bench.fails_for("G.1", "bad-plan", "the plan is wrong");
    bench.fails_for("G.2", "bad-right", "the right side leans");
    bench.fails_for("G.3", "", "the left side leans");
    bench.script("G", &reasoned("APPROVE", "", ""));
    bench.script("A", &format!("{WORK}{WAIT}{DONE}"));
    bench.go("A.1");
    bench.until_started("A.2");
    // Whoever adds a word to the feedback does not find another file beside it later.
    let plan = bench.harness.path("repo/.workflow/retry-context/plan-1.md");
    let words = fs::read_to_string(&plan).expect("feedback");
    assert!(words.contains("the plan is wrong"), "{words}");
    fs::write(&plan, format!("{words}\nSee the drawing.\n")).expect("written");
    bench.go("A.2");
    bench.until_over("complete");
    let files = bench.feedback();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["G-attempt-2.md", "G-attempt-3.md", "plan-1.md"]);
    assert!(files["plan-1.md"].ends_with("See the drawing.\n"));
    assert!(files["G-attempt-2.md"].contains("the right side leans"));
    assert_eq!(bench.logged("failed; A starts again, with all steps after it: A, B, C, D"), 1);
    assert_eq!(bench.logged("failed; C starts again, with all steps after it: C, D"), 1);
    assert_eq!(bench.logged("failed; B starts again, with all steps after it: B, D"), 1);
    let counts =
        ["A", "B", "C", "D"].map(|step| runs(&bench.driver.store, bench.step(step).task.id));
    assert_eq!(counts, [2, 3, 3, 4]);
    assert!(bench.prompt("G.1").contains("bad-plan, bad-right"), "the reviewer knows its reasons");
}

/// A step waits for the one to which its gate may lead back, also where nothing else says so.
#[test]
fn a_gate_may_lead_back_to_a_step_of_another_branch() {
    let bench = Bench::new(
        "workflow: { id: w, name: Apart }
steps:
  - { id: U, name: Elsewhere }
  - { id: X, name: Here, gate: G }
  - { id: Y, name: Untouched }
gates:
  - id: G
    reviewer: { level: auto }
    on_pass: { next_step: DONE }
    on_fail: { next_step: U }
",
    );
    bench.holds("U.1");
    bench.fails("G.1", "elsewhere is wrong");
    bench.until_state("Y", "passed");
    bench.until_started("U.1");
    bench.settle_but_running();
    assert_eq!(bench.states(), ["U running", "Y passed", "X pending"]);
    bench.go("U.1");
    bench.until_over("complete");
    let mut starts = bench.starts();
    starts.retain(|start| start != "Y.1");
    assert_eq!(starts, ["U.1", "X.1", "G.1", "U.2", "X.2", "G.2"]);
    assert!(bench.prompt("U.2").contains("elsewhere is wrong"));
    assert!(bench.prompt("X.2").contains("elsewhere is wrong"));
}

/// Somebody is at work on every kind of step while a gate gives the workflow up.
#[test]
fn abort_gives_the_workflow_up_and_ends_all_that_is_at_work() {
    let bench = Bench::new(
        "workflow: { id: w, name: In vain }
steps:
  - { id: A, name: Done }
  - { id: B, name: At work, needs: [A] }
  - { id: C, name: Under review, needs: [A], gate: H }
  - { id: D, name: Waits, needs: [B] }
  - { id: E, name: Hopeless, needs: [A], gate: G }
gates:
  - { id: H, reviewer: { level: auto }, on_pass: { next_step: D } }
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, on_fail: { next_step: ABORT } }
",
    );
    bench.holds("B.1");
    bench.script("H.1", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.script("G.1", &format!("{WAIT}{}", verdict("BLOCK", "it cannot be done")));
    for attempt in ["B.1", "H.1", "G.1"] {
        bench.until_started(attempt);
    }
    bench.go("G.1");
    bench.until_over("aborted");
    assert_eq!(bench.states(), ["A complete", "B aborted", "C aborted", "E aborted", "D aborted"]);
    let mut assignments = bench.assignments();
    assignments.sort();
    assert_eq!(assignments, ["answered", "withdrawn"], "in whatever order they were made");
    let reason = field(&bench.driver.store.task(TaskId(1)).expect("a workflow"), "reason");
    assert_eq!(
        reason,
        "gate G of E failed: reviewer says BLOCK: it says BLOCK\n- it cannot be done"
    );
    assert_eq!(bench.feedback().len(), 1, "{:?}", bench.feedback());
    // Nothing of it is in the base branch, and nothing is lost.
    assert_eq!(bench.harness.git(&["ls-tree", "--name-only", "main", "work-A"]), "");
    assert!(bench.harness.agents().is_empty());
    assert_refused(&bench, &["E", "retry"], "cannot change");
}

/// B works, or is reviewed, while the gate of D leads back to A.
const SIDE: &str = "workflow: { id: w, name: Side by side }
steps:
  - { id: A, name: First }
  - { id: B, name: Beside, needs: [A], gate: H }
  - { id: D, name: Judged, needs: [A], gate: G }
gates:
  - { id: H, reviewer: { level: auto }, on_pass: { next_step: DONE } }
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, on_fail: { next_step: A } }
";

#[test]
fn an_agent_whose_step_starts_again_is_ended_and_its_late_result_changes_nothing() {
    let bench = Bench::new(SIDE);
    // It does not listen, and is done only after it was told to stop.
    bench.script("B.1", &format!("ignore-term\n{WORK}{WAIT}{DONE}"));
    bench.script("G.1", &format!("{WAIT}{}", verdict("BLOCK", "from the start")));
    bench.holds("A.2");
    bench.until_started("B.1");
    bench.until_started("G.1");
    bench.go("G.1");
    bench.until_state("B", "pending");
    bench.go("B.1");
    bench.until("the first agent is gone", |bench| !bench.is_at_work("B.1"));
    bench.until_started("A.2");
    bench.settle_but_running();
    assert_eq!(bench.states(), ["A running", "B pending", "D pending"]);
    bench.go("A.2");
    bench.until_over("complete");
    let mut starts = bench.starts();
    starts.sort();
    assert_eq!(starts, ["A.1", "A.2", "B.1", "B.2", "D.1", "D.2", "G.1", "G.2", "H.1"]);
    assert_eq!(bench.logged("B Beside (gate H) gate(auto) -> passed"), 1);
}

#[test]
fn a_reviewer_whose_step_starts_again_is_withdrawn() {
    let bench = Bench::new(SIDE);
    bench.script("H.1", &format!("{WAIT}{}", verdict("BLOCK", "nobody asked")));
    bench.script("G.1", &format!("{WAIT}{}", verdict("BLOCK", "from the start")));
    bench.until_started("H.1");
    bench.until_started("G.1");
    bench.go("G.1");
    bench.until_state("B", "pending");
    bench.until("the reviewer is ended", |bench| !bench.is_at_work("H.1"));
    bench.go("H.1");
    bench.until_over("complete");
    let mut assignments = bench.assignments();
    assignments.sort();
    assert_eq!(assignments, ["answered", "answered", "answered", "withdrawn"]);
    let names: Vec<String> = bench.feedback().into_keys().collect();
    assert_eq!(names, ["G-attempt-1.md"], "a reviewer that was withdrawn says nothing");
    assert!(!bench.prompt("B.2").contains("nobody asked"));
}

/// A review that a person closes is no verdict, and nobody waits for one.
#[test]
fn a_review_that_a_person_withdraws_is_the_persons_to_decide() {
    let bench = Bench::new(DIAMOND);
    bench.script("G", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.until_started("G.1");
    let review = bench.run_of("G.1").replace('r', "t");
    bench.harness.ok(&["move", review.split('.').next().expect("a task"), "--on", "close"]);
    bench.until_state("D", "gate(human)");
    assert!(bench.diagnostic("D").contains("no verdict"), "{}", bench.diagnostic("D"));
    bench.says(&["D", "pass"]);
    bench.until_over("complete");
}

/// A step and one behind it; the first is given up by a person.
fn given_up() -> Bench {
    let bench = Bench::new(
        "workflow: { id: w, name: In a row }
steps:
  - { id: A, name: First }
  - { id: B, name: Second, needs: [A] }
",
    );
    bench.holds("A.1");
    bench.until_started("A.1");
    bench.says(&["A", "abort", "--note", "the tool is broken"]);
    bench.until("it waits", |bench| bench.workflow_state() == "waiting");
    bench.until("the agent is ended", |bench| !bench.is_at_work("A.1"));
    bench.settle();
    assert_eq!(bench.states(), ["A given_up", "B pending"]);
    assert_eq!(bench.problem(), "a step was given up");
    assert_eq!(bench.starts(), ["A.1"]);
    bench
}

#[test]
fn a_step_that_was_given_up_is_begun_again_and_the_workflow_goes_on() {
    let bench = given_up();
    bench.says(&["A", "retry"]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "A.2", "B.1"]);
}

#[test]
fn a_workflow_goes_on_without_a_step_that_was_given_up() {
    let bench = given_up();
    bench.says(&["A", "skip", "--note", "not needed"]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "B.1"]);
    assert_eq!(bench.harness.git(&["show", "main:work-B"]), "B.1\n");
}

#[test]
fn a_workflow_that_is_resumed_begins_again_what_was_given_up() {
    let bench = given_up();
    bench.parent_says("resume", &[]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "A.2", "B.1"]);
    assert_eq!(bench.logged("workflow w goes on as t1"), 1);
}

#[test]
fn a_workflow_that_is_aborted_closes_its_steps() {
    let bench = given_up();
    bench.parent_says("abort", &["--set", "reason=no more money"]);
    bench.until_over("aborted");
    assert_eq!(bench.states(), ["A aborted", "B aborted"]);
    assert_eq!(bench.starts(), ["A.1"]);
}

/// Given up before anybody has worked on it, so that there is no branch of it.
#[test]
fn a_step_that_nobody_has_begun_can_be_left_out() {
    let bench = Bench::new(DIAMOND);
    bench.holds("A.1");
    bench.until_started("A.1");
    bench.says(&["D", "abort", "--note", "not needed"]);
    bench.says(&["C", "abort", "--note", "not needed"]);
    bench.until("it waits", |bench| bench.workflow_state() == "waiting");
    bench.says(&["C", "skip"]);
    bench.go("A.1");
    bench.until_state("A", "passed");
    bench.settle();
    assert_eq!(bench.workflow_state(), "waiting", "one is still given up");
    assert_eq!(bench.states(), ["A passed", "B pending", "C skipped", "D given_up"]);
    bench.says(&["D", "skip"]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "B.1"]);
    assert_eq!(bench.harness.git(&["show", "main:work-B"]), "B.1\n");
}

/// There is a bound to what an agent is told; the latest words are never what is left out.
#[test]
fn of_much_feedback_the_latest_is_kept_in_order() {
    let bench = Bench::new(&DIAMOND.replace("on_fail: { next_step: B }", "max_retries: 20"));
    for round in 1..=12 {
        bench.fails(
            &format!("G.{round}"),
            &format!("begin-{round} {0}\n{0}\n{0} end-{round}", "x".repeat(800)),
        );
    }
    bench.until_over("complete");
    let prompt = bench.prompt("D.13");
    let places: Vec<Option<usize>> =
        (1..=12).map(|round| prompt.find(&format!("end-{round}\n"))).collect();
    let kept: Vec<usize> = places.iter().flatten().copied().collect();
    assert!(kept.is_sorted() && kept.len() >= 5, "{places:?}");
    assert!(places[..12 - kept.len()].iter().all(Option::is_none), "{places:?}");
    assert_eq!(prompt.matches("begin-12 ").count(), 1);
    assert_eq!(bench.feedback().len(), 12);
}
