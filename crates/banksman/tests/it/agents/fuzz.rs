//! Streams as no agent writes them: recorded ones with lines lost, doubled, cut and bent, and JSON
//! of any shape under the names that the adapters look for. [`promise`](super::promise) says what
//! must hold of each.

use banksman::exec::agent::AgentKind;
use banksman_core::lifecycle::Outcome;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::bend::{bend, bent, event, exit};
use super::promise::check;
use super::{code, transcript};

const STREAMS: [(AgentKind, &str); 10] = [
    (AgentKind::Claude, "claude-edit"),
    (AgentKind::Claude, "claude-planlimit"),
    (AgentKind::Claude, "claude-auth401-retries1"),
    (AgentKind::Claude, "claude-max-turns"),
    (AgentKind::Claude, "claude-stall-stream-int"),
    (AgentKind::Claude, "claude-197-resume"),
    (AgentKind::Codex, "codex-edit"),
    (AgentKind::Codex, "codex-planlimit"),
    (AgentKind::Codex, "codex-builtin-baseurl"),
    (AgentKind::Codex, "codex-mcp"),
];

/// Values that matter somewhere.
const WORDS: &str = "result assistant system user success api_retry rate_limit_event rejected error turn.completed \
    turn.failed turn.started item.completed item.started agent_message text tool_use tool_result thread.started report \
    usage rate_limit refusal";
/// Names of members that matter somewhere.
const KEYS: &str = "type subtype is_error status result message content usage error errors item text input_tokens \
    total_cost_usd model_usage_since_last_result modelUsage costUSD session_id rate_limit_info resetsAt attempt \
    error_status permission_denials kind changes resets_at tell api_error_status id answer codex_error_info";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_bent_recording_is_never_a_made_up_success(
        stream in select(STREAMS.to_vec()), bends in prop::collection::vec(bend(), 1..6), exit in exit(),
    ) {
        let (kind, name) = stream;
        let text = bent(&transcript(&format!("{name}.jsonl")), &bends);
        for kind in [kind, AgentKind::Command] {
            check(kind, &text, exit)?;
        }
    }

    #[test]
    fn json_of_any_shape_is_survived(
        kind in select(vec![AgentKind::Claude, AgentKind::Codex, AgentKind::Command]),
        events in prop::collection::vec(event(WORDS, KEYS), 0..12), exit in exit(),
    ) {
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        check(kind, &lines.join("\n"), exit)?;
    }
}

#[test]
fn the_recordings_themselves_hold_what_is_claimed() {
    let successes = STREAMS.iter().filter(|(kind, name)| {
        let read = check(*kind, &transcript(&format!("{name}.jsonl")), code(0)).unwrap();
        read.outcome() == Outcome::Succeeded
    });
    assert_eq!(successes.count(), 5);
}
