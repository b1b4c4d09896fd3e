//! Signals of all kinds, given and not given, in halves, too early, too late and twice.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::stage::{Stage, WORK, work_with_sentinel};

/// Steps of every kind of signal, beside each other.
const KINDS: &str = "
workflow: { id: kinds, name: Every kind of signal }
steps:
  - { id: here, signal: { type: sentinel_file } }
  - { id: root, signal: { type: sentinel_file } }
  - { id: own, signal: { type: sentinel_file, value: out/own.json } }
  - { id: commit, signal: { type: git_commit, value: '[GATE:done]' } }
  - { id: pull, signal: { type: pr_creation } }
  - { id: end, signal: { type: stdout_exit } }
";

#[test]
fn every_kind_of_signal_ends_its_step() {
    let stage = Stage::new();
    stage.step("here", &work_with_sentinel(".workflow/signals/here-done.json"));
    stage.step(
        "root",
        &format!("run echo '{{}}' >\"$REPO/.workflow/signals/root-done.json\"\n{WORK}"),
    );
    stage.step("own", &work_with_sentinel("out/own.json"));
    stage.step("commit", "write a.txt a\ncommit the work [GATE:done]\nsuccess it is made\n");
    stage.step("pull", "write b.txt b\ncommit the work\nsuccess it is made\n");
    stage.step("end", "success there was nothing to write\n");
    let spec = stage.spec("kinds", KINDS);
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    let mut played = stage.played();
    played.sort();
    assert_eq!(played, ["commit", "end", "here", "own", "pull", "root"], "once each");
    assert!(!stage.main_files().contains(&"out/own.json".to_owned()), "a signal is in the history");
    assert_eq!(stage.listed("signals"), ["taken"], "a signal that was read counts no more");
    assert_eq!(stage.logged("kinds", "changes nothing"), 0, "{}", stage.log("kinds"));
    stage.assert_put_away();
}

#[test]
fn without_its_signal_no_step_passes() {
    let stage = Stage::new();
    let without = [
        ("here", WORK, "here-done.json"),
        (
            "root",
            "run mkdir -p .workflow/signals && echo '{\"status\":\"failed\",\"note\":\"no luck\"}' >.workflow/signals/root-done.json\nsuccess it is made\n",
            "no luck",
        ),
        (
            "own",
            "run mkdir -p out && echo '{\"sta' >out/own.json\nsuccess it is made\n",
            "own.json",
        ),
        ("commit", WORK, "[GATE:done]"),
        ("pull", "success there was nothing to write\n", "pull request"),
        ("end", "exit 1\n", "exit"),
    ];
    for (id, script, _) in without {
        stage.step(id, script);
    }
    let spec = stage.spec("kinds", KINDS);
    stage.announce(&[&spec]);
    let store = stage.open();
    let first = |id: &str| {
        let runs = store.past_runs(stage.task_of("kinds", id), 8).expect("runs");
        runs.first().filter(|run| run.outcome.is_some()).cloned()
    };
    stage
        .pulse_until("every step was tried", || without.iter().all(|(id, ..)| first(id).is_some()));
    for (id, _, words) in without {
        let run = first(id).expect("it was tried");
        let told = format!("{:?} {:?}", run.outcome, run.detail);
        assert!(told.contains(words), "{id} is not told of {words}: {told}");
        assert_ne!(stage.states("kinds")[id], "passed", "{id}");
    }
    assert_eq!(stage.stands("kinds"), "running");
}

