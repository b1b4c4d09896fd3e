//! From the claim to the agent: a task is ready, a turn claims it, writes its plan and starts a
//! keeper, which starts the agent. Against the same script started by hand.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frame::report::{Goal, Report, Rounds, median, millis, quantile, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};

/// The first thing that the agent does is to ring a bell beside its script, which is a pipe with a
/// name.
const SCRIPT: &str = "echo >\"${0%/*}/bell\"\necho '{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"}'\n";
const MILLIS: f64 = 20.0;
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

pub(crate) fn measure(size: Size, report: &mut Report) -> Result<(), Fault> {
    report.section("from the claim to the agent, without a checkout");
    let place = Place::new(SCRIPT, 4, 4)?;
    let mut waker = Waker::hang(&place.path("bell"))?;
    let mut rounds = Rounds::default();
    let mut turns = Vec::new();
    for round in 1..=size.pick(100, 20) {
        place.add(1)?;
        let began = Instant::now();
        place.turn()?;
        turns.push(millis(began.elapsed()));
        waker.wait()?;
        let ours = millis(began.elapsed());
        rounds.add(ours, by_hand(&place, &mut waker)?);
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

fn by_hand(place: &Place, waker: &mut Waker) -> Result<f64, Fault> {
    let began = Instant::now();
    let mut command = Command::new("sh");
    let mut child = command.arg(place.path("agent.sh")).stdout(Stdio::null()).spawn()?;
    waker.wait()?;
    let took = millis(began.elapsed());
    child.wait()?;
    Ok(took)
}

/// Tells when an agent is there, to somebody who sleeps until then. Who looked for a file again and
/// again would keep one core busy, and a keeper, which the kernel counts as another session, would
/// have to wait for it.
struct Waker(File);

impl Waker {
    fn hang(path: &Path) -> Result<Self, Fault> {
        let made = Command::new("mkfifo").arg(path).status()?;
        if !made.success() {
            return Err(format!("mkfifo: {made}").into());
        }
        // Open to both sides, so that neither an agent nor we ever wait for the other to open it.
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn wait(&mut self) -> Result<(), Fault> {
        let mut rung = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut rung, Some(&PATIENCE))? == 0 {
            return Err("the agent never came".into());
        }
        Ok(self.0.read_exact(&mut [0])?)
    }
}
