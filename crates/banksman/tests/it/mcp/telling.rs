//! The tools: what they leave in the run's folder, and what they refuse.

use std::collections::BTreeSet;
use std::thread;

use banksman_core::limits::{REPORT_ITEMS, REPORT_TEXT_BYTES, REPORTS, REPORTS_KEPT_FREE};
use banksman_core::policy::{self, Action, PermissionRequest, PolicyGuard, Rank};
use banksman_core::receipt::{AgentReport, TaskText};
use serde_json::{Value, json};

use super::session::{RunDir, Session, command, reports};

fn guard() -> PolicyGuard {
    PolicyGuard {
        policy: policy::builtin(),
        rank: Rank::Specialist,
        allowed: vec![Action::Run("npm publish".to_owned())],
        root: String::new(),
    }
}

#[test]
fn each_report_is_one_line_in_the_folder() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    let said = [
        session.call("report_progress", &json!({ "step": "read\nthe code" })),
        session.call(
            "report_progress",
            &json!({ "step": "wrote it", "files": ["a.rs", "b.rs"], "blockers": ["no key"] }),
        ),
        session.call("ask_person", &json!({ "question": "which one?" })),
        session.call("nothing_to_do", &json!({ "reason": "fixed before" })),
    ];
    session.close();
    assert!(said.iter().all(|(_, is_error)| !is_error), "{said:?}");
    assert!(said[2].0.contains("End your turn"), "{said:?}");
    let progress = |step: &str, files: &[&str], blockers: &[&str]| AgentReport::Progress {
        step: step.to_owned(),
        files: files.iter().map(ToString::to_string).collect(),
        blockers: blockers.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(
        reports(folder.path()),
        [
            progress("read\nthe code", &[], &[]),
            progress("wrote it", &["a.rs", "b.rs"], &["no key"]),
            AgentReport::NeedsPerson { question: "which one?".to_owned() },
            AgentReport::NothingToDo { reason: "fixed before".to_owned() },
        ]
    );
}

#[test]
fn the_task_is_read_from_the_folder() {
    let folder = RunDir::new();
    let about = TaskText { title: "Fix it".to_owned(), body: "It is \"broken\".\n".to_owned() };
    folder.change(|work| work.about = about);
    let mut session = Session::start(folder.path());
    assert_eq!(
        session.call("task", &json!({})),
        ("# Fix it\n\nIt is \"broken\".".to_owned(), false)
    );
    session.close();
    assert_eq!(reports(folder.path()), [], "reading is not reporting");
}

#[test]
fn wrong_arguments_reach_the_model_and_wrong_calls_the_client() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    let long = "x".repeat(REPORT_TEXT_BYTES + 1);
    let many = vec!["f"; REPORT_ITEMS + 1];
    let heavy = vec!["f".repeat(REPORT_TEXT_BYTES / 4); 5];
    for (tool, arguments, word) in [
        ("report_progress", json!({}), "missing field `step`"),
        ("report_progress", json!({ "step": 7 }), "expected a string"),
        ("report_progress", json!({ "step": " \n" }), "`step` is missing"),
        ("report_progress", json!({ "step": long }), "`step` is too large"),
        ("report_progress", json!({ "step": "a", "files": 1 }), "expected a list of texts"),
        ("report_progress", json!({ "step": "a", "files": [1] }), "expected a list of texts"),
        ("report_progress", json!({ "step": "a", "blockers": many }), "`blockers` must be a list"),
        ("report_progress", json!({ "step": "a", "files": heavy }), "`files` is too large"),
        ("ask_person", json!({ "questions": "a" }), "unknown field `questions`"),
        ("nothing_to_do", Value::Null, "missing field `reason`"),
    ] {
        let (text, is_error) = session.call(tool, &arguments);
        assert!(is_error && text.contains(word), "{tool} {arguments}: {text}");
    }
    for params in [
        json!({ "name": "approve", "arguments": {} }),
        json!({ "arguments": {} }),
        json!({ "name": "task", "arguments": [] }),
        Value::Null,
    ] {
        assert_eq!(session.request("tools/call", &params)["error"]["code"], -32602, "{params}");
    }
    session.close();
    assert_eq!(reports(folder.path()), []);
}

/// Models send a list as a text, or as the JSON of one.
#[test]
fn a_list_may_be_sent_as_a_text() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    for files in [json!(["a", "b"]), json!("[\"a\", \"b\"]"), json!("a, b"), Value::Null] {
        let (text, is_error) =
            session.call("report_progress", &json!({ "step": "x", "files": files }));
        assert!(!is_error, "{text}");
    }
    session.close();
    let files = reports(folder.path()).into_iter().map(|report| match report {
        AgentReport::Progress { files, .. } => files.join("|"),
        AgentReport::NeedsPerson { .. } | AgentReport::NothingToDo { .. } => panic!("{report:?}"),
    });
    assert_eq!(files.collect::<Vec<_>>(), ["a|b", "a|b", "a, b", ""]);
}

