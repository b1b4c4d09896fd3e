//! `banksman acp-client` as a process, against small agents that are written in shell.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use banksman::exec::agent::{AgentKind, AgentUsage};
use banksman_core::lifecycle::Outcome;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{code, read, read_all};

/// Answers the requests of our client in their order; `PROMPT` stands for what it does with the
/// prompt.
const AGENT: &str = r#"
say() { printf '%s\n' "$1"; }
hear() { IFS= read -r line || exit 7; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\",\"update\":$1}}"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
echo 'a banner, as programs print it'
hear; answer 1 '{"protocolVersion":1,"agentCapabilities":CAN}'
hear; answer 2 '{"sessionId":"s-1"OPENED}'
hear
PROMPT
"#;
const DONE: &str = "update '{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"done\"}}'
answer 3 '{\"stopReason\":\"end_turn\"}'
cat > /dev/null";

struct Harness {
    folder: TempDir,
}

impl Harness {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn worktree(&self) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join("worktree");
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn agent(&self, script: &str) -> PathBuf {
        let path = self.folder.path().join("agent.sh");
        fs::write(&path, script).unwrap();
        path
    }

    fn client(&self, options: &[&str], agent: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
        command.arg("acp-client").args(options).args(["--", "sh"]).arg(agent);
        command.current_dir(self.worktree()).env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, options: &[&str], script: &str, order: &Value) -> Child {
        let mut child = self.client(options, &self.agent(script)).spawn().unwrap();
        child.stdin.take().unwrap().write_all(order.to_string().as_bytes()).unwrap();
        child
    }

    fn run(&self, options: &[&str], script: &str, order: &Value) -> Run {
        Run::of(self.start(options, script, order).wait_with_output().unwrap())
    }
}

struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(output.status.signal(), None, "it ends by itself");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    fn messages(&self, mark: &str) -> Vec<Value> {
        let lines = self.stdout.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Our answer to the request of the agent with this id.
    fn answer(&self, id: i64) -> Value {
        let sent = self.messages("> ");
        sent.into_iter().find(|message| message["id"] == id && message["method"].is_null()).unwrap()
    }
}

fn script(prompt: &str) -> String {
    AGENT.replace("CAN", "{}").replace("OPENED", "").replace("PROMPT", prompt)
}

fn order() -> Value {
    json!({ "prompt": "do it", "session": null, "model": null, "mcp": null })
}

#[test]
fn a_prompt_from_hello_to_end() {
    let harness = Harness::new();
    let mut order = order();
    order["mcp"] =
        json!({ "name": "b", "command": "/b", "args": ["mcp"], "env": { "TOKEN": "t" } });
    let run = harness.run(&[], &script(DONE), &order);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let sent = run.messages("> ");
    let methods: Vec<&str> =
        sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "session/new", "session/prompt"]);
    let offered = &sent[0]["params"]["clientCapabilities"];
    assert_eq!(
        *offered,
        json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false })
    );
    let server = json!({ "name": "b", "command": "/b", "args": ["mcp"], "env": [{ "name": "TOKEN", "value": "t" }] });
    assert_eq!(sent[1]["params"], json!({ "cwd": harness.worktree(), "mcpServers": [server] }));
    assert_eq!(sent[2]["params"]["prompt"], json!([{ "type": "text", "text": "do it" }]));
    let read = read(AgentKind::Acp, &run.stdout, code(0));
    assert_eq!((read.outcome(), read.reading.text.as_str()), (Outcome::Succeeded, "done"));
    assert_eq!(read.reading.session.as_deref(), Some("s-1"));
}

