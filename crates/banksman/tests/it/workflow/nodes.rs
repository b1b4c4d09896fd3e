//! One workflow on two machines that share a PostgreSQL store: when one of them dies, the other one brings it to the same end.

use std::collections::BTreeMap;
use std::fs;

use banksman::store::Stored;
use banksman_core::ids::TaskId;

use super::{AGENT, DONE, WORK, field, verdict};
use crate::engine::machines::{Database, pull_the_plug};
use crate::engine::processes::wait_until;
use crate::engine::yard::{Yard, state_of};
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
fn yard_on(database: &Database) -> Yard {
    let settings = [
        ("limits.lease", "\"3s\""),
        ("limits.agents", "2"),
        ("limits.grace", "\"500ms\""),
        ("worktrees.path", "\"{repo_parent}/worktrees/{task}\""),
    ];
    let yard = Yard::on_postgres(&database.url, &settings);
    fs::create_dir(yard.path("names")).expect("a folder");
    for (name, text) in [("starts", ""), ("bench-agent.sh", AGENT), ("w.yaml", SPEC)] {
        fs::write(yard.path(name), text).expect("written");
    }
    let words = [yard.path("bench-agent.sh"), scripted_agent(), yard.root().to_owned()];
    let words = words.map(|word| format!("{:?}", word.display().to_string()));
    yard.set(&[("workers.scripted.command", &format!("[\"sh\", {}]", words.join(", ")))]);
    yard.script("steps", &format!("{WORK}{HELD}{DONE}"));
    yard.script("gates", &verdict("APPROVE", ""));
    yard
}

fn steps(yard: &Yard) -> BTreeMap<String, Stored> {
    let parts = yard.open().parts(TaskId(1)).expect("steps");
    parts.into_iter().map(|part| (field(&part, "step"), part)).collect()
}

#[test]
fn a_workflow_of_a_machine_that_died_ends_the_same_on_another_one() {
    let Some(database) = Database::new("workflow") else { return };
    let yard = yard_on(&database);
    yard.ok(&["workflow", "run", "--detach", "../w.yaml"]);
    let (a, b) = (yard.up_on("a"), yard.up_on("b"));
    wait_until("both machines are at work", || yard.file("commits").lines().count() == 4);
    let lost = yard.jobs("b");
    assert_eq!(lost.len(), 2, "{lost:?}");
    pull_the_plug(&yard, "b", b);
    fs::write(yard.path("go"), "").expect("written");
    let whole = || state_of(&yard.open().task(TaskId(1)).expect("a workflow")).to_owned();
    wait_until("the workflow is over", || whole() == "complete");
    let are_closed = || steps(&yard).values().all(|step| state_of(step) == "complete");
    wait_until("every step is closed", are_closed);
    wait_until("a has put everything away", || yard.jobs("a").is_empty());

    let mut ended: Vec<String> = yard.file("ended").lines().map(str::to_owned).collect();
    ended.sort();
    assert_eq!(ended, ["A", "B", "C", "D", "Z"], "each step came to its end once");
    for (id, step) in steps(&yard) {
        let history = yard.open().history(step.task.id, 0).expect("a history");
        let moves = |on: &str| history.iter().filter(|entry| entry.record.trigger == on).count();
        assert_eq!((moves("signal"), moves("close")), (1, 1), "{id}");
        let runs = if lost.contains(&format!("r{}.1", step.task.id.0)) { 2 } else { 1 };
        assert_eq!(step.task.spent.runs, runs, "{id} of {lost:?}");
        let work = yard.git(&["show", &format!("main:work-{id}")]);
        assert_eq!(work.lines().last(), Some(format!("{id}.{runs}").as_str()), "{work}");
    }
    let log = yard.file("repo/.workflow/audit/w.log");
    for words in ["workflow w started", "(gate G) gate(auto) -> passed", "is complete"] {
        assert_eq!(log.matches(words).count(), 1, "{words}: {log}");
    }
    // The machine comes back and finds that nothing is left for it but to put things away.
    let starts = yard.starts();
    let b = yard.up_on("b");
    wait_until("b has put everything away", || yard.jobs("b").is_empty());
    wait_until("no worktree is left", || yard.worktrees().is_empty());
    assert_eq!(yard.starts(), starts);
    a.stop();
    b.stop();
    yard.assert_clean(&["a", "b"]);
}
