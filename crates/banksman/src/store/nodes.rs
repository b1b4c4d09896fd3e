//! Nodes: the machines that start runs, when each was last seen, and its workers.

use banksman_core::schedule::Worker;
use banksman_core::time::{Instant, Span};

use super::conn::{Conn, Row};
use super::row::json;
use super::{Store, StoreError, sql};

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

/// What a node's report about itself changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChange {
    /// Its workers have changed, so a task that no worker could take may find one now.
    pub workers: bool,
}

impl Store {
    /// Records that a node is alive, and its workers. Writes nothing if that is known already.
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

    /// Removes a node, and returns whether it was known. Any node may then carry out its effects;
    /// its leases expire by themselves.
    pub fn remove_node(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.write(move |conn| {
            conn.write(sql::EFFECTS_OF_NOBODY, &[name.as_str().into()])?;
            conn.notify();
            Ok(!conn.query(sql::DELETE_NODE, &[name.as_str().into()])?.is_empty())
        })
    }

    /// The clock for leases: the database's if several machines share it, else the caller's.
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

/// Whether a node's report adds nothing to what is stored, its workers aside.
fn says_as_much(known: &Node, new: &Node) -> bool {
    let is_fresh = new.seen_at >= known.seen_at && new.seen_at.since(known.seen_at) < SEEN_RECENTLY;
    is_fresh && known.capacity == new.capacity
}

/// The stored workers of a node. A newer build on that node may write workers that this build
/// cannot read; this build then sees none, and that node still dispatches its own.
pub(super) fn workers_from(text: &str) -> Vec<Worker> {
    serde_json::from_str(text).unwrap_or_default()
}
