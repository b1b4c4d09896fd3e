//! From the claim to the agent: a task is ready, a turn claims it, writes its plan and starts a keeper, which starts the
//! agent. Against the same script started by hand.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::frame::report::{Goal, Report, Rounds, median, millis, quantile, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};

/// The first thing that the agent does shows that it is there.
const SCRIPT: &str = ": >\"$BANKSMAN_RUN_FOLDER/here\"\necho '{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"}'\n";
const MILLIS: f64 = 20.0;

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    report.section("from the claim to the agent, without a checkout");
    let place = Place::new(SCRIPT, 4, 4)?;
    let bare = place.path("bare");
    fs::create_dir(&bare)?;
    let mut rounds = Rounds::default();
    let mut turns = Vec::new();
    for round in 1..=size.pick(100, 20) {
        place.add(1)?;
        let began = Instant::now();
        place.turn()?;
        turns.push(millis(began.elapsed()));
        let here = place.path(&format!("runs/r{round}.1/here"));
        wait_for(&here)?;
        let ours = millis(began.elapsed());
        rounds.add(ours, by_hand(&place, &bare)?);
        wait_until("the run is on record", || {
            place.turn()?;
            Ok(!place.path(&format!("runs/r{round}.1")).exists())
        })?;
    }
    report.note("the agent's shell, by banksman and by hand", &rounds.words("ms"));
    report.note("of it, the turn that claims", &format!("{} ms", short(median(&turns))));
    let name = "from the claim to the agent, median";
    report.judge(name, median(&rounds.ours), "ms", Goal::AtMost(MILLIS));
    report.note(
        "from the claim to the agent, p95",
        &format!("{} ms", short(quantile(&rounds.ours, 0.95))),
    );
    report.note("against a start by hand", &format!("{} ×", short(rounds.ratio())));
    Ok(())
}

fn by_hand(place: &Place, bare: &Path) -> Result<f64, Fault> {
    let here = bare.join("here");
    let began = Instant::now();
    let mut command = Command::new("sh");
    command.arg(place.path("agent.sh")).env("BANKSMAN_RUN_FOLDER", bare).stdout(Stdio::null());
    let mut child = command.spawn()?;
    wait_for(&here)?;
    let took = millis(began.elapsed());
    child.wait()?;
    fs::remove_file(here)?;
    Ok(took)
}

/// Spins, because a rest would be longer than what is measured.
fn wait_for(path: &Path) -> Result<(), Fault> {
    let began = Instant::now();
    while !path.exists() {
        if began.elapsed().as_secs() > 10 {
            return Err(format!("{} never came", path.display()).into());
        }
        std::thread::yield_now();
    }
    Ok(())
}
