//! The machine: what happens when an event meets a task.
//!
//! `step` is the only place where a next state is chosen. It takes the lifecycle, the task, the
//! event and the time, and answers with the new task and everything that has to be written or done because of it,
//! or with a refusal that says what is missing. It touches nothing.

mod allowed;
mod ask;
mod create;
mod effect;
mod env;
mod event;
mod fold;
mod invariant;
mod outcome;
mod plan;
mod reject;
mod run;
mod settle;
mod step;
mod task;
mod wait;

pub use allowed::allowed;
pub use create::{Arrival, NewTask, create, import};
pub use effect::{
    Artifact, DecisionChange, Effect, Ending, OpenDecision, Record, Step, Timer, TimerKind,
};
pub use event::{Actor, Ask, Beat, Claim, Event, Finish, NotAnActor, Note, Report};
pub use fold::{Dated, FoldError, Folded, fold, rewind};
pub use invariant::{Broken, Hold, check, hold};
pub use plan::running_bounds;
pub use reject::{FieldError, Rejected, Why};
pub use step::{Answer, CAME_LATE, HASTENED, Ignored, step};
pub use task::{Count, Lease, Spent, Task};
pub use wait::{Waits, waits};
