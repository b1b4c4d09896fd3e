//! Nodes: the machines that start runs, when each was last seen, and its workers.

use banksman_core::schedule::Worker;
use banksman_core::time::{Instant, Span};

use super::conn::{DbError, Row};
use super::row::json;
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
}

impl Store {
    /// Records that a node is alive, and its workers. Writes nothing if that is known already.
    /// Returns whether its workers have changed: a task that no worker could take may find one now.
    pub fn put_node(&self, node: &Node) -> Result<bool> {
        let node = node.clone();
        self.write(move |tx| {
            let workers = json(&node.workers);
            let rows = tx.query(sql::NODE, &params![&node.name])?;
            // What cannot be read is written again.
            let known_workers = rows.first().and_then(|row| row.text(3).ok());
            let has_changed = known_workers != Some(workers.as_str());
            let known = rows.first().and_then(|row| self::node(row).ok());
            if !has_changed && known.is_some_and(|known| says_as_much(&known, &node)) {
                return Ok(has_changed);
            }
            let columns = params![&node.name, node.seen_at, node.capacity, workers];
            tx.write(sql::PUT_NODE, &columns)?;
            if has_changed {
                tx.notify();
            }
            Ok(has_changed)
        })
    }

    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.rows(sql::NODES, &params![NODES], node)
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
    })
}

/// Whether a node's report adds nothing to what is stored, its workers aside.
fn says_as_much(known: &Node, new: &Node) -> bool {
    let is_fresh = new.seen_at >= known.seen_at && new.seen_at.since(known.seen_at) < SEEN_RECENTLY;
    is_fresh && known.capacity == new.capacity
}
