//! What gates decide: who is asked, what the next attempt is told, and who may answer.

use std::fs;

use banksman_core::time::Span;

use super::{Bench, DONE, WAIT, WORK, assert_refused, field, two_steps, verdict};
use crate::engine::processes::wait_until;

fn spec(level: &str, more: &str) -> String {
    two_steps(&format!("level: {level}"), more)
}

/// What the agent finds of the feedback in its own worktree.
const LOOKS: &str = r#"run cat .workflow/retry-context/* >"$YARD/found-$ATTEMPT" || true
"#;

#[test]
fn what_the_gate_said_twice_is_what_the_third_attempt_is_told() {
    let bench = Bench::new(&spec("auto", ""));
    bench.script("A", &format!("{LOOKS}{WORK}{DONE}"));
    bench.fails("G.1", "the empty query is missing");
    bench.fails("G.2", "the long query is missing");
    bench.until_over("complete");

    let files = bench.feedback();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["G-attempt-1.md", "G-attempt-2.md"]);
    let [first, second] = ["G-attempt-1.md", "G-attempt-2.md"].map(|name| files[name].as_str());
    assert!(first.contains("the empty query") && !first.contains("the long query"), "{first}");
    assert!(second.contains("the long query") && !second.contains("the empty query"), "{second}");

    let both = |text: &str| {
        let at = |words: &str| text.find(words);
        at("the empty query is missing") < at("the long query is missing")
            && at("the empty query is missing").is_some()
    };
    assert!(both(&bench.prompt("A.3")), "{}", bench.prompt("A.3"));
    assert!(both(&bench.prompt("G.3")), "the reviewer: {}", bench.prompt("G.3"));
    assert!(!bench.prompt("A.1").contains("sent it back"));
    assert!(bench.prompt("A.2").contains("the empty query"));
    assert!(!bench.prompt("A.2").contains("the long query"));
    assert!(!bench.prompt("B.1").contains("query is missing"), "B has failed nowhere");
    assert_eq!(bench.harness.file("found-A.1"), "");
    assert_eq!(bench.harness.file("found-A.2"), first);
    assert_eq!(bench.harness.file("found-A.3"), format!("{first}{second}"));

    assert_eq!(bench.starts(), ["A.1", "G.1", "A.2", "G.2", "A.3", "G.3", "B.1"]);
    // Each attempt goes on from the work of the one before, and feedback is nobody's commit.
    assert_eq!(bench.harness.git(&["show", "main:work-A"]), "A.1\nA.2\nA.3\n");
    let merged = bench.harness.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!merged.contains("retry-context"), "{merged}");
    assert_eq!(bench.logged("gate(auto) -> sent_back on fail by system"), 2);
    assert_eq!(bench.logged("gate G failed; A starts again, with all steps after it: A, B"), 2);
    assert_eq!(bench.logged("gate(auto) -> passed on pass"), 1);
}

#[test]
fn failures_are_numbered_through_although_up_is_killed_between() {
    let bench = Bench::new(&spec("auto", "max_retries: 9"));
    for round in 1..=4 {
        bench.holds(&format!("A.{round}"));
        bench.fails(&format!("G.{round}"), &format!("objection {round}"));
    }
    let mut up = bench.up();
    for round in 1..=4 {
        let attempt = format!("A.{round}");
        wait_until("the next attempt has started", || bench.has_started(&attempt));
        up.kill();
        bench.go(&attempt);
        up = bench.up();
    }
    wait_until("it is complete", || bench.workflow_state() == "complete" && bench.is_put_away());
    up.stop();
    bench.assert_clean();
    let files = bench.feedback();
    assert_eq!(files.len(), 4, "{files:?}");
    for round in 1..=4 {
        let text = &files[&format!("G-attempt-{round}.md")];
        assert!(text.contains(&format!("objection {round}")), "{text}");
    }
    let prompt = bench.prompt("A.5");
    assert!((1..=4).all(|round| prompt.contains(&format!("objection {round}"))), "{prompt}");
    assert_eq!(bench.logged("failed; A starts again"), 4);
}

