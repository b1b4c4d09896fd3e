//! The hash chain of the history: each record carries the hash of the record before it.

use banksman_core::ids::TaskId;
use banksman_core::lifecycle::expr::Fields;
use banksman_core::machine::{Actor, Dated, Record, TaskUpdate};
use banksman_core::time::Instant;
use sha2::{Digest, Sha256};

use super::apply::IdempotencyKey;
use super::conn::Row;
use super::row::json;
use super::tx::{Tx, params};
use super::{Result, StoreError, sql};

/// The previous hash of a task's first record.
pub(super) const GENESIS: [u8; 32] = [0; 32];

/// A stored record of a task's history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    pub task: TaskId,
    pub seq: i64,
    pub ts: Instant,
    pub record: Record,
    pub key: Option<String>,
    pub prev: Vec<u8>,
    pub hash: Vec<u8>,
    /// The fields as stored text, because the hash covers the text.
    fields_text: String,
}

impl HistoryEntry {
    /// The record of a step, if it leaves one.
    pub(super) fn of(
        step: &TaskUpdate,
        key: Option<&IdempotencyKey>,
        prev: &[u8],
        ts: Instant,
    ) -> Option<Self> {
        let record = step.record.clone()?;
        let mut entry = Self {
            task: step.task.id,
            seq: step.task.version,
            ts,
            fields_text: json(&record.fields),
            record,
            key: key.map(|key| key.text.clone()),
            prev: prev.to_vec(),
            hash: Vec::new(),
        };
        entry.hash = entry.computed_hash();
        Some(entry)
    }

    /// The hash that the record must have. Each part is preceded by its length, so that two
    /// different records never hash the same bytes.
    pub fn computed_hash(&self) -> Vec<u8> {
        let mut hash = Sha256::new();
        let mut part = |bytes: Option<&[u8]>| {
            let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
            hash.update(length.to_be_bytes());
            hash.update(bytes.unwrap_or_default());
        };
        part(Some(&self.prev));
        part(Some(&self.task.0.to_be_bytes()));
        part(Some(&self.seq.to_be_bytes()));
        part(Some(&self.ts.0.to_be_bytes()));
        part(self.record.from.as_deref().map(str::as_bytes));
        part(Some(self.record.to.as_bytes()));
        part(Some(self.record.trigger.as_bytes()));
        part(Some(self.record.actor.to_string().as_bytes()));
        part(self.key.as_deref().map(str::as_bytes));
        part(Some(self.fields_text.as_bytes()));
        hash.finalize().to_vec()
    }

    pub(super) fn dated(&self) -> Dated<'_> {
        (self.seq, self.ts, &self.record)
    }

    pub(super) fn insert(&self, tx: &mut Tx<'_>) -> Result<()> {
        let record = &self.record;
        let columns = params![
            self.task,
            self.seq,
            self.ts,
            record.from.as_deref(),
            &record.to,
            &record.trigger,
            record.actor.to_string(),
            self.key.as_deref(),
            &self.fields_text,
            self.prev.clone(),
            self.hash.clone(),
        ];
        tx.write(sql::INSERT_AUDIT, &columns)
    }

    /// Reads the columns of `sql::HISTORY`.
    pub(super) fn read(row: &Row) -> Result<Self> {
        let task = row.get(10)?;
        let seq = row.int(0)?;
        let corrupt =
            |what: &str| StoreError::Corrupt { task, what: format!("record {seq} {what}") };
        let actor: Actor = row.text(5)?.parse().map_err(|_| corrupt("was changed: no actor"))?;
        let fields: Fields = serde_json::from_str(row.text(7)?)
            .map_err(|_| corrupt("was changed: its fields are not JSON"))?;
        let (from, to, trigger) = (row.get(2)?, row.get(3)?, row.get(4)?);
        Ok(Self {
            task,
            seq,
            ts: row.get(1)?,
            record: Record { from, to, trigger, actor, fields },
            key: row.get(6)?,
            prev: row.get(8)?,
            hash: row.get(9)?,
            fields_text: row.get(7)?,
        })
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
