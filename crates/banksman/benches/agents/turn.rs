//! A turn on a store with very many tasks and many runs, and `up` while all agents are asleep.

use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::frame::report::{Goal, Report, median, millis, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};
use crate::processes::{megabytes, processor_time, run_time};

const SCRIPT: &str = "exec sleep 600\n";
const RUNS: u32 = 50;
/// A turn has to be over long before the next one is due.
const MILLIS: f64 = 250.0;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    let tasks = size.pick(100_000, 10_000);
    report.section(&format!("a turn on {tasks} tasks with {RUNS} runs"));
    for (name, agents) in
        [("the machine is full", RUNS), ("the machine has room, its worker not", RUNS + 10)]
    {
        let place = Place::new(SCRIPT, agents, RUNS)?;
        place.add(tasks)?;
        place.turn()?;
        wait_until("all agents are at work", || {
            Ok(place.store.open_runs(None)?.len() == usize::try_from(RUNS)?)
        })?;
        // The first turns may still have to note that runs were started.
        place.turn()?;
        let mut times = Vec::new();
        for _ in 0..size.pick(25, 5) {
            let began = Instant::now();
            place.turn()?;
            times.push(millis(began.elapsed()));
        }
        report.judge(&format!("{name}: a turn"), median(&times), "ms", Goal::AtMost(MILLIS));
        let began = Instant::now();
        place.command(&["pulse"]).status()?;
        report.note(
            &format!("{name}: `banksman pulse`"),
            &format!("{} ms", short(millis(began.elapsed()))),
        );
        if agents == RUNS {
            idle(&place, size, report)?;
        }
    }
    Ok(())
}

/// Everything that could happen has happened, and all agents are asleep. What goes on is the
/// renewing of their leases: one run after the other writes into the store, each once in a third of
/// its lease.
fn idle(place: &Place, size: Size, report: &mut Report) -> Result<(), Fault> {
    let time = Duration::from_secs(size.pick(60, 20));
    let mut up = place.up()?;
    let used = used_in_rest(&up, time);
    let memory = megabytes(up.id(), "Rss");
    up.kill()?;
    up.wait()?;
    let name = format!("`up` while {RUNS} agents sleep");
    let (Some(used), Some(memory)) = (used?, memory) else {
        report.skip(&name, "there is no /proc");
        return Ok(());
    };
    let a_second = millis(used) / time.as_secs_f64();
    report.judge(&format!("{name}: processor time a second"), a_second, "ms", Goal::AtMost(1.0));
    report.note(&format!("{name}: memory"), &format!("{} MB", short(memory)));
    Ok(())
}

fn used_in_rest(up: &Child, time: Duration) -> Result<Option<Duration>, Fault> {
    // Its start is not what is measured: it is over when the time that it has used stands still.
    let mut last = processor_time(up.id());
    wait_until("`up` rests", || {
        thread::sleep(Duration::from_millis(500));
        let now = processor_time(up.id());
        let rests = now == last;
        last = now;
        Ok(rests)
    })?;
    let before = run_time(up.id());
    thread::sleep(time);
    let after = run_time(up.id());
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before)))
}
