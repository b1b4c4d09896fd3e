//! Steps that people do, with or without an agent in front of them: they find a place to work and
//! what it is about, and what they commit there goes on like the work of any agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::stage::{Stage, WORK};

const FLOW: &str = "
workflow: { id: hand, name: By hand, description: A person draws. }
steps:
  - { id: X-1, name: draw, prompt: Draw a horse., agent: { launch: interactive }, signal: { type: sentinel_file }, gate: XG }
  - { id: X-2, name: colour }
gates:
  - { id: XG, reviewer: { level: auto }, on_pass: { next_step: X-2 } }
";

/// The step is asked of a person, and its worktree is there.
fn laid_out(stage: &Stage) -> PathBuf {
    let spec = stage.spec("hand", FLOW);
    stage.announce(&[&spec]);
    stage.step("X-2", &format!("run grep -q horse horse.txt\n{WORK}"));
    stage.pulse_until("it is laid out", || {
        stage.step_is("hand", "X-1", "interactive")
            && !stage.worktrees().is_empty()
            && stage.jobs("here").is_empty()
    });
    stage.worktree("hand", "X-1")
}

fn draw(worktree: &Path) {
    fs::write(worktree.join("horse.txt"), "a horse\n").expect("written");
    for args in [&["add", "--all"][..], &["commit", "--quiet", "--message", "draw a horse"]] {
        let git = Command::new("git").arg("-C").arg(worktree).args(args).output();
        assert!(git.expect("git starts").status.success(), "{args:?}");
    }
}

fn goes_on_to_the_main_branch(stage: &Stage) {
    stage.pulse_until("it is over", || stage.stands("hand") == "complete");
    assert_eq!(stage.played(), ["XG", "X-2"]);
    assert_eq!(stage.main("horse.txt"), "a horse\n");
    assert_eq!(stage.main("made/X-2"), "X-2\n");
    let odd: Vec<String> =
        stage.main_files().into_iter().filter(|path| path.starts_with(".workflow")).collect();
    assert_eq!(odd, Vec::<String>::new());
    stage.assert_put_away();
}

#[test]
fn a_person_finds_a_worktree_and_the_words_and_reports() {
    let stage = Stage::new();
    let worktree = laid_out(&stage);
    assert_eq!(stage.listed("steps"), ["X-1.md"]);
    let words = stage.file("repo/.workflow/steps/X-1.md");
    for expected in ["A person draws.", "Draw a horse.", ".workflow/signals/X-1-done.json"] {
        assert!(words.contains(expected), "{words}");
    }
    draw(&worktree);
    let next = stage.ok(&["workflow", "next"]);
    assert!(next.contains("Draw a horse."), "{next}");
    stage.ok(&["workflow", "report", "X-1", "done"]);
    goes_on_to_the_main_branch(&stage);
}

#[test]
fn a_person_may_signal_in_the_repository() {
    let stage = Stage::new();
    draw(&laid_out(&stage));
    stage.signal("X-1-done.json", r#"{"status": "done"}"#);
    goes_on_to_the_main_branch(&stage);
}

#[test]
fn an_agent_in_front_of_a_person_signals_where_it_works() {
    let stage = Stage::new();
    let worktree = laid_out(&stage);
    let signals = worktree.join(".workflow/signals");
    fs::create_dir_all(&signals).expect("a folder");
    // It says so before it commits everything that it finds.
    fs::write(signals.join("X-1-done.json"), r#"{"status": "done"}"#).expect("written");
    draw(&worktree);
    goes_on_to_the_main_branch(&stage);
}

#[test]
fn a_failed_gate_hands_the_worktree_back_with_the_feedback() {
    let stage = Stage::new();
    stage.gate(
        "XG",
        r#"attempt 1: answer {"verdict":"BLOCK","rationale":"it has five legs","concerns":[],"suggestions":[]}
attempt 2: answer {"verdict":"APPROVE","rationale":"yes","concerns":[],"suggestions":[]}
success looked at it
"#,
    );
    let worktree = laid_out(&stage);
    draw(&worktree);
    stage.signal("X-1-done.json", "{}");
    stage.pulse_until("it is back", || {
        stage.file("repo/.workflow/steps/X-1.md").contains("it has five legs")
    });
    assert!(stage.step_is("hand", "X-1", "interactive"));
    stage.pulse_until("it can be worked in", || stage.jobs("here").is_empty());
    assert!(worktree.join("horse.txt").exists(), "the first work is gone");
    stage.signal("X-1-done.json", "{}");
    stage.pulse_until("it is over", || stage.stands("hand") == "complete");
    assert_eq!(stage.played(), ["XG", "XG", "X-2"]);
    stage.assert_put_away();
}

/// A tmux server of the test's own; it ends with the test.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    fn start(stage: &Stage) -> Self {
        let tmux = Self { socket: stage.path("tmux") };
        tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "harness",
            "-x",
            "150",
            "-y",
            "40",
        ]);
        tmux
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").env("TERM", "xterm").arg("-S").arg(&self.socket).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("tmux starts; install it");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        drop(self.command(&["kill-server"]).output());
    }
}

/// Stands in for an agent that talks to a person: it is told the words as its last argument, works,
/// and signals.
const CLAUDE: &str = r#"#!/bin/sh
for words; do :; done
printf '%s\n' "$words" >"$YARD/told"
pwd >"$YARD/where"
echo 'a horse' >horse.txt && git add horse.txt && git commit -qm 'draw a horse'
mkdir -p .workflow/signals && echo '{"status": "done"}' >.workflow/signals/X-1-done.json
"#;

mod needs_tmux {
    use super::*;

    #[test]
    fn a_window_opens_with_the_agent_that_the_person_talks_to() {
        let stage = Stage::with(&[("workers.talker.agent", "\"claude\"")]);
        let tmux = Tmux::start(&stage);
        let script = CLAUDE.replace("$YARD", &stage.root().display().to_string());
        stage.program("claude", &script);
        stage.set(&[
            ("windows", "\"tmux\""),
            (
                "workers.talker.command",
                &format!("[{:?}]", stage.path("bin/claude").display().to_string()),
            ),
        ]);
        let text = FLOW.replace("launch: interactive", "launch: interactive, worker: talker");
        let spec = stage.spec(
            "hand",
            &text
                .replace("X-2, name: colour", "X-2, name: colour, agent: { worker: scripted }")
                .replace("level: auto", "level: human"),
        );
        stage.announce(&[&spec]);
        let address =
            tmux.run(&["display-message", "-p", "-t", "harness", "#{socket_path},#{pid},0"]);
        let pulse = stage.command(&["pulse"]).env("TMUX", address.trim()).output();
        let pulse = pulse.expect("the program starts");
        let said = String::from_utf8_lossy(&pulse.stdout);
        assert!(said.contains("X-1 is a manual step: until [ -e "), "{said}");
        assert!(said.contains(".workflow/steps/X-1.md"), "{said}");
        let id = stage.task_of("hand", "X-1").to_string();
        let windows = tmux.run(&["list-windows", "-t", "harness", "-F", "#{window_name}"]);
        assert!(windows.lines().any(|name| name == id), "{windows}");
        stage.pulse_until("the agent has worked", || stage.step_is("hand", "X-1", "gate(human)"));
        assert!(stage.file("told").contains("Draw a horse."), "{}", stage.file("told"));
        assert!(stage.file("where").trim_end().ends_with(&id), "{}", stage.file("where"));
        stage.ok(&["workflow", "report", "XG", "pass"]);
        stage.pulse_until("it is over", || stage.stands("hand") == "complete");
        assert_eq!(stage.main("horse.txt"), "a horse\n");
    }
}
