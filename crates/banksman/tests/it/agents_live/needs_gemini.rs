//! Gemini CLI. It takes several seconds to start, so fewer cases are run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use banksman::exec::agent::{AgentKind, AgentSetup};
use serde_json::{Value, json};

use super::cases::{self, Agent};
use super::model_server::{ModelServer, Reply};

pub(super) const GEMINI: Agent = Agent {
    kind: AgentKind::Gemini,
    program: AgentKind::Gemini,
    setup,
    write: |path, text| Reply::call("write_file", json!({ "file_path": path, "content": text })),
    shell: |command| Reply::call("run_shell_command", json!({ "command": command })),
    tool: |name, input| Reply::call(&format!("mcp_banksman_{name}"), input),
    answer: |answer| Reply::Text(answer.to_string()),
};

fn setup(program: &Path, server: &ModelServer, home: &Path) -> AgentSetup {
    // Two tries are enough to see that it tries again; with its own ten it would wait for minutes.
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "general": { "maxAttempts": 2 },
    });
    write_settings(home, &settings);
    let env =
        [("GEMINI_API_KEY", "scripted".to_owned()), ("GOOGLE_GEMINI_BASE_URL", server.url(""))];
    AgentSetup {
        kind: AgentKind::Gemini,
        command: vec![program.display().to_string()],
        model: Some("gemini-2.5-pro".to_owned()),
        env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value))),
        pass: Vec::new(),
    }
}

fn write_settings(home: &Path, settings: &Value) {
    fs::create_dir_all(home.join(".gemini")).unwrap();
    fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
}

/// A server of tools in the person's own settings. It believes settings from elsewhere only when
/// they and all folders above them belong to root, so a run cannot bring its own; the variable
/// tells the server which run it works for.
pub(super) const WITH_TOOLS: Agent = Agent {
    setup: |program, server, home| {
        let setup = setup(program, server, home);
        let tools = json!({
            "command": env!("CARGO_BIN_EXE_banksman"), "args": ["mcp"], "trust": true,
            "env": {
                "BANKSMAN_RUN_FOLDER": "$BANKSMAN_RUN_FOLDER", "BANKSMAN_TOKEN": "$BANKSMAN_TOKEN",
            },
        });
        let settings = json!({
            "security": { "auth": { "selectedType": "gemini-api-key" } },
            "mcpServers": { "banksman": tools },
        });
        write_settings(home, &settings);
        setup
    },
    ..GEMINI
};

/// Under the Agent Client Protocol our tools are handed over with the session, whoever the user is.
pub(super) const OVER_ACP: Agent = Agent {
    kind: AgentKind::Acp,
    setup: |program, server, home| {
        let mut setup = setup(program, server, home);
        setup.kind = AgentKind::Acp;
        setup.command.extend(["--acp", "--skip-trust"].map(str::to_owned));
        setup
    },
    ..GEMINI
};

#[test]
fn gemini_edits_a_file() {
    cases::edit(&GEMINI);
}

#[test]
fn gemini_remembers_the_session() {
    cases::resume(&GEMINI);
}

#[test]
fn gemini_is_rate_limited() {
    cases::rate_limited(&GEMINI);
}

#[test]
fn gemini_answers_in_a_shape() {
    cases::schema(&GEMINI);
}

#[test]
fn gemini_has_used_up_its_plan() {
    cases::plan_limit(&GEMINI, None, 1);
}

#[test]
fn gemini_has_a_refused_key() {
    cases::refused(&GEMINI);
}

#[test]
fn gemini_is_killed_before_the_model_answers() {
    cases::stall(&GEMINI, Reply::StallInHeaders);
}

#[test]
fn gemini_is_killed_in_the_middle_of_an_answer() {
    cases::stall(&GEMINI, Reply::StallInStream);
}

#[test]
fn gemini_finds_the_server_overloaded() {
    cases::unavailable(&GEMINI);
}

#[test]
fn gemini_loses_the_connection() {
    cases::cut_off(&GEMINI);
}

#[test]
fn gemini_is_killed_in_a_tool() {
    cases::killed_in_a_tool(&GEMINI, 3);
}

#[test]
fn gemini_uses_our_tools() {
    cases::tools(&WITH_TOOLS);
}
