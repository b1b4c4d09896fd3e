//! Included files: what happens to their names, and where their problems are reported.

use std::collections::BTreeMap;

use banksman_core::lifecycle::problem::Problems;
use banksman_core::workflow::{Signal, Workflow, load};

use crate::{Params, ids, needs, step};

const PART: &str = "workflow:
  id: part
  context_files: [part.md]
  params: { word: { type: string } }
steps:
  - { id: a, agent: { worktree: wt/ }, gate: G, prompt: \"${{ params.word }}\", signal: { type: sentinel_file } }
  - { id: b, agent: { worktree: ./wt } }
  - { id: c, for_each: [x, y], needs: a }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: b }, on_fail: { next_step: a } }
";

fn flow(main: &str, files: &[(&str, &str)]) -> Result<Workflow, Problems> {
    let files: BTreeMap<&str, &str> = files.iter().copied().collect();
    load(main, "specs/main.yaml", &Params::new(), &|path| {
        files.get(path).map(|text| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    })
}

fn accepted(main: &str, files: &[(&str, &str)]) -> Workflow {
    flow(main, files).unwrap_or_else(|problems| panic!("{problems}"))
}

const MAIN: &str = "workflow: { id: w }
steps:
  - { id: start }
  - { id: one, uses: part.yaml, with: { word: first }, needs: start }
  - { id: two, uses: part.yaml, with: { word: second }, needs: [one] }
  - { id: end, needs: [two, one/b, \"one/c[x]\", one/c] }
";

#[test]
fn the_steps_of_a_file_stand_in_its_place() {
    let flow = accepted(MAIN, &[("part.yaml", PART)]);
    assert_eq!(
        ids(&flow),
        [
            "start", "one/a", "one/b", "one/c[x]", "one/c[y]", "two/a", "two/b", "two/c[x]",
            "two/c[y]", "end"
        ]
    );
    assert_eq!(needs(&flow, "one/a"), ["start"], "only its first steps wait");
    assert_eq!(needs(&flow, "one/b"), ["one/a"]);
    assert_eq!(needs(&flow, "two/a"), ["one/b", "one/c[x]", "one/c[y]"], "for all its last steps");
    assert_eq!(
        needs(&flow, "end"),
        ["one/b", "one/c[x]", "one/c[y]", "two/b", "two/c[x]", "two/c[y]"]
    );
    let (one, two) = (step(&flow, "one/a"), step(&flow, "two/a"));
    assert_eq!((one.prompt.as_str(), two.prompt.as_str()), ("first", "second"));
    assert_eq!(one.worktree.as_deref(), Some("one/wt"));
    assert_eq!(step(&flow, "one/b").worktree, one.worktree);
    assert_eq!(one.context, ["part.md"]);
    assert_eq!((one.line, two.line), (4, 5), "lines are those of the file that the user has open");
}

#[test]
fn a_file_that_is_used_twice_keeps_its_feedback_apart() {
    let flow = accepted(MAIN, &[("part.yaml", PART)]);
    let gate = |id| step(&flow, id).gate.as_ref().expect("it has one");
    assert_eq!((gate("one/a").id.as_str(), gate("two/a").id.as_str()), ("one/G", "two/G"));
    assert_eq!(gate("one/a").on_fail[0].to.as_deref(), Some("one/a"));
    assert_eq!(
        gate("two/a").on_fail[0].retry_context_path,
        ".workflow/retry-context/G-attempt-two-{n}.md"
    );
    let path = ".workflow/signals/a-done-one.json".to_owned();
    assert_eq!(step(&flow, "one/a").signal, Signal::SentinelFile { path });
}

#[test]
fn the_mark_of_a_commit_names_the_gate_as_it_is_called_in_the_end() {
    let signals =
        [("type: git_commit", "[GATE:one/G]"), ("type: git_commit, value: done!", "done!")];
    for (signal, expected) in signals {
        let part = PART.replace("type: sentinel_file", signal);
        let flow = accepted(MAIN, &[("part.yaml", &part)]);
        let mark = expected.to_owned();
        assert_eq!(step(&flow, "one/a").signal, Signal::GitCommit { mark });
    }
}

#[test]
fn a_file_can_be_used_for_each_value() {
    let main = "workflow: { id: w }\nsteps:\n  - { id: p, uses: part.yaml, for_each: [k, l], with: { word: \"${{ item }}\" } }\n  - { id: end, needs: [p, \"p[k]/a\", p/b] }\n";
    let flow = accepted(main, &[("part.yaml", PART)]);
    assert_eq!(step(&flow, "p[l]/a").prompt, "l");
    assert_eq!(step(&flow, "p[l]/a").worktree.as_deref(), Some("p-l/wt"));
    assert_eq!(needs(&flow, "end").len(), 7, "{:?}", needs(&flow, "end"));
}

#[test]
fn a_gate_leads_to_all_first_steps_of_a_file() {
    let main = "workflow: { id: w }\nsteps:\n  - { id: s, gate: H }\n  - { id: p, uses: part.yaml, with: { word: x } }\ngates:\n  - { id: H, reviewer: { level: human }, on_pass: { next_step: p } }\n";
    let flow = accepted(main, &[("part.yaml", PART)]);
    assert_eq!(needs(&flow, "p/a"), ["s"]);
}

#[test]
fn files_inside_files_have_names_of_their_own() {
    let middle = "workflow: { id: m }\nsteps:\n  - { id: in, uses: ../part.yaml, with: { word: deep } }\n  - { id: out, needs: in }\n";
    let main = "workflow: { id: w }\nsteps:\n  - { id: m, uses: parts/middle.yaml }\n  - { id: end, needs: [m/in, m/in/a, m/out] }\n";
    let flow = accepted(main, &[("parts/middle.yaml", middle), ("part.yaml", PART)]);
    assert_eq!(needs(&flow, "end"), ["m/in/a", "m/in/b", "m/in/c[x]", "m/in/c[y]", "m/out"]);
    assert_eq!(step(&flow, "m/in/a").worktree.as_deref(), Some("m/in/wt"));
}

#[test]
fn a_fault_is_reported_in_its_own_file() {
    let broken = PART.replace("needs: a }", "needs: aa }");
    let problems = flow(MAIN, &[("part.yaml", &broken)]).expect_err("it is broken");
    assert_eq!((problems.origin.as_str(), problems.list[0].line), ("specs/part.yaml", 8));
    let text = problems.to_string();
    assert!(text.contains("unknown step `aa`"), "{text}");
    assert!(text.contains("(included by specs/main.yaml, line 4)"), "{text}");
}

#[test]
fn a_value_that_a_file_lacks_is_asked_of_the_step_that_uses_it() {
    let problems = flow(&MAIN.replace("with: { word: first }, ", ""), &[("part.yaml", PART)]);
    let text = problems.expect_err("no value").to_string();
    assert!(text.contains("add `with: { word: … }`"), "{text}");
}

#[test]
fn files_without_end_are_refused() {
    let text = |next: usize| {
        format!("workflow: {{ id: w }}\nsteps:\n  - {{ id: s, uses: f{next}.yaml }}\n")
    };
    let load = |main: &str, make: &dyn Fn(&str) -> Result<String, String>| {
        load(main, "main.yaml", &Params::new(), make).expect_err("it has no end").to_string()
    };
    let endless = load(&text(0), &|path| {
        let number: usize = path[1..path.len() - 5].parse().expect("a number");
        Ok(text(number + 1))
    });
    assert!(endless.contains("more than 8 levels of included files"), "{endless}");
    let itself = load(&text(0), &|_| Ok(text(0)));
    assert!(itself.contains("main.yaml -> f0.yaml -> f0.yaml"), "{itself}");
    let outside =
        load("workflow: { id: w }\nsteps:\n  - { id: s, uses: ../a.yaml }\n", &|_| Ok(text(0)));
    assert!(outside.contains("is outside of the workflow"), "{outside}");
    let missing = load(&text(0), &|_| Err("no such file".to_owned()));
    assert!(missing.contains("cannot read `f0.yaml`: no such file"), "{missing}");
}

#[test]
fn many_files_are_refused() {
    let values: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let step = |id: &str| {
        format!("  - {{ id: {id}, for_each: [{}], uses: leaf.yaml }}\n", values.join(", "))
    };
    let main = format!("workflow: {{ id: w }}\nsteps:\n{}{}", step("a"), step("b"));
    let leaf = "workflow: { id: l }\nsteps:\n  - id: s\n";
    let text = flow(&main, &[("leaf.yaml", leaf)]).expect_err("too many").to_string();
    assert!(text.contains("too many: 257, with a limit of 256"), "{text}");
}

#[test]
fn another_workflow_is_not_taken_for_a_file() {
    let main = "workflow: { id: w }\nsteps:\n  - { id: p, uses: part.yaml, with: { word: x } }\n  - { id: q, needs: [other/a] }\n";
    let workflow_of = |text: &str| flow(text, &[("part.yaml", PART)]);
    assert_eq!(needs(&workflow_of(main).expect("it is sound"), "q"), ["elsewhere other/a"]);
    let unknown = workflow_of(&main.replace("other/a", "p/z")).expect_err("there is no such step");
    assert!(unknown.to_string().contains("unknown step `p/z`"), "{unknown}");
    let itself = workflow_of(&main.replace("other/a", "w/p")).expect_err("that is this workflow");
    assert!(itself.to_string().contains("unknown step `w/p`"), "{itself}");
}
