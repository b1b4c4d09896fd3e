//! `banksman pause` and `resume`: switches the start of agents off and on.

use clap::Args;

use super::{Context, Exit, Result};
use crate::api::status::Switch;
use crate::ops::capacity;

/// Stop starting agents; running agents continue
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman pause
  banksman resume
")]
pub(super) struct PauseArgs {}

/// Start agents again
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman resume
")]
pub(super) struct ResumeArgs {}

pub(super) fn pause(context: &Context, _: &PauseArgs) -> Result<Exit> {
    switch(context, true)
}

pub(super) fn resume(context: &Context, _: &ResumeArgs) -> Result<Exit> {
    switch(context, false)
}

fn switch(context: &Context, paused: bool) -> Result<Exit> {
    let at_work = capacity::set_paused(&context.session()?, paused, context.now)?;
    context.out.answer(
        || Switch::new(paused, at_work),
        || match (paused, at_work) {
            (true, 0) => "paused: no agents will start; none is running\n".to_owned(),
            (true, 1) => "paused: no agents will start; 1 running agent continues\n".to_owned(),
            (true, more) => {
                format!("paused: no agents will start; {more} running agents continue\n")
            }
            (false, _) => "resumed: agents will start again\n".to_owned(),
        },
    )?;
    Ok(context.out.next(&[if paused { "resume" } else { "status" }]))
}
