//! The outbox: effects that were decided and are still to be done, at least once each.

use banksman_core::ids::TaskId;
use banksman_core::machine::Effect;
use banksman_core::time::Instant;

use super::{Store, StoreError, sql};

/// One effect, told apart for ever by the move that decided it: the key under which the outside is asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub task: TaskId,
    pub seq: i64,
    pub number: i64,
    pub effect: Effect,
    pub attempts: i64,
}

impl Pending {
    /// The same at every attempt.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}-{}-{}", self.task, self.seq, self.number)
    }
}

/// What becomes of an effect that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Again(Instant),
    /// Not tried any more; `status` and `check` show it.
    Dead,
}

impl Store {
    /// Effects that are due, the oldest first.
    pub fn pending_effects(&self, now: Instant, at_most: i64) -> Result<Vec<Pending>, StoreError> {
        self.read(|conn| {
            let rows = conn.query(sql::PENDING_EFFECTS, &[now.0.into(), at_most.into()])?;
            let mut pending = Vec::with_capacity(rows.len());
            for row in &rows {
                let task = TaskId(row.int(0)?);
                let effect = serde_json::from_str(row.text(3)?);
                let effect = effect.map_err(|_| StoreError::Corrupt {
                    task,
                    what: "an effect of no known kind".to_owned(),
                })?;
                pending.push(Pending {
                    task,
                    seq: row.int(1)?,
                    number: row.int(2)?,
                    effect,
                    attempts: row.int(4)?,
                });
            }
            Ok(pending)
        })
    }

    pub fn effect_done(&self, effect: &Pending) -> Result<(), StoreError> {
        let key = [effect.task.0.into(), effect.seq.into(), effect.number.into()];
        self.write(move |conn| Ok(conn.write(sql::EFFECT_DONE, &key)?))
    }

    pub fn effect_failed(
        &self,
        effect: &Pending,
        error: &str,
        after: After,
    ) -> Result<(), StoreError> {
        let (due, state) = match after {
            After::Again(at) => (at.0, "pending"),
            After::Dead => (i64::MAX, "dead"),
        };
        let error: String = error.chars().take(2_000).collect();
        let columns = [
            effect.task.0.into(),
            effect.seq.into(),
            effect.number.into(),
            due.into(),
            error.into(),
            state.into(),
        ];
        self.write(move |conn| Ok(conn.write(sql::EFFECT_FAILED, &columns)?))
    }
}
