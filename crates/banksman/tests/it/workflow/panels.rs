//! Gates with several reviewers: asked at once and blind, a veto ends it, concerns are debated, and
//! what is not settled goes to a person.

use std::fs;

use banksman::store::Stored;
use serde_json::{Value, json};

use super::{Bench, DONE, WAIT, WORK, field, reasoned, two_steps, verdict};
use crate::engine::harness::{state_of, tasks};
use crate::engine::processes::wait_until;

/// Two reviewers behind A, and B behind them.
fn spec(level: &str, more: &str) -> String {
    two_steps(&format!("level: {level}, agent_type: [critic, security]"), more)
}

fn reply(word: &str, why: &str) -> String {
    format!("answer {}\nsuccess looked\n", json!({ "response": word, "rationale": why }))
}

/// The reviews of all gates: who, in which round, and how it ended.
fn assignments(bench: &Bench) -> Vec<String> {
    let mut assignments: Vec<Stored> = tasks(&bench.driver.store);
    assignments.retain(|stored| stored.lifecycle.id == "review");
    assignments.sort_by_key(|stored| stored.task.id);
    let line = |review: &Stored| {
        format!(
            "{} {} {}",
            field(review, "reviewer"),
            review.task.fields["round"],
            state_of(review)
        )
    };
    assignments.iter().map(line).collect()
}

fn verdicts(bench: &Bench, step: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = bench.step(step).task.fields.get("verdicts").cloned().unwrap_or_default();
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter().map(|one| format!("{} {}", text(&one["reviewer"]), text(&one["verdict"]))).collect()
}

