//! What a workflow must be able to do, one test for each stage on the way from a person with a file
//! to an agent that drives it.

use serde_json::Value;

use super::stage::{Stage, WORK, work_with_sentinel};

/// Two steps with a gate between them.
const ADD: &str = "
workflow: { id: add, name: Add two numbers }
steps:
  - { id: X-1, name: write, prompt: Write a function that adds., gate: XG-1-2 }
  - { id: X-2, name: use, prompt: Use it. }
gates:
  - { id: XG-1-2, reviewer: { level: auto }, on_pass: { next_step: X-2 } }
";
const FAILS_ONCE: &str = r#"attempt 1: answer {"verdict":"BLOCK","rationale":"minus is missing","concerns":[],"suggestions":[]}
attempt 2: answer {"verdict":"APPROVE","rationale":"yes","concerns":[],"suggestions":[]}
success looked at it
"#;

/// What `next` offers: the step and the kind of what there is to do.
fn offered(stage: &Stage) -> Vec<(String, String)> {
    let next = stage.json(&["workflow", "next"]);
    let word = |todo: &Value, name: &str| todo[name].as_str().expect("a text").to_owned();
    let todos = next["next"].as_array().expect("a list").iter();
    todos.map(|todo| (word(todo, "step"), word(todo, "kind"))).collect()
}

fn pair(step: &str, kind: &str) -> (String, String) {
    (step.to_owned(), kind.to_owned())
}

#[test]
fn experiment_1_a_person_does_every_step_and_judges_at_the_gate() {
    let stage = Stage::new();
    let spec = stage.spec("add", ADD);
    stage.ok(&["workflow", "run", "--manual", &spec]);
    assert_eq!(offered(&stage), [pair("X-1", "do")]);
    let said = stage.ok(&["workflow", "next"]);
    assert!(said.contains("Write a function that adds."), "{said}");
    assert!(said.contains("  banksman workflow report X-1 done"), "{said}");
    let said = stage.refused(&["workflow", "report", "X-2", "done"]);
    assert!(said.contains("no transition from pending by `signal`"), "{said}");

    stage.ok(&["workflow", "report", "X-1", "done"]);
    assert_eq!(offered(&stage), [pair("X-1", "review")]);
    let words = ["workflow", "report", "XG-1-2", "fail", "--note", "minus is missing"];
    stage.ok(&words);
    assert_eq!(offered(&stage), [pair("X-1", "do")]);
    let said = stage.ok(&["workflow", "next"]);
    assert!(said.contains("minus is missing"), "{said}");
    assert!(stage.file("repo/.workflow/retry-context/XG-1-2-attempt-1.md").contains("minus"));

    stage.ok(&["workflow", "report", "X-1", "done"]);
    stage.ok(&["workflow", "report", "XG-1-2", "pass"]);
    assert_eq!(offered(&stage), [pair("X-2", "do")]);
    stage.ok(&["workflow", "report", "X-2", "done"]);
    assert_eq!(offered(&stage), []);
    assert_eq!(stage.stands("add"), "complete");
    assert_eq!(stage.played(), Vec::<String>::new(), "an agent was started");
    let log = stage.log("add");
    assert!(log.contains("workflow add (t1) is complete"), "{log}");
    assert_eq!(stage.worktrees(), Vec::<String>::new());
    stage.assert_put_away();
}

#[test]
fn experiment_2_headless_steps_run_in_their_order_without_gates() {
    let stage = Stage::new();
    let spec = stage.spec(
        "chain",
        "
workflow: { id: chain, name: One after the other }
steps:
  - { id: X-1 }
  - { id: X-2, needs: [X-1] }
  - { id: X-3, needs: [X-2] }
",
    );
    // Each finds the work of those before it.
    stage.step("X-2", &format!("run test -s made/X-1\n{WORK}"));
    stage.step("X-3", &format!("run test -s made/X-1 && test -s made/X-2\n{WORK}"));
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(ended["workflows"][0]["done"], 3, "{ended}");
    assert_eq!(stage.played(), ["X-1", "X-2", "X-3"]);
    assert_eq!(stage.main("made/X-3"), "X-3\n");
    stage.assert_put_away();
}

