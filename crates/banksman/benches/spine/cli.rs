//! Commands from the shell on a large store: what a person or a script waits for.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::fill::{self, Queue};
use crate::frame::report::{Goal, Report, median, millis, short};
use crate::frame::{Fault, Size};
use crate::program::{banksman, command, run};
use crate::sample;

/// What a person takes for at once, less what their terminal needs.
const AT_ONCE_MILLIS: f64 = 30.0;

/// What is run in each round, in this order.
const NAMES: [&str; 8] = [
    "add",
    "show",
    "move",
    "lifecycle lint (200 states)",
    "list",
    "list of a state that no task is in",
    "status",
    "a program that does nothing (`true`)",
];
/// The first ones have a goal.
const JUDGED: usize = 4;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let tasks = size.pick(100_000, 20_000);
    report.section(&format!("commands from the shell on {tasks} tasks"));
    let folder = sample::folder()?;
    let (store, path) = fill::sqlite(&folder, tasks, Queue::AllReady)?;
    drop(store);
    let lifecycle = folder.path().join("large.yaml");
    fs::write(&lifecycle, large_lifecycle(200)?)?;
    let lifecycle = lifecycle.to_str().ok_or("the folder's name is not text")?;

    let mut times = NAMES.map(|name| (name, Vec::new()));
    for round in 0..size.pick(25, 5) {
        let title = format!("Measure the command line, round {round}");
        let (took, output) = run(banksman(&folder, &path, &["add", &title, "--json"]))?;
        let id = id_of(&output.stdout)?;
        times[0].1.push(millis(took));
        let rest: [Command; NAMES.len() - 1] = [
            banksman(&folder, &path, &["show", &id]),
            banksman(&folder, &path, &["move", &id, "active", "--as", "worker:ada"]),
            banksman(&folder, &path, &["lifecycle", "lint", lifecycle]),
            banksman(&folder, &path, &["list"]),
            banksman(&folder, &path, &["list", "--state", "failed"]),
            banksman(&folder, &path, &["status"]),
            command("true", &folder),
        ];
        for (command, (_, taken)) in rest.into_iter().zip(&mut times[1..]) {
            taken.push(millis(run(command)?.0));
        }
    }
    let (judged, noted) = times.split_at(JUDGED);
    for (name, taken) in judged {
        report.judge(name, median(taken), "ms", Goal::AtMost(AT_ONCE_MILLIS));
    }
    for (name, taken) in noted {
        report.note(name, &format!("{} ms", short(median(taken))));
    }
    Ok(())
}

fn id_of(json: &[u8]) -> Result<String, Fault> {
    let answer: serde_json::Value = serde_json::from_slice(json)?;
    let task = answer.get("task").unwrap_or(&answer);
    let id = task.get("id").and_then(serde_json::Value::as_str);
    Ok(id.ok_or("`add --json` did not answer with an id")?.to_owned())
}

/// A sound lifecycle of so many states, each of which leads to the next, back to the first, and to
/// the end.
pub(crate) fn large_lifecycle(states: usize) -> Result<String, Fault> {
    let mut text = String::from(
        "lifecycle: large\npurpose: task\nabout: Made for the benchmark.\ninitial: step_0\nroles: [worker]\n",
    );
    text.push_str("fields: { reason: text, note: text }\nstates:\n");
    let steps = states - 2;
    for step in 0..steps {
        writeln!(
            text,
            "  step_{step}: {{ kind: waiting, within: [{{ time: 7d, to: done, on: late }}] }}"
        )?;
    }
    text.push_str("  done: { kind: done }\n");
    text.push_str("  cancelled: { kind: cancelled, requires: [{ field: reason, message: Say why }] }\ntransitions:\n");
    for step in 0..steps {
        let next = if step + 1 < steps { format!("step_{}", step + 1) } else { "done".to_owned() };
        writeln!(
            text,
            "  - {{ from: step_{step}, to: {next}, on: go, by: [worker, human], guards: [note] }}"
        )?;
        if step > 0 {
            writeln!(text, "  - {{ from: step_{step}, to: step_0, on: back, by: [human] }}")?;
        }
    }
    text.push_str("  - { from: any, to: cancelled, on: cancel, by: [human] }\n");
    Ok(text)
}