#[test]
fn a_step_that_all_reviewers_approve_passes() {
    let bench = Bench::new(&spec("auto", ""));
    bench.script(
        "A",
        &format!("{WORK}run touch made-by-a\nrun git add -A\nrun git commit -qm made\n{DONE}"),
    );
    bench.script("G-critic", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.script("G-security", &format!("{WAIT}run test -f made-by-a\n{}", verdict("APPROVE", "")));
    bench.until_started("G-critic.1");
    bench.until_started("G-security.1");
    assert_eq!(bench.state("A"), "gate(auto)", "both are asked before either has answered");
    bench.go("G-critic.1");
    bench.go("G-security.1");
    bench.until_over("complete");
    assert_eq!(assignments(&bench), ["critic 0 answered", "security 0 answered"]);
    assert_eq!(verdicts(&bench, "A"), ["critic APPROVE", "security APPROVE"]);
    assert_eq!(bench.logged("gate(auto) -> passed on pass by system: all 2 reviewers approve"), 1);
    let [critic, security] = ["G-critic.1", "G-security.1"].map(|attempt| bench.prompt(attempt));
    assert!(
        critic.starts_with("You are critic, one of several reviewers at the gate G "),
        "{critic}"
    );
    assert!(
        critic.contains("which assumption is untested"),
        "the settings know what a critic looks for: {critic}"
    );
    assert!(!critic.contains("security") && !security.contains("critic"), "{critic}\n{security}");
    assert!(!critic.contains("`reason`"), "the gate has one way back: {critic}");
    assert!(bench.feedback().is_empty());
}

#[test]
fn a_veto_fails_the_gate_at_once_with_the_words_of_each() {
    let bench = Bench::new(&spec("auto", ""));
    bench.script("G-critic.1", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.script("G-security.1", &verdict("BLOCK", "the key is in the log\nthe lock is open"));
    bench.until_started("A.2");
    assert_eq!(assignments(&bench)[..2], ["critic 0 withdrawn", "security 0 answered"]);
    let files = bench.feedback();
    let text = &files["G-attempt-1.md"];
    let words = "security says BLOCK: it says BLOCK\n- the key is in the log\n- the lock is open";
    assert!(text.contains(words), "{text}");
    assert!(bench.prompt("A.2").contains(words), "{}", bench.prompt("A.2"));
    bench.until_over("complete");
    // The second attempt has a panel of its own, which has heard what the first one said.
    assert_eq!(assignments(&bench)[2..], ["critic 0 answered", "security 0 answered"]);
    assert!(bench.prompt("G-critic.2").contains("the key is in the log"));
    assert_eq!(verdicts(&bench, "A"), ["critic APPROVE", "security APPROVE"]);
    assert_eq!(bench.starts().iter().filter(|start| start.starts_with("B.")).count(), 1);
}

#[test]
fn the_reason_of_the_veto_chooses_the_way_back() {
    let routes = "on_fail: { next_step: A, routes: [{ reason: hopeless, next_step: ABORT }] }";
    let bench = Bench::new(&spec("auto", routes));
    bench.script("G-critic", &reasoned("CONCERN", "it is red", "hopeless"));
    bench.script("G-security.1", &reasoned("BLOCK", "once more", ""));
    bench.script("G-security.2", &reasoned("BLOCK", "never", "hopeless"));
    bench.until_over("aborted");
    assert!(bench.prompt("G-critic.1").contains("`reason`: why you block it"));
    let ran = |step: &str| bench.starts().iter().filter(|start| start.starts_with(step)).count();
    assert_eq!((ran("A."), ran("B.")), (2, 0), "a concern names no way: {:?}", bench.starts());
}

#[test]
fn a_word_that_is_no_reason_of_the_gate_blocks_without_a_reason() {
    let routes = "on_fail: { next_step: A, routes: [{ reason: hopeless, next_step: ABORT }] }";
    let bench = Bench::with(&[("panel.retries", "0")], &spec("auto", routes));
    bench.script("G-critic", &reasoned("APPROVE", "", ""));
    bench.script("G-security", &reasoned("BLOCK", "never", "bored"));
    bench.script("G-security.2", &reasoned("APPROVE", "", ""));
    bench.until_over("complete");
    assert!(bench.prompt("A.2").contains("never"), "it goes back without a route");
    assert_eq!(verdicts(&bench, "A"), ["critic APPROVE", "security APPROVE"]);
}

#[test]
fn a_concern_is_debated_and_given_up() {
    let bench = Bench::new(&spec("notify, veto_window: 1s", ""));
    bench.script("G-critic.1", &verdict("CONCERN", "it is red"));
    bench.script("G-critic.2", &reply("WITHDRAW", "red was meant"));
    bench.script("G-security", &verdict("APPROVE", ""));
    bench.until_state("A", "gate(veto)");
    assert_eq!(
        assignments(&bench),
        ["critic 0 answered", "security 0 answered", "critic 1 answered"]
    );
    assert_eq!(verdicts(&bench, "A"), ["critic WITHDRAWN", "security APPROVE"]);
    let told = bench.prompt("G-critic.2");
    assert!(told.contains("round 1 of 2") && told.contains("security: APPROVE"), "{told}");
    assert!(told.contains("Write"), "the step is told again: {told}");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn what_is_not_settled_is_a_persons() {
    let bench = Bench::new(&spec("auto", ""));
    bench.script("G-critic.1", &verdict("CONCERN", "it is red"));
    bench.script("G-critic", &reply("MAINTAIN", "nobody asked for red"));
    bench.until_state("A", "gate(human)");
    let rounds =
        ["critic 0 answered", "security 0 answered", "critic 1 answered", "critic 2 answered"];
    assert_eq!(assignments(&bench), rounds);
    let said = bench.diagnostic("A");
    assert_eq!(said, "critic still has a concern after 2 rounds of debate");
    let summary = field(&bench.step("A"), "review_summary");
    assert!(
        summary.contains("### Critic says:\n\nit is red\nResponse: nobody asked for red\n"),
        "{said}"
    );
    let next = bench.harness.json(&["workflow", "next"]);
    let what = next["next"][0]["what"].as_str().expect("words");
    assert!(what.ends_with("(critic still has a concern after 2 rounds of debate)"), "{what}");
    assert!(bench.feedback().is_empty(), "nobody has failed it");
    bench.says(&["G", "fail", "--note", "paint it green"]);
    bench.until_started("A.2");
    assert!(bench.prompt("A.2").contains("paint it green"));
}

#[test]
fn who_asks_for_a_person_gets_one_without_a_debate() {
    let bench = Bench::new(&spec("auto", ""));
    bench.script("G-critic", &verdict("CONCERN", "it is red"));
    bench.script("G-security", &verdict("ESCALATE", "who pays?"));
    bench.until_state("A", "gate(human)");
    assert_eq!(assignments(&bench).len(), 2);
    assert_eq!(bench.diagnostic("A"), "security asks for a person");
    let question = bench.harness.json(&["decisions", "show", &bench.step("A").task.id.to_string()]);
    let text = question.to_string();
    assert_eq!(text.matches("it says ESCALATE").count(), 1, "said once: {text}");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn where_nobody_can_review_a_person_is_asked_at_once() {
    let bench =
        Bench::with(&[("workers.scripted.roles", "[\"worker\", \"agent\"]")], &spec("auto", ""));
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.diagnostic("A"), "no worker has the role reviewer");
    assert!(assignments(&bench).is_empty());
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}

#[test]
fn a_person_who_answers_first_sends_the_reviewers_home() {
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], &spec("auto", ""));
    bench.script("G-critic", &format!("{WAIT}{}", verdict("BLOCK", "too late")));
    bench.script("G-security", &format!("{WAIT}{}", verdict("APPROVE", "")));
    bench.until_started("G-critic.1");
    bench.until_started("G-security.1");
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
    assert_eq!(assignments(&bench), ["critic 0 withdrawn", "security 0 withdrawn"]);
    assert!(bench.feedback().is_empty());
}

/// The real thing at the moments of a panel: reviews created, a verdict given, the debate begun.
#[test]
fn a_panel_whose_up_is_killed_again_and_again_ends_the_same() {
    let play = |bench: &Bench| {
        bench.script("G-critic.1", &verdict("CONCERN", "it is red"));
        bench.script("G-critic.2", &format!("{WAIT}{}", reply("WITHDRAW", "red was meant")));
        bench.script("G-security.1", &format!("{WAIT}{}", verdict("APPROVE", "")));
    };
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], &spec("auto", ""));
    play(&bench);
    let answered = |who: &str| assignments(&bench).contains(&format!("{who} answered"));
    let moments: [(&str, &dyn Fn() -> bool); 5] = [
        ("the reviews are created", &|| assignments(&bench).len() == 2),
        ("both read", &|| bench.has_started("G-critic.1") && bench.has_started("G-security.1")),
        ("one has spoken", &|| answered("critic 0")),
        ("the debate has begun", &|| {
            fs::write(bench.harness.path("go-G-security.1"), "").expect("written");
            bench.has_started("G-critic.2")
        }),
        ("the debate is over", &|| {
            fs::write(bench.harness.path("go-G-critic.2"), "").expect("written");
            bench.has_started("B.1")
        }),
    ];
    for (what, moment) in moments {
        let up = bench.up();
        wait_until(what, moment);
        up.kill();
    }
    let up = bench.up();
    wait_until("it is over", || bench.workflow_state() == "complete" && bench.is_put_away());
    up.stop();
    bench.assert_clean();
    let all = ["critic 0 answered", "security 0 answered", "critic 1 answered"];
    assert_eq!(assignments(&bench), all, "no review is created twice");
    assert_eq!(verdicts(&bench, "A"), ["critic WITHDRAWN", "security APPROVE"]);
    let mut starts = bench.starts();
    starts.sort();
    assert_eq!(starts, ["A.1", "B.1", "G-critic.1", "G-critic.2", "G-security.1"]);
}
