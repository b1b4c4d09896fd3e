//! The machine: applies events to tasks.
//!
//! `step` is the only place where a next state is chosen. It takes the lifecycle, the task, the
//! event and the time, and returns the new task with everything to be written or done because of
//! it, or a refusal that says what is missing. It has no side effects.

mod allowed;
mod apply;
mod ask;
mod create;
mod effect;
mod entry;
mod env;
mod event;
mod fact;
mod fold;
mod invariant;
mod liveness;
mod outcome;
mod reject;
mod run;
mod step;
mod task;
mod wait;

pub use allowed::allowed;
pub use apply::resolve;
pub use create::{ImportedState, NewTask, create, import};
pub use effect::{
    Artifact, DecisionChange, Effect, Ending, OpenDecision, Record, TaskUpdate, Timer, TimerKind,
};
pub use entry::{question, running_timeouts};
pub use event::{
    ActivityReport, Actor, Claim, Event, FactOverride, Finish, Heartbeat, HistoryNote, LateCost,
    NotAnActor, TransitionRequest, Uncounted,
};
pub use fact::{Overridden, merged_as};
pub use fold::{Dated, FoldError, Folded, fold, rewind};
pub use invariant::{
    Broken, WaitsFor, attempts, check, rests, rests_for_reviewers, unreadable, waits_for,
};
pub use liveness::{Missing, StoredMovers, missing};
pub use reject::{FieldError, RejectReason, Rejected};
pub use step::{Ignored, StepResult, step};
pub use task::{CounterValue, Damaged, Lease, Spent, Task};
pub use wait::{WaitStatus, wait_due, waits};
