//! Workflows that somebody drives by hand: by whatever means a step is said to be done, it is
//! looked at where it was done, and nothing is made, committed or taken away for that.

use std::fs;

use super::field;
use super::stage::Stage;
use crate::engine::processes::wait_until;

/// What has to be there, and what has to be true of it.
const DEMANDS: &str = "outputs: [a.txt], success_criterion: { command: grep -q good a.txt }";
/// A check that says when it has begun, and ends when the test lets it.
const PATIENT: &str = "success_criterion: { command: 'echo it >>looks; until [ -s go ]; do sleep 0.02; done; grep -q good go' }";
const MARKED: &str = "so it is [GATE:G]";
const DONE: &str = r#"{"status": "done"}"#;

/// One step by hand, with a person at its gate.
fn driven(demands: &str) -> Stage {
    let stage = Stage::new();
    let spec = stage.spec(
        "w",
        &format!(
            "
workflow: {{ id: w, name: Driven by hand }}
steps:
  - {{ id: A, {demands}, gate: G }}
gates:
  - {{ id: G, reviewer: {{ level: human }}, on_pass: {{ next_step: DONE }} }}
"
        ),
    );
    stage.ok(&["workflow", "run", "--manual", &spec]);
    stage.pulse_until("it is asked of somebody", || stage.step_is("w", "A", "interactive"));
    stage
}

fn diagnostic(stage: &Stage) -> String {
    field(&stage.stored("w", "A"), "diagnostic")
}

fn by_file(stage: &Stage) {
    stage.signal("A-done.json", DONE);
}

/// On the branch that the step would have, wherever whoever does it works.
fn by_commit(stage: &Stage) {
    let branch = "banksman/t2-a";
    if stage.git(&["branch", "--list", branch]).is_empty() {
        stage.git(&["branch", "--quiet", branch]);
    }
    let tree = stage.git(&["rev-parse", "main^{tree}"]);
    let (tree, parent) = (tree.trim(), stage.git(&["rev-parse", branch]));
    let commit = stage.git(&["commit-tree", tree, "-p", parent.trim(), "-m", MARKED]);
    let name = format!("refs/heads/{branch}");
    stage.git(&["update-ref", "--create-reflog", "-m", MARKED, &name, commit.trim()]);
}

fn by_decision(stage: &Stage) {
    let open = stage.json(&["decisions"]);
    let id = open["decisions"][0]["id"].as_str().expect("a question").to_owned();
    stage.ok(&["decisions", "answer", &id, "done"]);
}

fn by_move(stage: &Stage) {
    stage.ok(&["move", "t2", "--on", "signal", "--as", "agent:driver"]);
}

/// What a look may not change.
fn kept(stage: &Stage) -> [String; 3] {
    [
        stage.git(&["rev-parse", "main"]),
        stage.git(&["status", "--porcelain"]),
        stage.worktrees().concat(),
    ]
}

fn is_looked_at_however_it_is_said(signal: &str, say: fn(&Stage)) {
    let stage = driven(&format!("{DEMANDS}{signal}"));
    let says_in_vain = |found: &str| {
        let before = kept(&stage);
        say(&stage);
        stage.pulse_until(found, || diagnostic(&stage).contains(found));
        assert!(stage.step_is("w", "A", "interactive"), "{:?}", stage.states("w"));
        let next = stage.ok(&["workflow", "next"]);
        assert!(next.contains(found), "{next}");
        let asked = stage.ok(&["decisions", "show", "t2"]);
        assert!(asked.contains(found), "{asked}");
        assert_eq!(kept(&stage), before, "a look has changed something");
    };
    says_in_vain("missing output: a.txt");
    stage.put("a.txt", "bad\n");
    says_in_vain("`grep -q good a.txt` exited with code 1");
    stage.put("a.txt", "good\n");
    let before = kept(&stage);
    say(&stage);
    stage.pulse_until("it is at its gate", || stage.step_is("w", "A", "gate(human)"));
    assert_eq!(kept(&stage), before, "a look has changed something");
    stage.ok(&["workflow", "report", "G", "pass"]);
    assert_eq!(stage.stands("w"), "complete");
    assert_eq!(stage.played(), Vec::<String>::new(), "an agent was started");
    stage.pulse_until("everything is put away", || stage.jobs("here").is_empty());
    stage.assert_clean(&["here"]);
}

