//! Nodes: the machines that start runs, when each was last heard from, and the workers that it has.

use banksman_core::schedule::Worker;
use banksman_core::time::{Instant, Span};

use super::conn::{Conn, Row};
use super::row::json;
use super::{Store, StoreError, sql};

/// A node that was heard from so lately need not be written again: nobody learns anything from it,
/// and each commit makes others look whether there is something to do. Far below the time after
/// which a node counts as gone.
const LATELY: Span = Span(20_000);
/// Nodes of one store that are read at once.
pub(super) const NODES: i64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// When it was last heard from.
    pub seen_at: Instant,
    /// Runs that it can have at once.
    pub capacity: u32,
    pub workers: Vec<Worker>,
}

/// What a node's word about itself changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChange {
    /// Its workers are not those that it had before: what nobody could serve may be served now.
    pub workers: bool,
}

impl Store {
    /// Notes that a node lives, and what it has. Nothing is written while that is known.
    pub fn put_node(&self, node: &Node) -> Result<NodeChange, StoreError> {
        let node = node.clone();
        self.write(move |conn| {
            let workers = json(&node.workers);
            let rows = conn.query(sql::NODE.pick(conn), &[node.name.as_str().into()])?;
            let known_workers = rows.first().map(|row| row.text(3)).transpose()?;
            let changed = NodeChange { workers: known_workers != Some(workers.as_str()) };
            let known = rows.first().map(self::node).transpose()?;
            if !changed.workers && known.is_some_and(|known| says_as_much(&known, &node)) {
                return Ok(changed);
            }
            let columns = [
                node.name.as_str().into(),
                node.seen_at.0.into(),
                i64::from(node.capacity).into(),
                workers.into(),
            ];
            conn.write(sql::PUT_NODE, &columns)?;
            if changed.workers {
                conn.notify();
            }
            Ok(changed)
        })
    }

    pub fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.read(|conn| conn.query(sql::NODES, &[NODES.into()])?.iter().map(node).collect())
    }

    /// Forgets a node, and answers whether it was known. What it alone was to do is everybody's
    /// from now on; its leases run out by themselves.
    pub fn remove_node(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.write(move |conn| {
            conn.write(sql::EFFECTS_OF_NOBODY, &[name.as_str().into()])?;
            conn.notify();
            Ok(!conn.query(sql::DELETE_NODE, &[name.as_str().into()])?.is_empty())
        })
    }

    /// The time by which leases are given and run out: the database's where many machines share it,
    /// the caller's own where all are on one machine.
    pub fn now(&self, local: Instant) -> Result<Instant, StoreError> {
        self.read(|conn| now(conn, local))
    }
}

pub(super) fn now(conn: &mut dyn Conn, local: Instant) -> Result<Instant, StoreError> {
    let rows = conn.query(sql::CLOCK.pick(conn), &[])?;
    let clock = rows.first().map_or(Ok(None), |row| row.opt_int(0))?;
    Ok(clock.map_or(local, Instant))
}

fn node(row: &Row) -> Result<Node, StoreError> {
    Ok(Node {
        name: row.text(0)?.to_owned(),
        seen_at: Instant(row.int(1)?),
        capacity: u32::try_from(row.int(2)?).unwrap_or(u32::MAX),
        workers: workers_from(row.text(3)?),
    })
}

/// Whether what is known of a node leaves nothing to be added by its new word, its workers aside.
fn says_as_much(known: &Node, new: &Node) -> bool {
    let is_fresh = new.seen_at >= known.seen_at && new.seen_at.since(known.seen_at) < LATELY;
    is_fresh && known.capacity == new.capacity
}

/// The registry of a node as it is kept. A newer release on another node may write what this one
/// cannot read; it then has no workers as far as this one is concerned, and its own dispatching
/// goes on.
pub(super) fn workers_from(text: &str) -> Vec<Worker> {
    serde_json::from_str(text).unwrap_or_default()
}
