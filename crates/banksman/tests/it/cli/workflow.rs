//! `workflow lint`, `simulate`, `graph`, `run`, `status`, `next` and `report`.

mod checking;
mod running;
mod walking;

use super::sandbox::{Ran, Sandbox};

/// Tests are written and reviewed by an agent, then the code, reviewed by a person.
const TWO_STEPS: &str = "workflow: { id: search, name: Search }
steps:
  - id: X-1
    name: write-tests
    agent: { type: test-writer }
    outputs: [test.py]
    gate: XG-1
  - id: X-2
    name: implement
    agent: { type: implementor }
    inputs: [test.py]
    outputs: [search.py]
    gate: XG-2
gates:
  - id: XG-1
    reviewer: { level: auto }
    on_pass: { next_step: X-2 }
    on_fail: { next_step: X-1, routes: [{ reason: hopeless, next_step: ABORT }] }
    max_retries: 2
  - id: XG-2
    reviewer: { level: human }
    on_pass: { next_step: DONE }
    on_fail: { next_step: X-1 }
    max_retries: 3
";

/// A repository with the two steps in `search.yaml`.
fn with_steps() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("search.yaml", TWO_STEPS);
    sandbox
}

fn workflow(sandbox: &Sandbox, args: &[&str]) -> Ran {
    sandbox.run(&[&["workflow"], args].concat())
}