#[test]
fn a_file_is_not_believed() {
    is_looked_at_however_it_is_said("", by_file);
}

#[test]
fn a_marked_commit_is_not_believed() {
    is_looked_at_however_it_is_said(", signal: { type: git_commit }", by_commit);
}

#[test]
fn an_answered_decision_is_not_believed() {
    is_looked_at_however_it_is_said("", by_decision);
}

#[test]
fn a_move_of_whoever_drives_it_is_not_believed() {
    is_looked_at_however_it_is_said("", by_move);
}

/// Who says it twice is believed as little as who says it once.
#[test]
fn another_word_does_not_end_a_look() {
    let stage = driven(PATIENT);
    by_file(&stage);
    stage.pulse_until("it is looked at", || stage.repo("looks").exists());
    by_file(&stage);
    stage.pulse_until("it is put away", || stage.logged("w", "changes nothing") == 1);
    for words in [&["move", "t2", "--on", "signal"][..], &["workflow", "report", "A", "done"]] {
        let said = stage.refused(words);
        assert!(said.contains("no transition from checking by `signal`"), "{said}");
    }
    let said = stage.refused(&["move", "t2", "--on", "proven"]);
    assert!(said.contains("refused"), "{said}");
    let next = stage.json(&["workflow", "next"]);
    assert_eq!(next["next"][0]["kind"], "wait", "{next}");
    stage.put("go", "bad\n");
    stage.pulse_until("it was looked at", || stage.step_is("w", "A", "interactive"));
    assert!(diagnostic(&stage).contains("exited with code 1"), "{}", diagnostic(&stage));
}

#[test]
fn a_look_whose_keeper_is_killed_is_made_again() {
    let stage = driven(PATIENT);
    // Nobody but the one who waits looks after it.
    let report = stage.beside(&["workflow", "report", "A", "done"]);
    for looks in 1..=2 {
        wait_until("it is looked at", || stage.file("repo/looks").lines().count() == looks);
        if looks == 1 {
            stage.keepers().pop().expect("its keeper").kill();
        }
    }
    stage.put("go", "good\n");
    let (code, said) = report.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(stage.step_is("w", "A", "gate(human)"));
    assert_eq!(stage.file("repo/looks").lines().count(), 2);
}

#[test]
fn a_look_goes_on_without_the_one_who_waits_for_it() {
    let stage = driven(PATIENT);
    let report = stage.beside(&["workflow", "report", "A", "done"]);
    wait_until("it is looked at", || stage.repo("looks").exists());
    report.kill();
    stage.put("go", "good\n");
    stage.pulse_until("it is at its gate", || stage.step_is("w", "A", "gate(human)"));
    assert_eq!(stage.file("repo/looks").lines().count(), 1);
}

/// A folder of the same name on another machine shows nothing.
#[test]
fn it_is_looked_at_on_the_machine_where_it_was_done() {
    let stage = driven("success_criterion: { command: 'echo \"$BANKSMAN_RUN_FOLDER\" >where' }");
    let there = stage.path("there");
    fs::create_dir(&there).expect("a folder");
    let folder = format!("done_in={}", there.display());
    let words = ["move", "t2", "--on", "signal", "--set", &folder, "--set", "done_on=there"];
    stage.ok(&words);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("w", "A", "checking"));
    assert_eq!(stage.jobs("here"), Vec::<String>::new());
    wait_until("the other machine has looked", || {
        let pulse = stage.command_on("there", &["pulse", "--quiet"]).output();
        assert!(pulse.expect("the program starts").status.success());
        stage.step_is("w", "A", "gate(human)")
    });
    assert!(stage.file("there/where").contains("home-there"), "{}", stage.file("there/where"));
    assert!(!stage.repo("where").exists());
}

/// What was said of an earlier attempt in another folder does not lead a later look there.
#[test]
fn a_folder_counts_for_the_word_that_named_it() {
    let stage = driven("outputs: [a.txt]");
    let there = stage.path("there");
    fs::create_dir(&there).expect("a folder");
    let report = ["workflow", "report", "A", "done", "--in", "../there"];
    assert!(stage.refused(&report).contains("`A` is not done: "));
    fs::write(there.join("a.txt"), "a\n").expect("written");
    by_file(&stage);
    stage.pulse_until("it is missed in the repository", || diagnostic(&stage).contains("a.txt"));
    stage.ok(&report);
    assert!(stage.step_is("w", "A", "gate(human)"));
    let gone = ["workflow", "report", "A", "done", "--in", "../nowhere"];
    let words = ["workflow", "report", "G", "fail", "--note", "once more"];
    stage.ok(&words);
    assert!(stage.refused(&gone).contains("(no such folder)"));
}

