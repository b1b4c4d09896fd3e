//! Claude Code.

use std::collections::BTreeMap;
use std::path::Path;

use banksman::exec::agent::{AgentKind, AgentSetup};
use serde_json::json;

use super::cases::{self, AT_RESET, Agent};
use super::model_server::{ModelServer, Reply};

pub(super) const CLAUDE: Agent = Agent {
    kind: AgentKind::Claude,
    program: AgentKind::Claude,
    setup,
    write: |path, text| Reply::call("Write", json!({ "file_path": path, "content": text })),
    shell: |command| Reply::call("Bash", json!({ "command": command, "description": "run it" })),
    tool: |name, input| Reply::call(&format!("mcp__banksman__{name}"), input),
    answer: |answer| Reply::call("StructuredOutput", answer),
};

fn setup(program: &Path, server: &ModelServer, _: &Path) -> AgentSetup {
    let env = [
        ("ANTHROPIC_BASE_URL", server.url("")),
        ("ANTHROPIC_API_KEY", "sk-ant-scripted".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
    ];
    AgentSetup {
        kind: AgentKind::Claude,
        command: vec![program.display().to_string()],
        model: None,
        env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value))),
        pass: Vec::new(),
    }
}

/// A plan is known only to those who have one: with a token of a subscription in place of a key.
pub(super) const SUBSCRIBED: Agent = Agent {
    setup: |program, server, home| {
        let mut setup = setup(program, server, home);
        setup.env.remove("ANTHROPIC_API_KEY");
        setup.env.insert("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), "sk-ant-oat01-scripted".to_owned());
        setup
    },
    ..CLAUDE
};

#[test]
fn claude_edits_a_file() {
    cases::edit(&CLAUDE);
}

/// As root it refuses to work without questions, unless it is told that it is in a sandbox.
mod needs_root {
    #[test]
    fn claude_edits_a_file() {
        super::cases::edit(&super::CLAUDE);
    }
}

#[test]
fn claude_remembers_the_session() {
    cases::resume(&CLAUDE);
}

#[test]
fn claude_does_not_know_a_session() {
    cases::unknown_session(&CLAUDE, "99999999-2222-4333-8444-555555555555");
}

#[test]
fn claude_is_rate_limited() {
    cases::rate_limited(&CLAUDE);
}

#[test]
fn claude_gets_over_a_rate_limit() {
    cases::rate_limited_once(&CLAUDE);
}

#[test]
fn claude_has_used_up_its_plan() {
    cases::plan_limit(&SUBSCRIBED, Some(AT_RESET), 1);
}

#[test]
fn claude_with_a_refused_key_is_ended_early() {
    cases::refused_and_ended_early(&CLAUDE);
}

#[test]
fn claude_finds_the_server_overloaded() {
    cases::unavailable(&CLAUDE);
}

#[test]
fn claude_is_killed_before_the_model_answers() {
    cases::stall(&CLAUDE, Reply::StallInHeaders);
}

#[test]
fn claude_is_killed_in_the_middle_of_an_answer() {
    cases::stall(&CLAUDE, Reply::StallInStream);
}

#[test]
fn claude_is_killed_in_a_tool() {
    cases::killed_in_a_tool(&CLAUDE, 2);
}

#[test]
fn claude_loses_the_connection() {
    cases::cut_off(&CLAUDE);
}

#[test]
fn claude_answers_in_a_shape() {
    cases::schema(&CLAUDE);
}

#[test]
fn claude_uses_our_tools() {
    cases::tools(&CLAUDE);
}
