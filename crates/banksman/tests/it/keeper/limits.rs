//! The bounds of a run: time, silence, tokens and money.

use banksman::exec::agent::AgentKind;
use banksman_core::receipt::{EndCause, FaultKind};

use super::world::{SESSION, SUCCESS, World, agent, plan};

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let world = World::new();
    let mut plan = plan("r1.1", "while :; do echo still here; sleep 0.01; done");
    plan.limits.wall_ms = 300;
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::TimedOut);
    assert_eq!(receipt.reading.expect("a reading").text, "still here");
}

/// Silent in its first turn, and done in the one that goes on with its session.
#[test]
fn a_silent_agent_is_told_once_to_go_on() {
    let world = World::new();
    let spent = r#"echo '{"type":"usage","input_tokens":5,"output_tokens":1}'"#;
    let script = format!(
        r#"cat >> prompts; echo "[$BANKSMAN_SESSION]" >> prompts; {spent}; if [ -n "$BANKSMAN_SESSION" ]; then {SUCCESS}; else {SESSION}; sleep 1000; fi"#
    );
    let mut plan = plan("r1.1", &script);
    plan.limits.idle_ms = 300;
    let receipt = world.run(&plan);
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Completed, 1));
    assert_eq!(world.file("r1.1", "work/prompts"), "do it[]\ngo on[s1]\n");
    let reading = receipt.reading.expect("a reading");
    assert_eq!((reading.input_tokens, reading.output_tokens), (10, 2));
}

#[test]
fn an_agent_that_stays_silent_has_stalled() {
    let world = World::new();
    let mut plan = plan("r1.1", &format!("{SESSION}; echo turn >> turns; sleep 1000"));
    plan.limits.idle_ms = 200;
    let receipt = world.run(&plan);
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Stalled, 1));
    assert_eq!(world.file("r1.1", "work/turns"), "turn\nturn\n");
}

/// As after a stopped session or a debugger: nobody saw whether the agent was silent.
#[test]
fn time_in_which_the_keeper_was_stopped_is_no_silence() {
    let world = World::new();
    let script = format!("kill -STOP $PPID; sleep 4; kill -CONT $PPID; sleep 0.2; {SUCCESS}");
    let mut plan = plan("r1.1", &script);
    plan.limits.idle_ms = 2_500;
    let receipt = world.run(&plan);
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Completed, 0));
}

/// An agent has the same user as its keeper.
#[test]
fn an_agent_that_stops_its_keeper_gains_no_time() {
    let world = World::new();
    // A busy machine needs a while to end its processes.
    let stop = "kill -STOP $PPID; sleep 1.6; kill -CONT $PPID; sleep 2";
    let mut plan = plan("r1.1", &format!("for i in 1 2 3 4; do {stop}; done; {SUCCESS}"));
    plan.limits.wall_ms = 3_000;
    assert_eq!(world.run(&plan).ended, EndCause::TimedOut);
}

#[test]
fn an_agent_without_a_session_cannot_be_told() {
    let world = World::new();
    let mut plan = plan("r1.1", "sleep 1000");
    plan.limits.idle_ms = 200;
    let receipt = world.run(&plan);
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Stalled, 0));
}

/// A build prints nothing, in a process that has left the agent's session.
#[test]
fn work_without_output_is_not_silence() {
    let world = World::new();
    let script =
        format!("setsid -w sh -c 'i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done'; {SUCCESS}");
    let mut plan = plan("r1.1", &script);
    plan.limits.idle_ms = 400;
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::Completed);
    let took = receipt.ended_at.since(receipt.started_at).0;
    assert!(took > 400, "it was silent for {took} ms, which proves nothing");
}

#[test]
fn an_agent_that_spends_too_much_is_ended() {
    let world = World::new();
    let spends = |usage: &str| format!(r#"echo '{{"type":"usage",{usage}}}'; sleep 1000"#);
    for (name, usage, tokens, cost, detail) in [
        ("r1.1", r#""input_tokens":90,"output_tokens":11"#, Some(100), None, "101 tokens of 100"),
        (
            "r1.2",
            r#""input_tokens":1,"output_tokens":1,"cost_usd":0.5"#,
            None,
            Some(499_999),
            "500000 millionths of a dollar of 499999",
        ),
    ] {
        let mut plan = plan(name, &spends(usage));
        (plan.limits.tokens, plan.limits.cost_micros) = (tokens, cost);
        assert_eq!(world.run(&plan).ended, EndCause::OverBudget { detail: detail.to_owned() });
    }
    let mut plan =
        plan("r1.3", &format!(r#"echo '{{"type":"usage","input_tokens":100}}'; {SUCCESS}"#));
    plan.limits.tokens = Some(100);
    assert_eq!(world.run(&plan).ended, EndCause::Completed);
}

/// Claude Code tries a refused key for many minutes.
#[test]
fn an_agent_without_hope_is_ended() {
    let world = World::new();
    let retry = r#"echo '{"type":"system","subtype":"api_retry","attempt":3,"max_retries":10,"error_status":401,"error":"authentication_failed"}'"#;
    let mut plan = plan("r1.1", &format!("{retry}; sleep 1000"));
    agent(&mut plan).setup.kind = AgentKind::Claude;
    let receipt = world.run(&plan);
    assert_eq!(receipt.ended, EndCause::Hopeless);
    let fault = receipt.reading.expect("a reading").fault.expect("a fault");
    assert_eq!(fault.kind, FaultKind::Auth);
}

/// opencode waits for as long as its provider says, which may be hours. To tell it to go on would
/// not help.
#[test]
fn an_agent_that_waits_for_its_quota_has_not_stalled() {
    let world = World::new();
    let refusal = r#"echo 'timestamp=1 level=ERROR message="stream error" small=false error.error="AI_APICallError: Rate limit exceeded"' >&2"#;
    let session = r#"echo '{"type":"step_finish","sessionID":"ses_1","part":{}}'"#;
    let mut plan =
        plan("r1.1", &format!("{session}; echo turn >> turns; {refusal}; exec sleep 1000"));
    agent(&mut plan).setup.kind = AgentKind::Opencode;
    plan.limits.idle_ms = 300;
    let receipt = world.run(&plan);
    assert_eq!((receipt.ended, receipt.nudges), (EndCause::Hopeless, 0));
    let fault = receipt.reading.expect("a reading").fault.expect("a fault");
    assert_eq!((fault.kind, fault.detail.as_str()), (FaultKind::Quota, "Rate limit exceeded"));
    assert_eq!(world.file("r1.1", "work/turns"), "turn\n");
}