#[test]
fn experiment_3_a_sentinel_alone_leads_to_the_gate_and_to_the_next_step() {
    let stage = Stage::new();
    let spec = stage.spec(
        "watched",
        "
workflow: { id: watched, name: A person and an agent }
steps:
  - { id: X-1, agent: { launch: interactive }, signal: { type: sentinel_file }, gate: XG-1-2 }
  - { id: X-2, signal: { type: sentinel_file } }
gates:
  - { id: XG-1-2, reviewer: { level: auto }, on_pass: { next_step: X-2 } }
",
    );
    stage.step("X-2", &work_with_sentinel(".workflow/signals/X-2-done.json"));
    let up = stage.up();
    stage.announce(&[&spec]);
    stage.until_step("watched", "X-1", "interactive");
    assert_eq!(stage.played(), Vec::<String>::new());
    stage.signal("X-1-done.json", r#"{"status": "done"}"#);
    stage.until_stands("watched", "complete");
    up.stop();
    assert_eq!(stage.played(), ["XG-1-2", "X-2"]);
    assert_eq!(stage.main("made/X-2"), "X-2\n");
    stage.assert_put_away();
}

#[test]
fn experiment_4_a_failed_gate_feeds_the_next_attempt() {
    let stage = Stage::new();
    stage.gate("XG-1-2", FAILS_ONCE);
    // The second attempt finds its first work, and has the feedback among its inputs.
    stage.step(
        "X-1",
        r"attempt 1: write plus.txt plus
attempt 1: commit plus
attempt 2: run grep -q plus plus.txt && grep -q 'minus is missing' .workflow/retry-context/XG-1-2-attempt-1.md
attempt 2: write minus.txt minus
attempt 2: commit minus
success it is written
",
    );
    let text = ADD.replace(
        "gate: XG-1-2 }",
        "inputs: ['.workflow/retry-context/XG-1-2-*.md'], gate: XG-1-2 }",
    );
    let spec = stage.spec("add", &text);
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(stage.played(), ["X-1", "XG-1-2", "X-1", "XG-1-2", "X-2"]);
    let told = stage.prompts_of("X-1");
    assert!(!told[0].contains("minus is missing"), "{}", told[0]);
    assert!(told[1].contains("minus is missing"), "{}", told[1]);
    assert!(stage.prompts_of("XG-1-2")[1].contains("minus is missing"), "it can compare");
    assert_eq!(stage.listed("retry-context"), ["XG-1-2-attempt-1.md"]);
    assert_eq!(stage.main("plus.txt") + &stage.main("minus.txt"), "plus\nminus\n");
    let log = stage.log("add");
    for words in [
        "gate(auto) -> sent_back on fail",
        "gate XG-1-2 failed; X-1 starts again, with all steps after it: X-1, X-2",
        "gate(auto) -> passed on pass",
        "workflow add (t1) is complete, its work is merged",
    ] {
        assert_eq!(stage.logged("add", words), 1, "{words}\n{log}");
    }
    stage.assert_put_away();
}

#[test]
fn experiment_5_a_person_at_one_gate_does_not_hold_up_the_other_branch() {
    let stage = Stage::new();
    let spec = stage.spec(
        "levels",
        "
workflow: { id: levels, name: Three levels }
steps:
  - { id: A-1, gate: AG }
  - { id: A-2 }
  - { id: B-1, gate: BG }
  - { id: B-2, gate: CG }
  - { id: B-3 }
gates:
  - { id: AG, reviewer: { level: human }, on_pass: { next_step: A-2 } }
  - { id: BG, reviewer: { level: auto }, on_pass: { next_step: B-2 } }
  - { id: CG, reviewer: { level: notify, veto_window: 1s }, on_pass: { next_step: B-3 } }
",
    );
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "running", "{ended}");
    let states = stage.states("levels");
    let words: Vec<&str> = states.values().map(String::as_str).collect();
    assert_eq!(words, ["gate(human)", "pending", "passed", "passed", "passed"]);
    assert_eq!(offered(&stage), [pair("A-1", "decide")]);
    let told = stage.logged("levels", "B-2 (gate CG) gate(veto) -> passed on unopposed");
    assert_eq!(told, 1, "{}", stage.log("levels"));
    assert!(!stage.played().contains(&"AG".to_owned()), "an agent judged for the person");

    stage.answer("AG-fail.md", "one more line");
    stage.pulse_until("it is back at the person", || {
        stage.step_is("levels", "A-1", "gate(human)") && stage.prompts_of("A-1").len() == 2
    });
    assert!(stage.prompts_of("A-1")[1].contains("one more line"));
    stage.answer("AG-pass", "");
    stage.pulse_until("it is over", || stage.stands("levels") == "complete");
    let again = stage.played().iter().filter(|part| part.starts_with('B')).count();
    assert_eq!(again, 4, "the other branch was done again: {:?}", stage.played());
    stage.assert_put_away();
}