#[test]
fn who_reports_in_vain_again_and_again_leaves_it_to_a_person() {
    let stage = driven("outputs: [a.txt]");
    for _ in 0..9 {
        let said = stage.refused(&["workflow", "report", "A", "done"]);
        assert!(said.contains("fix it and report again"), "{said}");
    }
    let said = stage.refused(&["workflow", "report", "A", "done"]);
    assert!(
        said.contains("a person must decide how to continue: banksman workflow next t1"),
        "{said}"
    );
    assert!(stage.step_is("w", "A", "gate(human)"));
}

#[test]
fn a_report_that_is_repeated_with_its_key_gets_the_same_answer() {
    let stage = driven("outputs: [a.txt]");
    let report = |key: &str| stage.banksman(&["workflow", "report", "A", "done", "--key", key]);
    let said = |key: &str| {
        let output = report(key);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let first = said("one");
    assert_eq!(first.0, Some(1), "{}", first.1);
    stage.put("a.txt", "a\n");
    assert_eq!(said("one"), first);
    assert_eq!(said("two").0, Some(0));
    let again = report("two");
    assert!(String::from_utf8_lossy(&again.stdout).contains("(already done with this key)"));
}

/// Who has done the step writes that it is done and that it is good. The second is not theirs to
/// say.
#[test]
fn an_answer_from_before_there_was_anything_to_judge_is_nobodys() {
    for (signal, demands) in [("G-pass", "prompt: Draw."), ("G-fail.md", "outputs: [a.txt]")] {
        let stage = driven(demands);
        stage.put("a.txt", "a\n");
        stage.signal(signal, "so it is");
        by_file(&stage);
        let refused = "it was written before there was anything to judge; if it is yours, ";
        let early = || stage.logged("w", refused) + stage.logged("w", "no transition from");
        stage.pulse_until("it is refused", || early() == 1);
        stage.pulse_until("it is at its gate", || stage.step_is("w", "A", "gate(human)"));
        assert_eq!(stage.listed("signals"), ["taken"], "it lies there for ever");
    }
}

#[test]
fn a_refused_answer_is_on_record_with_what_to_do() {
    let stage = driven("prompt: Draw.");
    stage.signal("G-pass", "");
    by_file(&stage);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("w", "A", "gate(human)"), "{}", stage.log("w"));
    let history = stage.json(&["history", "t2"]).to_string();
    assert_eq!(history.matches("answer_refused").count(), 1, "{history}");
    assert!(history.contains("human:signal of uid"), "{history}");
    let log = stage.log("w");
    let line = log.lines().find(|line| line.contains("anything to judge")).expect("a line");
    let instead = line.split("if it is yours, ").nth(1).expect("what to do");
    let words: Vec<&str> = instead.split_whitespace().take(4).collect();
    let ["answer", decision, "with", action] = words[..] else { panic!("{line}") };
    stage.ok(&["decisions", "answer", decision, action]);
    stage.ok(&["workflow", "next"]);
    assert_eq!(stage.stands("w"), "complete");
}

/// Whoever was asked first: a person has judged what was there to be judged.
#[test]
fn an_answer_outlives_a_change_of_who_is_asked() {
    let stage = Stage::new();
    let spec = stage.spec(
        "w",
        "
workflow: { id: w, name: Driven by hand }
steps:
  - { id: A, gate: G }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE } }
",
    );
    stage.ok(&["workflow", "run", "--manual", &spec]);
    stage.ok(&["workflow", "report", "A", "done"]);
    assert!(stage.step_is("w", "A", "gate(auto)"));
    stage.signal("G-pass", "");
    stage.ok(&["move", "t2", "--on", "escalate"]);
    assert!(stage.step_is("w", "A", "gate(human)"));
    stage.pulse_until("it is over", || stage.stands("w") == "complete");
}
