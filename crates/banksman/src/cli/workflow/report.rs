//! `banksman workflow report`: records how a step or a gate ended.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::project_here;
use crate::cli::arguments::ActorArgs;
use crate::cli::moves::show;
use crate::cli::up::{follow_up, follow_up_until};
use crate::cli::{Context, Exit, Failure, Result};
use crate::clock;
use crate::ops::Session;
use crate::ops::error_report::{Code, ErrorReport, Hint};
use crate::ops::workflows::{self, ManualCheck, ReportedOutcome, StepReport, WorkFolder};
use crate::store::Applied;

/// Report how a step or a gate ended
///
/// A report that does not fit the step's state is refused, names the reports that do, and changes
/// nothing. In a manual workflow, a step counts as done if its outputs are in this checkout and its
/// command passes here.
#[derive(Debug, Args)]
#[command(before_long_help = "Examples:
  banksman workflow report X-1 done
  banksman workflow report X-1 done --in ../phase-4
  banksman workflow report XG-1-2 fail --note 'the empty query is not tested'
  banksman workflow report XG-1-2 fail --note 'the plan is wrong' --reason bad-plan
  banksman workflow report XG-1-2 pass --as reviewer:claude
")]
pub(in crate::cli) struct ReportArgs {
    /// The step or its gate, by its id in the file or by its task id
    step: String,
    /// What happened
    word: ReportedOutcome,
    /// What has to change, for fail and veto; the reason, for abort
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// The gate's reason for sending the step back, one of those in the file
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// The workflow [default: the last one started]
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// The checkout in which the step was done [default: this one]
    #[arg(long = "in", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Idempotency key: repeating the command with the same key returns the first answer
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
            Self::Veto => "A person revokes an agent's pass",
            Self::Abort => "The step is given up",
            Self::Retry => "A step that was given up starts again",
            Self::Skip => "The workflow continues without the step that was given up",
        };
        Some(PossibleValue::new(self.as_str()).help(help))
    }
}

pub(super) fn run(context: &Context, args: &ReportArgs) -> Result<Exit> {
    let session = context.session_as(&args.actor)?;
    let project = project_here(context, &session)?;
    let step =
        workflows::step_named(&session, project.as_deref(), args.workflow.as_deref(), &args.step)?;
    let manual = step.is_driven_by_person();
    if manual {
        // A step that became ready since the last turn can be reported at once.
        follow_up(context, &session)?;
    }
    let needs_check = manual && args.word == ReportedOutcome::Done;
    if args.folder.is_some() && !needs_check {
        return Err(Failure::argument(
            "`--in` works only with `done` in a manual workflow",
            "remove `--in`",
        ));
    }
    let folder = folder_of(context, args);
    let place = WorkFolder { folder: &folder, node: &context.config.agents.node };
    let said = StepReport {
        word: args.word,
        place: needs_check.then_some(place),
        note: args.note.as_deref(),
        reason: args.reason.as_deref(),
        key: args.key.as_deref(),
    };
    let moved = workflows::report(&session, &step, said, clock::now());
    let moved = moved.map_err(|error| {
        let mut problem = ErrorReport::from(&error);
        if !problem.errors.is_empty() {
            let instead = workflows::instead(&session, &step, said);
            problem.hint = Some(Hint::ReportInstead(Box::new(instead)));
        }
        problem
    })?;
    let parent = step.task.parent.map(|id| format!(" {id}")).unwrap_or_default();
    let next = format!("workflow next{parent}");
    let moved =
        match manual.then(|| wait_for_check(context, &session, &moved)).transpose()?.flatten() {
            None => moved,
            Some(ManualCheck::Over(moved)) => *moved,
            Some(ManualCheck::Open) => {
                let message = "stopped waiting; the check continues".to_owned();
                let hint = format!("`banksman {next}` shows how it ended");
                return Err(Failure::Invalid { code: Code::Unfinished, message, hint });
            }
            Some(ManualCheck::Against { found, again }) => {
                let message = format!("`{}` is not done: {found}", args.step);
                return Err(Failure::input(message, retry_hint(again, &folder, &next)));
            }
        };
    show(context, &session, moved, &[&next])
}

/// The hint for a step that is not done.
fn retry_hint(again: bool, folder: &str, next: &str) -> String {
    if !again {
        return format!("a person must decide how to continue: banksman {next}");
    }
    format!("checked in `{folder}`; fix it and report again, or name another checkout with `--in`")
}

/// The absolute path of the checkout.
fn folder_of(context: &Context, args: &ReportArgs) -> String {
    let named = args.folder.as_ref().map(|folder| context.config.folder.join(folder));
    let folder = named.as_ref().unwrap_or(&context.config.root);
    folder.canonicalize().as_ref().unwrap_or(folder).display().to_string()
}

/// A report alone proves nothing: Banksman looks for the step's outputs in the checkout and runs
/// its command there. The reporter waits for the result, at most until the state's timeout.
fn wait_for_check(
    context: &Context,
    session: &Session,
    said: &Applied,
) -> Result<Option<ManualCheck>> {
    let mut seen = None;
    follow_up_until(context, session, || {
        seen = workflows::manual_check(session, said)?;
        Ok(!matches!(seen, Some(ManualCheck::Open)))
    })?;
    Ok(seen)
}
