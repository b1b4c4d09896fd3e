//! `banksman workflow report`: somebody says how a step or a gate ended.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::project_here;
use crate::cli::arguments::ActorArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::moves::show;
use crate::cli::up::{follow_up, follow_up_until};
use crate::clock;
use crate::ops::OpsError;
use crate::ops::decisions::DecisionRef;
use crate::ops::workflows::{self, ManualCheck, ReportedOutcome, StepReport, WorkFolder};
use crate::store::{Applied, StoreError};

/// Report how a step or a gate ended
///
/// A report that does not fit the step's state is refused, says which would, and changes nothing.
/// Of a workflow that is driven by hand, a step counts as done when its outputs are in this
/// checkout and its command passes here.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow report X-1 done
  banksman workflow report X-1 done --in ../phase-4
  banksman workflow report XG-1-2 fail --note 'the empty query is not tested'
  banksman workflow report XG-1-2 fail --note 'the plan is wrong' --reason bad-plan
  banksman workflow report XG-1-2 pass --as reviewer:claude
")]
pub(super) struct ReportArgs {
    /// The step or its gate, by its id in the file or by its task's
    #[arg(value_name = "STEP")]
    step: String,
    /// What happened
    #[arg(value_name = "WORD")]
    word: ReportedOutcome,
    /// What has to change, for fail and veto; why, for abort
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Which of the gate's ways back fits
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// The workflow, if it is not the one that was started last
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// The checkout in which the step was done, if it is not this one
    #[arg(long = "in", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Makes a repeated request harmless: the same key gives the first answer again
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    actor: ActorArgs,
}

impl ValueEnum for ReportedOutcome {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Done => "The step is done",
            Self::Pass => "The gate lets it pass",
            Self::Fail => "The gate sends it back",
            Self::Veto => "A person takes back what an agent let pass",
            Self::Abort => "The step is given up",
            Self::Retry => "A step that was given up is begun again",
            Self::Skip => "The workflow goes on without the step that was given up",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}

pub(super) fn run(context: &Context, args: &ReportArgs) -> Result<Exit, Failure> {
    let store = context.store()?;
    let project = project_here(context, &store)?;
    let step =
        workflows::step_named(&store, project.as_deref(), args.workflow.as_deref(), &args.step)?;
    context.no_run_decides(&store, DecisionRef::Task(step.task.id))?;
    let manual = workflows::is_manual(&step);
    if manual {
        // A step that has become free since the last look can be reported on at once.
        follow_up(context)?;
    }
    let looks = manual && args.word == ReportedOutcome::Done;
    if args.folder.is_some() && !looks {
        return Err(Failure::Argument {
            message: "`--in` is for `done`, in a workflow that is driven by hand".to_owned(),
            hint: "say it without `--in`".to_owned(),
        });
    }
    let folder = folder_of(context, args);
    let place = WorkFolder { folder: &folder, node: &context.config.agents.node };
    let said = StepReport {
        word: args.word,
        place: looks.then_some(place),
        note: args.note.as_deref(),
        reason: args.reason.as_deref(),
        key: args.key.as_deref(),
    };
    let actor = context.actor(args.actor.actor.as_ref());
    let moved = match workflows::report(&store, &step, &actor, said, clock::now()) {
        Ok(moved) => moved,
        Err(OpsError::Store(StoreError::Rejected(rejected))) if !context.out.json => {
            let hint = workflows::instead(&step, &actor, said);
            return Err(Failure::Refused { rejected, hint });
        }
        Err(error) => return context.refused(error),
    };
    let parent = step.task.parent.map(|id| format!(" {id}")).unwrap_or_default();
    let next = format!("workflow next{parent}");
    let moved = match manual.then(|| look(context, &moved)).transpose()?.flatten() {
        None => moved,
        Some(ManualCheck::Over(moved)) => *moved,
        Some(ManualCheck::Open) => {
            context.out.say(&format!("stopped; it is looked at all the same: banksman {next}"));
            return Ok(Exit::GaveUp);
        }
        Some(ManualCheck::Against { found, again }) => {
            let message = format!("`{}` is not done: {found}", args.step);
            return Err(Failure::Input { message, hint: mended(again, &folder, &next) });
        }
    };
    show(context, &store, moved, &[&next])
}

/// What to do about a step that is not done.
fn mended(again: bool, folder: &str, next: &str) -> String {
    if !again {
        return format!("a person has to say how it goes on: banksman {next}");
    }
    format!(
        "it was looked at in `{folder}`; mend it and report again, or name another checkout with `--in`"
    )
}

/// A name of it that means the same wherever it is read.
fn folder_of(context: &Context, args: &ReportArgs) -> String {
    let named = args.folder.as_ref().map(|folder| context.config.folder.join(folder));
    let folder = named.as_ref().unwrap_or(&context.config.root);
    folder.canonicalize().as_ref().unwrap_or(folder).display().to_string()
}

/// A word proves nothing: what the step should leave is looked for where it was done, and its
/// command is run there. Whoever says it waits for that, and no longer than the state lasts in
/// which it is looked at.
fn look(context: &Context, said: &Applied) -> Result<Option<ManualCheck>, Failure> {
    let mut seen = None;
    follow_up_until(context, |store| {
        seen = workflows::look_at(store, said)?;
        Ok(!matches!(seen, Some(ManualCheck::Open)))
    })?;
    Ok(seen)
}
