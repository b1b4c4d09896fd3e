//! Streams as no agent writes them: recorded ones with lines lost, doubled, cut and bent, and JSON of any shape under
//! the names that the adapters look for. Nothing panics, nothing grows, and no success is made up.

use banksman::exec::agent::{Before, Kind};
use banksman_core::lifecycle::Outcome;
use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::Exit;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use super::bend::{bend, exit};
use super::{Read, code, read_all, transcript};

const STREAMS: [(Kind, &str); 10] = [
    (Kind::Claude, "claude-edit"),
    (Kind::Claude, "claude-planlimit"),
    (Kind::Claude, "claude-auth401-retries1"),
    (Kind::Claude, "claude-max-turns"),
    (Kind::Claude, "claude-stall-stream-int"),
    (Kind::Claude, "claude-197-resume"),
    (Kind::Codex, "codex-edit"),
    (Kind::Codex, "codex-planlimit"),
    (Kind::Codex, "codex-builtin-baseurl"),
    (Kind::Codex, "codex-mcp"),
];

/// Whether the stream itself has the event by which its agent says that all is well.
fn has_success(kind: Kind, stream: &str) -> bool {
    let events = stream.lines().filter_map(|line| {
        serde_json::from_str::<Value>(line.trim_start_matches('\u{feff}').trim()).ok()
    });
    events.into_iter().any(|event| match kind {
        Kind::Claude => {
            event["type"] == "result" && event["subtype"] == "success" && event["is_error"] == false
        }
        Kind::Codex => event["type"] == "turn.completed",
        Kind::Command => event["type"] == "result" && event["status"] == "success",
        Kind::Opencode | Kind::Gemini | Kind::Acp => unreachable!("tested beside their adapters"),
    })
}

/// Values that matter somewhere.
const WORDS: &str = "result assistant system user success api_retry rate_limit_event rejected error turn.completed \
    turn.failed turn.started item.completed item.started agent_message text tool_use tool_result thread.started report \
    usage rate_limit refusal";
/// Names of members that matter somewhere.
const KEYS: &str = "type subtype is_error status result message content usage error errors item text input_tokens \
    total_cost_usd model_usage_since_last_result modelUsage costUSD session_id rate_limit_info resetsAt attempt \
    error_status permission_denials kind changes resets_at tell api_error_status id answer codex_error_info";

fn one_of(words: &'static str) -> impl Strategy<Value = String> + Clone {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    select(words)
}

/// JSON whose members have the names that matter and values of any kind.
fn event() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        one_of(WORDS).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        let members = prop::collection::vec((one_of(KEYS), inner.clone()), 0..8);
        let object = members.prop_map(|members| Value::Object(Map::from_iter(members)));
        prop_oneof![3 => object, 1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array)]
    })
}

fn check(kind: Kind, stream: &str, exit: Exit) -> Result<Read, TestCaseError> {
    let read = read_all(
        kind,
        Before { input_tokens: 5, output_tokens: 5, cost_micros: 5 },
        (stream, stream),
        exit,
    );
    if read.outcome() == Outcome::Succeeded {
        prop_assert!(has_success(kind, stream) && exit == code(0));
    }
    let reading = &read.reading;
    prop_assert!(reading.text.len() <= FINAL_TEXT_BYTES);
    prop_assert!(reading.input_tokens >= 0 && reading.output_tokens >= 0);
    prop_assert!(reading.cost_micros.is_none_or(|cost| cost >= 0));
    prop_assert!(reading.fault.as_ref().is_none_or(|fault| fault.detail.len() <= 500));
    prop_assert!(reading.session.as_ref().is_none_or(|session| session.len() <= 500));
    Ok(read)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_bent_recording_is_never_a_made_up_success(
        stream in select(STREAMS.to_vec()), bends in prop::collection::vec(bend(), 1..6), exit in exit(),
    ) {
        let (kind, name) = stream;
        let mut lines: Vec<Vec<u8>> =
            transcript(&format!("{name}.jsonl")).lines().map(|line| line.as_bytes().to_vec()).collect();
        bends.iter().for_each(|bend| bend.apply(&mut lines));
        let text = String::from_utf8_lossy(&lines.join(&b'\n')).into_owned();
        for kind in [kind, Kind::Command] {
            check(kind, &text, exit)?;
        }
    }

    #[test]
    fn json_of_any_shape_is_survived(
        kind in select(vec![Kind::Claude, Kind::Codex, Kind::Command]),
        events in prop::collection::vec(event(), 0..12), exit in exit(),
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
