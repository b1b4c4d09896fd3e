//! Every recorded stream of opencode, Gemini CLI and agents of the Agent Client Protocol, and the
//! same streams bent.

use std::fs;

use banksman::exec::agent::{AgentEvent, AgentKind, AgentUsage};
use banksman_core::lifecycle::Outcome;
use banksman_core::receipt::ProcessExit;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::bend::{bend, bent, event, exit};
use super::promise::check;
use super::{NOW, Read, code, read_all, signal, transcript, transcripts};

/// A line for each stream: exit, outcome, terminal event, session, tokens, cost in millionths,
/// reset, last words.
const TABLE: &str = include_str!("recorded.txt");

fn kind_of(name: &str) -> AgentKind {
    let agent = name.split('-').next().unwrap_or_default();
    AgentKind::ALL.into_iter().find(|kind| kind.as_str() == agent).unwrap()
}

fn exit_of(number: i32) -> ProcessExit {
    if number < 0 { signal(-number) } else { code(number) }
}

fn recorded(name: &str, exit: ProcessExit) -> Read {
    let stderr =
        fs::read_to_string(transcripts().join(format!("{name}.stderr"))).unwrap_or_default();
    let stdout = transcript(&format!("{name}.jsonl"));
    read_all(kind_of(name), AgentUsage::default(), (&stdout, &stderr), exit)
}

fn names() -> Vec<String> {
    let ours = ["opencode-", "gemini-", "acp-"];
    let mut names: Vec<String> = fs::read_dir(transcripts())
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .into_string()
                .unwrap()
                .strip_suffix(".jsonl")
                .map(str::to_owned)
        })
        .filter(|name| ours.iter().any(|agent| name.starts_with(agent)))
        .collect();
    names.sort();
    names
}

fn row(name: &str, exit: i32) -> String {
    let read = recorded(name, exit_of(exit));
    let reading = &read.reading;
    let dash = || "-".to_owned();
    let session: String = reading.session.as_deref().unwrap_or("-").chars().take(13).collect();
    let terminal =
        reading.terminal.map_or_else(dash, |terminal| format!("{terminal:?}").to_lowercase());
    let cost = reading.cost_micros.map_or_else(dash, |micros| micros.to_string());
    let resets = reading
        .resets_at
        .map_or_else(dash, |at| if at > NOW { at.to_string() } else { "past".to_owned() });
    let words: String = reading.text.chars().take(24).collect();
    let tokens = format!("{}/{}", reading.input_tokens, reading.output_tokens);
    let outcome = read.outcome().as_str();
    format!("{name:27} {exit:4} {outcome:11} {terminal:7} {session:13} {tokens:7} {cost:5} {resets:24} {words}").trim_end().to_owned()
}

#[test]
fn every_stream_is_read_as_expected() {
    let exits: Vec<(&str, i32)> = TABLE
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.next().unwrap().parse().unwrap())
        })
        .collect();
    let listed: Vec<&str> = exits.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, names(), "every recorded stream has a line");
    let read: Vec<String> = exits.iter().map(|(name, exit)| row(name, *exit)).collect();
    let expected: Vec<&str> = TABLE.lines().collect();
    assert_eq!(read, expected, "\n{}\n", read.join("\n"));
}

/// Values that matter somewhere.
const WORDS: &str = "error result success init message assistant text tool_use tool_result \
    step_start step_finish stop tool-calls session/update session/prompt session/new session/load \
    end_turn agent_message_chunk session_info_update usage_update systemError tool_call refusal";
/// Names of members that matter somewhere.
const KEYS: &str = "type part error data statusCode responseHeaders retry-after responseBody \
    reason tokens input output cost state status stats input_tokens session_id sessionID content \
    role delta id method params update sessionUpdate result stopReason usage _meta codex \
    threadStatus code details amount";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_bent_stream_is_never_a_made_up_success(
        name in select(names()), bends in prop::collection::vec(bend(), 1..6), exit in exit(),
    ) {
        let text = bent(&transcript(&format!("{name}.jsonl")), &bends);
        for kind in [AgentKind::Opencode, AgentKind::Gemini, AgentKind::Acp] {
            check(kind, &text, exit)?;
        }
    }

    #[test]
    fn json_of_any_shape_is_survived(
        events in prop::collection::vec((event(WORDS, KEYS), select(vec!["", "> ", "< "])), 0..12), exit in exit(),
    ) {
        let lines: Vec<String> = events.iter().map(|(event, mark)| format!("{mark}{event}")).collect();
        for kind in [AgentKind::Opencode, AgentKind::Gemini, AgentKind::Acp] {
            check(kind, &lines.join("\n"), exit)?;
        }
    }
}

#[test]
fn line_ends_noise_and_unknown_events_change_nothing() {
    for name in ["opencode-edit", "gemini-edit", "acp-codex"] {
        let kind = kind_of(name);
        let clean = recorded(name, code(0)).reading;
        assert_eq!(clean.text.split(':').next(), Some("done"));
        let stdout = transcript(&format!("{name}.jsonl"));
        let huge = json!({ "type": "unknown", "x": "y".repeat(1_000_000) });
        let noisy = format!(
            "\u{feff}warning: of something\n[]\n{huge}\n< {huge}\n{{\"type\":7}}\n{}\n{{\"type\":\"half",
            stdout.replace('\n', "\r\n")
        );
        let read = read_all(kind, AgentUsage::default(), (&noisy, ""), code(0));
        assert_eq!(read.reading, clean, "{name}");
    }
}

#[test]
fn without_its_last_line_no_stream_is_a_success() {
    for name in names() {
        let stdout = transcript(&format!("{name}.jsonl"));
        let lines: Vec<&str> = stdout.lines().collect();
        let Some((last, before)) = lines.split_last() else { continue };
        let half = &last[..last.floor_char_boundary(last.len() / 2)];
        for end in ["", half] {
            let cut = [before, &[end]].concat().join("\n");
            let read = read_all(kind_of(&name), AgentUsage::default(), (&cut, ""), code(0));
            assert_ne!(read.outcome(), Outcome::Succeeded, "{name}");
        }
    }
}

#[test]
fn only_an_agent_that_goes_on_trying_is_hopeless() {
    for name in names() {
        let read = recorded(&name, code(0));
        let is_hopeless = read.seen.iter().any(|seen| matches!(seen, AgentEvent::Hopeless { .. }));
        let goes_on = ["gemini-429-minute", "gemini-api-503-retries"].contains(&name.as_str());
        assert_eq!(is_hopeless, goes_on, "{name}");
    }
}
