//! Real agents plan and judge a plan: from the first look at a task, over a debate and the approval
//! of a person, to the first subtask.

use serde_json::{Value, json};

use super::super::model_server::{ModelServer, Reply};
use super::super::needs_claude::CLAUDE;
use super::super::needs_codex::CODEX;
use super::harness::{Harness, Wishes};
use crate::planning::desk::{plan, subtask};

const TITLE: &str = "Add rate limiting to API endpoints";
/// One agent at a time, so that a model hears of one thing after the other; each reviewer is played
/// by an agent of its own.
const SETTINGS: &str = "[limits]\nagents = 1\n\n[reviewers.custodiet]\nmodel = \"kim\"\n\n\
                        [reviewers.critic]\nmodel = \"ada\"\n";
const SPIKE: &str = "no spike for Redis vs in-memory";
const IN_USE: &str = "Redis is in use already";

/// Fifteen files in one piece, and then three subtasks.
fn plans() -> [Value; 2] {
    let pieces = [subtask("limiter", 2), subtask("routes", 3), subtask("docs", 1)];
    let edges = [("limiter", "routes", "blocks"), ("limiter", "docs", "informs")];
    [plan(&[subtask("everything", 15)], &[]), plan(&pieces, &edges)]
}

fn said(server: &ModelServer) -> Vec<String> {
    server.turns().iter().map(|turn| turn.body.to_string()).collect()
}

fn verdict(word: &str, why: &str, concerns: &[&str]) -> Value {
    json!({ "verdict": word, "rationale": why, "concerns": concerns, "suggestions": [] })
}

/// Claude plans, sits as custodiet and does the first subtask; Codex sits as critic.
fn harness() -> Harness {
    let withdraws = json!({ "response": "WITHDRAW", "rationale": IN_USE });
    let concern = verdict("CONCERN", "it is not known where counts are kept", &[SPIKE]);
    let ada = vec![(CODEX.answer)(concern), (CODEX.answer)(withdraws)];
    let wishes = Wishes {
        settings: SETTINGS.to_owned(),
        first: vec!["add", "-q", TITLE, "--lifecycle", "autonomous"],
        ada: Some((&CODEX, ada)),
        ..Wishes::default()
    };
    let scenario = |_: &_| {
        let [too_big, good] = plans().map(CLAUDE.answer);
        let approval = (CLAUDE.answer)(verdict("APPROVE", "it was asked for", &[]));
        let work =
            (CLAUDE.shell)("mkdir -p src && echo 1 > src/limiter-0.rs && echo right > answer.txt");
        vec![too_big, good, approval, work, Reply::text("requests are counted")]
    };
    Harness::new(&CLAUDE, wishes, scenario)
}

fn words<const N: usize>(all: &Value, names: [&str; N]) -> Vec<[String; N]> {
    let word = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let all = all.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    all.map(|one| names.map(|name| word(one, name))).collect()
}

/// The second proposal stands in the body, and the first one was told to whoever made the second.
fn assert_proposed(harness: &Harness, task: &Value) {
    let body = task["body"].as_str().expect("a body");
    assert!(body.contains("## Decomposition Proposal v2"), "{body}");
    assert!(!body.contains("Proposal v1") && !body.contains("everything"), "{body}");
    assert!(body.contains("| limiter | Do limiter | 2h       | medium     |"), "{body}");
    let edges = "limiter -> routes (blocks)\nlimiter ~> docs (informs)";
    assert!(body.contains(edges), "{body}");
    assert_eq!(task["fields"]["plan"], plans()[1], "as it was answered");
    let kims = said(&harness.server);
    assert!(kims[0].contains(TITLE) && !kims[0].contains("Proposal v1"), "{}", kims[0]);
    let objection = "everything: it touches 15 files, more than the limit of 10";
    assert!(kims[1].contains("## Decomposition Proposal v1") && kims[1].contains(objection));
}