/// Nobody but the run itself, whose token is in its job spec, uses its tools.
#[test]
fn no_tool_works_without_the_token_of_the_run() {
    let folder = RunDir::new();
    folder.change(|work| work.ask.guard = Some(Box::new(guard())));
    let arguments = |tool: &str| match tool {
        "report_progress" => json!({ "step": "injected" }),
        "ask_person" => json!({ "question": "injected" }),
        "request_approval" => json!({ "command": "npm publish", "reason": "injected" }),
        "nothing_to_do" => json!({ "reason": "injected" }),
        "task" => json!({}),
        unknown => panic!("{unknown} is not tried"),
    };
    let mut own = Session::start(folder.path());
    let tools = own.tools();
    for token in [Some("junk"), None] {
        let mut server = command(folder.path());
        match token {
            Some(token) => server.env("BANKSMAN_TOKEN", token),
            None => server.env_remove("BANKSMAN_TOKEN"),
        };
        let mut other = Session::of(&mut server);
        for tool in &tools {
            let (text, is_error) = other.call(tool, &arguments(tool));
            assert!(is_error && text.contains("an agent's run may not"), "{tool}: {text}");
        }
        other.close();
    }
    assert_eq!(reports(folder.path()), []);
    for tool in &tools {
        let (text, is_error) = own.call(tool, &arguments(tool));
        assert!(!is_error, "{tool}: {text}");
    }
    own.close();
}

#[test]
fn a_chatty_agent_is_stopped_and_may_still_ask() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    let step = json!({ "step": "again" });
    let taken = (0..REPORTS).take_while(|_| !session.call("report_progress", &step).1).count();
    assert_eq!(taken, REPORTS - REPORTS_KEPT_FREE);
    assert!(!session.call("ask_person", &json!({ "question": "stop?" })).1);
    session.close();

    let mut second = Session::start(folder.path());
    assert!(second.call("report_progress", &step).1, "a new server does not begin to count anew");
    second.close();
    assert_eq!(reports(folder.path()).len(), taken + 1);
}

#[test]
fn large_reports_are_bounded_together() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    let step = json!({ "step": "x".repeat(REPORT_TEXT_BYTES) });
    let taken = (0..REPORTS).take_while(|_| !session.call("report_progress", &step).1).count();
    assert!((100..128).contains(&taken), "{taken}");
    assert!(!session.call("nothing_to_do", &json!({ "reason": "too much" })).1);
    session.close();
}

#[test]
fn several_servers_do_not_mix_their_lines() {
    const SERVERS: usize = 4;
    const EACH: usize = 50;
    let folder = RunDir::new();
    let write = |server: usize| {
        let mut session = Session::start(folder.path());
        for number in 0..EACH {
            let step = format!("{server}/{number} {}", "x".repeat(2000));
            assert!(!session.call("report_progress", &json!({ "step": step })).1);
        }
        session.close();
    };
    thread::scope(|scope| {
        for server in 0..SERVERS {
            scope.spawn(move || write(server));
        }
    });
    let told = reports(folder.path());
    let distinct: BTreeSet<String> = told.iter().map(|told| format!("{told:?}")).collect();
    assert_eq!((told.len(), distinct.len()), (SERVERS * EACH, SERVERS * EACH));
}

#[test]
fn leave_is_asked_for_by_the_policy_of_the_run() {
    let folder = RunDir::new();
    let mut session = Session::start(folder.path());
    let anything = json!({ "command": "cargo test", "reason": "it is time" });
    assert!(session.call("request_approval", &anything).1, "nothing is allowed without a policy");
    session.close();
    folder.change(|work| work.ask.guard = Some(Box::new(guard())));
    let mut session = Session::start(folder.path());
    let mut ask = |arguments: Value| session.call("request_approval", &arguments);
    for harmless in ["cargo test", "git push", "npm publish"] {
        let (text, is_error) =
            ask(json!({ "command": harmless, "path": null, "reason": "it is time" }));
        assert!(!is_error && text.starts_with("Continue"), "{harmless}: {text}");
    }
    let (text, is_error) =
        ask(json!({ "command": "npm publish --tag next", "reason": "it is time" }));
    assert!(!is_error && text.starts_with("Do not do it now"), "{text}");
    for wrong in [
        json!({ "command": "ls" }),
        json!({ "reason": "why" }),
        json!({ "reason": "why", "command": "ls", "path": "x" }),
        json!({ "reason": "why", "command": 7 }),
    ] {
        let (text, is_error) = ask(wrong.clone());
        assert!(is_error, "{wrong}: {text}");
    }
    session.close();
    let told = reports(folder.path());
    let [AgentReport::NeedsPerson { question }] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(
        PermissionRequest::parse_actions(question),
        Some(vec![Action::Run("npm publish --tag next".to_owned())])
    );
    assert!(question.ends_with("The agent says: it is time"), "{question}");
}