/// The number of failures after which a person is asked; none and one mean the first.
#[test]
fn a_gate_that_fails_too_often_asks_a_person_whatever_its_level() {
    for (level, retries, failures) in
        [("auto", 0, 1), ("auto", 1, 1), ("auto", 2, 2), ("notify", 2, 2)]
    {
        let bench = Bench::new(&spec(level, &format!("max_retries: {retries}")));
        bench.script("G", &verdict("BLOCK", "not yet"));
        bench.until_state("A", "gate(human)");
        bench.settle();
        assert_eq!(bench.state("A"), "gate(human)", "{level} {retries}");
        assert_eq!(bench.diagnostic("A"), "the gate has failed as often as allowed");
        assert_eq!(bench.feedback().len(), failures, "{:?}", bench.feedback());
        let reviews = bench.starts().iter().filter(|start| start.starts_with('G')).count();
        assert_eq!(reviews, failures, "{level} {retries}");
        assert_refused(&bench, &["G", "pass", "--as", "reviewer"], "human may");
        bench.says(&["G", "pass"]);
        bench.until_over("complete");
    }
}

#[test]
fn a_persons_fail_leads_back_and_gives_the_gate_its_chances_again() {
    let bench = Bench::new(&spec("auto", "max_retries: 2"));
    for round in 1..=4 {
        bench.fails(&format!("G.{round}"), &format!("objection {round}"));
    }
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.starts(), ["A.1", "G.1", "A.2", "G.2"]);
    bench.says(&["G", "fail", "--note", "a person objects"]);
    bench.until_started("A.3");
    let prompt = bench.prompt("A.3");
    for words in ["objection 1", "objection 2", "a person objects"] {
        assert_eq!(prompt.matches(words).count(), 1, "{words} in {prompt}");
    }
    // Two more failures until a person is asked again.
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.starts()[4..], ["A.3", "G.3", "A.4", "G.4"]);
    let names: Vec<String> = bench.feedback().into_keys().collect();
    let expected: Vec<String> = (1..=5).map(|round| format!("G-attempt-{round}.md")).collect();
    assert_eq!(names, expected);
    assert!(bench.feedback()["G-attempt-3.md"].contains("a person objects"));
    bench.says(&["G", "pass", "--note", "good enough"]);
    bench.until_over("complete");
    assert_eq!(bench.starts()[8..], ["B.1"]);
    assert_eq!(bench.logged("gate(human) -> passed on pass by human"), 1);
}

#[test]
fn at_a_persons_gate_only_a_person_answers() {
    let bench = Bench::new(&spec("human", ""));
    let told = bench.until_state("A", "gate(human)");
    assert!(told.notices.iter().any(|text| text.contains("gate(human)")), "{told:?}");
    bench.settle();
    for role in ["agent", "agent:claude", "reviewer", "reviewer:claude", "system"] {
        assert_refused(&bench, &["G", "pass", "--as", role], "may");
        assert_refused(&bench, &["G", "fail", "--note", "no", "--as", role], "may");
    }
    assert_refused(&bench, &["G", "fail"], "Say what has to change");
    assert_eq!(bench.starts(), ["A.1"]);
    bench.says(&["G", "fail", "--note", "shorter, please"]);
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.starts(), ["A.1", "A.2"]);
    assert!(bench.prompt("A.2").contains("shorter, please"));
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "A.2", "B.1"]);
}

#[test]
fn a_persons_file_is_as_good_as_a_report() {
    let bench = Bench::new(&spec("human", ""));
    bench.until_state("A", "gate(human)");
    bench.answers("G-fail.md", "shorter, please\n");
    bench.until_started("A.2");
    assert!(bench.feedback()["G-attempt-1.md"].contains("shorter, please"));
    assert!(bench.prompt("A.2").contains("shorter, please"));
    bench.until_state("A", "gate(human)");
    bench.answers("G-pass", "");
    bench.until_over("complete");
    assert_eq!(bench.logged("gate(human) -> sent_back on fail by human:signal"), 1);
    assert_eq!(bench.logged("gate(human) -> passed on pass by human:signal"), 1);
}