/// Each verdict with the model behind it. The concern was debated, and given up.
fn assert_judged(harness: &Harness, task: &Value) {
    let verdicts = words(&task["fields"]["verdicts"], ["reviewer", "verdict", "agent", "worker"]);
    let expected =
        [["custodiet", "APPROVE", "claude", "kim"], ["critic", "WITHDRAWN", "codex", "ada"]];
    assert_eq!(verdicts, expected.map(|one| one.map(str::to_owned)), "{}", harness.story());
    assert_eq!(task["fields"]["approval_type"], "standard", "nothing is left open");
    let kims = said(&harness.server);
    assert!(kims[2].contains("You are custodiet") && kims[2].contains("Do limiter"), "{}", kims[2]);
    let adas = said(harness.adas.as_ref().expect("a second worker"));
    assert_eq!(adas.len(), 2, "a verdict and one round");
    assert!(adas[0].contains("You are critic") && adas[0].contains("Do limiter"), "{}", adas[0]);
    assert!(adas[1].contains("round 1 of 2") && adas[1].contains("it was asked for"));
}

/// What a person reads before deciding.
fn assert_asked(harness: &Harness) {
    let page = harness.ok(&["decisions", "show", "t1"]);
    for part in ["Shall this plan be carried out?", TITLE, "Do limiter", "-> in_progress"] {
        assert!(page.contains(part), "`{part}` is not in {page}");
    }
    let question = harness.json(&["decisions", "show", "t1"]);
    let verdicts = words(&question["verdicts"], ["who", "verdict", "words"]);
    let own = "it was asked for (judged its own work, because no other worker could)";
    let expected = [["custodiet", "APPROVE", own], ["critic", "WITHDRAWN", IN_USE]];
    assert_eq!(verdicts, expected.map(|one| one.map(str::to_owned)), "{question}");
}

/// The subtasks of the plan as tasks, with what they wait for and what they are only told of.
fn assert_split(harness: &Harness) {
    let [none, limiter] = [json!([]), json!(["t5"])];
    let expected = [
        ("t5", "limiter", &none, &none),
        ("t6", "routes", &limiter, &none),
        ("t7", "docs", &none, &limiter),
    ];
    for (id, name, needs, informed_by) in expected {
        let subtask = harness.json(&["show", id]);
        let fields = &subtask["fields"];
        assert_eq!((&fields["subtask"], &fields["plan_version"]), (&json!(name), &json!(2)));
        assert_eq!(
            (&subtask["parent"], &subtask["lifecycle"]),
            (&json!("t1"), &json!("leaf")),
            "{subtask}"
        );
        assert_eq!((&subtask["needs"], &subtask["informedBy"]), (needs, informed_by), "{subtask}");
    }
    let all = harness.ok(&["list", "-q"]);
    assert_eq!(
        all.lines().count(),
        7,
        "the parent, two reviews and one of the debate, three subtasks: {all}"
    );
}

mod needs_claude {
    use super::*;

    mod needs_codex {
        use super::*;

        #[test]
        fn claude_plans_codex_has_a_concern_and_the_approved_subtasks_are_begun() {
            let harness = harness();
            let task = harness.pulse_until("waiting");
            assert_proposed(&harness, &task);
            assert_judged(&harness, &task);
            assert_asked(&harness);
            harness.ok(&["decisions", "approve", "t1"]);
            harness.pulse_until("in_progress");
            assert_split(&harness);
            let limiter = harness.pulse_until_of("t5", "review");
            assert_eq!(limiter["fields"]["worker_id"], "kim", "{limiter}");
            let branch = limiter["fields"]["pr_url"].as_str().expect("a link to its work");
            assert!(branch.contains("t5"), "{branch}");
            let kims = said(&harness.server);
            assert!(kims[3].contains("All about limiter.") && kims[3].contains("limiter works"));
            let reading = harness.receipt("r5.1").reading.expect("it said something");
            assert_eq!(reading.text, "requests are counted");
            harness.ok(&["check"]);
            harness.ok(&["audit", "verify"]);
        }
    }
}
