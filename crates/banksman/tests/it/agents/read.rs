//! `banksman agents read` on every transcript, and on streams as they are not supposed to be.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use banksman_core::limits::STREAM_LINE_BYTES;
use banksman_core::time::Instant;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{transcript, transcripts};

/// A line for each transcript: how the agent exited, and what `agents read` has to say.
const EXPECTED: &str = include_str!("expected.txt");

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
    command.args(["agents", "read"]).args(args);
    command.current_dir(transcripts()).env_clear().env("TZ", "UTC").env("HOME", transcripts());
    command.stdin(Stdio::null());
    command
}

fn document(args: &[&str]) -> Value {
    let output = program(&[args, &["--json"]].concat()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A text as `document` gives it for a stream on standard input.
fn fed(agent: &str, stream: &[u8]) -> Value {
    let mut command = program(&[agent, "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stream).unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

fn row(name: &str, exit: &str) -> Vec<String> {
    let (agent, _) = name.split_once('-').unwrap();
    let (stdout, stderr) = (format!("{name}.jsonl"), format!("{name}.stderr"));
    // Times of the day in them count from when they were recorded.
    let mut args = vec![agent, &stdout, "--exit", exit, "--at", "2026-11-15T12:00:00Z"];
    if transcripts().join(&stderr).exists() {
        args.extend(["--stderr", &stderr]);
    }
    let read = document(&args);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let usage = &read["usage"];
    let resets = text(&read["resetsAt"]);
    let is_dated = resets == "-" || resets.starts_with("2030");
    assert!(is_dated || resets.parse::<Instant>().is_ok(), "{name}: {resets}");
    vec![
        name.to_owned(),
        exit.to_owned(),
        text(&read["outcome"]),
        if read["terminal"].as_bool().unwrap() { "yes" } else { "no" }.to_owned(),
        text(&read["session"]).chars().take(13).collect(),
        format!("{}/{}", usage["inputTokens"], usage["outputTokens"]),
        read["cost"].as_f64().map_or_else(|| "-".to_owned(), |cost| cost.to_string()),
        if is_dated { resets } else { "soon".to_owned() },
    ]
}

#[test]
fn every_transcript_is_read_as_expected() {
    let mut wrong = Vec::new();
    for line in EXPECTED.lines().skip(1) {
        let expected: Vec<&str> = line.split_whitespace().collect();
        let read = row(expected[0], expected[1]);
        if read != expected {
            wrong.push(format!("{expected:?}\n{read:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn no_transcript_of_these_agents_is_left_out() {
    let listed: Vec<&str> =
        EXPECTED.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let is_ours = |name: &str| name.starts_with("claude-") || name.starts_with("codex-");
    let names = fs::read_dir(transcripts()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".jsonl").filter(|name| is_ours(name)).map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, listed);
    assert!(listed.len() > 80, "{}", listed.len());
}

#[test]
fn the_whole_answer() {
    let read = document(&["claude", "claude-planlimit.jsonl", "--exit", "1"]);
    assert_eq!(
        read,
        json!({
            "outcome": "quota",
            "terminal": true,
            "session": "75315851-f776-4941-8532-7bab537f2168",
            "text": "You've hit your 5-hour limit · resets Jan 1, 2030, 12am (UTC)",
            "usage": { "inputTokens": 0, "outputTokens": 0 },
            "cost": 0.0,
            "resetsAt": "2030-01-01T00:00:00Z",
            "detail": "You've hit your 5-hour limit · resets Jan 1, 2030, 12am (UTC)",
        })
    );
    let good = document(&["codex", "codex-edit.jsonl"]);
    assert_eq!((&good["detail"], &good["cost"]), (&Value::Null, &Value::Null));
}

#[test]
fn people_get_lines() {
    let output = program(&["claude", "claude-denied.jsonl"]).output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r#"
    OUTCOME   policy
    terminal  yes
    session   a8c77bfa-16b6-4639-905c-b438745d165a
    tokens    200 in, 40 out
    cost      $0.0016
    detail    denied: Write

    was denied
    "#);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let check = |args: &[&str], code: i32, message: &str| {
        let output = program(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(message), "{errors}");
    };
    check(&["claude", "nowhere.jsonl"], 1, "failed to open `nowhere.jsonl`");
    check(&["claude", "claude-edit.jsonl", "--stderr", "nowhere"], 1, "failed to open `nowhere`");
    check(&["copilot", "claude-edit.jsonl"], 2, "[possible values: claude, codex");
    check(&["claude", "claude-edit.jsonl", "--exit", "x"], 2, "--exit");
}

#[test]
fn a_stream_may_be_unclean() {
    let clean = fed("claude", transcript("claude-edit.jsonl").as_bytes());
    let windows = transcript("claude-edit.jsonl").replace('\n', "\r\n");
    assert_eq!(fed("claude", windows.as_bytes()), clean);

    let mut noisy = b"\xef\xbb\xbfnpm warn something\n\n[]\n\"text\"\n\xff\xfe{\n".to_vec();
    let huge = format!("{{\"type\":\"user\",\"x\":\"{}\"}}\n", "x".repeat(STREAM_LINE_BYTES));
    noisy.extend_from_slice(huge.as_bytes());
    noisy.extend_from_slice(b"{\"type\":\"of_next_year\",\"subtype\":7}\n{\"type\":[]}\n{}\n");
    noisy.extend_from_slice(transcript("claude-edit.jsonl").trim_end().as_bytes());
    assert_eq!(fed("claude", &noisy), clean);
}

#[test]
fn a_line_that_is_longer_than_a_run_reads_is_not_read() {
    let result = r#"{"type":"turn.completed","usage":{},"x":""#;
    let padded = |more: usize| {
        let fill = STREAM_LINE_BYTES - result.len() - 2 + more;
        format!("{result}{}\"}}\n", "x".repeat(fill))
    };
    assert_eq!(fed("codex", padded(0).as_bytes())["outcome"], "succeeded");
    assert_eq!(fed("codex", padded(1).as_bytes())["outcome"], "crashed");
}

#[test]
fn half_a_result_is_none() {
    let whole = transcript("claude-edit.jsonl");
    let cut = &whole[..whole.trim_end().len() - 1];
    let read = fed("claude", cut.as_bytes());
    assert_eq!((&read["outcome"], &read["terminal"]), (&json!("crashed"), &json!(false)));
}

#[test]
fn nothing_is_needed_but_the_files() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.jsonl");
    fs::write(&path, transcript("codex-edit.jsonl")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_banksman"));
    command.args(["agents", "read", "codex"]).arg(&path).current_dir(folder.path()).env_clear();
    assert!(command.output().unwrap().status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "it leaves nothing behind");
}
