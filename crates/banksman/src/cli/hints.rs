//! Phrases hints, suggestions and notices as what to type next.

use banksman_core::ids::{DecisionId, RunId, TaskId};
use banksman_core::lifecycle::contract::Trigger;

use super::symbols::with_local_times;
use crate::ops::error_report::{Hint, LintedFiles, ReportInstead};
use crate::ops::runs::WindowHost;
use crate::ops::suggestion::{Suggestion, quoted};
use crate::ops::why::NextStep;
use crate::store::notices::{Notice, NoticeKind};

/// Answers for which there is a command of their own.
const VERBS: [&str; 8] =
    ["approve", "allow", "resume", "changes", "back", "backburner", "cancel", "merge"];

pub(super) fn phrase(hint: &Hint) -> String {
    let fixed = match hint {
        Hint::ListCommands => {
            "`banksman help` lists the commands, `banksman help COMMAND` explains one"
        }
        Hint::CreateStore => {
            "`banksman init` creates it; `banksman config get store` prints its location"
        }
        Hint::ChooseStore => "choose a location: --store PATH",
        Hint::CheckHome => {
            "check the home folder (`banksman config get home`) and its free disk space"
        }
        Hint::SeeUp => "`banksman status` shows its work, `banksman down` stops it",
        Hint::ContinueTask => "expected a file; to continue the task, run `banksman up`",
        Hint::GiveCursor => "give the `cursor` of a change that `banksman changes` printed",
        Hint::StartAtEnd => {
            "take the current end with `banksman changes --end`, read the tasks, then continue there"
        }
        Hint::ListTasks => "`banksman list` lists the tasks",
        Hint::ShowMoves(task) => return format!("`banksman show {task}` lists the allowed moves"),
        Hint::ShowHistory(task) => return format!("`banksman history {task}` shows what happened"),
        Hint::Why(task) => return format!("`banksman why {task}` explains what it waits for"),
        Hint::ListRuns(task) => return format!("`banksman show {task}` lists its runs"),
        Hint::LogThere(run) => return format!("run `banksman log {run}` there"),
        Hint::WaitForRun(run) => return wait_for_run(*run),
        Hint::ShowEnd(task) => {
            return format!(
                "`banksman show {task}` shows how it ended, `banksman config get home` where logs are kept"
            );
        }
        Hint::ReadTaskAgain => "read the task again with `banksman show ID`, then retry",
        Hint::MoveTask => "`banksman move ID STATE` makes any allowed move",
        Hint::SetField => "set a field with `--set FIELD=VALUE`",
        Hint::OverrideFact => "`banksman help override` says how a person gives a fact",
        Hint::AskPerson => "ask a person to do this",
        Hint::ActAs => "identify yourself with `--as ROLE:NAME`",
        Hint::ListDecisions => "`banksman decisions` lists the open decisions",
        Hint::ShowAnswers(id) => {
            return format!("`banksman decisions show {id}` shows what each answer does");
        }
        Hint::ShowNewState(id) => {
            return format!(
                "`banksman decisions show {id}` shows the new state and the `--seen N` to answer with"
            );
        }
        Hint::UndoAnswer(id) => return undo_first(*id),
        Hint::AnswerWithNote(id, action) => {
            return format!("banksman decisions answer {id} {action} --note TEXT");
        }
        Hint::SteerWithWords(task, trigger) => return steer_with_words(*task, *trigger),
        Hint::DropNote => "remove the note, or set a field with `--set FIELD=VALUE`",
        Hint::ListLifecycles => "`banksman lifecycle list` lists the lifecycles",
        Hint::ListSettingsFiles => "`banksman config path` lists the settings files",
        Hint::ListPrompts => "`banksman prompts list` shows which there are",
        Hint::ListWorkflows => "`banksman workflow status --all` lists the workflows",
        Hint::NameWorkflowFile => "name a file: banksman workflow lint FILE",
        Hint::WriteTaskLines => "each line is one task as JSON, as `banksman export` writes it",
        Hint::RunInside(host) => run_inside(*host),
        Hint::Lint(files) => lint(*files),
        Hint::StartWorkflow(name) => return start_workflow(name.as_deref()),
        Hint::ReportInstead(instead) => return report_instead(instead),
        Hint::CheckStore => "`banksman check` and `banksman audit verify` show the details",
        Hint::ListDamaged => "`banksman check` lists the affected tasks",
        Hint::RenameProject => "choose another name: `banksman init --name NAME`",
        Hint::ReportBug => "please report it, with the output of `banksman version`",
        Hint::Text(text) => text,
    };
    fixed.to_owned()
}

fn run_inside(host: WindowHost) -> &'static str {
    match host {
        WindowHost::Tmux => "run this command inside tmux",
        WindowHost::Tabby => "run this command inside Tabby, with `tabby` on the PATH",
    }
}

