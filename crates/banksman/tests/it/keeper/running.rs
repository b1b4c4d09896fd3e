//! The way of a job that goes well, or that ends by itself.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use banksman::exec::agent::{AgentKind, AgentSetup, McpServer};
use banksman::exec::job::{Evaluator, JobWork};
use banksman::exec::site::{JobStatus, Site};
use banksman_core::receipt::{
    AgentReport, EndCause, EvaluatorOpinion, PrepareFault, ProcessExit, Terminal, Usage,
};
use serde_json::json;

use super::world::{PROGRAM, SESSION, SUCCESS, World, agent, is_alive, job, plan, wait_until};

#[test]
fn a_run_ends_with_a_receipt_and_a_sign() {
    let world = World::new();
    let receipt = world.run(&plan("r1.1", &format!("cat > seen; echo oops >&2; {SUCCESS}")));
    assert_eq!(receipt.job, "r1.1");
    assert_eq!(receipt.ended, EndCause::Completed);
    assert_eq!(receipt.exit, Some(ProcessExit { code: Some(0), signal: None }));
    assert_eq!((receipt.left_over, receipt.nudges), (0, 0));
    let reading = receipt.reading.expect("a reading");
    assert_eq!(reading.terminal, Some(Terminal::Success));
    assert_eq!(reading.text, "all done");
    assert_eq!(world.file("r1.1", "work/seen"), "do it");
    assert_eq!(world.file("r1.1", "err.log"), "oops\n");
    assert!(world.file("r1.1", "out.jsonl").contains("all done"));
    assert!(world.path("ended/r1.1").is_file());
    assert!(receipt.ended_at >= receipt.started_at);
}

#[test]
fn an_agent_that_crashes_is_a_completed_job_with_that_exit() {
    let world = World::new();
    let receipt = world.run(&plan("r1.1", "kill -SEGV $$"));
    assert_eq!(receipt.ended, EndCause::Completed);
    assert_eq!(receipt.exit, Some(ProcessExit { code: None, signal: Some(11) }));
    assert_eq!(receipt.reading.expect("a reading").terminal, None);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let world = World::new();
    let mut plan = plan("r1.1", "");
    agent(&mut plan).setup.command = vec!["no-such-agent".to_owned()];
    let receipt = world.run(&plan);
    let EndCause::NotPrepared { detail, class } = receipt.ended else {
        panic!("{:?}", receipt.ended)
    };
    assert!(detail.contains("no-such-agent"), "{detail}");
    assert_eq!(class, PrepareFault::Unusable, "only a person can install it");
    assert_eq!(receipt.exit, None);
}

/// Nothing of the keeper's own environment, and no file but the three streams.
#[test]
fn an_agent_gets_its_own_environment_and_nothing_else() {
    let world = World::new();
    let mut plan = plan("r1.1", &format!("env > env; ls -l /proc/self/fd > fds; {SUCCESS}"));
    plan.env.insert("GIVEN".to_owned(), "yes".to_owned());
    agent(&mut plan).setup.env.insert("PLACE".to_owned(), "{folder}/x".to_owned());
    world.run(&plan);
    let env = world.file("r1.1", "work/env");
    let mut names: Vec<&str> =
        env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.sort_unstable();
    // The shell adds PWD, SHLVL and _ by itself.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    assert_eq!(names, ["BANKSMAN_RUN", "BANKSMAN_RUN_FOLDER", "GIVEN", "PATH", "PLACE"]);
    let place = world.folder("r1.1").path().join("x");
    assert!(env.contains(&format!("PLACE={}\n", place.display())), "{env}");
    let marker = world.begun("r1.1").marker;
    assert!(marker.starts_with("r1.1:"), "{marker}");
    assert!(env.contains(&format!("BANKSMAN_RUN={marker}\n")));
    let fds = world.file("r1.1", "work/fds");
    assert!(!fds.contains("/lock"), "{fds}");
    // What a child of this test gets, it may get as well: whoever started the test has left it
    // open.
    let usual = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    assert_eq!(numbers(&fds), numbers(&String::from_utf8_lossy(&usual.stdout)));
}

fn numbers(fds: &str) -> Vec<&str> {
    fds.lines().filter_map(|line| line.split(" -> ").next()?.rsplit(' ').next()).collect()
}

#[test]
fn what_the_agent_told_is_in_the_receipt() {
    let world = World::new();
    let told = r#"echo '{"tell":"nothing_to_do","reason":"it is there"}' >> ../reports.jsonl"#;
    let receipt =
        world.run(&plan("r1.1", &format!("{told}; echo junk >> ../reports.jsonl; {SUCCESS}")));
    let expected = [AgentReport::NothingToDo { reason: "it is there".to_owned() }];
    assert_eq!(receipt.reading.expect("a reading").reports, expected);
}