#[test]
fn a_headless_step_may_write_its_signal_in_two_halves() {
    let stage = Stage::new();
    stage.step(
        "X-1",
        &format!("run printf '{{\"status\": ' >\"$REPO/.workflow/signals/X-1-done.json\"\n{WORK}"),
    );
    let spec = stage.spec(
        "halves",
        "
workflow: { id: halves, name: In halves }
steps:
  - { id: X-1, signal: { type: sentinel_file } }
",
    );
    stage.announce(&[&spec]);
    let path = ".workflow/signals/X-1-done.json";
    stage.pulse_until("the first half is there", || {
        stage.file(&format!("repo/{path}")).ends_with(": ")
    });
    stage.put(path, r#"{"status": "done"}"#);
    stage.pulse_until("it is over", || stage.stands("halves") == "complete");
    assert_eq!(stage.played(), ["X-1"]);
    stage.assert_put_away();
}

/// A person does both steps, one after the other.
const PEOPLE: &str = "
workflow: { id: people, name: By people }
steps:
  - { id: X-1, agent: { launch: interactive }, signal: { type: sentinel_file }, gate: XG }
  - { id: X-2, agent: { launch: interactive }, signal: { type: sentinel_file } }
gates:
  - { id: XG, reviewer: { level: human }, on_pass: { next_step: X-2 } }
";
const DONE: &str = r#"{"status": "done"}"#;

fn people() -> Stage {
    let stage = Stage::new();
    let spec = stage.spec("people", PEOPLE);
    stage.announce(&[&spec]);
    stage.pulse_until("a person is asked", || stage.step_is("people", "X-1", "interactive"));
    stage
}

/// Gives a signal that must be told of in the log and change nothing else.
fn comes_to_nothing(stage: &Stage, name: &str, text: &str) {
    let versions = || ["X-1", "X-2"].map(|step| stage.version("people", step));
    let (before, lines) = (versions(), stage.logged("people", "changes nothing"));
    stage.signal(name, text);
    stage.ok(&["pulse", "--quiet"]);
    assert_eq!(versions(), before, "{name} has changed something\n{}", stage.log("people"));
    let now = stage.logged("people", "changes nothing");
    assert_eq!(now, lines + 1, "{name} is not on record once\n{}", stage.log("people"));
    assert_eq!(stage.listed("signals"), ["taken"], "it lies there for ever");
}

#[test]
fn a_signal_that_comes_early_late_or_twice_is_on_record_and_changes_nothing() {
    let stage = people();
    comes_to_nothing(&stage, "X-2-done.json", DONE);
    comes_to_nothing(&stage, "XG-pass", "");
    comes_to_nothing(&stage, "X-1-done.json", r#"{"status": "failed", "note": "not today"}"#);
    stage.signal("X-1-done.json", DONE);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("people", "X-1", "gate(human)"));
    comes_to_nothing(&stage, "X-1-done.json", DONE);
    stage.signal("XG-pass.md", "fine");
    stage.pulse_until("the next is asked", || stage.step_is("people", "X-2", "interactive"));
    comes_to_nothing(&stage, "X-1-done.json", DONE);
    comes_to_nothing(&stage, "XG-fail.md", "too late");
    stage.signal("X-2-done.json", DONE);
    stage.pulse_until("it is over", || stage.stands("people") == "complete");
    for name in ["X-1-done.json", "X-2-done.json"] {
        comes_to_nothing(&stage, name, DONE);
    }
    comes_to_nothing(&stage, "XG-fail", "much too late");
    stage.assert_put_away();
}

#[test]
fn half_of_a_signal_is_not_taken_before_the_other_half_is_there() {
    let stage = people();
    let before = stage.version("people", "X-1");
    let path = ".workflow/signals/X-1-done.json";
    for half in ["", "{", "{\"status\": \"do"] {
        stage.put(path, half);
        stage.ok(&["pulse", "--quiet"]);
        assert_eq!(stage.version("people", "X-1"), before, "{half}");
        assert_eq!(stage.file(&format!("repo/{path}")), half, "it was taken away");
    }
    stage.put(path, DONE);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("people", "X-1", "gate(human)"));
    assert_eq!(stage.listed("signals/taken"), ["X-1-done.1.json"]);
}

#[test]
fn what_lies_there_from_before_does_not_count() {
    let stage = Stage::new();
    let text = PEOPLE.replace(
        "X-2, agent: { launch: interactive }, signal: { type: sentinel_file }",
        "X-2, agent: { launch: interactive }, signal: { type: sentinel_file, value: out/x.json }",
    );
    stage.put(".workflow/signals/X-1-done.json", DONE);
    stage.put(".workflow/signals/XG-pass", "");
    stage.put("out/x.json", DONE);
    let spec = stage.spec("people", &text);
    stage.announce(&[&spec]);
    stage.pulse_until("a person is asked", || stage.step_is("people", "X-1", "interactive"));
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("people", "X-1", "interactive"), "{}", stage.log("people"));
    assert_eq!(stage.listed("signals").iter().filter(|name| *name != "taken").count(), 0);
    assert!(!stage.repo("out/x.json").exists());

    // The same on the way: what came before the gate was reached does not open it, and what came
    // before the second began is not its signal.
    stage.signal("XG-pass", "");
    stage.signal("X-1-done.json", DONE);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("people", "X-1", "gate(human)"), "{}", stage.log("people"));
    stage.put("out/x.json", DONE);
    stage.signal("XG-pass", "");
    stage.pulse_until("the next is asked", || stage.step_is("people", "X-2", "interactive"));
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("people", "X-2", "interactive"), "{}", stage.log("people"));
    assert_eq!(stage.logged("people", "it came too early and changes nothing"), 1);
    stage.put("out/x.json", DONE);
    stage.pulse_until("it is over", || stage.stands("people") == "complete");
    stage.assert_put_away();
}

