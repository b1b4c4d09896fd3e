//! The outbox: effects that a transition decided and that are carried out at least once.

use banksman_core::ids::TaskId;
use banksman_core::machine::Effect;
use banksman_core::time::{Instant, Span};

use super::conn::{DbError, Row};
use super::notices::{NewNotice, NoticeKind, write_notice};
use super::tx::params;
use super::{Result, Store, sql};

/// Effects that one call takes.
const AT_ONCE: i64 = 1_000;
const DEAD: &str = "dead";

/// An effect, identified by the record that decided it. That is also its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEffect {
    pub task: TaskId,
    pub seq: i64,
    pub number: i64,
    pub effect: Effect,
    pub attempts: i64,
}

impl PendingEffect {
    /// Reads the columns of `sql::DUE_EFFECTS`.
    fn read(row: &Row) -> Result<Self, DbError> {
        let (task, seq, number) = (row.get(0)?, row.int(1)?, row.int(2)?);
        Ok(Self { task, seq, number, effect: row.json(3)?, attempts: row.int(4)? })
    }

    /// The key, the same for every attempt.
    pub fn key(&self) -> String {
        format!("{}-{}-{}", self.task, self.seq, self.number)
    }
}

/// What happens to an effect that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectFailure {
    Again(Instant),
    /// It is not tried again; `status` and `check` show it.
    Dead,
}

impl Store {
    /// Takes the effects that are due on a node, the oldest first. Until `taken_for` has passed no
    /// other caller gets them; then they are due again, because the caller that took them has
    /// reported the result or is gone.
    pub fn take_effects(
        &self,
        node: &str,
        now: Instant,
        taken_for: Span,
        at_most: i64,
    ) -> Result<Vec<PendingEffect>> {
        let params = params![now, node, at_most.clamp(1, AT_ONCE)];
        self.write(move |tx| {
            let mut taken = Vec::new();
            for row in tx.query(sql::DUE_EFFECTS, &params)? {
                let mut key = vec![row.get(0)?, row.get(1)?, row.get(2)?];
                // An unreadable effect must not block the others.
                let Ok(effect) = PendingEffect::read(&row) else {
                    let why = "an effect of no known kind";
                    key.extend(params![i64::MAX, why, DEAD]);
                    tx.query(sql::EFFECT_FAILED, &key)?;
                    let task = row.get(0).unwrap_or(None);
                    let notice = NewNotice::alert(NoticeKind::DeadEffect, task, why.into());
                    write_notice(tx, &notice, now)?;
                    continue;
                };
                key.push(now.plus(taken_for).into());
                tx.write(sql::EFFECT_LATER, &key)?;
                taken.push(effect);
            }
            Ok(taken)
        })
    }

    /// Assigns an effect that any node may carry out to this node, and returns whether it
    /// succeeded. Call it before starting a job: that time may pass while the job runs, and no
    /// other node may start it then.
    pub fn keep_effect(&self, effect: &PendingEffect, node: &str) -> Result<bool> {
        let columns = params![effect.task, effect.seq, effect.number, node];
        self.write(move |tx| tx.has(sql::EFFECT_KEPT, &columns))
    }

    /// In one transaction.
    pub fn effects_done(&self, effects: &[&PendingEffect]) -> Result<()> {
        if effects.is_empty() {
            return Ok(());
        }
        let key = |effect: &&PendingEffect| params![effect.task, effect.seq, effect.number];
        let keys: Vec<_> = effects.iter().map(key).collect();
        self.write(move |tx| keys.iter().try_for_each(|key| tx.write(sql::EFFECT_DONE, key)))
    }

    /// Postpones an effect without counting an attempt.
    pub fn effect_later(&self, effect: &PendingEffect, at: Instant) -> Result<()> {
        let columns = params![effect.task, effect.seq, effect.number, at];
        self.write(move |tx| tx.write(sql::EFFECT_LATER, &columns))
    }

    /// Makes the pending effects of a record on this node due, by how often each was tried: the
    /// caller that took them is gone, so nobody has to wait for them. Effects that
    /// any node may carry out are left alone, because another node may be working on them.
    pub fn effects_due(
        &self,
        (task, seq): (TaskId, i64),
        node: &str,
        due: impl Fn(i64) -> Instant + Send + 'static,
    ) -> Result<()> {
        let record = params![task, seq, node];
        self.write(move |tx| {
            for row in tx.query(sql::EFFECTS_OF_RECORD, &record)? {
                let (number, at) = (row.int(0)?, due(row.int(1)?));
                tx.write(sql::EFFECT_LATER, &params![task, seq, number, at])?;
            }
            Ok(())
        })
    }

    pub fn effect_failed(
        &self,
        effect: &PendingEffect,
        error: &str,
        after: EffectFailure,
        now: Instant,
    ) -> Result<()> {
        let (due, state) = match after {
            EffectFailure::Again(at) => (at.0, "pending"),
            EffectFailure::Dead => (i64::MAX, DEAD),
        };
        let error: String = error.chars().take(2_000).collect();
        let columns = params![effect.task, effect.seq, effect.number, due, &error, state];
        let notice = (after == EffectFailure::Dead).then(|| {
            NewNotice::alert(NoticeKind::DeadEffect, Some(effect.task), error).once(effect.key())
        });
        self.write(move |tx| {
            let failed = tx.has(sql::EFFECT_FAILED, &columns)?;
            notice.iter().filter(|_| failed).try_for_each(|notice| write_notice(tx, notice, now))
        })
    }
}
