//! What every adapter promises of any stream: nothing panics, nothing grows, and no success is made
//! up.

use banksman::exec::agent::{AgentKind, AgentUsage};
use banksman_core::lifecycle::Outcome;
use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::ProcessExit;
use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use super::{Read, code, read_all};

/// A session that was gone on with: what it had used up before must not make an amount negative.
const BEFORE: AgentUsage = AgentUsage { input_tokens: 5, output_tokens: 5, cost_micros: Some(5) };

pub(super) fn check(
    kind: AgentKind,
    stream: &str,
    exit: ProcessExit,
) -> Result<Read, TestCaseError> {
    let read = read_all(kind, BEFORE, (stream, stream), exit);
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

/// Whether the stream itself has the event by which its agent says that all is well.
fn has_success(kind: AgentKind, stream: &str) -> bool {
    let object =
        |line: &str| serde_json::from_str::<Value>(line.trim_start_matches('\u{feff}').trim()).ok();
    let mut events = stream.lines().filter_map(object);
    match kind {
        AgentKind::Claude => events.any(|event| {
            event["type"] == "result" && event["subtype"] == "success" && event["is_error"] == false
        }),
        AgentKind::Codex => events.any(|event| event["type"] == "turn.completed"),
        AgentKind::Command | AgentKind::Gemini => {
            events.any(|event| event["type"] == "result" && event["status"] == "success")
        }
        AgentKind::Opencode => {
            let mut ends = events.filter(|event| event["type"] == "step_finish");
            ends.next_back().is_some_and(|event| event["part"]["reason"] == "stop")
        }
        AgentKind::Acp => stream
            .lines()
            .filter_map(|line| object(line.trim_start().strip_prefix('<')?))
            .any(|message| message["result"]["stopReason"] == "end_turn"),
    }
}
