//! Each form of the language alone, with its meaning and its errors.

use banksman_core::lifecycle::check::Overrides;
use banksman_core::lifecycle::{Setting, builtin};
use banksman_core::workflow::{
    Criterion, EscalationLevel, Gate, LaunchMode, MAX_RETRIES, Signal, lint,
};
use serde_json::json;

use crate::{Params, ids, needs, params, refused, step, steps, with_params};

#[test]
fn what_the_file_does_not_say_is_filled_in() {
    let flow = steps(
        "  - { id: A, gate: G, signal: { type: git_commit } }\n  - { id: B, signal: { type: sentinel_file } }\ngates:\n  \
         - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE } }\n",
    );
    let a = step(&flow, "A");
    assert_eq!((a.name.as_str(), a.role.as_str(), a.launch), ("A", "worker", LaunchMode::Headless));
    assert_eq!(a.signal, Signal::GitCommit { mark: "[GATE:G]".to_owned() });
    let gate = a.gate.as_ref().expect("it has one");
    assert_eq!((gate.name.as_str(), gate.reviewers[0].as_str()), ("G", "reviewer"));
    assert_eq!((gate.level, gate.max_retries), (EscalationLevel::Auto, MAX_RETRIES));
    let step_of_gate = builtin::get("step", &Overrides::new()).unwrap().unwrap();
    let retries = step_of_gate.settings["max_retries"].value.clone();
    assert_eq!(retries, Setting::Number(f64::from(MAX_RETRIES)));
    assert_eq!(gate.on_fail.len(), 1);
    assert_eq!(gate.on_fail[0].to.as_deref(), Some("A"));
    assert_eq!(gate.on_fail[0].retry_context_path, ".workflow/retry-context/G-attempt-{n}.md");
    let path = ".workflow/signals/B-done.json".to_owned();
    assert_eq!(step(&flow, "B").signal, Signal::SentinelFile { path });
    assert_eq!(step(&steps("  - id: A\n"), "A").signal, Signal::StdoutExit);
    assert_eq!((flow.name.as_str(), flow.merge, flow.parallel), ("w", true, None));
}

#[test]
fn a_criterion_can_be_said_without_doubt() {
    for (written, meant) in [
        ("{ command: tests pass }", Criterion::Command("tests pass".to_owned())),
        ("{ file: a.md }", Criterion::File("a.md".to_owned())),
        ("{ judged: make test }", Criterion::Judged("make test".to_owned())),
        ("make test", Criterion::Command("make test".to_owned())),
    ] {
        let flow = steps(&format!("  - {{ id: A, success_criterion: {written} }}\n"));
        assert_eq!(step(&flow, "A").criterion.as_ref(), Some(&meant), "{written}");
    }
}

const TYPED: &str = "workflow:\n  id: w\n  params:\n    text: { type: string, choices: [a, b] }\n    \
    count: 3\n    flag: { type: boolean, default: false }\n    files: [x, y]\nsteps:\n  - id: A\n    \
    prompt: ${{ params.text }} ${{ params.count }} ${{ params.flag }} ${{ params.files }}\n    inputs: [\"${{ params.files }}\", z]\n";

