//! What may happen to a task on its way, whoever its agent is.

use std::fs;

use banksman::clock;
use banksman_core::receipt::{EndCause, Terminal};
use banksman_core::time::{Instant, Span};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::super::cases::Agent;
use super::super::model_server::Reply;
use super::harness::{Harness, TASK, TITLE, Wishes};

/// The model's call to write the right answer. The shell, because an agent's own tool for it may
/// want to read the file first.
fn right(agent: &Agent) -> Reply {
    (agent.shell)("echo right > answer.txt")
}

/// The agent changes a file by its tool and leaves it uncommitted; it is committed, proven and
/// merged.
pub(super) fn lands(agent: &Agent) {
    let scenario = |_: &_| vec![right(agent), Reply::text("it is right now")];
    let harness = Harness::new(agent, Wishes::default(), scenario);
    harness.assert_landed();
    assert!(harness.asked(0).contains(TITLE), "{}", harness.asked(0));
    assert!(harness.asked(0).contains("sh check.sh"), "it is told how it will be judged");
    assert_eq!(harness.server.turns().len(), 2, "{}", harness.story());
    let receipt = harness.receipt("r1.1");
    let reading = receipt.reading.expect("it said something");
    assert_eq!(
        (reading.terminal, reading.text.as_str()),
        (Some(Terminal::Success), "it is right now")
    );
    let evidence = receipt.evidence.expect("its worktree was looked at");
    assert_eq!((evidence.commits, evidence.checks.len()), (1, 1), "{}", harness.story());
    let log = harness.git(&["log", "--format=%B", "main"]);
    assert!(log.contains(TITLE) && log.contains("Task: t1"), "{log}");
}

/// The second run goes on with the session of the first and is told what the check found.
pub(super) fn check_fails_first(agent: &Agent) {
    let scenario = |_: &_| {
        vec![
            (agent.shell)("echo wrong > answer.txt"),
            Reply::text("I am certain that this is it"),
            right(agent),
            Reply::text("now it is"),
        ]
    };
    let harness = Harness::new(agent, Wishes::default(), scenario);
    harness.assert_landed();
    let again = harness.asked(2);
    for said in
        [TITLE, "I am certain that this is it", "Your last attempt at task", "the answer is wrong"]
    {
        assert!(again.contains(said), "`{said}` is not in {again}");
    }
    assert!(!harness.asked(1).contains("the answer is wrong"), "the first run could not know");
    assert_eq!(session(&harness, "r1.1"), session(&harness, "r1.2"));
}

fn session(harness: &Harness, run: &str) -> String {
    let reading = harness.receipt(run).reading.expect("it said something");
    reading.session.unwrap_or_else(|| panic!("{run} has no session\n{}", harness.story()))
}

/// A plan that is used up pauses the account until the time that the provider named, for everybody
/// who draws on it.
pub(super) fn plan_limit(agent: &Agent) {
    // In three days, at a full minute: Codex tells the time no closer than that.
    let resets_at = Instant((clock::now().0 / 60_000 + 3 * 1_440) * 60_000);
    let scenario =
        |_: &_| vec![Reply::PlanLimit(resets_at.0 / 1_000), right(agent), Reply::text("done")];
    let harness = Harness::new(agent, Wishes::default(), scenario);
    harness.pulse_past("r1.1");
    let account = &account(&harness);
    assert_eq!(account["pausedUntil"], json!(resets_at), "{account}\n{}", harness.story());
    assert!(account["reason"].to_string().contains("quota"), "{account}");
    let why = harness.json(&["why", TASK]);
    let waits = why["waitingFor"].as_array().expect("it waits for something");
    let waits = waits.iter().find(|one| one["until"] == json!(resets_at));
    let waits = waits.unwrap_or_else(|| panic!("nothing ends at {resets_at}: {why}"));
    assert!(waits["detail"].to_string().contains("plan"), "{waits}");
    let pulse = harness.json(&["pulse"]);
    assert_eq!(pulse["started"], json!([]), "nobody is sent against the wall: {pulse}");
    assert_eq!(harness.server.turns().len(), 1);
    harness.ok(&["accounts", "resume", "plan"]);
    harness.assert_landed();
}

/// A plan that is used up pauses the account also when nobody says until when.
pub(super) fn plan_limit_without_a_time(agent: &Agent) {
    let scenario = |_: &_| vec![Reply::PlanLimit(0), right(agent), Reply::text("done")];
    let harness = Harness::new(agent, Wishes::default(), scenario);
    harness.pulse_past("r1.1");
    assert_paused_without_a_time(&harness);
    harness.ok(&["accounts", "resume", "plan"]);
    harness.assert_landed();
}

fn assert_paused_without_a_time(harness: &Harness) {
    let account = account(harness);
    let until: Instant = account["pausedUntil"].as_str().expect("a time").parse().unwrap();
    assert!(until > harness.receipt("r1.1").ended_at, "{account}\n{}", harness.story());
    let reason = account["reason"].to_string();
    assert!(reason.contains("quota hit without a reset time"), "{account}");
    assert_eq!(harness.server.turns().len(), 1, "nobody was sent against the wall");
}

/// The provider wants the agent to wait for ten hours, and the agent would. It is ended when it was
/// silent for too long, and what it waits for is known all the same.
pub(super) fn waits_for_its_plan(agent: &Agent) {
    let scenario = |_: &_| vec![Reply::Wait(36_000), right(agent), Reply::text("done")];
    // On a busy machine it may wait for the disk that long before it says its first word, and that
    // is another kind of silence.
    let settings = "[limits]\nidle = \"30s\"\ngrace = \"2s\"\n".to_owned();
    let wishes = Wishes { settings, ..Wishes::default() };
    let harness = Harness::new(agent, wishes, scenario);
    harness.pulse_past("r1.1");
    let receipt = harness.receipt("r1.1");
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Hopeless, 0), "{}", harness.story());
    assert_paused_without_a_time(&harness);
    harness.ok(&["accounts", "resume", "plan"]);
    harness.assert_landed();
}