#[test]
fn a_second_run_does_not_hear_the_signals_of_the_first() {
    let stage = Stage::new();
    let spec = stage.spec(
        "again",
        "
workflow: { id: again, name: Once more }
steps:
  - { id: X-1, signal: { type: sentinel_file } }
",
    );
    let root = r#"run echo '{}' >"$REPO/.workflow/signals/X-1-done.json""#;
    stage.step("X-1", &format!("attempt 1: {root}\n{WORK}"));
    assert_eq!(stage.play(&[&spec])["workflows"][0]["state"], "complete");
    // Somebody puts the old signal back, or a copy of the folder brings it along.
    stage.signal("X-1-done.json", DONE);
    stage.announce(&[&spec]);
    let store = stage.open();
    let first = || {
        let runs = store.past_runs(stage.task_of("again", "X-1"), 8).expect("runs");
        runs.first().and_then(|run| run.detail.clone())
    };
    stage.pulse_until("it was tried", || first().is_some());
    assert!(first().is_some_and(|told| told.contains("X-1-done.json")), "{:?}", first());
    assert_ne!(stage.states("again")["X-1"], "passed");
}

fn git_in(folder: &Path, args: &[&str]) {
    let done = Command::new("git").arg("-C").arg(folder).args(args).output().expect("git starts");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_marked_commit_of_a_person_is_heard_of() {
    let stage = Stage::new();
    let spec = stage.spec(
        "marked",
        "
workflow: { id: marked, name: A person commits }
steps:
  - { id: X-1, agent: { launch: interactive }, signal: { type: git_commit }, gate: XG }
  - { id: X-2 }
gates:
  - { id: XG, reviewer: { level: auto }, on_pass: { next_step: X-2 } }
",
    );
    stage.step("X-2", &format!("run grep -q idea idea.txt\n{WORK}"));
    let up = stage.up();
    stage.announce(&[&spec]);
    stage.until("the worktree is there", |_| !stage.worktrees().is_empty());
    let worktree = stage.worktree("marked", "X-1");
    stage.until("it can be worked in", |_| stage.jobs("here").is_empty());
    fs::write(worktree.join("idea.txt"), "an idea\n").expect("written");
    git_in(&worktree, &["add", "--all"]);
    git_in(&worktree, &["commit", "--quiet", "--message", "begin"]);
    stage.ok(&["pulse", "--quiet"]);
    assert!(stage.step_is("marked", "X-1", "interactive"), "it had no mark");
    git_in(&worktree, &["commit", "--quiet", "--allow-empty", "--message", "done [GATE:XG]"]);
    stage.until_stands("marked", "complete");
    up.stop();
    assert_eq!(stage.played(), ["XG", "X-2"]);
    assert_eq!(stage.main("idea.txt"), "an idea\n");
    assert_eq!(stage.logged("marked", " for X-1: signal taken"), 1, "{}", stage.log("marked"));
    stage.assert_put_away();
}

#[test]
fn a_signal_at_a_path_of_its_own_wakes_up_in_the_repository_and_in_the_worktree() {
    let stage = Stage::new();
    let spec = stage.spec(
        "own",
        "
workflow: { id: own, name: Own paths }
steps:
  - { id: X-1, agent: { launch: interactive }, signal: { type: sentinel_file, value: out/x-1.json } }
  - { id: X-2, needs: [X-1], agent: { launch: interactive }, signal: { type: sentinel_file } }
",
    );
    let up = stage.up();
    stage.announce(&[&spec]);
    stage.until("the first is laid out", |_| stage.repo("out").is_dir());
    stage.put("out/x-1.json", DONE);
    stage.until_step("own", "X-2", "interactive");
    stage.until("the second is laid out", |_| {
        let all = stage.worktrees();
        let id = stage.task_of("own", "X-2").to_string();
        all.iter().any(|path| path.ends_with(&id)) && stage.jobs("here").is_empty()
    });
    let signals = stage.worktree("own", "X-2").join(".workflow/signals");
    stage.until("there is room for it", |_| signals.is_dir());
    fs::write(signals.join("X-2-done.json"), DONE).expect("written");
    stage.until_stands("own", "complete");
    up.stop();
    assert_eq!(stage.listed("signals/taken"), ["X-2-done.1.json", "x-1.1.json"]);
    stage.assert_put_away();
}
