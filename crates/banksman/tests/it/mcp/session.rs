//! One server and the pipes to it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use banksman_core::receipt::AgentReport;
use serde_json::{Value, json};

/// A running server; it is ended by closing its input.
pub(super) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

pub(super) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
    command.arg("mcp").env_clear().env("BANKSMAN_RUN_FOLDER", folder).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Session {
    pub(super) fn start(folder: &Path) -> Self {
        let mut child = command(folder).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, next_id: 1 }
    }

    pub(super) fn send(&mut self, line: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).and_then(|()| input.write_all(b"\n")).unwrap();
    }

    pub(super) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: `{line}`"))
    }

    pub(super) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(request.to_string());
        let answer = self.receive();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    /// The text of a tool's result, and whether it is an error.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", &params);
        let result = &answer["result"];
        assert_eq!(result["content"][0]["type"], "text", "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (text, result["isError"].as_bool().unwrap())
    }

    /// Closes its input; it must then end by itself, well, and having said nothing more.
    pub(super) fn close(mut self) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_line(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

pub(super) fn reports(folder: &Path) -> Vec<AgentReport> {
    let text = fs::read_to_string(folder.join("reports.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
