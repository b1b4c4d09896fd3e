//! Time in which a machine slept, or by which its clock was set: it counts neither for the leases
//! nor for the timeouts of the work on that machine. Deadlines of people stay where they are.

use banksman_core::machine::{Event, Heartbeat};
use banksman_core::time::{Instant, Span};

use super::apply::apply_to;
use super::damage::unless_damaged;
use super::runs::{OPEN_RUNS, open_run};
use super::tx::{Tx, params};
use super::{Node, OpenRun, Result, sql};

/// The clock of a healthy machine is corrected by less than this between two turns.
const SHORTEST_GAP: i64 = 10_000;

/// By how much the clock has moved further than the machine was awake, if that can be told and is
/// worth mention. It is negative if somebody put the clock back.
pub(super) fn gap(earlier: &Node, later: &Node) -> Option<Span> {
    let (slept, woke) = (earlier.awake.as_ref()?, later.awake.as_ref()?);
    // Nothing of before the start of a machine is at work any more.
    if slept.boot != woke.boot {
        return None;
    }
    let gap = (later.seen_at.0 - earlier.seen_at.0) - (woke.time.0 - slept.time.0);
    (gap.abs() >= SHORTEST_GAP).then_some(Span(gap))
}

/// Moves the timeouts of a node's work by a gap, and extends its leases.
pub(super) fn skip(tx: &mut Tx<'_>, node: &str, gap: Span, now: Instant) -> Result<()> {
    tx.write(sql::SHIFT_TIMEOUTS, &params![node, gap.0])?;
    for run in tx.all(sql::OPEN_RUNS_OF_NODE, &params![OPEN_RUNS, node], open_run)? {
        // A damaged task must not keep the others from going on; `check` names it.
        unless_damaged(extend_lease(tx, &run, gap, now))?;
    }
    tx.notify();
    Ok(())
}

/// A clock that was put back does not shorten a lease.
fn extend_lease(tx: &mut Tx<'_>, run: &OpenRun, gap: Span, now: Instant) -> Result<()> {
    let old = tx.load_for_update(run.run.task)?;
    let expires_at = run.expires_at.plus(gap);
    let heartbeat = Heartbeat { epoch: run.run.epoch, expires_at, progressed: gap.0 > 0 };
    apply_to(tx, old, &Event::Heartbeat(heartbeat), None, now).map(drop)
}

#[cfg(test)]
mod tests {
    use banksman_core::time::AwakeTime;

    use super::*;

    #[test]
    fn only_time_in_which_the_machine_was_not_awake_is_a_gap() {
        let node = |boot: &str, seen_at, awake| Node {
            name: "n1".to_owned(),
            seen_at: Instant(seen_at),
            capacity: 1,
            workers: Vec::new(),
            awake: Some(AwakeTime { boot: boot.to_owned(), time: Span(awake) }),
        };
        let gap = |boot: &str, at, awake| {
            gap(&node("b1", 1_000_000, 500_000), &node(boot, at, awake)).map(|gap| gap.0)
        };
        // Five minutes of both, an hour of sleep, a clock that was set back, and a restart.
        assert_eq!(gap("b1", 1_300_000, 800_000), None);
        assert_eq!(gap("b1", 4_600_000, 500_000), Some(3_600_000));
        assert_eq!(gap("b1", 900_000, 600_000), Some(-200_000));
        assert_eq!(gap("b1", 1_009_000, 500_000), None);
        assert_eq!(gap("b2", 9_000_000, 1_000), None);
    }
}
