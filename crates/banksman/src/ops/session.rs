//! A caller of a store. A use case gets the store only from here, by naming its operation, so that
//! it cannot do what the table of [`principal`](super::principal) does not allow.

use std::collections::BTreeSet;
use std::time::Duration;

use banksman_core::ids::{RunId, TaskId};
use banksman_core::limits;
use banksman_core::machine::Actor;
use banksman_core::time::{Instant, Span};

use super::OpsError;
use super::error_report::{Code, Hint};
use super::principal::{Operation, Principal, RunCaller};
use crate::store::conn::{Waited, WakeMark};
use crate::store::{Damage, Store};

#[derive(Clone)]
pub struct Session {
    store: Store,
    principal: Principal,
}

impl Session {
    /// For a caller outside every run: a person, or the worker whose role it gives.
    pub fn outside(store: Store, actor: Actor) -> Result<Self, OpsError> {
        if actor.is_system() {
            let message = "`system` is Banksman itself; nobody else may act as it";
            return Err(OpsError::about(Code::Forbidden, message, Hint::ActAs));
        }
        Ok(Self { store, principal: Principal::outside(actor) })
    }

    /// For an agent inside a run, or for its keeper. Only a token proves which run it is, and only
    /// a key that it is the keeper.
    pub fn inside_run(
        store: Store,
        token_hash: Option<&[u8]>,
        keeper_hash: Option<&[u8]>,
        name: Option<&str>,
    ) -> Result<Self, OpsError> {
        let named = name.and_then(|name| name.parse::<RunId>().ok());
        if let (Some(run), Some(hash)) = (named, keeper_hash)
            && store.has_token(run, hash)?
        {
            return Ok(Self { store, principal: Principal::Keeper(run) });
        }
        let mut caller = RunCaller::unproven(name);
        let proven = token_hash.map(|hash| store.run_of_token(hash)).transpose()?.flatten();
        // The token of another run proves nothing.
        let is_of = |run: &RunId| name.is_none_or(|name| name == run.to_string());
        if let Some(run) = proven.filter(is_of) {
            caller.own = Some(run);
            let claimed_by = store.task(run.task)?.task.lease.map(|lease| lease.worker.parse());
            caller.actor = claimed_by.and_then(Result::ok).unwrap_or(caller.actor);
        }
        Ok(Self { store, principal: Principal::Run(caller) })
    }

    /// For the owner of a file that a person lets the program maintain, such as the daily note.
    pub(super) fn on_behalf_of(&self, owner: &Actor) -> Result<Self, OpsError> {
        let store = self.may(Operation::AnswerDecision)?.clone();
        Self::outside(store, owner.clone())
    }

    /// For this program itself.
    pub fn system(store: Store) -> Self {
        Self { store, principal: Principal::System }
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    pub fn actor(&self) -> Actor {
        self.principal.actor()
    }

    /// The epoch of a run's writes. After the run has lost its lease, they are stale.
    pub fn epoch(&self) -> Option<i64> {
        self.principal.own_run().map(|run| run.epoch)
    }

    /// The store, for an operation that is not about one task.
    pub(super) fn may(&self, operation: Operation) -> Result<&Store, OpsError> {
        self.principal.may(operation, None)?;
        Ok(&self.store)
    }

    /// The store, for an operation on one task.
    pub(super) fn may_on(&self, operation: Operation, task: TaskId) -> Result<&Store, OpsError> {
        self.principal.may(operation, Some(task))?;
        Ok(&self.store)
    }

    /// The store without a check, to record a refusal.
    pub(super) fn unchecked(&self) -> &Store {
        &self.store
    }

    /// The store for an engine that starts no agent.
    pub fn follow_up_store(&self) -> Result<Store, OpsError> {
        self.may(Operation::FollowUp).cloned()
    }

    /// The store for an engine.
    pub fn engine_store(&self) -> Result<Store, OpsError> {
        self.may(Operation::RunAgents).cloned()
    }

    /// The damaged rows that were left out of answers since the last call.
    pub fn take_damaged(&self) -> BTreeSet<Damage> {
        self.store.take_damaged()
    }

    /// The time of the store's clock.
    pub fn now(&self, now: Instant) -> Result<Instant, OpsError> {
        Ok(self.store.now(now)?)
    }

    /// A mark of the changes up to now, for [`wait`](Self::wait).
    pub fn mark(&self) -> WakeMark {
        self.store.mark()
    }

    /// Waits until something has changed since the mark, or the time is over.
    pub fn wait(&self, mark: WakeMark, at_most: Duration) -> Waited {
        self.store.wait(mark, at_most)
    }

    /// Renews the lease of a run, and returns when the lease expires.
    pub fn renew(
        &self,
        run: RunId,
        ttl: Span,
        progressed: bool,
        now: Instant,
    ) -> Result<Instant, OpsError> {
        let store = self.may_on(Operation::RenewLease, run.task)?;
        Ok(store.renew(run, ttl.min(limits::LONGEST_LEASE), progressed, now)?)
    }
}
