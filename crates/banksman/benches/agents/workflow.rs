//! A workflow of 500 steps, eight at once, whose agents end at once: what is left is what the
//! control plane takes for a step. Against the same agent started as often by a loop that knows
//! nothing, eight at once as well.
//!
//! Processor time is that of the program and of all that it has started, less what the agents take
//! by themselves. There is no other work in it: not even one lease is as old as to be renewed.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use banksman_core::ids::TaskId;

use crate::frame::report::{Goal, Report, median, millis, quantile, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};
use crate::processes::times;

const LANES: usize = 8;
const MILLIS: f64 = 10.0;
const SCRIPT: &str = "echo '{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"}'\n";
/// The shell's own clock, because a program that prints the time would take more of it than what is
/// measured. Its words go beside the script, by the task's number.
const STAMPS: &str = "[ -n \"$BASH\" ] || exec bash \"$0\"\nbegan=$EPOCHREALTIME\n\
    echo '{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"}'\n\
    echo \"$began $EPOCHREALTIME\" >\"${0%/*}/stamp-${BANKSMAN_TASK#t}\"\n";
/// The first task is the workflow itself.
const WORKFLOW: TaskId = TaskId(1);

/// Who runs the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    Up,
    /// `workflow run` without `--detach`, which also says what happens.
    Run,
}

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let steps = size.pick(500, 80);
    report
        .section(&format!("a workflow of {steps} steps, {LANES} at once, agents that end at once"));
    let bare = by_hand(steps)?;
    let (wall, used) = (bare.wall, bare.used);
    report.note("the agents by hand: wall time, processor time a step", &both(wall, used, steps));
    for (name, git, driver) in [
        ("`up`, no repository", false, Driver::Up),
        ("`workflow run`, no repository", false, Driver::Run),
        ("`up`, a repository with 8 worktrees", true, Driver::Up),
    ] {
        let spent = run(steps, git, driver)?;
        let ours = spent.used.saturating_sub(bare.used);
        report.note(
            &format!("{name}: wall time, processor time a step"),
            &format!("{}, with the agents", both(spent.wall, spent.used, steps)),
        );
        let a_step = each(ours, steps);
        let name_of_cost = format!("{name}: our processor time a step");
        if git {
            report.note(&name_of_cost, &format!("{} ms, git included", short(a_step)));
        } else {
            report.judge(&name_of_cost, a_step, "ms", Goal::AtMost(MILLIS));
        }
        report.note(
            &format!("{name}: of it, the one process"),
            &format!("{} ms a step", short(each(spent.of_driver, steps))),
        );
        let ratio = spent.wall.as_secs_f64() / bare.wall.as_secs_f64();
        report.note(&format!("{name}: wall time against by hand"), &format!("{} ×", short(ratio)));
    }
    chain(size.pick(100, 20), report)
}

/// What it took.
struct Spent {
    wall: Duration,
    /// Processor time of all processes.
    used: Duration,
    /// Of the one that drives.
    of_driver: Duration,
}

/// The same scripts, each lane with a thread that starts the next one.
fn by_hand(steps: usize) -> Result<Spent, Fault> {
    let folder = tempfile::tempdir()?;
    let agent = folder.path().join("agent.sh");
    fs::write(&agent, SCRIPT)?;
    let next = AtomicUsize::new(0);
    let me = std::process::id();
    let (before, began) = (times(me).ok_or("there is no /proc")?, Instant::now());
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|_| {
                scope.spawn(|| -> Result<(), Fault> {
                    while next.fetch_add(1, Ordering::Relaxed) < steps {
                        let mut command = Command::new("sh");
                        command.arg(&agent).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
                    }
                    Ok(())
                })
            })
            .collect();
        lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a thread panicked")?)
    })?;
    let (wall, after) = (began.elapsed(), times(me).ok_or("there is no /proc")?);
    let used = after.of_children.saturating_sub(before.of_children);
    Ok(Spent { wall, used, of_driver: after.own.saturating_sub(before.own) })
}

