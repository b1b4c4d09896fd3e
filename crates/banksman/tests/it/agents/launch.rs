//! How agents are started: the exact command lines, and that no secret is in them.

use std::collections::BTreeMap;

use banksman::exec::agent::{self, AgentKind, AgentRequest, AgentSetup, Launch, McpServer};
use serde_json::{Value, json};

const SECRET: &str = "token-of-the-run";

fn setup(kind: AgentKind, command: &[&str]) -> AgentSetup {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    AgentSetup { kind, command, model: None, env: BTreeMap::new(), pass: Vec::new() }
}

fn ask(prompt: &str) -> AgentRequest {
    AgentRequest {
        prompt: prompt.to_owned(),
        session: None,
        schema: None,
        lenient: false,
        mcp: None,
        cost_micros: None,
        guard: None,
    }
}

/// Everything that can be asked for at once.
fn full(kind: AgentKind, command: &[&str]) -> Launch {
    let mut setup = setup(kind, command);
    setup.model = Some("a-model".to_owned());
    setup.env = BTreeMap::from([("API_KEY".to_owned(), SECRET.to_owned())]);
    let ask = AgentRequest {
        session: Some("s-1".to_owned()),
        schema: Some(
            json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] }),
        ),
        mcp: Some(McpServer {
            name: "banksman".to_owned(),
            command: "/bin/bank\"sman".to_owned(),
            args: vec!["mcp".to_owned()],
            env: BTreeMap::from([("BANKSMAN_TOKEN".to_owned(), SECRET.to_owned())]),
        }),
        cost_micros: Some(1_250_000),
        ..ask("do it")
    };
    agent::launch(&setup, &ask)
}

/// A line for the program and each argument, variable and file.
fn shown(launch: &Launch) -> String {
    let mut lines = vec![launch.program.clone()];
    lines.extend(launch.args.iter().map(|arg| format!("  {arg}")));
    lines.extend(launch.env.iter().map(|(name, value)| format!("{name}={value}")));
    lines.extend(launch.files.iter().map(|(name, content)| format!("{name}: {content}")));
    lines.join("\n")
}

