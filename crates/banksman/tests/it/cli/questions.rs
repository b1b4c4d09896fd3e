//! What an agent asks reaches people in its own words, and their answer reaches the agent.

use serde_json::json;

use super::harness::{DONE, Harness, WORK};
use super::sandbox::Ran;

/// What an agent tells when it cannot go on alone.
const ASKS: &str = r#"echo '{"tell":"needs_person","question":"which colour?"}' >>"$BANKSMAN_RUN_FOLDER/reports.jsonl""#;

/// A task whose agent has asked.
fn asked() -> (Harness, String) {
    let harness = Harness::new();
    let id = harness.task("Build a wall", &[WORK, ASKS, DONE]);
    harness.first_run(&id);
    (harness, id)
}

#[test]
fn every_surface_shows_what_the_agent_asks() {
    let (harness, id) = asked();
    let surfaces: [&[&str]; 6] = [
        &["decisions"],
        &["decisions", "show", &id],
        &["daily", "--print"],
        &["status"],
        &["why", &id],
        &["changes"],
    ];
    for surface in surfaces {
        let ran = harness.run(surface).to_string();
        assert!(ran.contains("which colour?"), "{surface:?}: {ran}");
    }
    let inbox = harness.json(&["decisions"]);
    assert_eq!(inbox["decisions"][0]["question"], "which colour?");
}

#[test]
fn an_answer_reaches_the_agent_as_an_answer() {
    let (harness, id) = asked();
    harness.ok(&["decisions", "answer", &id, "unblock", "the green one"]);
    let prompt = harness.ok(&["prompts", "render", &id]);
    assert!(prompt.contains("You asked: which colour?\nkim answered: the green one\n"), "{prompt}");
    assert!(!prompt.contains("failed") && !prompt.contains("was said"), "{prompt}");
}

/// Runs a command with the grace period that answers have where nothing is set.
fn with_grace(harness: &Harness, args: &[&str]) -> Ran {
    let mut command = harness.command(args);
    command.env_remove("BANKSMAN_DECISIONS_GRACE");
    harness.finish(command.output().unwrap())
}

#[test]
fn an_answer_can_be_taken_back_until_it_takes_effect() {
    let (harness, id) = asked();
    let state = || harness.json(&["show", &id])["state"].clone();
    let cancel = with_grace(&harness, &["decisions", "cancel", &id, "no more", "--json"]);
    let answered = cancel.document();
    assert_eq!([&answered["action"], &answered["success"]], [&json!("cancel"), &json!(true)]);
    assert!(answered["takesEffectAt"].is_string(), "{cancel}");
    assert_eq!(state(), "blocked");
    for surface in [&["decisions"][..], &["decisions", "show", &id], &["status"], &["why", &id]] {
        let ran = harness.run(surface).to_string();
        assert!(ran.contains("kim: cancel, takes effect at"), "{surface:?}: {ran}");
    }
    assert!(harness.ok(&["daily", "--print"]).contains("Answered by human:kim: cancel"));
    let second = harness.run(&["decisions", "answer", &id, "unblock", "go on"]).to_string();
    assert!(second.contains("is answered by human:kim: cancel, takes effect at"), "{second}");
    assert!(second.contains("`banksman decisions undo d1` takes that answer back"), "{second}");
    harness.ok(&["decisions", "undo"]);
    assert_eq!(harness.json(&["decisions"])["decisions"][0]["answer"], json!(null));
    let now = with_grace(&harness, &["decisions", "cancel", &id, "no more", "--now", "--json"]);
    assert_eq!(now.document()["takesEffectAt"], json!(null));
    assert_eq!(state(), "cancelled");
}

#[test]
fn only_answers_that_lead_somewhere_are_offered() {
    let (harness, id) = asked();
    let shown = harness.json(&["decisions", "show", &id]);
    let of = |key: &str| -> Vec<serde_json::Value> {
        let actions = shown["actions"].as_array().unwrap();
        actions.iter().map(|action| action[key].clone()).collect()
    };
    assert_eq!(of("action"), ["unblock", "cancel"]);
    assert_eq!(of("role"), ["go_on", "end"]);
    assert_eq!(of("key"), ["a", "x"]);
    assert_eq!(of("possible"), [true, true]);
    assert!(shown["deadline"].is_string() && shown["then"]["to"] == "cancelled", "{shown}");
}
