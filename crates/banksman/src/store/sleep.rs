//! Time in which a machine slept, or by which its clock was set: it counts neither for the leases
//! nor for the timeouts of the work on that machine. Deadlines of people stay where they are.

use banksman_core::ids::TaskId;
use banksman_core::machine::{Event, Heartbeat, Uncounted};
use banksman_core::time::{Instant, Span};

use super::apply::apply_to;
use super::damage::unless_damaged;
use super::runs::{OPEN_RUNS, open_run};
use super::tx::{Tx, params};
use super::{Node, OpenRun, Result, sql};

/// The clock of a healthy machine is corrected by less than this between two turns.
const SHORTEST_GAP: i64 = 10_000;

/// Time in which a machine slept, or by which its clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// By how much the clock has moved further than the machine was awake; negative if somebody put
    /// the clock back.
    span: Span,
    /// What has begun since did so after the gap.
    over: Instant,
}

/// The gap between two reports of a node, if there is one that can be told and is worth mention.
pub(super) fn gap(earlier: &Node, later: &Node) -> Option<Gap> {
    let (slept, woke) = (earlier.awake.as_ref()?, later.awake.as_ref()?);
    // Nothing of before the start of a machine is at work any more.
    if slept.boot != woke.boot {
        return None;
    }
    let awake = woke.time.0 - slept.time.0;
    let span = (later.seen_at.0 - earlier.seen_at.0) - awake;
    // What is younger than the gap is long did not begin before it. By a clock that was put back,
    // what is younger than the time awake may have, and loses nothing by it.
    let over = later.seen_at.0 - if span > 0 { span - 1 } else { awake };
    (span.abs() >= SHORTEST_GAP).then_some(Gap { span: Span(span), over: Instant(over) })
}

/// Gives the time of a gap back to the work on a node: its timeouts do not count it, and its leases
/// are extended by it.
pub(super) fn skip(tx: &mut Tx<'_>, node: &str, gap: Gap, now: Instant) -> Result<()> {
    let tasks = tx.all(sql::AT_WORK_ON_NODE, &params![node], |row| row.get::<TaskId>(0))?;
    for task in tasks {
        // A damaged task must not keep the others from going on; `check` names it.
        unless_damaged(leave_out(tx, task, gap, now))?;
    }
    for run in tx.all(sql::OPEN_RUNS_OF_NODE, &params![OPEN_RUNS, node], open_run)? {
        unless_damaged(extend_lease(tx, &run, gap.span, now))?;
    }
    tx.notify();
    Ok(())
}

/// Part of a stay in a state counts for none of its timeouts.
pub(super) fn leave_out(tx: &mut Tx<'_>, task: TaskId, gap: Gap, now: Instant) -> Result<()> {
    let old = tx.load_for_update(task)?;
    let uncounted = Uncounted { span: gap.span, since: gap.over };
    apply_to(tx, old, &Event::Uncounted(uncounted), None, now).map(drop)
}

/// A clock that was put back does not shorten a lease.
fn extend_lease(tx: &mut Tx<'_>, run: &OpenRun, span: Span, now: Instant) -> Result<()> {
    let old = tx.load_for_update(run.run.task)?;
    let expires_at = run.expires_at.plus(span);
    let heartbeat = Heartbeat { epoch: run.run.epoch, expires_at, progressed: false };
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
            let gap = gap(&node("b1", 1_000_000, 500_000), &node(boot, at, awake));
            gap.map(|gap| (gap.span.0, at - gap.over.0))
        };
        // Five minutes of both, an hour of sleep, a clock that was set back, and a restart.
        assert_eq!(gap("b1", 1_300_000, 800_000), None);
        assert_eq!(gap("b1", 4_600_000, 500_000), Some((3_600_000, 3_599_999)));
        assert_eq!(gap("b1", 900_000, 600_000), Some((-200_000, 100_000)));
        assert_eq!(gap("b1", 1_009_000, 500_000), None);
        assert_eq!(gap("b2", 9_000_000, 1_000), None);
    }
}
