//! The outbox: effects that were decided and are still to be done, at least once each.

use banksman_core::ids::TaskId;
use banksman_core::machine::Effect;
use banksman_core::time::{Instant, Span};

use super::{Store, StoreError, sql};

/// Effects that are taken at once.
const AT_ONCE: i64 = 1_000;
const DEAD: &str = "dead";

/// One effect, told apart for ever by the move that decided it: the key under which the outside is
/// asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEffect {
    pub task: TaskId,
    pub seq: i64,
    pub number: i64,
    pub effect: Effect,
    pub attempts: i64,
}

impl PendingEffect {
    /// The same at every attempt.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}-{}-{}", self.task, self.seq, self.number)
    }
}

/// What becomes of an effect that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectFailure {
    Again(Instant),
    /// Not tried any more; `status` and `check` show it.
    Dead,
}

impl Store {
    /// Takes effects that are due on a node, the oldest first. Until `hold` has passed nobody else
    /// gets them; then they are due again, because whoever took them is gone or has said how it
    /// went.
    pub fn take_effects(
        &self,
        node: &str,
        now: Instant,
        hold: Span,
        at_most: i64,
    ) -> Result<Vec<PendingEffect>, StoreError> {
        let params = [now.0.into(), node.into(), at_most.clamp(1, AT_ONCE).into()];
        self.write(move |conn| {
            let mut taken = Vec::new();
            for row in conn.query(sql::DUE_EFFECTS.pick(conn), &params)? {
                let (task, seq, number) = (TaskId(row.int(0)?), row.int(1)?, row.int(2)?);
                let key = [task.0.into(), seq.into(), number.into()];
                // One that nobody can read must not stand in the way of the others.
                let Ok(effect) = serde_json::from_str(row.text(3)?) else {
                    let why = "an effect of no known kind".into();
                    let columns = [i64::MAX.into(), why, DEAD.into()];
                    conn.write(sql::EFFECT_FAILED, &[key.as_slice(), &columns].concat())?;
                    continue;
                };
                let until = [now.plus(hold).0.into()];
                conn.write(sql::EFFECT_HELD, &[key.as_slice(), &until].concat())?;
                taken.push(PendingEffect { task, seq, number, effect, attempts: row.int(4)? });
            }
            Ok(taken)
        })
    }

    /// Makes an effect that any node may do this node's own, and answers whether it is. To be asked
    /// before a job is begun for it: the hold may run out while the job is at work, and then
    /// another node must not begin it, too.
    pub fn keep_effect(&self, effect: &PendingEffect, node: &str) -> Result<bool, StoreError> {
        let columns = [effect.task.0.into(), effect.seq.into(), effect.number.into(), node.into()];
        self.write(move |conn| Ok(!conn.query(sql::EFFECT_KEPT, &columns)?.is_empty()))
    }

    /// All of them in one transaction.
    pub fn effects_done(&self, effects: &[&PendingEffect]) -> Result<(), StoreError> {
        if effects.is_empty() {
            return Ok(());
        }
        let key = |effect: &&PendingEffect| {
            [effect.task.0.into(), effect.seq.into(), effect.number.into()]
        };
        let keys: Vec<_> = effects.iter().map(key).collect();
        self.write(move |conn| {
            for key in &keys {
                conn.write(sql::EFFECT_DONE, key)?;
            }
            Ok(())
        })
    }

    /// Nothing was tried yet: the effect is looked at again at this time, and that is no attempt.
    pub fn effect_later(&self, effect: &PendingEffect, at: Instant) -> Result<(), StoreError> {
        let columns = [effect.task.0.into(), effect.seq.into(), effect.number.into(), at.0.into()];
        self.write(move |conn| Ok(conn.write(sql::EFFECT_HELD, &columns)?))
    }

    /// Says when what a record has decided for this node is due, by how often it was tried: whoever
    /// was at it is gone, and nobody has to wait for the end of its hold. What any node may do
    /// is left alone, because another one may be at it.
    pub fn effects_due(
        &self,
        (task, seq): (TaskId, i64),
        node: &str,
        due: impl Fn(i64) -> Instant + Send + 'static,
    ) -> Result<(), StoreError> {
        let record = [task.0.into(), seq.into(), node.into()];
        self.write(move |conn| {
            for row in conn.query(sql::EFFECTS_OF_RECORD, &record)? {
                let (number, at) = (row.int(0)?, due(row.int(1)?));
                let columns = [task.0.into(), seq.into(), number.into(), at.0.into()];
                conn.write(sql::EFFECT_HELD, &columns)?;
            }
            Ok(())
        })
    }

    pub fn effect_failed(
        &self,
        effect: &PendingEffect,
        error: &str,
        after: EffectFailure,
    ) -> Result<(), StoreError> {
        let (due, state) = match after {
            EffectFailure::Again(at) => (at.0, "pending"),
            EffectFailure::Dead => (i64::MAX, DEAD),
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