/// The mailbox is the repository's own. What an agent leaves in its worktree passes no gate, and if
/// it is committed by force it does not come along with the work.
#[test]
fn an_agent_does_not_pass_its_own_gate_from_its_worktree() {
    for commits in ["true", "git add -f .workflow/signals"] {
        let bench = Bench::new(&spec("human", ""));
        let sly =
            format!("mkdir -p .workflow/signals\ntouch .workflow/signals/G-pass\n{commits}\n");
        fs::write(bench.harness.path("sly.sh"), sly).expect("written");
        bench.script("A", &format!("run sh \"$YARD/sly.sh\"\n{WORK}{DONE}"));
        bench.until_state("A", "gate(human)");
        bench.settle();
        assert_eq!(bench.logged("gate(human) -> passed"), 0, "{commits}");
        assert_eq!(bench.starts(), ["A.1"], "{commits}");
        bench.says(&["G", "pass"]);
        bench.until_over("complete");
        let merged = bench.harness.git(&["ls-tree", "-r", "--name-only", "main"]);
        assert!(merged.contains("work-A") && !merged.contains("G-pass"), "{commits}: {merged}");
    }
}

/// A reviewer without a usable verdict leaves it to a person, who is told why.
#[test]
fn a_reviewer_that_gives_no_verdict_leaves_it_to_a_person() {
    let nonsense = "session s1\nanswer {\"verdict\":\"maybe\"}\nsuccess looked\n";
    let cases = [
        ("nonsense", nonsense, 2, "verdict"),
        ("nothing", "session s1\nsuccess it looks fine to me\n", 2, "answer"),
        ("a crash", "crash\n", 1, "no verdict from reviewer"),
        ("doubt", &verdict("ESCALATE", ""), 1, "it says ESCALATE"),
        ("a concern", &verdict("CONCERN", "who pays?"), 1, "reviewer has a concern"),
    ];
    for (what, script, turns, why) in cases {
        let bench = Bench::with(&[("panel.retries", "0")], &spec("auto", ""));
        bench.script("G", script);
        bench.until_state("A", "gate(human)");
        let step = bench.step("A");
        let said = [field(&step, "diagnostic"), field(&step, "review_summary")].join("\n");
        assert!(said.contains(why), "{what}: {said}");
        // Within one run the answer is asked for once more.
        let first = bench.starts().iter().filter(|start| *start == "G.1").count();
        assert_eq!(first, turns, "{what}: {:?}", bench.starts());
        if turns == 2 {
            let prompt = bench.prompt("G.1");
            assert_eq!(prompt.matches("does not match the schema").count(), 1, "{what}: {prompt}");
        }
        assert_eq!(bench.feedback().len(), 0, "{what}: nobody has failed it");
        bench.says(&["G", "pass"]);
        bench.until_over("complete");
    }
}

#[test]
fn a_second_answer_in_the_right_shape_counts() {
    let bench = Bench::new(&spec("auto", ""));
    let good = verdict("APPROVE", "");
    let good = good.lines().next().expect("an answer");
    bench.script(
        "G",
        &format!("session s1\nattempt 1: answer {{\"verdict\":\"maybe\"}}\nattempt 2: {good}\nsuccess looked\n"),
    );
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "G.1", "G.1", "B.1"]);
}

/// The reviewer is ended, and its late word changes nothing.
#[test]
fn a_reviewer_that_takes_too_long_leaves_it_to_a_person() {
    let bench = Bench::with(&[("limits.lease", "\"1d\"")], &spec("auto, timeout: 1h", ""));
    bench.script("G", &format!("{WAIT}{}", verdict("BLOCK", "too late")));
    bench.until_started("G.1");
    bench.settle_but_running();
    assert_eq!(bench.state("A"), "gate(auto)");
    bench.driver.pass(Span(61 * 60_000));
    bench.until_state("A", "gate(human)");
    assert!(bench.diagnostic("A").contains("no verdict"), "{}", bench.diagnostic("A"));
    bench.until("the reviewer is ended", |bench| !bench.is_at_work("G.1"));
    bench.go("G.1");
    bench.settle();
    assert_eq!(bench.state("A"), "gate(human)");
    assert!(bench.feedback().is_empty());
    bench.says(&["G", "pass"]);
    bench.until_over("complete");
}