#[test]
fn claude() {
    insta::assert_snapshot!(shown(&agent::launch(&setup(AgentKind::Claude, &[]), &ask("go"))), @r#"
    claude
      -p
      --output-format
      stream-json
      --verbose
      --dangerously-skip-permissions
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    CLAUDE_CODE_MAX_RETRIES=3
    IS_SANDBOX=1
    "#);
    insta::assert_snapshot!(shown(&full(AgentKind::Claude, &["npx", "claude"])), @r#"
    npx
      claude
      -p
      --output-format
      stream-json
      --verbose
      --dangerously-skip-permissions
      --resume
      s-1
      --model
      a-model
      --json-schema
      {"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"}
      --max-budget-usd
      1.250000
      --mcp-config
      {folder}/mcp.json
      --strict-mcp-config
    API_KEY=token-of-the-run
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    CLAUDE_CODE_MAX_RETRIES=3
    IS_SANDBOX=1
    mcp.json: {"mcpServers":{"banksman":{"args":["mcp"],"command":"/bin/bank\"sman","env":{"BANKSMAN_TOKEN":"token-of-the-run"}}}}
    "#);
}

#[test]
fn codex() {
    insta::assert_snapshot!(shown(&agent::launch(&setup(AgentKind::Codex, &[]), &ask("go"))), @r#"
    codex
      exec
      --json
      --skip-git-repo-check
      --dangerously-bypass-approvals-and-sandbox
      -c
      analytics.enabled=false
      --disable
      plugins
      --disable
      apps
      -
    "#);
    insta::assert_snapshot!(shown(&full(AgentKind::Codex, &["codex", "-c", "model_provider=\"x\""])), @r#"
    codex
      -c
      model_provider="x"
      exec
      --json
      --skip-git-repo-check
      --dangerously-bypass-approvals-and-sandbox
      -c
      analytics.enabled=false
      --disable
      plugins
      --disable
      apps
      -m
      a-model
      -c
      mcp_servers.banksman={ command = '/bin/bank"sman', args = ["mcp"], env_vars = ["BANKSMAN_TOKEN"] }
      --output-schema
      {folder}/schema.json
      resume
      s-1
      -
    API_KEY=token-of-the-run
    BANKSMAN_TOKEN=token-of-the-run
    schema.json: {"additionalProperties":false,"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"}
    "#);
}

#[test]
fn command() {
    let words = ["tool", "--resume={session}", "{model}", "{prompt}"];
    insta::assert_snapshot!(shown(&full(AgentKind::Command, &words)), @r#"
    tool
      --resume=s-1
      a-model
      do it
    API_KEY=token-of-the-run
    BANKSMAN_MCP={folder}/mcp.json
    BANKSMAN_MODEL=a-model
    BANKSMAN_SCHEMA={folder}/schema.json
    BANKSMAN_SESSION=s-1
    schema.json: {"properties":{"ok":{"type":"boolean"}},"required":["ok"],"type":"object"}
    mcp.json: {"mcpServers":{"banksman":{"args":["mcp"],"command":"/bin/bank\"sman","env":{"BANKSMAN_TOKEN":"token-of-the-run"}}}}
    "#);
    let plain = agent::launch(&setup(AgentKind::Command, &words), &ask("{session} of {model}"));
    assert_eq!(plain.args, ["--resume=", "", "{session} of {model}"]);
    assert!(plain.env.is_empty() && plain.files.is_empty());
}

#[test]
fn the_prompt_comes_through_standard_input_whatever_it_is() {
    for prompt in ["go", "- a list", "--help", "", &"x".repeat(1_000_000), "see {folder}"] {
        for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Command] {
            let launch = agent::launch(&setup(kind, &["agent"]), &ask(prompt));
            assert_eq!(launch.stdin.as_deref(), Some(prompt));
            assert!(!launch.args.iter().any(|arg| !prompt.is_empty() && arg == prompt), "{kind:?}");
        }
    }
}

#[test]
fn no_secret_is_in_the_arguments() {
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Command] {
        let launch = full(kind, &["agent", "{session}"]);
        assert!(!launch.args.iter().any(|arg| arg.contains(SECRET)), "{kind:?}");
        assert_eq!(launch.env.get("API_KEY").map(String::as_str), Some(SECRET), "{kind:?}");
    }
}

#[test]
fn what_the_user_sets_wins() {
    let mut setup = setup(AgentKind::Claude, &["claude"]);
    setup.env = BTreeMap::from([("CLAUDE_CODE_MAX_RETRIES".to_owned(), "9".to_owned())]);
    let launch = agent::launch(&setup, &ask("go"));
    assert_eq!(launch.env["CLAUDE_CODE_MAX_RETRIES"], "9");
}

#[test]
fn codex_gets_a_schema_that_its_provider_takes() {
    let schema = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1 },
            "items": {
                "type": "array",
                "items": { "type": "object", "properties": { "kind": { "enum": ["a", "b"] } } },
            },
        },
    });
    let ask = AgentRequest { schema: Some(schema), ..ask("go") };
    let launch = agent::launch(&setup(AgentKind::Codex, &["codex"]), &ask);
    let (name, content) = &launch.files[0];
    assert_eq!(name, "schema.json");
    let kind = json!({ "anyOf": [{ "enum": ["a", "b"] }, { "type": "null" }] });
    let item = json!({ "type": "object", "properties": { "kind": kind }, "required": ["kind"],
        "additionalProperties": false });
    let items = json!({ "anyOf": [{ "type": "array", "items": item }, { "type": "null" }] });
    assert_eq!(
        serde_json::from_str::<Value>(content).unwrap(),
        json!({ "type": "object", "properties": { "name": { "type": "string" }, "items": items },
            "required": ["items", "name"], "additionalProperties": false })
    );
}
