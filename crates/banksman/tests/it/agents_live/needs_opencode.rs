//! opencode. A run takes ten seconds and more, so it is installed only where it is asked for, and
//! few cases are run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use banksman::exec::agent::{AgentKind, AgentSetup};
use serde_json::{Value, json};

use super::cases::{self, Agent};
use super::model_server::{ModelServer, Reply};

const OPENCODE: Agent = Agent {
    kind: AgentKind::Opencode,
    program: AgentKind::Opencode,
    setup,
    write: |path, text| Reply::call("write", json!({ "filePath": path, "content": text })),
    shell: |command| Reply::call("bash", json!({ "command": command, "description": "run it" })),
    tool: |name, input| Reply::call(&format!("banksman_{name}"), input),
    answer: |answer| Reply::Text(answer.to_string()),
};

fn setup(program: &Path, server: &ModelServer, _: &Path) -> AgentSetup {
    let env = [
        ("OPENCODE_CONFIG_CONTENT", config(server).to_string()),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
    ];
    AgentSetup {
        kind: AgentKind::Opencode,
        command: vec![program.display().to_string()],
        model: None,
        env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value))),
        pass: Vec::new(),
    }
}

/// Set up in the file of its user: the variable that holds settings is the adapter's own in a run.
pub(super) const BY_FILE: Agent = Agent {
    setup: |program, server, home| {
        let mut setup = setup(program, server, home);
        setup.env.remove("OPENCODE_CONFIG_CONTENT");
        let folder = home.join(".config/opencode");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("opencode.json"), config(server).to_string()).unwrap();
        setup
    },
    ..OPENCODE
};

/// Under the Agent Client Protocol.
pub(super) const OVER_ACP: Agent = Agent {
    kind: AgentKind::Acp,
    setup: |program, server, home| {
        let mut setup = (BY_FILE.setup)(program, server, home);
        setup.kind = AgentKind::Acp;
        setup.command.push("acp".to_owned());
        setup
    },
    ..OPENCODE
};

fn config(server: &ModelServer) -> Value {
    let model = json!({ "name": "scripted", "tool_call": true, "limit": { "context": 100_000, "output": 8_000 } });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "scripted",
        "options": { "baseURL": server.url("/v1"), "apiKey": "scripted" },
        "models": { "scripted": model },
    });
    json!({
        "model": "scripted/scripted", "small_model": "scripted/scripted",
        "provider": { "scripted": provider },
    })
}

#[test]
fn opencode_edits_a_file() {
    cases::edit(&OPENCODE);
}

#[test]
fn opencode_remembers_the_session() {
    cases::resume(&OPENCODE);
}

#[test]
fn opencode_is_rate_limited() {
    cases::rate_limited(&OPENCODE);
}

#[test]
fn opencode_has_used_up_its_plan() {
    cases::plan_limit(&OPENCODE, Some(cases::AT_RESET), 6);
}

#[test]
fn opencode_is_killed_before_the_model_answers() {
    cases::stall(&OPENCODE, Reply::StallInHeaders);
}

#[test]
fn opencode_is_killed_in_the_middle_of_an_answer() {
    cases::stall(&OPENCODE, Reply::StallInStream);
}

#[test]
fn opencode_has_a_refused_key() {
    cases::refused(&OPENCODE);
}

#[test]
fn opencode_answers_in_a_shape() {
    cases::schema(&OPENCODE);
}

#[test]
fn opencode_is_killed_in_a_tool() {
    cases::killed_in_a_tool(&OPENCODE, 1);
}

#[test]
fn opencode_uses_our_tools() {
    cases::tools(&OPENCODE);
}