fn account(harness: &Harness) -> Value {
    let accounts = harness.json(&["accounts", "list"]);
    let [account] = accounts["accounts"].as_array().expect("a list").as_slice() else {
        panic!("{accounts}\n{}", harness.story());
    };
    assert_eq!(account["account"], "plan");
    account.clone()
}

/// A key that is refused is a matter for a person, and nobody else tries it meanwhile.
pub(super) fn refused_key(agent: &Agent) {
    let harness = Harness::new(agent, Wishes::default(), |_| vec![Reply::Refused]);
    let before = clock::now();
    let task = harness.pulse_until("blocked");
    assert!(!task["fields"]["question"].is_null(), "{task}");
    let why = harness.json(&["why", TASK]);
    assert_eq!(why["waitingFor"][0]["kind"], "decision", "{why}");
    let account = &account(&harness);
    let until: Instant = account["pausedUntil"].as_str().expect("a time").parse().unwrap();
    assert!(until > before.plus(Span(60_000)), "{account}");
    assert!(account["reason"].to_string().contains("key"), "{account}");
}

/// A model that says nothing more: the agent is ended, and the same session is asked to go on.
pub(super) fn stall_and_nudge(agent: &Agent) {
    let scenario = |_: &_| vec![Reply::StallInHeaders, right(agent), Reply::text("done")];
    let settings = "[limits]\nidle = \"3s\"\ngrace = \"2s\"\n".to_owned();
    let wishes = Wishes { settings, ..Wishes::default() };
    let harness = Harness::new(agent, wishes, scenario);
    harness.assert_landed();
    assert!(!harness.asked(0).contains("You have been silent"));
    for said in [TITLE, "You have been silent"] {
        assert!(harness.asked(1).contains(said), "`{said}` is not in {}", harness.asked(1));
    }
    let receipt = harness.receipt("r1.1");
    assert_eq!((receipt.nudges, receipt.ended), (1, EndCause::Completed), "{}", harness.story());
}

/// The agent itself is killed while a tool runs: the tool does not outlive it, and the task is
/// tried again.
pub(super) fn killed_in_a_tool(agent: &Agent) {
    let mut gate = None;
    let scenario = |worktree: &std::path::Path| {
        let started = worktree.with_file_name("started");
        let command = format!("echo yes > {}; sleep 300", started.display());
        gate = Some(started);
        vec![(agent.shell)(&command), right(agent), Reply::text("done")]
    };
    let harness = Harness::new(agent, Wishes::default(), scenario);
    let started = gate.expect("the scenario was asked for");
    harness.pulse_until("working");
    harness.wait_until("the tool runs", || started.exists());
    let pid = agent_pid(&harness, "r1.1");
    kill_process(pid, Signal::KILL).expect("the agent is there");
    harness.assert_landed();
    let receipt = harness.receipt("r1.1");
    let signal = receipt.exit.and_then(|exit| exit.signal);
    assert_eq!(signal, Some(9), "{}", harness.story());
    assert_eq!(receipt.ended, EndCause::Completed, "nobody else ended it");
    assert!(harness.home().join("past/r1.2").exists(), "{}", harness.story());
}

/// What the keeper says of the agent that it runs.
pub(super) fn agent_pid(harness: &Harness, run: &str) -> Pid {
    let path = harness.home().join("runs").join(run).join("heartbeat.json");
    let mut pid = None;
    harness.wait_until("the keeper names its agent", || {
        let heartbeat = fs::read_to_string(&path).unwrap_or_default();
        let heartbeat: Value = serde_json::from_str(&heartbeat).unwrap_or_default();
        let number = heartbeat["agent_pid"].as_i64().and_then(|number| i32::try_from(number).ok());
        pid = number.and_then(Pid::from_raw);
        pid.is_some()
    });
    pid.expect("it was waited for")
}

/// A question goes to a person, and what the person says is in the next prompt.
pub(super) fn asks_a_person(agent: &Agent) {
    let scenario = |_: &_| {
        let question = json!({ "question": "Is it the blue one or the red one?" });
        vec![
            (agent.tool)("ask_person", question),
            Reply::text("I have asked"),
            right(agent),
            Reply::text("done"),
        ]
    };
    let harness = Harness::new(agent, Wishes::default(), scenario);
    let task = harness.pulse_until("blocked");
    assert_eq!(task["fields"]["question"], "Is it the blue one or the red one?");
    harness.ok(&["unblock", TASK, "take the green one"]);
    harness.assert_landed();
    let again = harness.asked(2);
    for said in [TITLE, "take the green one"] {
        assert!(again.contains(said), "`{said}` is not in {again}");
    }
}

/// A run that has used up its tokens is ended in the middle of its work, and a person is asked.
pub(super) fn over_budget(agent: &Agent) {
    let scenario = |_: &_| vec![(agent.shell)("echo on it; sleep 300"), Reply::text("done")];
    let settings = "[budget]\nrun_tokens = 100\n".to_owned();
    let wishes = Wishes { settings, ..Wishes::default() };
    let harness = Harness::new(agent, wishes, scenario);
    let task = harness.pulse_until("blocked");
    let question = task["fields"]["question"].to_string();
    assert!(question.contains("tokens of 100"), "{question}");
    let ended = harness.receipt("r1.1").ended;
    assert!(matches!(ended, EndCause::OverBudget { .. }), "{ended:?}");
}
