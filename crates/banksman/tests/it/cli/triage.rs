//! Triage in a real terminal: one key each, words where they are needed, and the terminal is given
//! back.

use super::deciding::ask;
use super::harness::{DONE, Harness, WORK};
use super::sandbox::PROGRAM;
use super::windows::Tmux;

/// What an agent tells when it cannot go on alone.
const ASKS: &str = r#"echo '{"tell":"needs_person","question":"which colour?"}' >>"$BANKSMAN_RUN_FOLDER/reports.jsonl""#;

mod needs_tmux {
    use super::*;

    #[test]
    fn decisions_are_taken_with_single_keys() {
        let harness = Harness::with_settings("");
        let tmux = Tmux::start(&harness);
        // Tasks of the default lifecycle, in a harness whose own is another one.
        harness.file(".banksman/config.toml", "lifecycle = \"autonomous\"\n");
        ask(&harness, "Split the login", "all_approve", &[]);
        ask(&harness, "Move the wall", "all_approve", &[]);
        ask(
            &harness,
            "Refactor the database",
            "escalate",
            &["concerns=[\"the scope is unclear\"]"],
        );
        let triage = format!(
            "{PROGRAM} --store {} decisions triage --as human:kim; echo it is \"over\"; stty -a | grep -o ' echo '; exec sleep 60",
            harness.store().display()
        );
        tmux.run(&["new-window", "-d", "-n", "desk", &triage]);
        let press =
            |keys: &[&str]| tmux.run(&[&["send-keys", "-t", "harness:=desk"][..], keys].concat());
        let state = |id: &str| harness.json(&["show", id])["state"].clone();

        // What was escalated comes first, with what speaks against it.
        tmux.sees("desk", "1 of 3");
        tmux.sees("desk", "the scope is unclear");
        tmux.sees("desk", "1/a approve  2/c changes");
        press(&["d"]);
        tmux.sees("desk", "there are no commits");
        press(&["2"]);
        tmux.sees("desk", "Say what has to change?");
        press(&["-l", "begin with a größe"]);
        press(&["Enter"]);
        tmux.sees("desk", "changes: waiting");
        let task = harness.json(&["show", "t3"]);
        assert_eq!(
            (&task["state"], &task["fields"]["feedback"]),
            (&serde_json::json!("decomposing"), &serde_json::json!("begin with a größe"))
        );

        // An answer that comes too late says so, and the next one is shown.
        tmux.sees("desk", "2 of 3");
        harness.ok(&["decisions", "backburner", "d1", "--as", "human:robin"]);
        press(&["1"]);
        tmux.sees("desk", "approve: with a note (Enter for none)");
        press(&["Enter"]);
        tmux.sees("desk", "dormant by human:robin");
        assert_eq!(state("t1"), "dormant");
        tmux.sees("desk", "3 of 3");
        // A text that is typed where a key is expected is no answer.
        press(&["-l", "xyz"]);
        tmux.sees("desk", "that was more than one key");
        press(&["t"]);
        tmux.sees("desk", "approve: your answer");
        press(&["-l", "fine"]);
        press(&["Enter"]);
        tmux.sees("desk", "2 answered, 1 left");
        assert_eq!(state("t2"), "in_progress");
        tmux.sees("desk", "it is over");
        tmux.sees("desk", " echo");
    }

    #[test]
    fn the_changes_and_the_cost_are_at_hand() {
        let harness = Harness::new();
        let id = harness.task("Build a wall", &[WORK, ASKS, DONE]);
        harness.first_run(&id);
        let shown = harness.json(&["decisions", "show", &id]);
        assert_eq!([&shown["spent"]["runs"], &shown["spent"]["tokens"]], [1, 1234]);
        assert_eq!(shown["fields"]["question"], "which colour?");
        let diff = shown["diff"].as_str().expect("a command");
        assert!(diff.contains(" diff HEAD..."), "{diff}");
        let tmux = Tmux::start(&harness);
        let triage = format!(
            "{PROGRAM} --store {} decisions triage; exec sleep 60",
            harness.store().display()
        );
        tmux.run(&["new-window", "-d", "-n", "desk", &triage]);
        tmux.sees("desk", "1 run, 1234 tokens, $0.05");
        tmux.run(&["send-keys", "-t", "harness:=desk", "d"]);
        tmux.sees("desk", "+brick");
        tmux.run(&["send-keys", "-t", "harness:=desk", "t"]);
        tmux.sees("desk", "unblock: your answer");
        tmux.run(&["send-keys", "-t", "harness:=desk", "-l", "the green one"]);
        tmux.run(&["send-keys", "-t", "harness:=desk", "Enter"]);
        tmux.sees("desk", "unblock: blocked");
        tmux.sees("desk", "1 answered, 0 left");
        let task = harness.json(&["show", &id]);
        let said = &task["fields"]["feedback"];
        assert_eq!([&task["state"], said], ["queued", "the green one"]);
    }

    #[test]
    fn leaving_leaves_the_rest_as_it_is() {
        let harness = Harness::with_settings("");
        let tmux = Tmux::start(&harness);
        harness.file(".banksman/config.toml", "lifecycle = \"autonomous\"\n");
        ask(&harness, "Split the login", "all_approve", &[]);
        let triage = format!(
            "{PROGRAM} --store {} decisions triage; stty -a | grep -o ' icanon '; exec sleep 60",
            harness.store().display()
        );
        tmux.run(&["new-window", "-d", "-n", "desk", &triage]);
        tmux.sees("desk", "q quit");
        tmux.run(&["send-keys", "-t", "harness:=desk", "C-c"]);
        tmux.sees("desk", "0 answered, 1 left");
        tmux.sees("desk", " icanon");
        assert_eq!(harness.json(&["show", "t1"])["state"], "waiting");
    }
}