#[test]
fn parameters_take_the_declared_type() {
    let given = [
        ("text", json!("b")),
        ("count", json!("4")),
        ("flag", json!("true")),
        ("files", json!("p, q")),
    ];
    let flow = with_params(TYPED, &params(&given)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(flow.params["count"], json!(4));
    assert_eq!(flow.params["flag"], json!(true));
    assert_eq!(flow.params["files"], json!(["p", "q"]));
    assert_eq!(step(&flow, "A").prompt, "b 4 true p, q");
    assert_eq!(step(&flow, "A").inputs, ["p", "q", "z"], "a list stands for all of its parts");
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    for (name, value, message) in [
        ("text", json!("c"), "4: `c` is not one of the choices"),
        ("count", json!("many"), "5: the parameter `count` is `many`, which is not a number"),
        ("flag", json!("yes"), "6: the parameter `flag` is `yes`, which is not true or false"),
        ("fiels", json!("p"), "2: unknown parameter `fiels`"),
    ] {
        let mut given = params(&[("text", json!("a"))]);
        given.insert(name.to_owned(), value);
        assert_eq!(refused(TYPED, &given), message);
    }
    assert_eq!(refused(TYPED, &Params::new()), "4: the parameter `text` has no value");
    let problems = with_params(TYPED, &Params::new()).expect_err("no value");
    assert!(problems.to_string().contains("give the parameter `text` a value"), "{problems}");
}

const MATRIX: &str = "  - id: build
    matrix: { os: [linux, mac], v: [1, 2] }
    name: For ${{ matrix.os }}
    outputs: [\"out/${{ matrix.os }}-${{ matrix.v }}\"]
    signal: { type: sentinel_file, value: .workflow/signals/build.json }
    gate: G
  - id: test
    for_each: [linux, mac]
    needs: [\"build[${{ item }},1]\"]
  - id: all
    needs: build
gates:
  - id: G
    name: Look at ${{ matrix.os }}
    reviewer: { level: auto }
    on_pass: { next_step: DONE }
    on_fail: { next_step: build, retry_context_path: \".workflow/retry-context/G-attempt-{n}.md\" }
";

#[test]
fn a_matrix_makes_a_step_and_a_gate_for_each_value() {
    let flow = steps(MATRIX);
    assert_eq!(ids(&flow)[..3], ["build[linux,1]", "build[linux,2]", "build[mac,1]"]);
    let one = step(&flow, "build[mac,2]");
    assert_eq!((one.name.as_str(), one.outputs[0].as_str()), ("For mac", "out/mac-2"));
    let path = ".workflow/signals/build-mac-2.json".to_owned();
    assert_eq!(one.signal, Signal::SentinelFile { path }, "no two steps share a sentinel");
    let gate = one.gate.as_ref().expect("it has one");
    assert_eq!((gate.id.as_str(), gate.name.as_str()), ("G[mac,2]", "Look at mac"));
    assert_eq!(gate.on_fail[0].to.as_deref(), Some("build[mac,2]"), "back to itself, not to all");
    assert_eq!(
        gate.on_fail[0].retry_context_path,
        ".workflow/retry-context/G-attempt-mac-2-{n}.md"
    );
    assert_eq!(needs(&flow, "test[mac]"), ["build[mac,1]"], "one value of the matrix");
    assert_eq!(needs(&flow, "all").len(), 4, "the name alone is all of them");
}

#[test]
fn values_that_cannot_be_told_apart_are_refused() {
    let text = "workflow: { id: w }\nsteps:\n  - { id: a, for_each: [x/y, x-y] }\n";
    assert_eq!(refused(text, &Params::new()), "3: two steps would get the id `a[x-y]`");
}

#[test]
fn reasons_have_their_own_ways_back() {
    let flow = steps(
        "  - id: A\n  - id: B\n    gate: G\n    needs: A\ngates:\n  - id: G\n    reviewer: { level: auto }\n    \
         on_pass: { next_step: DONE }\n    on_fail:\n      routes:\n        - { reason: bad-plan, next_step: A }\n        \
         - { reason: hopeless, next_step: ABORT, retry_context_path: \"notes/{n}.md\" }\n",
    );
    let gate = step(&flow, "B").gate.as_ref().expect("it has one");
    let to = |reason| gate.retry_route(reason).and_then(|back| back.to.as_deref());
    assert_eq!(to(Some("bad-plan")), Some("A"));
    assert_eq!(to(Some("hopeless")), None);
    assert_eq!(to(Some("anything else")), Some("B"));
    assert_eq!(to(None), Some("B"));
    assert_eq!(gate.on_fail[1].retry_context_path, "notes/{n}.md");
}

/// Going back to a step resets everything after it, so the step that sends back must come after it.
#[test]
fn a_step_waits_for_where_its_gate_leads_back() {
    let flow = steps(
        "  - id: A\n    gate: G\n  - id: B\n  - id: C\n    needs: B\ngates:\n  - id: G\n    reviewer: { level: human }\n    \
         on_pass: { next_step: DONE }\n    on_fail: { next_step: C }\n",
    );
    assert_eq!(needs(&flow, "A"), ["C"]);
    let reset: Vec<&str> = flow.downstream("B").iter().map(|step| step.id.as_str()).collect();
    assert_eq!(reset, ["A", "B", "C"]);
}

#[test]
fn a_gate_can_lead_to_several_steps() {
    let flow = steps(
        "  - id: A\n    gate: G\n  - id: B\n  - id: C\ngates:\n  - id: G\n    reviewer: { level: human }\n    \
         on_pass: { next_step: [B, C] }\n",
    );
    assert_eq!(
        (needs(&flow, "B"), needs(&flow, "C")),
        (vec!["A".to_owned()], vec!["A".to_owned()])
    );
}

#[test]
fn the_parts_of_a_list_are_chosen_from_the_choices() {
    let text = "workflow:\n  id: w\n  params: { n: { type: list, default: [2], choices: [1, 2, x] } }\nsteps:\n  - { id: A, for_each: \"${{ params.n }}\" }\n";
    let flow = with_params(text, &params(&[("n", json!("x,1"))])).expect("both are choices");
    assert_eq!(ids(&flow), ["A[x]", "A[1]"]);
    let wrong = refused(text, &params(&[("n", json!(["1", "3"]))]));
    assert_eq!(wrong, "3: `3` is not one of the choices");
}

/// Only `true` and `false` are booleans: a list of countries or answers stays what was written.
#[test]
fn words_are_not_taken_for_true_or_false() {
    let flow = steps("  - { id: A, for_each: [no, y, on] }\n");
    assert_eq!(ids(&flow), ["A[no]", "A[y]", "A[on]"]);
}

#[test]
fn the_largest_workflow_passes() {
    let chain = |number: usize| {
        let next = if number == 1_999 { "DONE".to_owned() } else { format!("s{}", number + 1) };
        (
            format!("  - {{ id: s{number}, gate: g{number}, agent: {{ worktree: w }} }}\n"),
            format!(
                "  - {{ id: g{number}, reviewer: {{ level: auto }}, on_pass: {{ next_step: {next} }}, on_fail: {{ next_step: s0 }} }}\n"
            ),
        )
    };
    let (all, gates): (Vec<String>, Vec<String>) = (0..2_000).map(chain).unzip();
    let flow = steps(&format!("{}gates:\n{}", all.concat(), gates.concat()));
    assert_eq!(flow.downstream("s0").len(), 2_000);
    assert_eq!(lint(&flow, &|_| true), [], "one worktree, but never two at once");
}

#[test]
fn bounds_are_kept() {
    let many = |count: usize| {
        let list: Vec<String> = (0..count).map(|number| format!("v{number}")).collect();
        list.join(", ")
    };
    let matrix =
        format!("workflow: {{ id: w }}\nsteps:\n  - {{ id: a, for_each: [{}] }}\n", many(257));
    assert_eq!(refused(&matrix, &Params::new()), "3: too many: 257, with a limit of 256");
    let wide = |id: &str| format!("  - {{ id: {id}, for_each: [{}] }}\n", many(250));
    let steps: String = (0..9).map(|number| wide(&format!("s{number}"))).collect();
    let text = format!("workflow: {{ id: w }}\nsteps:\n{steps}");
    assert_eq!(refused(&text, &Params::new()), "11: too many: 2001, with a limit of 2000");
    let next = format!("  - {{ id: b, needs: s0, for_each: [{}] }}\n", many(250));
    let text = format!("workflow: {{ id: w }}\nsteps:\n{}{next}", wide("s0"));
    assert_eq!(refused(&text, &Params::new()), "4: the steps have more than 20000 dependencies");
    let huge = "#".repeat(banksman_core::limits::WORKFLOW_BYTES + 1);
    assert_eq!(refused(&huge, &Params::new()), "0: the file is larger than 1024 KiB");
}

#[test]
fn a_gate_may_ask_several_reviewers() {
    let gate = |agent_type: &str| {
        let text = format!(
            "workflow: {{ id: w, params: {{ judges: [a, b] }} }}\nsteps:\n  - {{ id: A, gate: G }}\ngates:\n  - {{ id: G, \
             reviewer: {{ level: auto, agent_type: {agent_type} }}, on_pass: {{ next_step: DONE }} }}\n"
        );
        let flow =
            with_params(&text, &Params::new()).unwrap_or_else(|problems| panic!("{problems}"));
        step(&flow, "A").gate.clone().expect("it has one")
    };
    assert_eq!(gate("critic").reviewers, ["critic"]);
    assert_eq!(gate("[critic, custodiet]").reviewers, ["critic", "custodiet"]);
    assert_eq!(gate("[\"${{ params.judges }}\", c]").reviewers, ["a", "b", "c"]);
    assert_eq!(gate("[critic, custodiet]").deciders().len(), 2);
    let human = Gate { level: EscalationLevel::Human, ..gate("[critic, custodiet]") };
    assert!(human.deciders().is_empty(), "a person decides");
}

#[test]
fn reviewers_beside_a_person_are_a_doubt() {
    let doubts = |level: &str| {
        let flow = steps(&format!(
            "  - {{ id: A, outputs: [a], gate: G }}\ngates:\n  - {{ id: G, reviewer: {{ level: {level}, \
             agent_type: [a, b] }}, on_pass: {{ next_step: DONE }} }}\n"
        ));
        let doubts = lint(&flow, &|_| false).into_iter().map(|doubt| doubt.message);
        doubts.collect::<Vec<String>>()
    };
    assert_eq!(doubts("human"), ["the gate `G` names reviewers, but a person decides"]);
    assert!(doubts("auto").is_empty() && doubts("notify").is_empty());
}
