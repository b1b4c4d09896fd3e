//! Steps without an agent: a command does the step, and its exit code says whether it is done.

use super::stage::{Stage, WORK};

#[test]
fn a_command_does_its_step_without_an_agent() {
    let stage = Stage::new();
    let spec = stage.spec(
        "w",
        "
workflow: { id: w }
steps:
  - { id: A }
  - { id: T, needs: [A], run: 'test -s made/A && echo it looked && echo 1 >report', outputs: [report] }
  - { id: C, needs: [T] }
",
    );
    stage.step("C", &format!("run test -s report\n{WORK}"));
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(stage.played(), ["A", "C"], "no agent was asked to run a command");
    // What it left is committed and merged like any work.
    assert_eq!(stage.main("report"), "1\n");
    let log = stage.ok(&["log", &stage.task_of("w", "T").to_string()]);
    assert!(log.contains("it looked"), "{log}");
    stage.assert_put_away();
}

#[test]
fn a_command_that_fails_goes_back_through_its_gate() {
    let stage = Stage::new();
    let spec = stage.spec(
        "w",
        "
workflow: { id: w }
steps:
  - { id: A }
  - { id: T, needs: [A], run: 'echo looking for it; test -s made/fixed', gate: G }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, on_fail: { next_step: A } }
",
    );
    stage.step("A", &format!("run if [ -s made/A ]; then echo yes >made/fixed; fi\n{WORK}"));
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(stage.played(), ["A", "A", "G"]);
    let told = &stage.prompts_of("A")[1];
    assert!(told.contains("exited with code 1") && told.contains("looking for it"), "{told}");
    let feedback = stage.listed("retry-context");
    assert_eq!(feedback, ["G-attempt-1.md"]);
}

#[test]
fn a_command_that_fails_again_and_again_is_a_persons() {
    let stage = Stage::new();
    for (name, command, found) in [
        ("fails", "echo 'too many requests 429'; exit 3", "exited with code 3"),
        ("hangs", "sleep 600", "exceeded its time limit"),
    ] {
        let text = format!(
            "workflow: {{ id: {name} }}\nsteps:\n  - {{ id: T, run: \"{command}\", timeout: 1s }}\n"
        );
        let spec = stage.spec(name, &text);
        stage.announce(&[&spec]);
        stage.pulse_until("a person is asked", || stage.step_is(name, "T", "gate(human)"));
        let status = stage.json(&["workflow", "status", name]);
        let step = &status["steps"][0];
        assert_eq!(step["attempts"], 3, "{step}");
        let failed = step["failedAttempts"].as_array().expect("a list");
        assert_eq!(failed.len(), 3, "{step}");
        assert!(failed[2]["detail"].as_str().unwrap_or_default().contains(found), "{step}");
        assert!(stage.logged(name, found) > 0, "{}", stage.log(name));
        let accounts = stage.ok(&["status"]);
        assert!(!accounts.contains("run-command"), "a command pauses no account: {accounts}");
        stage.ok(&["workflow", "report", "T", "pass", "--workflow", name]);
        stage.pulse_until("it is over", || stage.stands(name) == "complete");
    }
    assert_eq!(stage.played(), Vec::<String>::new());
}