#[test]
fn an_old_session_is_opened_as_the_agent_can() {
    for (can, method) in [
        (r#"{"loadSession":true}"#, "session/load"),
        (r#"{"loadSession":true,"sessionCapabilities":{"resume":{}}}"#, "session/resume"),
    ] {
        let harness = Harness::new();
        let mut order = order();
        order["session"] = json!("old");
        let run = harness.run(
            &[],
            &script(DONE)
                .replace("\"agentCapabilities\":{}", &format!("\"agentCapabilities\":{can}")),
            &order,
        );
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let sent = run.messages("> ");
        assert_eq!(
            (&sent[1]["method"], &sent[1]["params"]["sessionId"]),
            (&json!(method), &json!("old"))
        );
        assert_eq!(sent[2]["params"]["sessionId"], "old");
    }
}

#[test]
fn the_model_is_chosen_as_the_agent_offers_it() {
    for (opened, method) in [
        ("", "session/set_model"),
        (r#","configOptions":[{"id":"mode"},{"id":"model"}]"#, "session/set_config_option"),
    ] {
        let harness = Harness::new();
        let mut order = order();
        order["model"] = json!("m-1");
        let prompt =
            "answer 3 '{}'\nhear\nanswer 4 '{\"stopReason\":\"end_turn\"}'\ncat > /dev/null";
        let script = AGENT.replace("CAN", "{}").replace("OPENED", opened).replace("PROMPT", prompt);
        let run = harness.run(&[], &script, &order);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(run.messages("> ")[2]["method"], method);
        assert!(run.messages("> ")[2].to_string().contains("\"m-1\""));
    }
}

#[test]
fn requests_of_the_agent_are_served() {
    let harness = Harness::new();
    let root = harness.worktree();
    fs::write(root.join("in.txt"), "one\ntwo\n").unwrap();
    fs::write(root.parent().unwrap().join("secret"), "s").unwrap();
    let ask = |id: i64, method: &str, params: &str| {
        format!(
            "say '{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}'\nhear\n"
        )
    };
    let root = root.display();
    let prompt = [
        ask(20, "session/request_permission", r#"{"options":[{"kind":"allow_always","optionId":"a"},{"kind":"allow_once","optionId":"o"}]}"#),
        ask(21, "fs/read_text_file", &format!(r#"{{"path":"{root}/in.txt","line":2}}"#)),
        ask(22, "fs/write_text_file", &format!(r#"{{"path":"{root}/new/out.txt","content":"hi"}}"#)),
        ask(23, "fs/read_text_file", &format!(r#"{{"path":"{root}/../secret"}}"#)),
        ask(24, "terminal/create", "{}"),
        "say '{\"jsonrpc\":\"2.0\",\"method\":\"_some/notice\",\"params\":{}}'\n".to_owned(),
        DONE.to_owned(),
    ]
    .concat();
    let run = harness.run(&["--files"], &script(&prompt), &order());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(
        run.answer(20)["result"]["outcome"],
        json!({ "outcome": "selected", "optionId": "o" })
    );
    assert_eq!(run.answer(21)["result"], json!({ "content": "two\n" }));
    assert_eq!(run.answer(22)["result"], json!({}));
    assert_eq!(fs::read_to_string(harness.worktree().join("new/out.txt")).unwrap(), "hi");
    assert!(run.answer(23)["error"]["message"].as_str().unwrap().contains("outside the worktree"));
    assert_eq!(run.answer(24)["error"]["code"], -32601);
    let refused = harness.run(&[], &script(&prompt), &order());
    assert_eq!(
        refused.answer(22)["error"]["code"],
        -32601,
        "files are served only where they are offered"
    );
}

#[test]
fn a_long_prompt_does_not_wait_for_the_agent_to_read() {
    let harness = Harness::new();
    let mut order = order();
    order["prompt"] = json!("x".repeat(3_000_000));
    // It writes more than a pipe holds before it reads the prompt, which is more than a pipe holds
    // as well.
    let flood = "i=0; while [ $i -lt 400 ]; do update \"{\\\"n\\\":\\\"$(printf '%01000d' 0)\\\"}\"; i=$((i+1)); done\n";
    let script = script(DONE).replacen("hear\nupdate", &format!("{flood}hear\nupdate"), 1);
    assert!(script.contains("-lt 400"));
    let run = harness.run(&[], &script, &order);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert_eq!(run.messages("< ").len(), 404);
}

#[test]
fn an_end_that_is_none_is_a_failure() {
    let check = |prompt: &str, message: &str, outcome: Outcome| {
        let harness = Harness::new();
        let run = harness.run(&[], &script(prompt), &order());
        assert_eq!(run.code, Some(1), "{prompt}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{prompt}: {}", run.stderr);
        let read =
            read_all(AgentKind::Acp, AgentUsage::default(), (&run.stdout, &run.stderr), code(1));
        assert_eq!(read.outcome(), outcome, "{prompt}");
    };
    check("answer 3 '{\"stopReason\":\"max_tokens\"}'; cat > /dev/null", "", Outcome::OverBudget);
    check("exit 3", "the agent exited before it answered `session/prompt`", Outcome::Crashed);
    let error =
        "say '{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":429,\"message\":\"slow down\"}}'";
    check(error, "the agent refused `session/prompt`: slow down", Outcome::Quota);
    check("exec 1>&-; cat > /dev/null", "the agent exited before it answered", Outcome::Crashed);
}

#[test]
fn a_broken_start_is_told() {
    let harness = Harness::new();
    let check = |script: &str, message: &str| {
        let run = harness.run(&[], script, &order());
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains(message), "{}", run.stderr);
    };
    check("exit 0", "the agent exited before it answered `initialize`");
    check(
        "read -r l; echo '{\"id\":1,\"result\":{\"protocolVersion\":2}}'",
        "the agent speaks version 2 of the protocol, not 1",
    );
    check(
        &script(DONE).replace("\"sessionId\":\"s-1\"", "\"x\":1"),
        "the agent opened a session without an id",
    );
    let no_order = harness.run(&[], "exit 0", &json!("nonsense"));
    assert!(
        no_order.stderr.contains("failed to read the request from standard input"),
        "{}",
        no_order.stderr
    );
    let mut missing = Command::new(env!("CARGO_BIN_EXE_banksman"));
    missing
        .args(["acp-client", "--", "/nowhere/agent"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = missing.spawn().unwrap();
    child.stdin.take().unwrap().write_all(order().to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("failed to start `/nowhere/agent`: No such file")
    );
}

#[test]
fn a_message_without_end_is_refused() {
    let harness = Harness::new();
    let run = harness.run(&[], "tr '\\0' x < /dev/zero", &order());
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("is longer than 16777216 bytes"), "{}", run.stderr);
}

/// Whether a process is still there; one that has ended and was not waited for is not.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_request_to_end_ends_the_agent_too() {
    for stubborn in ["", "trap '' TERM; "] {
        let harness = Harness::new();
        let prompt = format!("{stubborn}update \"{{\\\"pid\\\":$$}}\"; exec sleep 300");
        let mut child = harness.start(&[], &script(&prompt), &order());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).find_map(|line| {
            let (_, rest) = line.split_once("\"pid\":")?;
            Some(rest.split('}').next().unwrap().to_owned())
        });
        let pid = told.unwrap();
        assert!(is_alive(&pid));
        let client = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(client, rustix::process::Signal::TERM).unwrap();
        let run = Run::of(child.wait_with_output().unwrap());
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains("interrupted by a signal"), "{}", run.stderr);
        assert!(!is_alive(&pid), "{stubborn}");
    }
}

#[test]
fn an_agent_that_stays_after_its_answer_is_ended() {
    let harness = Harness::new();
    let prompt = DONE.replace("cat > /dev/null", "echo $$ > pid; exec sleep 300");
    let run = harness.run(&[], &script(&prompt), &order());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let pid = fs::read_to_string(harness.worktree().join("pid")).unwrap();
    assert!(!is_alive(pid.trim()));
}
