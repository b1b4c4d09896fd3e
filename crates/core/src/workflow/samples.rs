//! Workflows for tests, built without a file so that these tests do not depend on the parser.

use std::collections::BTreeMap;

use super::{Breaker, EscalationLevel, Gate, LaunchMode, Need, RetryRoute, Signal, Step, Workflow};

pub(super) fn flow(steps: Vec<Step>) -> Workflow {
    Workflow {
        id: "sample".to_owned(),
        name: "A sample".to_owned(),
        about: String::new(),
        context_files: Vec::new(),
        parallel: None,
        merge: false,
        breaker: Breaker::default(),
        params: BTreeMap::new(),
        steps,
    }
}

pub(super) fn step(id: &str, needs: &[&str], gate: Option<Gate>) -> Step {
    Step {
        id: id.to_owned(),
        name: format!("do {id}"),
        role: "worker".to_owned(),
        worker: None,
        launch: LaunchMode::Headless,
        worktree: None,
        run: None,
        prompt: String::new(),
        context: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        criterion: None,
        signal: Signal::StdoutExit,
        needs: needs.iter().map(|id| Need::Step((*id).to_owned())).collect(),
        gate,
        timeout: None,
        place: None,
        line: 1,
    }
}

/// A gate with retry routes by reason; `""` means none.
pub(super) fn gate(id: &str, max_retries: u32, ways: &[(&str, Option<&str>)]) -> Gate {
    let back = |(reason, to): &(&str, Option<&str>)| RetryRoute {
        reason: Some((*reason).to_owned()).filter(|reason| !reason.is_empty()),
        to: to.map(str::to_owned),
        retry_context_path: format!(".workflow/retry-context/{id}-attempt-{{n}}.md"),
    };
    Gate {
        id: id.to_owned(),
        name: format!("review by {id}"),
        level: EscalationLevel::Auto,
        reviewers: vec!["reviewer".to_owned()],
        on_fail: ways.iter().map(back).collect(),
        max_retries,
        veto_window: None,
        timeout: None,
        line: 1,
    }
}

/// Write tests, review them, implement, let a person review.
pub(super) fn tests_then_code() -> Workflow {
    let mut tests = step("X-1", &[], Some(gate("XG-1-2", 2, &[("", Some("X-1"))])));
    let mut code = step("X-2", &["X-1"], Some(gate("XG-2-end", 3, &[("", Some("X-2"))])));
    for (step, name, role, level) in [
        (&mut tests, "write-tests", "test-writer", EscalationLevel::Notify),
        (&mut code, "implement", "implementor", EscalationLevel::Human),
    ] {
        (step.name, step.role) = (name.to_owned(), role.to_owned());
        step.worktree = Some("phase-4/".to_owned());
        step.gate.as_mut().expect("both have one").level = level;
    }
    Workflow {
        id: "phase-4-search-index".to_owned(),
        name: "Implement search index module".to_owned(),
        about: "Write tests, review them, implement the module.".to_owned(),
        ..flow(vec![tests, code])
    }
}

/// A plan, two steps at the same time, and a step that joins them and may send back to each, or
/// abort.
pub(super) fn diamond() -> Workflow {
    let joint =
        [("plan", Some("plan")), ("left", Some("left")), ("hopeless", None), ("", Some("join"))];
    let mut end = step("join", &["left", "right"], Some(gate("G-join", 3, &joint)));
    end.needs.push(Need::Elsewhere { workflow: "release".to_owned(), step: "tag".to_owned() });
    flow(vec![
        step("plan", &[], None),
        step("left", &["plan"], Some(gate("G-left", 2, &[("", Some("left"))]))),
        step("right", &["plan"], None),
        end,
    ])
}

/// A chain of steps, each with a gate that sends back to the first.
pub(super) fn chain(length: usize, max_retries: u32) -> Workflow {
    let steps = (0..length).map(|place| {
        let before: Vec<String> =
            place.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect();
        let needs: Vec<&str> = before.iter().map(String::as_str).collect();
        let judged = gate(&format!("g{place}"), max_retries, &[("", Some("s0"))]);
        step(&format!("s{place}"), &needs, Some(judged))
    });
    flow(steps.collect())
}
