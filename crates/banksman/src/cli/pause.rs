//! `banksman pause` and `resume`: whether anything may start.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Failure;

/// Start no more agents; those at work go on
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman pause
  banksman resume
")]
pub(super) struct PauseArgs {}

/// Let agents be started again
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman resume
")]
pub(super) struct ResumeArgs {}

pub(super) fn pause(context: &Context, _: &PauseArgs) -> Result<Exit, Failure> {
    switch(context, true)
}

pub(super) fn resume(context: &Context, _: &ResumeArgs) -> Result<Exit, Failure> {
    switch(context, false)
}

fn switch(context: &Context, paused: bool) -> Result<Exit, Failure> {
    let store = context.store()?;
    store.set_paused(paused, &context.actor(None).to_string(), context.now)?;
    let at_work = store.open_runs(None)?.len();
    context.out.answer(
        || json!({ "paused": paused, "atWork": at_work }),
        || match (paused, at_work) {
            (true, 0) => "paused: no agent is started, none is at work\n".to_owned(),
            (true, 1) => "paused: no agent is started, 1 at work goes on\n".to_owned(),
            (true, more) => format!("paused: no agent is started, {more} at work go on\n"),
            (false, _) => "resumed: agents are started again\n".to_owned(),
        },
    )?;
    context.out.next(&[if paused { "resume" } else { "status" }]);
    Ok(Exit::Done)
}
