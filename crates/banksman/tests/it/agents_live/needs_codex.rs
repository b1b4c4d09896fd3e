//! Codex.

use std::collections::BTreeMap;
use std::path::Path;

use banksman::exec::agent::{AgentKind, AgentSetup};
use serde_json::json;

use super::cases::{self, AT_RESET, Agent};
use super::model_server::{Call, Input, ModelServer, Reply};

pub(super) const CODEX: Agent = Agent {
    kind: AgentKind::Codex,
    program: AgentKind::Codex,
    setup,
    write: |path, text| {
        let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
        let patch =
            format!("*** Begin Patch\n*** Add File: {}\n{lines}*** End Patch\n", path.display());
        Reply::Call(Call {
            name: "apply_patch".to_owned(),
            namespace: None,
            input: Input::Plain(patch),
        })
    },
    shell: |command| Reply::call("exec_command", json!({ "cmd": command })),
    tool: |name, input| {
        let namespace = Some("mcp__banksman".to_owned());
        Reply::Call(Call { name: name.to_owned(), namespace, input: Input::Json(input) })
    },
    answer: |answer| Reply::Text(answer.to_string()),
};

/// A provider of its own: the built-in one tries other ways to talk first.
fn setup(program: &Path, server: &ModelServer, _: &Path) -> AgentSetup {
    let provider = format!(
        "model_providers.scripted={{name=\"scripted\",base_url=\"{}\",wire_api=\"responses\",env_key=\"SCRIPTED_KEY\",\
         request_max_retries=1,stream_max_retries=1}}",
        server.url("/v1")
    );
    let command =
        [&program.display().to_string(), "-c", "model_provider=\"scripted\"", "-c", &provider];
    AgentSetup {
        kind: AgentKind::Codex,
        command: command.map(str::to_owned).to_vec(),
        model: Some("gpt-5.5".to_owned()),
        env: BTreeMap::from([("SCRIPTED_KEY".to_owned(), "sk-scripted".to_owned())]),
        pass: Vec::new(),
    }
}

#[test]
fn codex_edits_a_file() {
    cases::edit(&CODEX);
}

#[test]
fn codex_remembers_the_session() {
    cases::resume(&CODEX);
}

#[test]
fn codex_does_not_know_a_session() {
    cases::unknown_session(&CODEX, "01a1ddf7-0000-7000-8000-000000000000");
}

#[test]
fn codex_is_rate_limited() {
    cases::rate_limited(&CODEX);
}

#[test]
fn codex_gets_over_a_rate_limit() {
    cases::rate_limited_once(&CODEX);
}

#[test]
fn codex_has_used_up_its_plan() {
    cases::plan_limit(&CODEX, Some(AT_RESET), 1);
}

#[test]
fn codex_has_a_refused_key() {
    cases::refused(&CODEX);
}

#[test]
fn codex_finds_the_server_overloaded() {
    cases::unavailable(&CODEX);
}

#[test]
fn codex_is_killed_before_the_model_answers() {
    cases::stall(&CODEX, Reply::StallInHeaders);
}

#[test]
fn codex_is_killed_in_the_middle_of_an_answer() {
    cases::stall(&CODEX, Reply::StallInStream);
}

#[test]
fn codex_is_killed_in_a_tool() {
    cases::killed_in_a_tool(&CODEX, 0);
}

#[test]
fn codex_loses_the_connection() {
    cases::cut_off(&CODEX);
}

#[test]
fn codex_answers_in_a_shape() {
    cases::schema(&CODEX);
}

#[test]
fn codex_uses_our_tools() {
    cases::tools(&CODEX);
}
