//! One server and the pipes to it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use banksman::exec::job::{AgentWork, JobWork};
use banksman::exec::keeper::JobFolder;
use banksman_core::receipt::AgentReport;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::keeper::world::plan;

pub(crate) const TOKEN: &str = "the-token-of-r1.1";

/// Makes a folder that of a run with the token.
pub(crate) fn write_job_spec(folder: &Path) {
    let mut spec = plan("r1.1", "");
    spec.env.insert("BANKSMAN_TOKEN".to_owned(), TOKEN.to_owned());
    JobFolder::new(folder.to_owned()).write_spec(&spec).unwrap();
}

/// The folder of r1.1.
pub(super) struct RunDir(TempDir);

impl RunDir {
    pub(super) fn new() -> Self {
        let run = Self(TempDir::new().unwrap());
        fs::create_dir(run.path()).unwrap();
        write_job_spec(&run.path());
        run
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("r1.1")
    }

    /// Changes what the run's agent is to do.
    pub(super) fn change(&self, change: impl FnOnce(&mut AgentWork)) {
        let folder = JobFolder::new(self.path());
        let mut spec = folder.spec().unwrap().unwrap();
        let JobWork::Agent(work) = &mut spec.work else { panic!("a run has an agent") };
        change(work);
        folder.write_spec(&spec).unwrap();
    }
}

/// A running server; it is ended by closing its input.
pub(super) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

pub(super) fn command(folder: impl AsRef<Path>) -> Command {
    let folder = folder.as_ref();
    let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
    command.arg("mcp").env_clear().env("BANKSMAN_RUN_FOLDER", folder).current_dir(folder);
    command.env("BANKSMAN_TOKEN", TOKEN);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Session {
    pub(super) fn start(folder: impl AsRef<Path>) -> Self {
        Self::of(&mut command(folder))
    }

    pub(super) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
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

    /// The names of all tools.
    pub(super) fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The text of a tool's result, and whether it is an error.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> (String, bool) {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", &params);
        let result = &answer["result"];
        assert_eq!(result["content"][0]["type"], "text", "{answer}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        let is_error = result["isError"].as_bool().unwrap();
        // A failure has the document of every surface.
        let document = &result["structuredContent"];
        assert_eq!(document["success"], if is_error { json!(false) } else { Value::Null });
        assert_eq!(document["code"].is_string() && document["hint"].is_string(), is_error);
        assert_eq!(
            document["errors"][0]["message"],
            if is_error { json!(text) } else { Value::Null }
        );
        (text, is_error)
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

pub(super) fn reports(folder: impl AsRef<Path>) -> Vec<AgentReport> {
    let text = fs::read_to_string(folder.as_ref().join("reports.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