const X: &str = "
workflow: { id: x, name: The first }
steps:
  - { id: X-1 }
  - { id: X-2, needs: [X-1] }
";
const Y: &str = "
workflow: { id: y, name: The second }
steps:
  - { id: Y-1, needs: [x/X-2] }
";

#[test]
fn experiment_6_a_step_waits_for_a_step_of_another_workflow() {
    let stage = Stage::new();
    let (x, y) = (stage.spec("x", X), stage.spec("y", Y));
    let said = stage.refused(&["workflow", "run", &y]);
    assert!(said.contains("the workflow `x` was never started in this project"), "{said}");
    assert!(said.contains("banksman workflow run x.yaml"), "{said}");
    assert_eq!(stage.tasks().len(), 0, "half of it was started");

    // It sees what the other one has made, although that is not merged when it begins.
    stage.step("Y-1", &format!("run test -s made/X-1 && test -s made/X-2\n{WORK}"));
    let ended = stage.play(&[&y, &x]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(ended["workflows"][1]["state"], "complete", "{ended}");
    assert_eq!(stage.played(), ["X-1", "X-2", "Y-1"]);
    assert_eq!(stage.main("made/Y-1"), "Y-1\n");
    stage.assert_put_away();
}

#[test]
fn experiment_6_the_other_workflow_may_be_over_before() {
    let stage = Stage::new();
    let (x, y) = (stage.spec("x", X), stage.spec("y", Y));
    stage.step("Y-1", &format!("run test -s made/X-1 && test -s made/X-2\n{WORK}"));
    stage.play(&[&x]);
    stage.assert_put_away();
    let ended = stage.play(&[&y]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(stage.played(), ["X-1", "X-2", "Y-1"]);
    stage.assert_put_away();
}

#[test]
fn experiment_6_the_other_workflow_may_be_on_its_way() {
    let stage = Stage::new();
    let (x, y) = (stage.spec("x", X), stage.spec("y", Y));
    stage.announce(&[&x]);
    stage.announce(&[&y]);
    assert_eq!(stage.states("y")["Y-1"], "pending");
    stage.pulse_until("both are over", || {
        stage.stands("x") == "complete" && stage.stands("y") == "complete"
    });
    assert_eq!(stage.played(), ["X-1", "X-2", "Y-1"]);
    stage.assert_put_away();
}

const MANY: &str = "
workflow: { id: many, merge: false }
steps:
  - { id: M, for_each: [a, b] }
  - { id: part, uses: x.yaml }
";

/// A matrix and an included file are needed by their names from outside as well as from inside.
#[test]
fn experiment_6_all_that_a_name_stands_for_is_waited_for() {
    let stage = Stage::new();
    stage.spec("x", X);
    let many = stage.spec("many", MANY);
    let after = "workflow: { id: after, merge: false }\nsteps:\n  - { id: Z, needs: [many/M, many/part] }\n";
    let waits_for = |task: &str| {
        let show = stage.json(&["show", task]);
        let needs = show["needs"].as_array().expect("needs").len();
        (show["fields"]["step"].as_str().expect("a step").to_owned(), needs)
    };
    let z = stage.spec("after", after);
    // Two of the matrix and two of the file; `many` comes first, although it is named last.
    stage.announce(&[&z, &many]);
    assert_eq!(waits_for("t7"), ("Z".to_owned(), 4));
    // The same where the other one was started before.
    stage.announce(&[&z]);
    assert_eq!(waits_for("t9"), ("Z".to_owned(), 4));

    let typo =
        stage.spec("typo", "workflow: { id: typo }\nsteps:\n  - { id: Z, needs: [many/N] }\n");
    let said = stage.refused(&["workflow", "run", &typo, &many]);
    assert!(said.contains("the workflow `many` has no step `N`"), "{said}");
    let said = stage.refused(&["workflow", "run", &typo]);
    assert!(said.contains("there is no step or gate `N`"), "{said}");
}

/// An agent that drives: it knows nothing but what `next` tells, and answers with the words that
/// `next` gives it.
fn drive(stage: &Stage, verdicts: &mut Vec<&str>) -> Vec<String> {
    let mut done = Vec::new();
    for _ in 0..20 {
        let next = stage.json(&["workflow", "next"]);
        let Some(todo) = next["next"].as_array().expect("a list").first().cloned() else {
            assert_eq!(next["over"], true, "{next}");
            return done;
        };
        let reports = todo["report"].as_array().expect("words to report with");
        let words = |at: usize| -> Vec<String> {
            let words = reports[at].as_str().expect("a command").split(' ').skip(1);
            words.map(|word| word.trim_matches('\'').replace('…', "more")).collect()
        };
        let mut words = match todo["kind"].as_str().expect("a kind") {
            "do" => [words(0), vec!["--as".to_owned(), "agent:driver".to_owned()]].concat(),
            "review" => words(usize::from(verdicts.pop() == Some("fail"))),
            "decide" => return done,
            other => panic!("`{other}` is nothing to do: {next}"),
        };
        words.push("--quiet".to_owned());
        stage.ok(&words.iter().map(String::as_str).collect::<Vec<_>>());
        done.push(words[2..4].join(" "));
    }
    panic!("it does not come to an end: {done:?}");
}

#[test]
fn experiment_7_an_agent_drives_the_workflow_but_not_past_a_person() {
    let stage = Stage::new();
    let spec = stage.spec(
        "driven",
        "
workflow: { id: driven, name: Driven by an agent }
steps:
  - { id: X-1, agent: { type: planner, launch: subagent }, prompt: Plan it., gate: XG-1-2 }
  - { id: X-2, agent: { launch: subagent }, gate: XG-2-3 }
  - { id: X-3 }
gates:
  - { id: XG-1-2, reviewer: { level: auto, agent_type: critic }, on_pass: { next_step: X-2 } }
  - { id: XG-2-3, reviewer: { level: human }, on_pass: { next_step: X-3 } }
",
    );
    stage.ok(&["workflow", "run", "--manual", &spec]);
    let next = stage.json(&["workflow", "next"]);
    assert_eq!(next["next"][0]["what"], "give it to a planner of your own");
    assert!(next["next"][0]["assignment"].as_str().expect("words").contains("Plan it."));
    let done = drive(&stage, &mut vec!["pass", "fail"]);
    assert_eq!(done, ["X-1 done", "XG-1-2 fail", "X-1 done", "XG-1-2 pass", "X-2 done"]);
    assert_eq!(offered(&stage), [pair("X-2", "decide")]);
    let before = stage.version("driven", "X-2");
    for role in ["agent", "reviewer", "agent:driver"] {
        let said = stage.refused(&["workflow", "report", "XG-2-3", "pass", "--as", role]);
        assert!(said.contains("refused"), "{said}");
    }
    assert_eq!(stage.version("driven", "X-2"), before);

    stage.ok(&["workflow", "report", "XG-2-3", "pass"]);
    assert_eq!(drive(&stage, &mut Vec::new()), ["X-3 done"]);
    assert_eq!(stage.stands("driven"), "complete");
    assert_eq!(stage.played(), Vec::<String>::new(), "Banksman started an agent");
    let log = stage.log("driven");
    assert!(log.contains("interactive -> gate(auto) on signal by agent:driver"), "{log}");
    stage.assert_put_away();
}