/// An agent that does not read its prompt, and one that reads it late.
#[test]
fn a_prompt_larger_than_a_pipe_hinders_nobody() {
    let world = World::new();
    let prompt = "x".repeat(3_000_000);
    for (name, script) in [("r1.1", SUCCESS), ("r1.2", &format!("wc -c > size; {SUCCESS}"))] {
        let mut plan = plan(name, script);
        agent(&mut plan).ask.prompt.clone_from(&prompt);
        assert_eq!(world.run(&plan).ended, EndCause::Completed);
    }
    assert_eq!(world.file("r1.2", "work/size").trim(), "3000000");
}

#[test]
fn an_answer_of_the_wrong_shape_is_asked_for_once_more() {
    let world = World::new();
    let wanted = json!({ "type": "object", "required": ["ok"], "properties": { "ok": { "type": "boolean" } } });
    let answer = |answer: &str| {
        format!(
            r#"echo '{{"type":"result","status":"success","text":"","session":"s1","answer":{answer},"usage":{{"input_tokens":10,"output_tokens":1}}}}'"#
        )
    };
    let (wrong, right) = (answer(r#"{"ok":1}"#), answer(r#"{"ok":true}"#));
    let turns = |second: &str| {
        format!("cat >> prompts; if [ -e once ]; then {second}; else touch once; {wrong}; fi")
    };
    let objection = "/ok must be boolean, not number".to_owned();
    for (name, script, given, objections) in [
        ("r1.1", turns(&right), json!({"ok": true}), vec![]),
        ("r1.2", turns(&wrong), json!({"ok": 1}), vec![objection]),
    ] {
        let mut plan = plan(name, &script);
        agent(&mut plan).ask.schema = Some(wanted.clone());
        let receipt = world.run(&plan);
        let reading = receipt.reading.expect("a reading");
        assert_eq!(receipt.answer, objections.is_empty().then(|| given.clone()));
        assert_eq!(receipt.objections, objections);
        assert_eq!(reading.answer, Some(given));
        assert_eq!(reading.input_tokens, 20, "both turns count");
        assert_eq!(
            world.file(name, "work/prompts").matches("Give the whole answer again").count(),
            1
        );
    }
}

#[test]
fn nobody_is_started_for_an_answer_that_could_not_be_checked() {
    let world = World::new();
    let mut plan = plan("r1.1", &format!("touch started; {SUCCESS}"));
    agent(&mut plan).ask.schema = Some(json!({ "oneOf": [] }));
    let receipt = world.run(&plan);
    let EndCause::NotPrepared { class, detail } = receipt.ended else { panic!("{receipt:?}") };
    assert_eq!(class, PrepareFault::Setup);
    assert!(detail.contains("`oneOf` is not supported"), "{detail}");
    assert!(!world.folder("r1.1").path().join("work/started").exists());
}

fn shell_agent(script: &str) -> AgentSetup {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    AgentSetup {
        kind: AgentKind::Command,
        command,
        model: None,
        env: Default::default(),
        pass: Vec::new(),
    }
}

#[test]
fn an_evaluator_is_asked_about_an_end_without_a_word() {
    let world = World::new();
    let opinion = r#"cat > facts; echo '{"type":"result","status":"success","text":"","answer":{"done":true,"reason":"it is all there"}}'"#;
    let setup = shell_agent(opinion);
    let evaluator = Evaluator { setup, prompt: "Look: {evidence}".to_owned(), timeout_ms: 60_000 };
    for (name, script, is_asked) in [("r1.1", "true", true), ("r1.2", SUCCESS, false)] {
        let mut plan = plan(name, script);
        agent(&mut plan).evaluator = Some(evaluator.clone());
        let given = world.run(&plan).opinion;
        let expected = EvaluatorOpinion { done: true, reason: "it is all there".to_owned() };
        assert_eq!(given, is_asked.then_some(expected));
    }
    assert!(world.file("r1.1", "work/facts").starts_with("Look: <data "));
}

/// Who works does not get the key of who judges, and who judges has its own.
#[test]
fn each_agent_has_the_variables_of_its_own_provider() {
    // Two that every test of ours has in its environment.
    let (doers, judges) = ("CARGO_MANIFEST_DIR", "CARGO_PKG_NAME");
    let world = World::new();
    let tells =
        |file: &str| format!("echo \"${{{doers}+doer}} ${{{judges}+judge}}\" >{file}; cat >rest");
    let opinion = r#"echo '{"type":"result","status":"success","text":"","answer":{"done":true,"reason":"yes"}}'"#;
    let mut plan = plan("r1.1", &tells("doer"));
    let work = agent(&mut plan);
    work.setup.pass = vec![doers.to_owned()];
    let judging = format!("{}; {opinion}", tells("judge"));
    let setup = AgentSetup { pass: vec![judges.to_owned()], ..shell_agent(&judging) };
    work.evaluator = Some(Evaluator { setup, prompt: "{evidence}".to_owned(), timeout_ms: 60_000 });
    assert!(world.run(&plan).opinion.is_some());
    assert_eq!(world.file("r1.1", "work/doer"), "doer \n");
    assert_eq!(world.file("r1.1", "work/judge"), " judge\n");
}

#[test]
fn an_evaluator_that_answers_nonsense_has_used_what_it_has_used() {
    let world = World::new();
    let nonsense = r#"echo '{"type":"result","status":"success","text":"well","usage":{"input_tokens":7,"output_tokens":2,"cost_usd":0.5}}'"#;
    let setup = shell_agent(nonsense);
    let mut plan = plan("r1.1", "true");
    agent(&mut plan).evaluator =
        Some(Evaluator { setup, prompt: "Look: {evidence}".to_owned(), timeout_ms: 60_000 });
    let receipt = world.run(&plan);
    assert_eq!(receipt.opinion, None);
    assert_eq!(receipt.judging, Some(Usage { tokens: 9, cost_micros: 500_000 }));
}

#[test]
fn a_plan_that_cannot_be_understood_ends_the_job() {
    let world = World::new();
    let folder = world.folder("r1.1");
    fs::create_dir_all(folder.path()).unwrap();
    let lock = folder.try_lock().unwrap().expect("nobody has it");
    fs::write(folder.path().join("job.json"), r#"{"job":"r1.1","from":"a later version"}"#)
        .unwrap();
    let mut keeper = Command::new(PROGRAM);
    let status = keeper.arg("keeper").arg(folder.path()).stdin(lock).status().unwrap();
    assert!(status.success());
    // The command holds a copy of the lock.
    drop(keeper);
    let receipt = world.receipt("r1.1");
    assert!(matches!(receipt.ended, EndCause::NotStarted { .. }), "{:?}", receipt.ended);
}

#[test]
fn checks_without_a_worktree_say_so() {
    let world = World::new();
    let mut plan = plan("a1.7", "");
    plan.work = JobWork::Check { checks: Default::default(), message: None, judge: None };
    let receipt = world.run(&plan);
    let EndCause::NotPrepared { class, .. } = receipt.ended else { panic!("{:?}", receipt.ended) };
    assert_eq!(class, PrepareFault::Environment);
}

#[test]
fn a_run_tells_how_it_goes_while_it_goes() {
    let world = World::new();
    let go = world.path("go");
    let script = format!(
        r#"{SESSION}; echo '{{"type":"text","text":"reading the code"}}'; echo '{{"type":"usage","input_tokens":7,"output_tokens":2}}'; until [ -e {} ]; do /bin/sleep 0.01; done; {SUCCESS}"#,
        go.display()
    );
    world.site.begin(&plan("r1.1", &script)).unwrap();
    let folder = world.folder("r1.1");
    wait_until("the text is shown", || {
        folder.status().unwrap().is_some_and(|status| status.last == "reading the code")
    });
    let status = folder.status().unwrap().expect("a status");
    assert!(status.agent_pid.is_some_and(is_alive));
    assert!(status.last_output_at.is_some());
    assert_eq!(world.site.look(job("r1.1")).unwrap(), JobStatus::Running);
    fs::write(go, "").unwrap();
    assert_eq!(world.receipt("r1.1").ended, EndCause::Completed);
}

/// Such an agent hears of its tools through its standard input, where a prompt may hold any text.
#[test]
fn tools_that_are_named_on_standard_input_know_their_folder() {
    let world = World::new();
    let answer = |result: &str| {
        format!(
            "read -r line; echo \"$line\" >> seen; id=${{line#*\\\"id\\\":}}; id=${{id%%,*}}; \
             echo '{{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{result}}}'; "
        )
    };
    let script = answer("{\"protocolVersion\":1,\"agentCapabilities\":{}}")
        + &answer("{\"sessionId\":\"s1\"}")
        + &answer("{\"stopReason\":\"end_turn\"}");
    let mut plan = plan("r1.1", "");
    let work = agent(&mut plan);
    work.setup.kind = AgentKind::Acp;
    work.setup.command = ["sh", "-c", &script].map(str::to_owned).to_vec();
    work.ask.prompt = "what is {folder}?".to_owned();
    work.ask.mcp = Some(McpServer {
        name: "banksman".to_owned(),
        command: PROGRAM.to_owned(),
        args: vec!["mcp".to_owned()],
        env: BTreeMap::from([("BANKSMAN_RUN_FOLDER".to_owned(), "{folder}".to_owned())]),
    });
    let receipt = world.run(&plan);
    let reading = receipt.reading.expect("a reading");
    assert_eq!(reading.terminal, Some(Terminal::Success), "{}", world.file("r1.1", "out.jsonl"));
    let seen = world.file("r1.1", "work/seen");
    let folder = world.folder("r1.1").path().display().to_string();
    assert!(seen.contains(&format!("\"value\":\"{folder}\"")), "{seen}");
    assert!(seen.contains("what is {folder}?"), "{seen}");
}