fn lint(files: LintedFiles) -> &'static str {
    match files {
        LintedFiles::Lifecycles => "fix what `banksman lifecycle lint` reports",
        LintedFiles::Workflows => "fix what `banksman workflow lint FILE` reports",
        LintedFiles::Prompts => "fix what `banksman prompts lint` reports",
    }
}

fn wait_for_run(run: RunId) -> String {
    format!("`banksman log {run} -f` waits for it; `banksman pulse` starts claimed runs")
}

fn steer_with_words(task: TaskId, trigger: Trigger) -> String {
    let option = if trigger == Trigger::Retry { " --confirm" } else { "" };
    format!("banksman {trigger} {task}{option} TEXT")
}

fn undo_first(id: DecisionId) -> String {
    format!("`banksman decisions undo {id}` takes that answer back first")
}

fn start_workflow(name: Option<&str>) -> String {
    match name {
        None => "start one: banksman workflow run .workflow/specs/NAME.yaml".to_owned(),
        Some(name) => {
            format!("start it first, or both together: banksman workflow run {name}.yaml …")
        }
    }
}

fn report_instead(instead: &ReportInstead) -> String {
    let ReportInstead::Words { task, step, status, role, words } = instead else {
        return "add --note 'WHY'".to_owned();
    };
    let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
    if words.is_empty() {
        return format!(
            "`{step}` is {status}, and {role} has nothing to report on it; see `banksman why {task}`"
        );
    }
    format!("`{step}` is {status}; {role} may report now: {}", words.join(", "))
}

/// What to type.
pub(super) fn command(suggestion: &Suggestion) -> String {
    let words = match suggestion {
        Suggestion::StartAgents => "up".to_owned(),
        Suggestion::ResumeAgents => "resume".to_owned(),
        Suggestion::CheckStore => "check".to_owned(),
        Suggestion::ShowTask(task) => format!("show {task}"),
        Suggestion::Why(task) => format!("why {task}"),
        Suggestion::Log(task) => format!("log {task}"),
        Suggestion::Retry(task) => format!("retry {task}"),
        Suggestion::Unblock { task, needs_words: true } => format!("unblock {task} TEXT"),
        Suggestion::Unblock { task, needs_words: false } => format!("unblock {task} [TEXT]"),
        Suggestion::MoveTo { task, states } => format!("move {task} {}", states.join("|")),
        Suggestion::MoveOn { task, trigger, field } => {
            let field = field.map(|field| format!(" --set {field}='…'")).unwrap_or_default();
            format!("move {task} --on {trigger}{field}")
        }
        Suggestion::ShowDecision(decision) => format!("decisions show {decision}"),
        Suggestion::UndoAnswer(decision) => format!("decisions undo {decision}"),
        Suggestion::Answer { decision, actions } => {
            let all = actions.join("|");
            match actions.iter().all(|action| VERBS.contains(&action.as_str())) {
                true => format!("decisions {all} {decision}"),
                false => format!("decisions answer {decision} {all}"),
            }
        }
        Suggestion::DriveWorkflow => "workflow next".to_owned(),
        Suggestion::ReportStep { step, word, as_reviewer, workflow } => {
            let note = if word.needs_note() { " --note '…'" } else { "" };
            let actor = if *as_reviewer { " --as reviewer" } else { "" };
            let (step, word) = (quoted(step), word.as_str());
            format!("workflow report {step} {word}{note}{actor} --workflow {workflow}")
        }
        Suggestion::ResumeBatch(batch) => format!("batch resume {batch}"),
        Suggestion::RaiseBudget { batch, limit } => {
            format!("batch set {batch} --{limit} MORE (or none)")
        }
        Suggestion::RaiseConcurrency { batch } => format!("batch set {batch} --concurrency N"),
        Suggestion::ResumeAccount(account) => format!("accounts resume {account}"),
        Suggestion::Cancel(task) => format!("cancel {task} REASON"),
        Suggestion::ShowPolicy => "policy show".to_owned(),
        Suggestion::ListSettings => "config path".to_owned(),
    };
    format!("banksman {words}")
}

/// What happens next to a task, and what to type.
pub(super) fn next_step(next: &NextStep) -> String {
    let commands: Vec<String> = next.suggestions.iter().map(command).collect();
    match commands.as_slice() {
        [] => next.what.clone(),
        commands => format!("{}: {}", next.what, commands.join(", then ")),
    }
}

/// A notice, and what to type where a person is needed.
pub(super) fn notice(notice: &Notice) -> String {
    let suggestion = match (notice.kind, notice.decision, notice.task) {
        (NoticeKind::Decision | NoticeKind::Reminder, Some(decision), _) => {
            Some(Suggestion::ShowDecision(decision))
        }
        (NoticeKind::NeedsPerson, _, task) => task.map(Suggestion::Why),
        (_, _, _) => None,
    };
    let to_type = suggestion.map(|suggestion| format!(" ({})", command(&suggestion)));
    with_local_times(&notice.text) + &to_type.unwrap_or_default()
}
