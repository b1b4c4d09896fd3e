//! `prompts list`, `show` and `lint`, and a project's own templates.

use std::fs;
use std::process::Output;

use insta::assert_snapshot;

use crate::engine::driver::Driver;
use crate::engine::harness::Harness;
use banksman_core::time::Span;

fn put(harness: &Harness, name: &str, text: &str) {
    let path = harness.path("repo/.banksman/prompts").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    format!("exit {code}\n{}{}", text(&output.stdout), text(&output.stderr))
}

const OWN: &str = "Do {title}: {body}{context}{feedback}{failures}{rules} as {{task}}.\n";

#[test]
fn a_project_has_its_own_in_the_place_of_built_in_ones() {
    let harness = Harness::new(&[]);
    put(&harness, "worker.md", OWN);
    put(&harness, "reviewers/poet.md", "You look for rhymes.");
    put(&harness, "step.md", "nothing");
    assert_snapshot!(said(&harness.run(&["prompts", "list"])), @"
    exit 0
    NAME                 FROM                                 ANSWER     FOR
    worker               .banksman/prompts/worker.md                     the agent that does a task
    planner              built-in                             plan       the agent that breaks a task down
    spike                built-in                                        the agent that answers a question of a plan
    work-plan            built-in                             work-plan  the assignee of a task, before it begins
    delivery             built-in                             delivery   the assignee of a task, when it does the work
    role                 built-in                                        an agent in any other role
    again                built-in                                        an agent that continues its session after a failure
    answered             built-in                                        an agent that continues its session after a person's answer
    nudge                built-in                                        an agent that has stalled
    step                 .banksman/prompts/step.md                       invalid, see `banksman prompts lint`
    join                 built-in                                        the agent of a step or workflow whose branches conflict, after its prompt
    merger               built-in                                        the agent that joins the branches of a workflow at its end
    reviewer             built-in                             verdict    each reviewer, in the first pass
    plan-reviewer        built-in                             verdict    each reviewer of a plan, in the first pass
    debate               built-in                             reply      a reviewer with a concern, in each round of a debate
    task                 built-in                                        a reviewer, about the task that it judges
    gate                 built-in                                        a reviewer at a gate, about the step that it judges
    evaluator            built-in                             evaluator  the agent that judges a run whose facts are inconclusive
    reviewers/custodiet  built-in                                        the reviewer custodiet, as its brief
    reviewers/critic     built-in                                        the reviewer critic, as its brief
    reviewers/judge      built-in                                        the reviewer of panels of the role judge, as its brief
    reviewers/evaluator  built-in                                        the reviewer of panels of the role evaluator, as its brief
    reviewers/poet       .banksman/prompts/reviewers/poet.md             the reviewer poet, as its brief
    next: banksman prompts show NAME · banksman prompts render TASK
    ");
    let list = harness.json(&["prompts", "list"]);
    let worker = &list["prompts"][0];
    assert_eq!(worker["origin"], ".banksman/prompts/worker.md");
    assert_eq!(worker["overridden"], true);
    assert_eq!(worker["values"][1], "title");
}

#[test]
fn a_template_is_shown_as_it_is_used_and_as_it_was() {
    let harness = Harness::new(&[]);
    let built_in = harness.ok(&["prompts", "show", "worker"]);
    put(&harness, "worker.md", OWN);
    assert_eq!(harness.ok(&["prompts", "show", "worker"]), OWN);
    assert_eq!(harness.ok(&["prompts", "show", "worker", "--builtin"]), built_in);
    let schema = harness.json(&["prompts", "show", "reviewer", "--schema"]);
    assert_eq!(schema["required"][0], "verdict");
    assert_snapshot!(said(&harness.run(&["prompts", "show", "wroker"])), @"
    exit 1
    error: there is no prompt `wroker`; did you mean `worker`? (BM-E035)
    hint: `banksman prompts list` shows which there are
    ");
    assert_snapshot!(said(&harness.run(&["prompts", "show", "worker", "--schema"])), @"
    exit 2
    error: the prompt `worker` has no answer schema (BM-E001)
    hint: `banksman prompts list` shows which prompts have one
    ");
    assert_snapshot!(said(&harness.run(&["prompts", "show", "reviewers/../../x"])), @"
    exit 1
    error: there is no prompt `reviewers/../../x`; known here: worker, planner, spike, work-plan, delivery, role, again, answered, nudge, step, join, merger, reviewer, plan-reviewer, debate, task, gate, evaluator, reviewers/custodiet, reviewers/critic, reviewers/judge, reviewers/evaluator (BM-E035)
    hint: `banksman prompts list` shows which there are
    ");
}

#[test]
fn what_cannot_be_used_is_named_with_its_line() {
    let harness = Harness::new(&[]);
    assert_snapshot!(said(&harness.run(&["prompts", "lint"])), @"exit 0");
    put(
        &harness,
        "worker.md",
        "Do {titel}.\n\n{title} {body}{context}{feedback}\n{failures} { task }\n",
    );
    put(&harness, "reviewer.md", "{brief}{work}{reason} Say `verdict` and why.\n");
    put(&harness, "again.md", &"x".repeat(40_000));
    put(&harness, "debate.md", "");
    put(&harness, "verdict.schema.json", "{}");
    put(&harness, "wroker.md", "");
    put(&harness, "reviewers/poet.md", "\n");
    assert_snapshot!(said(&harness.run(&["prompts", "lint"])), @"
    exit 5
    .banksman/prompts/again.md:1: it cannot be read: larger than 32 KiB; fix or remove it
    .banksman/prompts/debate.md:1: it is empty; remove the file to use the built-in prompt again
    .banksman/prompts/reviewer.md:1: the answer must have `rationale`, but the prompt does not mention it; `banksman prompts show reviewer --schema` shows the schema
    .banksman/prompts/reviewer.md:1: the answer must have `concerns`, but the prompt does not mention it; `banksman prompts show reviewer --schema` shows the schema
    .banksman/prompts/reviewer.md:1: the answer must have `suggestions`, but the prompt does not mention it; `banksman prompts show reviewer --schema` shows the schema
    .banksman/prompts/reviewers/poet.md:1: it is empty; say what the reviewer looks for
    .banksman/prompts/verdict.schema.json:1: the shape of an answer cannot be changed; Banksman reads only the built-in schema; change the template instead
    .banksman/prompts/worker.md:1: unknown value `{titel}`; did you mean `title`? (write `{{titel}}` for literal braces)
    .banksman/prompts/worker.md:4: unknown value `{ task }`; did you mean `task`? (write `{{ task }}` for literal braces)
    .banksman/prompts/worker.md:4: `{rules}` is missing; the agent needs this value; add it where it belongs
    .banksman/prompts/wroker.md:1: no prompt has this name; did you mean `worker.md`?
    ");
}

#[test]
fn an_agent_is_told_what_the_project_says() {
    let harness = Harness::new(&[]);
    put(&harness, "worker.md", OWN);
    harness.script("any", "nothing-to-do there is nothing\nsuccess so it is\n");
    harness.add("paint it", &[]);
    let driver = Driver::of(harness.root(), Span(100));
    driver.turn_until("its agent was told", |_| !harness.file("prompts/r1.1").is_empty());
    let told = harness.file("prompts/r1.1");
    assert!(told.starts_with("Do <data ") && told.contains("\npaint it\n"), "{told}");
    assert!(told.ends_with(" as {task}.\n"), "{told}");
    driver.turn_until("it is over", |_| harness.jobs(crate::engine::driver::NODE).is_empty());
}

#[test]
fn a_template_that_cannot_be_used_starts_nobody() {
    let harness = Harness::new(&[]);
    put(&harness, "worker.md", "Do {title}.\nDo {boddy}.\n");
    let id = harness.add("paint it", &[]);
    let driver = Driver::of(harness.root(), Span(100));
    driver.turn();
    let asked = harness.ok(&["decisions", "show", &id.to_string()]);
    assert!(asked.contains("worker.md`: line 2: unknown value `{boddy}`"), "{asked}");
    assert_eq!(driver.notices().len(), 1, "people are told once");
    assert_eq!(harness.starts(), Vec::<String>::new());
    let shown = said(&harness.run(&["prompts", "render", &id.to_string(), "--role", "worker"]));
    assert!(shown.contains("line 2"), "{shown}");
}
