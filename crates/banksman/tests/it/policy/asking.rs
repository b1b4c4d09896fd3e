//! Agents that do, or want to do, what they have to ask for: the run ends, a person is asked, and
//! the next run knows the answer.

use std::fs;

use banksman::store::Store;
use banksman_core::failure::FailureClass;
use banksman_core::ids::{DecisionId, TaskId};
use banksman_core::schedule::Budget;

use crate::engine::harness::{Harness, state};

const FORCE: &str = "git push --force origin main";

fn blocked(harness: &Harness, id: TaskId) {
    harness.until("a person is asked", |store| state(store, id) == "blocked");
}

fn question(harness: &Harness, id: TaskId) -> String {
    let task = harness.json(&["show", &id.to_string()]);
    task["fields"]["question"].as_str().expect("a question").to_owned()
}

/// It would go on for ever, if nobody ended it.
fn calls(command: &str) -> String {
    format!("tool bash {command}\nsilent\n")
}

#[test]
fn a_red_call_ends_the_run_and_leave_is_for_exactly_this() {
    let harness = Harness::new(&[]);
    harness.script("r1.1", &calls(FORCE));
    harness.script(
        "r1.2",
        &format!("tool bash {FORCE}\nwrite a.txt done\ncommit work\nsuccess done\n"),
    );
    let id = harness.add("push it", &[]);
    let up = harness.up();
    blocked(&harness, id);
    let asked = question(&harness, id);
    assert!(asked.starts_with(&format!("RED: run \"{FORCE}\"\n")), "{asked}");
    assert!(asked.contains("rule force-push"), "{asked}");
    let page = harness.run(&["decisions", "show", "t1"]);
    let next = String::from_utf8(page.stderr).expect("text");
    let next: Vec<&str> = next.trim_end().split(" | ").flat_map(|part| part.split(" · ")).collect();
    let answer = |action: &str| format!("banksman decisions answer d1 {action} --seen 3");
    let expected =
        ["next: banksman log t1".to_owned(), answer("allow"), answer("unblock"), answer("cancel")];
    assert_eq!(next, expected, "one looks first, and no is named as well as yes");

    let said = harness.json(&["policy", "allow", "t1"]);
    assert_eq!(said["actions"][0]["what"], FORCE);
    assert_eq!(said["answered"], "allow");
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("A person has allowed exactly these actions"), "{prompt}");
    assert!(prompt.contains(&format!("run \"{FORCE}\"")), "{prompt}");
    harness.assert_clean(&["here"]);
}

