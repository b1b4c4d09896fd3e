//! The real agents under a keeper that wants an answer in a given shape: what is wrong is asked for
//! once more, in the same session, and only what was checked is on record as the answer.

use std::collections::BTreeMap;
use std::fs;

use banksman_core::failure::{Classification, Deliverable, RunExpectation, classify};
use banksman_core::lifecycle::Outcome;
use banksman_core::limits::FINAL_TEXT_BYTES;
use banksman_core::receipt::{EndCause, Receipt, Terminal};
use serde_json::{Value, json};

use super::cases::{Agent, verdict_schema};
use super::dialects::{INPUT_TOKENS, OUTPUT_TOKENS};
use super::model_server::{ModelServer, Reply};
use super::needs_claude::CLAUDE;
use super::needs_codex::CODEX;
use super::run::program;
use crate::keeper::world::{World, agent, plan};

const JOB: &str = "r1.1";
const PROMPT: &str = "Rate the change 4711.";
const ASKED_AGAIN: &str = "does not match the schema";

/// What came of a run, and what the model was asked on the way.
struct Reviewed {
    receipt: Receipt,
    classification: Classification,
    turns: Vec<String>,
    /// For messages.
    output: String,
}

/// Has a keeper run the agent, with nothing expected but the answer.
fn review(player: &Agent, scenario: Vec<Reply>) -> Reviewed {
    let program = program(player.program);
    let world = World::new();
    let server = ModelServer::start(scenario);
    let home = world.path("kim");
    fs::create_dir(&home).unwrap();
    let mut plan = plan(JOB, "");
    let home_variable = ("HOME".to_owned(), home.display().to_string());
    plan.env.extend(BTreeMap::from([home_variable]));
    let work = agent(&mut plan);
    work.setup = (player.setup)(&program, &server, &home);
    work.ask.prompt = PROMPT.to_owned();
    work.ask.schema = Some(verdict_schema());
    work.expects = Deliverable::Answer;
    let receipt = world.run(&plan);
    let asked = RunExpectation { expects: Deliverable::Answer, schema_given: true };
    Reviewed {
        classification: classify(&receipt, &asked),
        receipt,
        turns: server.turns().iter().map(|turn| turn.body.to_string()).collect(),
        output: format!("{}\n{}", world.file(JOB, "out.jsonl"), world.file(JOB, "err.log")),
    }
}

/// Longer than what is kept of last words, and with a member that is there and is null.
fn right() -> Value {
    let reason = "It holds. ".repeat(FINAL_TEXT_BYTES / 5);
    json!({ "verdict": "good", "score": 7, "blocker": null, "reason": reason })
}

/// `wrong` is all that the model says in the first turn.
fn accepted_at_the_second_try(player: &Agent, wrong: Vec<Reply>, objection: &str) {
    let first = wrong.len();
    let scenario = [wrong, vec![(player.answer)(right())]].concat();
    let reviewed = review(player, scenario);
    let Reviewed { receipt, classification, turns, output } = reviewed;
    assert_eq!(receipt.ended, EndCause::Completed, "{output}");
    assert_eq!(receipt.answer, Some(right()), "{output}");
    assert_eq!(receipt.objections, [""; 0], "{output}");
    assert_eq!(
        (classification.outcome, classification.class),
        (Outcome::Succeeded, None),
        "{classification:?}"
    );
    assert_eq!(turns.len(), first + 1, "{output}");
    assert!(!turns[first - 1].contains(ASKED_AGAIN), "{}", turns[first - 1]);
    for said in [PROMPT, ASKED_AGAIN, objection] {
        assert!(turns[first].contains(said), "`{said}` is not in {}", turns[first]);
    }
    let reading = receipt.reading.expect("it said something");
    let requests = i64::try_from(turns.len()).unwrap();
    let used = (reading.input_tokens, reading.output_tokens);
    assert_eq!(used, (requests * INPUT_TOKENS, requests * OUTPUT_TOKENS), "both turns count");
}

/// The model never gives what is wanted. It is asked twice and no more.
fn refused_after_the_second_try(player: &Agent, wrong: Vec<Reply>, objection: &str) {
    let reviewed = review(player, wrong);
    let Reviewed { receipt, classification, turns, output } = reviewed;
    assert_eq!(receipt.ended, EndCause::Completed, "{output}");
    let terminal = receipt.reading.as_ref().and_then(|reading| reading.terminal);
    assert_eq!(terminal, Some(Terminal::Success), "it believes that it is done: {output}");
    assert_eq!(receipt.answer, None, "{output}");
    assert_eq!(receipt.objections, [objection], "{output}");
    assert_eq!(classification.outcome, Outcome::VerifyFailed, "{classification:?}");
    assert!(classification.detail.contains(objection), "{classification:?}");
    let last = turns.last().expect("it asked");
    assert_eq!(last.matches(ASKED_AGAIN).count(), 1, "{last}");
}

fn half() -> Value {
    json!({ "verdict": "good", "blocker": null })
}

/// Claude Code checks the answer itself and lets the model try again; a model that then only talks
/// is told once to answer, and after that its words are taken for a good end.
fn talk() -> Reply {
    Reply::text("It looks good to me.")
}

const NO_ANSWER: &str = "the answer contains no JSON object";
const NO_SCORE: &str = "the answer `score` is missing";

mod needs_claude {
    use super::*;

    #[test]
    fn claude_gives_the_answer_when_it_is_asked_again() {
        let wrong = vec![(CLAUDE.answer)(half()), talk(), talk()];
        accepted_at_the_second_try(&CLAUDE, wrong, NO_ANSWER);
    }

    #[test]
    fn claude_never_gives_the_answer() {
        refused_after_the_second_try(&CLAUDE, vec![(CLAUDE.answer)(half()), talk()], NO_ANSWER);
    }
}

mod needs_codex {
    use super::*;

    #[test]
    fn codex_gives_the_answer_when_it_is_asked_again() {
        accepted_at_the_second_try(&CODEX, vec![(CODEX.answer)(half())], NO_SCORE);
    }

    #[test]
    fn codex_never_gives_the_answer() {
        refused_after_the_second_try(&CODEX, vec![(CODEX.answer)(half())], NO_SCORE);
    }
}
