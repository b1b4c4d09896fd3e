//! One workflow on two machines that share a PostgreSQL store: when one of them dies, the other one
//! brings it to the same end.

use std::collections::BTreeMap;
use std::fs;

use banksman::store::Stored;
use banksman_core::ids::TaskId;

use super::{AGENT, DONE, WORK, field, verdict};
use crate::engine::harness::{Harness, state_of};
use crate::engine::machines::{Database, pull_the_plug};
use crate::engine::processes::wait_until;
use crate::scripted::scripted_agent;

const SPEC: &str = "
workflow: { id: w, name: On two machines, parallel: 8 }
steps:
  - { id: A }
  - { id: B }
  - { id: C, gate: G }
  - { id: D }
  - { id: Z, needs: [A, B, C, D] }
gates:
  - { id: G, reviewer: { level: auto }, on_pass: { next_step: Z } }
";
/// Waits in the middle of its work; whoever comes to its end says so.
const HELD: &str = r#"run until [ -f "$YARD/go" ]; do sleep 0.02; done
run echo "$STEP" >>"$YARD/ended"
"#;

/// Both see the same folders, so the one that takes over finds the worktrees of the other.
fn harness_on(database: &Database) -> Harness {
    let settings = [
        ("limits.lease", "\"3s\""),
        ("limits.agents", "2"),
        ("limits.grace", "\"500ms\""),
        ("worktrees.path", "\"{repo_parent}/worktrees/{task}\""),
    ];
    let harness = Harness::on_postgres(&database.url, &settings);
    fs::create_dir(harness.path("names")).expect("a folder");
    for (name, text) in [("starts", ""), ("bench-agent.sh", AGENT), ("w.yaml", SPEC)] {
        fs::write(harness.path(name), text).expect("written");
    }
    let words = [harness.path("bench-agent.sh"), scripted_agent(), harness.root().to_owned()];
    let words = words.map(|word| format!("{:?}", word.display().to_string()));
    harness.set(&[("workers.scripted.command", &format!("[\"sh\", {}]", words.join(", ")))]);
    harness.script("steps", &format!("{WORK}{HELD}{DONE}"));
    harness.script("gates", &verdict("APPROVE", ""));
    harness
}

fn steps(harness: &Harness) -> BTreeMap<String, Stored> {
    let steps = harness.open().children(TaskId(1)).expect("steps");
    steps.into_iter().map(|step| (field(&step, "step"), step)).collect()
}

mod needs_postgres {
    use super::*;

    #[test]
    fn a_workflow_of_a_machine_that_died_ends_the_same_on_another_one() {
        let database = Database::new("workflow");
        let harness = harness_on(&database);
        harness.ok(&["workflow", "run", "--detach", "../w.yaml"]);
        let (a, b) = (harness.up_on("a"), harness.up_on("b"));
        wait_until("both machines are at work", || harness.file("commits").lines().count() == 4);
        let lost = harness.jobs("b");
        assert_eq!(lost.len(), 2, "{lost:?}");
        pull_the_plug(&harness, "b", b);
        fs::write(harness.path("go"), "").expect("written");
        let state = || state_of(&harness.open().task(TaskId(1)).expect("a workflow")).to_owned();
        wait_until("the workflow is over", || state() == "complete");
        let are_closed = || steps(&harness).values().all(|step| state_of(step) == "complete");
        wait_until("every step is closed", are_closed);
        wait_until("a has put everything away", || harness.jobs("a").is_empty());

        let mut ended: Vec<String> = harness.file("ended").lines().map(str::to_owned).collect();
        ended.sort();
        assert_eq!(ended, ["A", "B", "C", "D", "Z"], "each step came to its end once");
        for (id, step) in steps(&harness) {
            let history = harness.open().history(step.task.id, 0).expect("a history");
            let moves =
                |on: &str| history.iter().filter(|entry| entry.record.trigger == on).count();
            assert_eq!((moves("signal"), moves("close")), (1, 1), "{id}");
            let runs = if lost.contains(&format!("r{}.1", step.task.id.0)) { 2 } else { 1 };
            assert_eq!(step.task.spent.runs, runs, "{id} of {lost:?}");
            let work = harness.git(&["show", &format!("main:work-{id}")]);
            assert_eq!(work.lines().last(), Some(format!("{id}.{runs}").as_str()), "{work}");
        }
        let log = harness.file("repo/.workflow/audit/w.log");
        for words in ["workflow w started", "(gate G) gate(auto) -> passed", "is complete"] {
            assert_eq!(log.matches(words).count(), 1, "{words}: {log}");
        }
        // The machine comes back and finds that nothing is left for it but to put things away.
        let starts = harness.starts();
        let b = harness.up_on("b");
        wait_until("b has put everything away", || harness.jobs("b").is_empty());
        wait_until("no worktree is left", || harness.worktrees().is_empty());
        assert_eq!(harness.starts(), starts);
        a.stop();
        b.stop();
        harness.assert_clean(&["a", "b"]);
    }
}
