//! The outbox: effects that a transition decided and that are carried out at least once.

use banksman_core::ids::TaskId;
use banksman_core::machine::Effect;
use banksman_core::time::{Instant, Span};

use super::notices::{NewNotice, NoticeKind, notice_of, write_notice};
use super::{Store, StoreError, Stored, sql};

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
    /// The key, the same for every attempt.
    #[must_use]
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
    /// Takes the effects that are due on a node, the oldest first. Until `taken_for` has passed no other
    /// caller gets them; then they are due again, because the caller that took them has reported
    /// the result or is gone.
    pub fn take_effects(
        &self,
        node: &str,
        now: Instant,
        taken_for: Span,
        at_most: i64,
    ) -> Result<Vec<PendingEffect>, StoreError> {
        let params = [now.0.into(), node.into(), at_most.clamp(1, AT_ONCE).into()];
        self.write(move |conn| {
            let mut taken = Vec::new();
            for row in conn.query(sql::DUE_EFFECTS.pick(conn), &params)? {
                let (task, seq, number) = (TaskId(row.int(0)?), row.int(1)?, row.int(2)?);
                let key = [task.0.into(), seq.into(), number.into()];
                // An unreadable effect must not block the others.
                let Ok(effect) = serde_json::from_str(row.text(3)?) else {
                    let why = "an effect of no known kind";
                    let columns = [i64::MAX.into(), why.into(), DEAD.into()];
                    conn.query(sql::EFFECT_FAILED, &[key.as_slice(), &columns].concat())?;
                    let notice = NewNotice::alert(NoticeKind::DeadEffect, Some(task), why.into());
                    write_notice(conn, &notice, now)?;
                    continue;
                };
                let until = [now.plus(taken_for).0.into()];
                conn.write(sql::EFFECT_HELD, &[key.as_slice(), &until].concat())?;
                taken.push(PendingEffect { task, seq, number, effect, attempts: row.int(4)? });
            }
            Ok(taken)
        })
    }

    /// Assigns an effect that any node may carry out to this node, and returns whether it
    /// succeeded. Call it before starting a job: that time may pass while the job runs, and no
    /// other node may start it then.
    pub fn keep_effect(&self, effect: &PendingEffect, node: &str) -> Result<bool, StoreError> {
        let columns = [effect.task.0.into(), effect.seq.into(), effect.number.into(), node.into()];
        self.write(move |conn| Ok(!conn.query(sql::EFFECT_KEPT, &columns)?.is_empty()))
    }

    /// In one transaction.
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

    /// Postpones an effect without counting an attempt.
    pub fn effect_later(&self, effect: &PendingEffect, at: Instant) -> Result<(), StoreError> {
        let columns = [effect.task.0.into(), effect.seq.into(), effect.number.into(), at.0.into()];
        self.write(move |conn| Ok(conn.write(sql::EFFECT_HELD, &columns)?))
    }

    /// Makes the pending effects of a record on this node due, by how often each was tried: the
    /// caller that took them is gone, so nobody has to wait for the end of its hold. Effects that
    /// any node may carry out are left alone, because another node may be working on them.
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
        now: Instant,
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
            error.as_str().into(),
            state.into(),
        ];
        let notice = (after == EffectFailure::Dead).then(|| {
            NewNotice::alert(NoticeKind::DeadEffect, Some(effect.task), error).once(effect.key())
        });
        self.write(move |conn| {
            let failed = !conn.query(sql::EFFECT_FAILED, &columns)?.is_empty();
            notice.iter().filter(|_| failed).try_for_each(|notice| write_notice(conn, notice, now))
        })
    }

    /// Writes the notice that an effect of an earlier version asks for.
    pub fn notice_of_effect(
        &self,
        effect: &PendingEffect,
        stored: &Stored,
        next_timer: Option<Instant>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let notice = notice_of(&stored.lifecycle, &stored.task, &effect.effect, next_timer);
        notice.map_or(Ok(()), |notice| self.notice(notice.once(effect.key()), now))
    }
}
