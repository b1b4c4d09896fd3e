//! A criterion in prose: an agent judges it wherever one may, and only else a person.

use banksman_core::fence::fence;

use super::Bench;
use crate::store::raw::Raw;

const SPEC: &str = "
workflow: { id: w, name: Judged, merge: false }
steps:
  - { id: A, success_criterion: { judged: every page has a text } }
";
/// Writes down what it was asked, and finds that nothing is missing at the second look.
const JUDGE: &str = r#"cat >>"$1/asked"; answer='{"done":false,"reason":"two pages are empty"}'
[ "$(grep -c '^Is this met' "$1/asked")" -lt 2 ] || answer='{"done":true,"reason":"all are there"}'
echo "{\"type\":\"result\",\"status\":\"success\",\"text\":\"\",\"answer\":$answer,\"usage\":{\"input_tokens\":7,\"output_tokens\":2,\"cost_usd\":0.5}}"
"#;

/// The same, done by somebody who says when it is done.
const BY_HAND: &str = "
workflow: { id: w, name: Judged, merge: false }
steps:
  - { id: A, agent: { launch: interactive }, signal: { type: sentinel_file }, success_criterion: { judged: every page has a text } }
";
const NOBODY: [(&str, &str); 1] = [("workers.judge.roles", "[\"planner\"]")];

fn bench(spec: &str, settings: &[(&str, &str)]) -> Bench {
    let bench = Bench::new(spec);
    std::fs::write(bench.harness.path("judge.sh"), JUDGE).expect("written");
    let words = [bench.harness.path("judge.sh"), bench.harness.root().to_owned()];
    let [script, root] = words.map(|word| format!("{:?}", word.display().to_string()));
    let command = format!("[\"sh\", {script}, {root}]");
    bench.harness.set(&[
        ("workers.scripted.roles", "[\"agent\"]"),
        ("workers.judge.agent", "\"command\""),
        ("workers.judge.command", &command),
        ("workers.judge.roles", "[\"reviewer\"]"),
    ]);
    bench.harness.set(settings);
    let driver = super::Driver::of(bench.harness.root(), super::PATIENCE);
    Bench { driver, ..bench }
}

/// What both looks have used is in the budgets of the task and of the day.
fn assert_both_looks_are_counted(bench: &Bench, runs: i64) {
    let spent = bench.step("A").task.spent;
    assert_eq!((spent.runs, spent.tokens, spent.cost_micros), (runs, 18, 1_000_000));
    let mut raw = Raw::open(&bench.harness.store().parse().expect("an address"), None);
    let day = "SELECT sum(runs), sum(tokens), sum(cost_micros) FROM spent WHERE scope LIKE 'day:%'";
    let expected = [runs.to_string(), "18".to_owned(), "1000000".to_owned()].map(Some).to_vec();
    assert_eq!(raw.rows(day), [expected]);
}

#[test]
fn a_criterion_in_prose_is_judged_by_whoever_may_review() {
    let bench = bench(SPEC, &[]);
    bench.until_over("complete");
    assert_eq!(bench.starts(), ["A.1", "A.2"], "the first attempt has not met it");
    let asked = bench.harness.file("asked");
    let question = format!("Is this met?\n\n{}", fence("every page has a text"));
    assert_eq!(asked.matches(&question).count(), 2, "{asked}");
    assert!(bench.prompt("A.2").contains("two pages are empty"), "{}", bench.prompt("A.2"));
    assert_both_looks_are_counted(&bench, 2);
}

#[test]
fn where_nobody_may_review_a_person_is_asked_and_told_why() {
    let bench = bench(SPEC, &NOBODY);
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.diagnostic("A"), "no evaluator has judged: every page has a text");
    assert_eq!(
        (bench.starts(), bench.harness.file("asked")),
        (vec!["A.1".to_owned()], String::new())
    );
    bench.says(&["A", "pass"]);
    bench.until_over("complete");
}

#[test]
fn what_somebody_did_by_hand_is_judged_the_same_way() {
    let bench = bench(BY_HAND, &[]);
    bench.until_state("A", "interactive");
    bench.settle();
    bench.says(&["A", "done", "--note", "I have looked at all but two"]);
    bench.until("it is judged", |bench| bench.diagnostic("A").contains("two pages are empty"));
    assert_eq!(bench.state("A"), "interactive");
    let words = bench.harness.file("repo/.workflow/steps/A.md");
    assert!(words.contains("`every page has a text` is not met: two pages are empty"), "{words}");
    bench.settle();
    bench.leaves("A-done.json", r#"{"status": "done", "note": "now at all of them"}"#);
    bench.until_over("complete");
    assert_eq!(bench.starts(), Vec::<String>::new(), "no run was begun");
    let asked = bench.harness.file("asked");
    let question = format!("Is this met?\n\n{}", fence("every page has a text"));
    assert_eq!(asked.matches(&question).count(), 2, "{asked}");
    for said in ["I have looked at all but two", "now at all of them"] {
        assert_eq!(asked.matches(said).count(), 1, "{asked}");
    }
    assert_both_looks_are_counted(&bench, 0);
}

#[test]
fn what_somebody_did_by_hand_goes_to_a_person_where_nobody_may_review() {
    let bench = bench(BY_HAND, &NOBODY);
    bench.until_state("A", "interactive");
    bench.settle();
    bench.says(&["A", "done"]);
    bench.until_state("A", "gate(human)");
    assert_eq!(bench.diagnostic("A"), "no evaluator has judged: every page has a text");
    assert_eq!(bench.harness.file("asked"), "");
    bench.says(&["A", "pass"]);
    bench.until_over("complete");
}
