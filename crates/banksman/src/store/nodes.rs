//! Nodes: the machines that start runs, when each was last seen, and its workers.

use banksman_core::limits::NODE_GONE;
use banksman_core::schedule::Worker;
use banksman_core::time::{AwakeTime, Instant, Span};

use super::conn::{DbError, Row};
use super::row::json;
use super::sleep;
use super::tx::{Tx, params};
use super::{Result, Store, sql};

/// A node that was seen this recently is not written again: nothing would change, and each commit
/// wakes the other nodes. Far below `NODE_GONE`.
const SEEN_RECENTLY: Span = Span(20_000);
/// Nodes that one query reads.
pub(super) const NODES: i64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// When it was last heard from.
    pub seen_at: Instant,
    /// The runs that it can have at once.
    pub capacity: u32,
    pub workers: Vec<Worker>,
    /// How long its machine had been awake; none if the machine does not tell.
    pub awake: Option<AwakeTime>,
}

impl Node {
    /// `now` is of the store's clock, as the time at which the node was seen.
    pub fn is_live(&self, now: Instant) -> bool {
        self.seen_at >= live_since(now)
    }
}

/// The time since which a live node was seen.
pub(super) fn live_since(now: Instant) -> Instant {
    Instant(now.0 - NODE_GONE.0)
}

impl Store {
    /// Records that a node is alive, and its workers, and returns when it was seen before. Writes
    /// nothing if that is known already. If its machine slept since, its work gets that time back.
    pub fn put_node(&self, node: &Node) -> Result<Option<Instant>> {
        let node = node.clone();
        self.write(move |tx| {
            let workers = json(&node.workers);
            let rows = tx.query(sql::NODE, &params![&node.name])?;
            // What cannot be read is written again.
            let known = rows.first().and_then(|row| self::node(row).ok());
            let seen_before = known.as_ref().map(|known| known.seen_at);
            let gap = known.as_ref().and_then(|known| sleep::gap(known, &node));
            if gap.is_none() && known.as_ref().is_some_and(|known| says_as_much(known, &node)) {
                return Ok(seen_before);
            }
            let (boot, awake) = node.awake.as_ref().map(|awake| (&awake.boot, awake.time)).unzip();
            let columns =
                params![&node.name, node.seen_at, node.capacity, workers, boot, awake.map(|a| a.0)];
            tx.write(sql::PUT_NODE, &columns)?;
            if let Some(gap) = gap {
                sleep::skip(tx, &node.name, gap, node.seen_at)?;
            }
            if known.is_none_or(|known| known.workers != node.workers) {
                tx.notify();
            }
            Ok(seen_before)
        })
    }

    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.rows(sql::NODES, &params![NODES], node)
    }

    /// Nodes that were heard from lately, by the store's clock.
    pub fn live_nodes(&self, now: Instant) -> Result<Vec<Node>> {
        Ok(self.nodes()?.into_iter().filter(|node| node.is_live(now)).collect())
    }

    /// The workers of all live nodes.
    pub fn live_workers(&self, now: Instant) -> Result<Vec<Worker>> {
        let nodes = self.live_nodes(now)?.into_iter();
        Ok(nodes.flat_map(|node| Worker::all_of_node(node.workers)).collect())
    }

    /// Removes a node, and returns whether it was known. Any node may then carry out its effects;
    /// its leases expire by themselves.
    pub fn remove_node(&self, name: &str) -> Result<bool> {
        let name = params![name];
        self.write(move |tx| {
            tx.write(sql::EFFECTS_OF_NOBODY, &name)?;
            tx.notify();
            tx.has(sql::DELETE_NODE, &name)
        })
    }

    /// The clock for leases: the database's if several machines share it, else the caller's.
    pub fn now(&self, local: Instant) -> Result<Instant> {
        self.read(|tx| now(tx, local))
    }
}

pub(super) fn now(tx: &mut Tx<'_>, local: Instant) -> Result<Instant> {
    Ok(tx.value(sql::CLOCK, &[])?.unwrap_or(local))
}

fn node(row: &Row) -> Result<Node, DbError> {
    Ok(Node {
        name: row.get(0)?,
        seen_at: row.get(1)?,
        capacity: u32::try_from(row.int(2)?).unwrap_or(u32::MAX),
        workers: row.json(3)?,
        awake: match (row.get(4)?, row.get(5)?) {
            (Some(boot), Some(time)) => Some(AwakeTime { boot, time: Span(time) }),
            _ => None,
        },
    })
}

/// Whether a node's report adds nothing to what is stored.
fn says_as_much(known: &Node, new: &Node) -> bool {
    let is_fresh = new.seen_at >= known.seen_at && new.seen_at.since(known.seen_at) < SEEN_RECENTLY;
    is_fresh && (known.capacity, &known.workers) == (new.capacity, &new.workers)
}
