//! Answers that need a merge first: where there is no remote, the branch of a task stands for its pull request, and whoever says
//! `merge` means that it is to be done.
//!
//! The answer is tried first. Only if nothing but the merge is missing is anything merged, so nobody merges what they may not.

use banksman_core::machine::Actor;
use banksman_core::time::Instant;
use serde_json::Value;

use crate::cli::context::Context;
use crate::cli::failure::Failure;
use crate::cli::up::Parts;
use crate::engine::local_branch;
use crate::ops::OpsError;
use crate::ops::decisions::{self, Answer, Answered};
use crate::store::Store;

/// The field of the fact that is missing.
const MERGED: &str = "merged";

pub(super) fn answer(
    context: &Context,
    store: &Store,
    actor: &Actor,
    given: &Answer,
    now: Instant,
) -> Result<Answered, Failure> {
    let refused = match decisions::answer(store, actor, given, now) {
        Err(error) if lacks_the_merge(&error) => error,
        answered => return answered.map_err(Failure::from),
    };
    let decision = decisions::find(store, given.which)?;
    let stored = store.task(decision.task)?;
    let Some(branch) = local_branch(&stored) else { return Err(refused.into()) };
    context.out.say(&format!("merging {branch}"));
    let parts = Parts::of(&context.config)?;
    if let Err(message) = parts.engine().land(decision.task)? {
        let id = decision.id;
        let hint =
            format!("`banksman decisions changes {id} WHAT` sends it back; or merge it by hand");
        return Err(Failure::Input { message: format!("nothing was merged: {message}"), hint });
    }
    let mut fields = given.fields.clone();
    fields.insert(MERGED.to_owned(), Value::Bool(true));
    decisions::answer(store, actor, &Answer { fields, ..given.clone() }, now).map_err(Failure::from)
}

fn lacks_the_merge(error: &OpsError) -> bool {
    let errors = error.rejected().map(|rejected| rejected.errors.as_slice()).unwrap_or_default();
    !errors.is_empty() && errors.iter().all(|error| error.field == MERGED)
}
