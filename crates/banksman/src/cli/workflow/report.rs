//! `banksman workflow report`: somebody says how a step or a gate ended.

use std::path::PathBuf;

use banksman_core::ids::TaskId;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::project_here;
use crate::cli::arguments::ActorArgs;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::moves::show;
use crate::cli::up::{doubt_by_hand, follow_up};
use crate::clock;
use crate::ops::OpsError;
use crate::ops::decisions::Which;
use crate::ops::workflows::{self, Said, Word};
use crate::store::{Store, StoreError};

/// Report how a step or a gate ended
///
/// A report that does not fit the step's state is refused, says which would, and changes nothing. Of a workflow that is driven
/// by hand, a step counts as done when its outputs are in this checkout and its command passes here.
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
    word: Word,
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

impl ValueEnum for Word {
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
    context.no_run_decides(&store, Which::Task(step.task.id))?;
    let by_hand = workflows::is_by_hand(&step);
    if by_hand {
        // A step that has become free since the last look can be reported on at once.
        follow_up(context)?;
    }
    if by_hand && args.word == Word::Done {
        look(context, &store, args, step.task.id)?;
    } else if args.folder.is_some() {
        return Err(Failure::Argument {
            message: "`--in` is for `done`, in a workflow that is driven by hand".to_owned(),
            hint: "say it without `--in`".to_owned(),
        });
    }
    let said = Said {
        word: args.word,
        note: args.note.as_deref(),
        reason: args.reason.as_deref(),
        key: args.key.as_deref(),
    };
    let actor = context.actor(args.actor.actor.as_ref());
    // The step's command may have taken its time.
    match workflows::report(&store, &step, &actor, said, clock::now()) {
        Ok(moved) => {
            if by_hand {
                follow_up(context)?;
            }
            let whole = step.task.parent.map(|id| format!(" {id}")).unwrap_or_default();
            show(context, &store, moved, &[&format!("workflow next{whole}")])
        }
        Err(OpsError::Store(StoreError::Rejected(rejected))) if !context.out.json => {
            let hint = workflows::instead(&step, &actor, said);
            Err(Failure::Refused { rejected, hint })
        }
        Err(error) => context.refused(error),
    }
}

/// A word proves nothing: what the step should leave is looked for where it was done, and its command is run there.
fn look(context: &Context, store: &Store, args: &ReportArgs, id: TaskId) -> Result<(), Failure> {
    let step = store.task(id)?;
    if !workflows::is_done_by_hand(&step) {
        return Ok(());
    }
    let folder = args.folder.as_ref().map(|folder| context.config.folder.join(folder));
    let folder = folder.as_ref().unwrap_or(&context.config.root);
    match doubt_by_hand(context, &step, folder)? {
        None => Ok(()),
        Some(doubt) => Err(Failure::Input {
            message: format!("`{}` is not done: {doubt}", args.step),
            hint: format!(
                "it was looked at in `{}`; mend it and report again, or name another checkout with `--in`",
                folder.display()
            ),
        }),
    }
}