fn run(steps: usize, git: bool, driver: Driver) -> Result<Spent, Fault> {
    let lanes = u32::try_from(LANES)?;
    let place = Place::new(SCRIPT, lanes, lanes)?;
    if git {
        place.make_repository()?;
    }
    place.succeed(&["init"])?;
    let spec = place.path("spec.yaml");
    fs::write(&spec, layers(steps, git))?;
    let spec = spec.display().to_string();
    let (mut child, began) = match driver {
        Driver::Up => {
            place.succeed(&["workflow", "run", &spec, "--detach"])?;
            let began = Instant::now();
            (place.up()?, began)
        }
        Driver::Run => {
            let began = Instant::now();
            (place.command(&["workflow", "run", &spec]).spawn()?, began)
        }
    };
    let mut spent = None;
    wait_until("the workflow is over", || {
        // The figures of a process that has ended and was not waited for are still there.
        let used = times(child.id()).ok_or("there is no /proc")?;
        spent = Some(Spent {
            wall: began.elapsed(),
            used: used.own + used.of_children,
            of_driver: used.own,
        });
        let over = match driver {
            Driver::Up => {
                place.is_over(WORKFLOW)? && fs::read_dir(place.path("runs"))?.next().is_none()
            }
            Driver::Run => child.try_wait()?.is_some(),
        };
        Ok(over)
    })?;
    if driver == Driver::Up {
        child.kill()?;
        child.wait()?;
    }
    if !place.is_over(WORKFLOW)? {
        return Err("the workflow did not come to its end".into());
    }
    spent.ok_or_else(|| "nothing was measured".into())
}

/// One step after the other: from the last word of an agent to the first of the next.
fn chain(steps: usize, report: &mut Report) -> Result<(), Fault> {
    let place = Place::new(STAMPS, 1, 1)?;
    place.succeed(&["init"])?;
    let spec = place.path("spec.yaml");
    fs::write(&spec, one_after_the_other(steps))?;
    place.succeed(&["workflow", "run", &spec.display().to_string(), "--detach"])?;
    let mut up = place.up()?;
    let over = wait_until("the chain is over", || place.is_over(WORKFLOW));
    up.kill()?;
    up.wait()?;
    over?;
    let ours = gaps(&place, steps)?;
    for number in 0..steps {
        let mut command = Command::new("sh");
        command.arg(place.path("agent.sh")).env("BANKSMAN_TASK", format!("t{}", number + 2));
        command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    }
    let bare = gaps(&place, steps)?;
    report.note(
        &format!("from a step's end to the start of the next, {steps} in a row"),
        &format!(
            "median {} ms, p95 {} ms; by hand {} ms",
            short(median(&ours)),
            short(quantile(&ours, 0.95)),
            short(median(&bare))
        ),
    );
    Ok(())
}

/// From each agent's last stamp to the first one of the next, in milliseconds.
fn gaps(place: &Place, steps: usize) -> Result<Vec<f64>, Fault> {
    let mut stamps = Vec::new();
    for number in 2..steps + 2 {
        let text = fs::read_to_string(place.path(&format!("stamp-{number}")))?;
        let (began, ended) = text.trim().split_once(' ').ok_or("a stamp is not whole")?;
        stamps.push((began.parse::<f64>()?, ended.parse::<f64>()?));
    }
    Ok(stamps.windows(2).map(|pair| (pair[1].0 - pair[0].1) * 1_000.0).collect())
}

/// Layers of eight: each step needs the one above it, and every second one its neighbour's as well.
fn layers(steps: usize, worktrees: bool) -> String {
    let mut spec = format!("workflow: {{ id: wide, name: wide, parallel: {LANES} }}\nsteps:\n");
    for number in 0..steps {
        let (layer, lane) = (number / LANES, number % LANES);
        let above = |lane: usize| format!("s-{}-{}", layer - 1, lane % LANES);
        let needs = match (layer, lane % 2) {
            (0, _) => String::new(),
            (_, 0) => above(lane),
            (_, _) => format!("{}, {}", above(lane), above(lane + 1)),
        };
        let agent =
            if worktrees { format!(", agent: {{ worktree: lane-{lane} }}") } else { String::new() };
        spec.push_str(&format!("  - {{ id: s-{layer}-{lane}, needs: [{needs}]{agent} }}\n"));
    }
    spec
}

fn one_after_the_other(steps: usize) -> String {
    let mut spec = "workflow: { id: chain, name: chain }\nsteps:\n  - { id: s-0 }\n".to_owned();
    for number in 1..steps {
        spec.push_str(&format!("  - {{ id: s-{number}, needs: [s-{}] }}\n", number - 1));
    }
    spec
}

fn both(wall: Duration, used: Duration, steps: usize) -> String {
    format!("{} ms, {} ms", short(each(wall, steps)), short(each(used, steps)))
}

fn each(time: Duration, steps: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let steps = steps as f64;
    millis(time) / steps
}