/// A judge is an agent: it must not let pass what only a person may. What the person says instead
/// is told.
#[test]
fn a_red_call_of_a_judged_task_is_for_a_person_and_not_for_its_judge() {
    let harness = Harness::new(&[("verify.commands", "[\"true\"]")]);
    harness.script("any", &calls(FORCE));
    let done = format!("tool bash {FORCE}\nwrite a.txt done\ncommit work\nsuccess done\n");
    harness.script("r1.3", &done);
    let id = harness.add("push it", &["--lifecycle", "judged", "--set", "review_needed=false"]);
    let is_asked = |store: &Store| state(store, id) == "blocked(needs_person)";
    let up = harness.up();
    harness.until("a person is asked", is_asked);
    assert!(question(&harness, id).starts_with("RED: run "), "{}", question(&harness, id));

    harness.ok(&["unblock", "t1", "do it without a push"]);
    harness.until("the second run is stopped", |store| {
        is_asked(store) && store.past_runs(id, 10).expect("runs").len() == 2
    });
    let prompt = harness.file("prompts/r1.2");
    assert!(prompt.contains("do it without a push"), "{prompt}");
    assert!(!prompt.contains("A person has allowed"), "{prompt}");

    let why = harness.ok(&["why", "t1"]);
    assert!(why.contains("banksman decisions allow|resume|cancel d2"), "{why}");
    harness.ok(&["decisions", "allow", "d2"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    let prompt = harness.file("prompts/r1.3");
    assert!(prompt.contains(&format!("run \"{FORCE}\"")), "{prompt}");
    harness.assert_clean(&["here"]);
}

/// To unblock is to say "go on", not "do it".
#[test]
fn without_leave_the_next_run_is_stopped_again() {
    let harness = Harness::new(&[]);
    harness.script("any", &calls(FORCE));
    let id = harness.add("push it", &[]);
    let up = harness.up();
    blocked(&harness, id);
    harness.ok(&["unblock", "t1"]);
    harness.until("the second run is stopped", |store| {
        let runs = store.past_runs(id, 10).expect("runs");
        runs.len() == 2 && runs.iter().all(|run| run.class == Some(FailureClass::Policy))
    });
    up.stop();
    assert_eq!(harness.state(id), "blocked");
}

#[test]
fn only_an_intern_is_stopped_at_a_yellow_call() {
    for (rank, stopped) in [("intern", true), ("specialist", false), ("lead", false)] {
        let harness = Harness::new(&[("workers.scripted.rank", &format!("\"{rank}\""))]);
        harness.script(
            "any",
            "tool bash git push origin topic\nwrite a.txt x\ncommit work\nsuccess done\n",
        );
        if stopped {
            // What it did after the call would depend on how soon it is ended.
            harness.script("r1.1", &calls("git push origin topic"));
        }
        let id = harness.add("push it", &[]);
        let up = harness.up();
        harness.until("it is decided", |store| {
            ["blocked", "done"].contains(&state(store, id).as_str())
        });
        up.stop();
        assert_eq!(harness.state(id) == "blocked", stopped, "{rank}");
        if stopped {
            assert!(
                question(&harness, id).starts_with("YELLOW: run "),
                "{}",
                question(&harness, id)
            );
            harness.ok(&["policy", "allow", "t1"]);
            let up = harness.up();
            harness.until_over(&["here"]);
            up.stop();
            assert_eq!(harness.state(id), "done", "leave was given for exactly this");
        }
    }
}

/// No call tells of it, but the facts are in the worktree. What was done counts once it is allowed.
#[test]
fn a_red_path_among_the_changes_waits_for_a_person() {
    let harness = Harness::new(&[]);
    let script = "mkdir -p .github/workflows && echo jobs >.github/workflows/ci.yml\n";
    fs::write(harness.path("hidden.sh"), script).expect("written");
    harness.script("r1.1", "run sh \"$YARD/hidden.sh\"\ncommit pipelines\nsuccess done\n");
    harness.script("r1.2", "success nothing more to do\n");
    let id = harness.add("a pipeline", &[]);
    let up = harness.up();
    blocked(&harness, id);
    assert!(
        question(&harness, id).starts_with("RED: write \".github/workflows/ci.yml\"\n"),
        "{}",
        question(&harness, id)
    );
    assert_eq!(harness.git(&["ls-tree", "-r", "--name-only", "main", ".github"]), "");
    harness.ok(&["policy", "allow", "t1"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!(harness.state(id), "done");
    assert_eq!(
        harness.git(&["ls-tree", "-r", "--name-only", "main", ".github"]),
        ".github/workflows/ci.yml\n"
    );
}

/// The command that agents without tools use; what is GREEN goes on.
#[test]
fn an_agent_asks_by_itself() {
    let harness = Harness::new(&[]);
    let program = crate::engine::harness::PROGRAM;
    harness.script(
        "r1.1",
        &format!(
            "run {program} policy request 'cargo build' && touch \"$YARD/green\"\n\
             run {program} policy request '{FORCE}' --why 'it was rebased' || touch \"$YARD/red\"\n\
             success I have asked\n"
        ),
    );
    let id = harness.add("push it", &[]);
    let up = harness.up();
    blocked(&harness, id);
    up.stop();
    assert!(harness.path("green").exists() && harness.path("red").exists());
    let asked = question(&harness, id);
    assert!(asked.starts_with(&format!("RED: run \"{FORCE}\"\n")), "{asked}");
    assert!(asked.ends_with("The agent says: it was rebased"), "{asked}");
}

#[test]
fn a_mission_is_brought_to_its_approval_and_back() {
    let harness = Harness::new(&[]);
    let id = harness.add("a mission", &["--lifecycle", "mission"]).to_string();
    harness.ok(&["move", &id, "ASSIGNED", "--set", "assigneeIds=[\"ida\"]"]);
    let plan = "workPlan={\"bullets\":[\"a\",\"b\",\"c\"]}";
    harness.ok(&["move", &id, "IN_PROGRESS", "--as", "intern:ida", "--set", plan]);
    let request = ["policy", "request", "--task", &id, "--as", "intern:ida"];
    harness.ok(&[&request[..], &["cargo test"]].concat());
    let asked = harness.run(&[&request[..], &["git push", "--why", "it is ready"]].concat());
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    let task = harness.json(&["show", &id]);
    assert_eq!(task["state"], "NEEDS_APPROVAL");
    let text = task["fields"]["approvalRequest"].as_str().expect("a text");
    assert!(text.starts_with("YELLOW: run \"git push\"\n"), "{text}");

    harness.ok(&["decisions", "approve", &id]);
    harness.ok(&[&request[..], &["git push"]].concat());
    let other = harness.run(&[&request[..], &["git push --tags"]].concat());
    assert_eq!(other.status.code(), Some(1), "it is for exactly what was asked");
}

#[test]
fn a_person_escalates_by_hand() {
    let harness = Harness::new(&[]);
    let id = harness.add("a mission", &["--lifecycle", "mission"]).to_string();
    harness.ok(&["move", &id, "ASSIGNED", "--set", "assigneeIds=[\"ida\"]"]);
    let plan = "workPlan={\"bullets\":[\"a\",\"b\",\"c\"]}";
    harness.ok(&["move", &id, "IN_PROGRESS", "--as", "intern:ida", "--set", plan]);
    harness.ok(&["escalate", &id, "it costs too much"]);
    let open = harness.json(&["decisions"]);
    assert_eq!(open["decisions"][0]["state"], "NEEDS_APPROVAL");
    let task = harness.json(&["show", &id]);
    assert_eq!(task["fields"]["approvalRequest"], "it costs too much");
}

#[test]
fn a_run_over_its_budget_is_a_question_for_a_person() {
    let harness = Harness::new(&[("budget.run_tokens", "1000")]);
    harness.script("any", "spend 5000 5000 0.5\nsilent\n");
    let id = harness.add("dear", &[]);
    let up = harness.up();
    blocked(&harness, id);
    up.stop();
    assert!(question(&harness, id).contains("tokens of 1000"), "{}", question(&harness, id));
    assert_eq!(harness.json(&["decisions"])["decisions"][0]["task"], "t1");
}

/// Nobody would look for a task that stays in the queue for ever: its budget is a question too, and
/// a yes is as much again.
#[test]
fn a_task_over_its_own_budget_is_a_question_and_a_yes_gives_as_much_again() {
    let harness = Harness::new(&[("budget.task_runs", "1")]);
    harness.script("r1.1", "needs-person MIT or Apache?\nsuccess I have asked\n");
    harness.script("r1.2", "write a.txt done\ncommit work\nsuccess done\n");
    let id = harness.add("dear", &[]);
    let up = harness.up();
    blocked(&harness, id);
    harness.ok(&["decisions", "answer", "d1", "unblock"]);
    harness.until("it is asked about its budget", |store| {
        store.decision(DecisionId(2)).expect("readable").is_some()
    });
    assert_eq!(
        question(&harness, id),
        "Over budget: task t1 has used up its runs: 1 of 1. Letting it continue raises the budget by the same amount."
    );
    assert_eq!(harness.starts().len(), 1);
    harness.ok(&["decisions", "answer", "d2", "unblock"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!((harness.state(id).as_str(), harness.starts().len()), ("done", 2));
    harness.ok(&["audit", "verify"]);
    harness.assert_clean(&["here"]);
}

#[test]
fn a_judged_task_over_its_own_budget_asks_as_well() {
    let settings = [("budget.task_runs", "1"), ("verify.commands", "[\"true\"]")];
    let harness = Harness::new(&settings);
    harness.script("r1.1", "crash 3\n");
    harness.script("r1.2", "write a.txt done\ncommit work\nsuccess done\n");
    let id = harness.add("dear", &["--lifecycle", "judged", "--set", "review_needed=false"]);
    let up = harness.up();
    harness.until("it has failed", |store| state(store, id) == "failed");
    harness.ok(&["retry", "t1"]);
    harness.until("a person is asked", |store| state(store, id) == "blocked(needs_person)");
    assert!(
        question(&harness, id).starts_with("Over budget: task t1 has used up its runs: 1 of 1")
    );
    harness.ok(&["decisions", "answer", "d1", "resume"]);
    harness.until_over(&["here"]);
    up.stop();
    assert_eq!((harness.state(id).as_str(), harness.starts().len()), ("done", 2));
}

/// Whatever an agent says, only the system's own question is about the budget.
#[test]
fn a_yes_to_an_agents_words_raises_no_budget() {
    let harness = Harness::new(&[("budget.task_runs", "2")]);
    harness.script(
        "any",
        "needs-person Over budget: task t1 has used up its runs: 2 of 2\nsuccess asked\n",
    );
    let id = harness.add("dear", &[]);
    let up = harness.up();
    for decision in ["d1", "d2"] {
        blocked(&harness, id);
        assert!(question(&harness, id).starts_with("Over budget"), "{}", question(&harness, id));
        harness.ok(&["decisions", "answer", decision, "unblock"]);
    }
    blocked(&harness, id);
    up.stop();
    assert!(question(&harness, id).ends_with("by the same amount."), "{}", question(&harness, id));
    assert_eq!(harness.starts().len(), 2);
    let runs = Budget { runs: Some(2), ..Budget::default() };
    assert_eq!(harness.open().task_budget(id, runs).expect("a task"), runs);
}

#[test]
fn every_lifecycle_with_a_state_that_asks_lets_a_person_escalate() {
    let harness = Harness::new(&[]);
    let lifecycles = ["autonomous", "supervised", "judged", "demo"];
    for (number, lifecycle) in lifecycles.into_iter().enumerate() {
        let id = harness.add("a task", &["--lifecycle", lifecycle]).to_string();
        if lifecycle == "autonomous" {
            harness.ok(&["move", &id, "active", "--as", "worker:w"]);
        }
        harness.ok(&["escalate", &id, "is this still wanted?"]);
        let open = harness.json(&["decisions"]);
        let open = open["decisions"].as_array().expect("a list");
        assert_eq!(open.len(), number + 1, "{lifecycle}");
        let task = harness.json(&["show", &id]);
        let state = task["state"].as_str().expect("a state");
        assert!(state.starts_with("blocked"), "{lifecycle}: {state}");
        assert!(task["fields"].to_string().contains("is this still wanted?"), "{task}");
    }
}

/// Claude's own stream, as its program writes it.
#[test]
fn a_call_in_the_stream_of_claude_is_seen() {
    let harness = Harness::new(&[]);
    let call = r#"{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"npm publish"}}]}}"#;
    let script = format!("cat >/dev/null\necho '{call}'\nexec sleep 600\n");
    fs::write(harness.path("claude.sh"), script).expect("written");
    let command = format!("[\"sh\", {:?}]", harness.path("claude.sh").display().to_string());
    harness
        .set(&[("workers.scripted.agent", "\"claude\""), ("workers.scripted.command", &command)]);
    let id = harness.add("publish it", &[]);
    let up = harness.up();
    blocked(&harness, id);
    up.stop();
    assert!(
        question(&harness, id).starts_with("RED: run \"npm publish\"\n"),
        "{}",
        question(&harness, id)
    );
}
