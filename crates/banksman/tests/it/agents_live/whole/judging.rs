//! Real agents that judge the work of others: a panel with a debate, up to the decision of a
//! person, and the gate of a workflow.

use serde_json::{Value, json};

use super::super::model_server::{ModelServer, Reply};
use super::super::needs_claude::CLAUDE;
use super::super::needs_codex::CODEX;
use super::harness::{Harness, TITLE, Wishes};

const LIFECYCLE: &str = include_str!("judged.yaml");
/// Each reviewer is played by one agent, whoever did the work.
const REVIEWERS: &str =
    "[reviewers.custodiet]\nmodel = \"kim\"\n\n[reviewers.critic]\nmodel = \"ada\"\n";
const FLOW: &str = "
workflow: { id: answer, name: Answer rightly }
steps:
  - { id: X-1, name: write, prompt: Write the right answer into answer.txt, outputs: [answer.txt], gate: XG-1 }
gates:
  - { id: XG-1, reviewer: { agent_type: judge, level: auto }, on_pass: { next_step: DONE } }
";

fn said(server: &ModelServer) -> Vec<String> {
    server.turns().iter().map(|turn| turn.body.to_string()).collect()
}

mod needs_claude {
    use super::*;

    #[test]
    fn claude_does_a_step_and_decides_at_its_gate() {
        let wishes = Wishes {
            files: vec![("answer.yaml", FLOW)],
            first: vec!["workflow", "run", "--detach", "answer.yaml"],
            ..Wishes::default()
        };
        let verdict = json!({ "verdict": "APPROVE", "rationale": "it is right", "concerns": [], "suggestions": [] });
        let scenario = |_: &_| {
            let work = (CLAUDE.shell)("echo right > answer.txt");
            vec![work, Reply::text("it is written"), (CLAUDE.answer)(verdict)]
        };
        let harness = Harness::new(&CLAUDE, wishes, scenario);
        harness.pulse_until("complete");
        assert_eq!(harness.git(&["show", "main:answer.txt"]), "right\n", "{}", harness.story());
        let asked = said(&harness.server);
        assert_eq!(asked.len(), 3, "{}", harness.story());
        assert!(asked[0].contains("You do step X-1 of a workflow"), "{}", asked[0]);
        for said in [
            "You are judge",
            "The work is a step of a workflow",
            "Write the right answer into answer.txt",
        ] {
            assert!(asked[2].contains(said), "`{said}` is not in {}", asked[2]);
        }
        let gate = harness.json(&["show", "t3"]);
        assert_eq!(gate["fields"]["answer"]["rationale"], "it is right");
    }

    mod needs_codex {
        use super::*;

        #[test]
        fn claude_and_codex_judge_and_a_person_decides() {
            let opinion = json!({ "verdict": "CONCERN", "rationale": "nobody tested it", "concerns": ["where is the test?"], "suggestions": [] });
            let stays = json!({ "response": "MAINTAIN", "rationale": "still no test" });
            let ada = vec![(CODEX.answer)(opinion), (CODEX.answer)(stays)];
            let wishes = Wishes {
                settings: REVIEWERS.to_owned(),
                files: vec![(".banksman/lifecycles/judged_work.yaml", LIFECYCLE)],
                first: vec!["add", "-q", TITLE, "--lifecycle", "judged_work"],
                ada: Some((&CODEX, ada)),
                ..Wishes::default()
            };
            let good = json!({ "verdict": "APPROVE", "rationale": "it was asked for", "concerns": [], "suggestions": [] });
            let scenario = |_: &_| {
                let work = (CLAUDE.shell)("echo right > answer.txt");
                vec![work, Reply::text("it is right now"), (CLAUDE.answer)(good)]
            };
            let harness = Harness::new(&CLAUDE, wishes, scenario);
            let task = harness.pulse_until("asked");
            let verdicts = task["fields"]["verdicts"].as_array().expect("verdicts").iter();
            let word = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
            let verdicts: Vec<[String; 3]> = verdicts
                .map(|one| ["reviewer", "verdict", "agent"].map(|name| word(one, name)))
                .collect();
            let expected = [["custodiet", "APPROVE", "claude"], ["critic", "CONCERN", "codex"]];
            assert_eq!(verdicts, expected.map(|one| one.map(str::to_owned)), "{}", harness.story());
            let summary = task["fields"]["review_summary"].as_str().expect("a summary");
            let open = "### Critic says:\n\nwhere is the test?\nResponse: still no test\n";
            assert!(summary.contains(open), "{summary}");

            let kims = said(&harness.server);
            assert!(
                kims[2].contains("You are custodiet") && !kims[2].contains("where is the test?")
            );
            let adas = said(harness.adas.as_ref().expect("a second worker"));
            assert_eq!(adas.len(), 3, "a verdict and two rounds");
            assert!(adas[0].contains("You are critic") && !adas[0].contains("it was asked for"));
            assert!(adas[1].contains("round 1 of 2") && adas[1].contains("it was asked for"));
            assert!(adas[2].contains("round 2 of 2") && adas[2].contains("still no test"));

            let page = harness.json(&["decisions", "show", "d1"]);
            assert_eq!(page["verdicts"][0]["who"], "critic", "{page}");
            let next = harness.json(&["why", "t1"])["next"].to_string();
            assert!(
                next.contains(
                    "banksman decisions show d1, then banksman decisions approve|cancel d1"
                )
            );
            harness.ok(&["decisions", "approve", "d1"]);
            assert_eq!(harness.json(&["show", "t1"])["state"], "done");
        }
    }
}
