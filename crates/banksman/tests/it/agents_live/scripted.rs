//! The scripted agent through the `command` adapter: what the other suites build upon.

use std::collections::BTreeMap;
use std::fs;

use banksman::exec::agent::{AgentEvent, AgentKind, AgentRequest, AgentSetup, AgentUsage};
use banksman_core::receipt::{AgentReport, FaultKind, Terminal};
use banksman_core::time;
use serde_json::json;

use super::run::{Ran, Site, ask};
use crate::scripted::scripted_agent;

fn setup() -> AgentSetup {
    let command = vec![scripted_agent().display().to_string()];
    AgentSetup {
        kind: AgentKind::Command,
        command,
        model: None,
        env: BTreeMap::new(),
        pass: Vec::new(),
    }
}

fn play(site: &Site, ask: &AgentRequest) -> Ran {
    site.start(&setup(), ask, AgentUsage::default()).finish()
}

#[test]
fn a_good_run_is_read_in_full() {
    let site = Site::new();
    let script = "session s1\nsay hello\nwrite a.txt one\ncommit add a\nspend 10 2 0.5\nprogress half\n\
                  answer {\"score\":7}\nsuccess all done";
    let ran = play(&site, &ask(script));
    let reading = &ran.reading;
    assert_eq!(reading.terminal, Some(Terminal::Success), "{}", ran.lines.join("\n"));
    assert_eq!((reading.text.as_str(), reading.session.as_deref()), ("all done", Some("s1")));
    assert_eq!((reading.input_tokens, reading.output_tokens), (10, 2));
    assert_eq!(
        (reading.cost_micros, &reading.answer),
        (Some(500_000), &Some(json!({ "score": 7 })))
    );
    assert!(matches!(&site.told()[..], [AgentReport::Progress { step, .. }] if step == "half"));
    assert_eq!(fs::read_to_string(site.repo().join("a.txt")).unwrap(), "one\n");
    let usage = AgentUsage { input_tokens: 10, output_tokens: 2, cost_micros: Some(500_000) };
    let spent = AgentEvent::Spent(usage);
    let at = ran.seen.iter().position(|seen| *seen == spent).expect("usage is told on the way");
    assert!(at + 1 < ran.seen.len(), "before the end");
}

#[test]
fn faults_are_read_with_their_kind() {
    for (script, kind, resets_at) in [
        ("quota 2030-01-01T00:00:00Z", FaultKind::Quota, Some(time::Instant(1_893_456_000_000))),
        ("auth", FaultKind::Auth, None),
        ("transient", FaultKind::Transient, None),
        ("Fix the login, please.", FaultKind::Setup, None),
    ] {
        let ran = play(&Site::new(), &ask(script));
        let fault = ran.reading.fault.as_ref().expect(script);
        assert_eq!((fault.kind, ran.reading.resets_at), (kind, resets_at), "{script}");
        assert_eq!(ran.reading.terminal, Some(Terminal::Error), "{script}");
    }
}

#[test]
fn a_run_without_a_last_word_has_none() {
    for script in ["say done", "say done\ncrash", "say done\nkill-self TERM"] {
        let ran = play(&Site::new(), &ask(script));
        assert_eq!((ran.reading.terminal, ran.reading.text.as_str()), (None, "done"), "{script}");
    }
}

#[test]
fn what_outlives_it_is_found_and_ended() {
    let ran = play(&Site::new(), &ask("daemon 60000\nsuccess gone"));
    assert_eq!(ran.left_over, 1);
    assert_eq!(ran.reading.terminal, Some(Terminal::Success));
}
