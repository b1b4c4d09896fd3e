//! Files that answer for a person: who can have written them. A run at work cannot decide, by
//! whatever file.

use std::fs;
use std::os::unix::fs::MetadataExt;

use banksman::clock;
use banksman::store::Stored;

use super::{Bench, DONE, WAIT, WORK, two_steps, verdict};
use crate::engine::harness::tasks;
use crate::engine::processes::wait_until;

/// A gate of a person behind A, and beside both a step that goes on as long as the test likes.
const BESIDE: &str = "
workflow: { id: w, name: Side by side }
steps:
  - { id: A, gate: G }
  - { id: B }
gates:
  - { id: G, reviewer: { level: human }, on_pass: { next_step: DONE } }
";
/// Lets the gate G pass, by a file that says to be from long before anybody has begun.
const PASSES: &str = r#"run mkdir -p "$YARD/repo/.workflow/signals" && touch -d 2001-01-01 "$YARD/repo/.workflow/signals/G-pass" && touch "$YARD/left"
"#;
/// The same with a file that really is from before, in folders that are put in the place of the
/// right ones.
const MOVED: &str = r#"run cd "$YARD/repo/.workflow" && mv signals aside && mv old/signals signals && touch "$YARD/left"
"#;
const MOVED_AS_A_WHOLE: &str = r#"run cd "$YARD/repo" && mv .workflow/old aside && cp -r .workflow/audit aside/ && mv .workflow gone && mv aside .workflow && touch "$YARD/left"
"#;
const LINKED: &str = r#"run cd "$YARD/repo/.workflow" && mv signals aside && ln -s old/signals signals && touch "$YARD/left"
"#;

/// Who was refused in the history of a step.
fn refused(bench: &Bench, step: &str) -> Vec<String> {
    let entries = bench.driver.store.history(bench.step(step).task.id, 0).expect("a history");
    let refused = entries.iter().filter(|entry| entry.record.trigger == "answer_refused");
    refused.map(|entry| entry.record.actor.to_string()).collect()
}

fn taken(bench: &Bench) -> bool {
    bench.harness.path("repo/.workflow/signals/taken/G-pass.1").exists()
}

/// The run of A ends and has left a file before anybody looks: the same turn finds both.
fn ends_with(script: &str) -> Bench {
    let bench = Bench::new(&two_steps("level: human", ""));
    let old = bench.harness.path("repo/.workflow/old/signals");
    fs::create_dir_all(&old).expect("a folder");
    fs::write(old.join("G-pass"), "").expect("written");
    bench.leaves("unrelated", "");
    let written = fs::metadata(old.join("G-pass")).expect("a file").ctime() * 1_000;
    wait_until("it is too old to be in doubt", || clock::now().0 - written > 2_200);
    bench.script("A.1", &format!("{WORK}{WAIT}{script}{DONE}"));
    bench.until_started("A.1");
    bench.settle_but_running();
    bench.go("A.1");
    wait_until("the agent has left it", || bench.harness.path("left").exists());
    wait_until("its keeper has ended", || bench.harness.keepers().is_empty());
    bench.settle();
    bench
}

#[test]
fn a_run_does_not_answer_the_gate_behind_it() {
    let bench = ends_with(PASSES);
    assert_eq!(bench.state("A"), "gate(human)");
    let run = bench.run_of("A.1");
    assert_eq!(refused(&bench, "A"), [format!("run:{run}")]);
    let words = format!("it was written while {run} worked; if it is yours, ");
    assert_eq!(bench.logged(&words), 1, "{:?}", bench.log());
    assert!(taken(&bench), "it lies there for ever");

    bench.answers("G-pass", "");
    bench.until_over("complete");
    let owner = fs::metadata(bench.harness.path("left")).expect("a file").uid();
    let words = format!("gate(human) -> passed on pass by human:signal of uid {owner}");
    assert_eq!(bench.logged(&words), 1, "{:?}", bench.log());
}

#[test]
fn what_a_person_wrote_for_something_else_answers_nothing_wherever_a_run_puts_it() {
    // No answer is read through a link, so there is none to refuse.
    for (script, refusals) in [(MOVED, 1), (MOVED_AS_A_WHOLE, 1), (LINKED, 0)] {
        let bench = ends_with(script);
        assert_eq!(bench.state("A"), "gate(human)", "{script}");
        assert_eq!(refused(&bench, "A").len(), refusals, "{script}");
    }
}

#[test]
fn what_is_written_beside_a_run_is_nobodys_answer_and_the_record_says_what_to_do() {
    let bench = Bench::new(BESIDE);
    bench.holds("B.1");
    bench.until_started("B.1");
    bench.until_state("A", "gate(human)");
    for (file, typed) in [("G-pass", "with approve"), ("G-fail.md", "with changes")] {
        bench.leaves(file, "so it is");
        bench.until("it is put away", |bench| bench.logged(file) == 1);
        assert_eq!(bench.state("A"), "gate(human)");
        assert!(bench.log().iter().any(|line| line.contains(typed)), "{:?}", bench.log());
    }
    let run = bench.run_of("B.1");
    let line = bench.log().into_iter().find(|line| line.contains("with approve"));
    let line = line.expect("it was refused");
    assert!(line.contains(&run), "{line}");
    assert_eq!(refused(&bench, "A").len(), 1, "whoever goes on knocking fills the history");

    let answer = line.split("answer ").nth(1).expect("an answer").trim();
    let (decision, action) = answer.split_once(" with ").expect("an action");
    bench.harness.ok(&["decisions", "answer", decision, action]);
    bench.until_state("A", "passed");
    bench.go("B.1");
    bench.until_over("complete");
}

#[test]
fn a_reviewer_answers_by_its_verdict_and_by_no_file() {
    let bench = Bench::new(&two_steps("level: auto", ""));
    bench.script("G.1", &format!("{PASSES}{WAIT}{}", verdict("BLOCK", "too long")));
    bench.until("the reviewer has left a file", taken);
    assert_eq!(bench.state("A"), "gate(auto)");
    let assignments: Vec<Stored> = tasks(&bench.driver.store);
    let review = assignments.iter().find(|task| task.lifecycle.id == "review").expect("a review");
    let refused = refused(&bench, "A").concat();
    assert!(refused.contains(&format!("r{}.1", review.task.id.0)), "{refused}");
    bench.go("G.1");
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1", "A.2", "G.2", "B.1"]);
}
